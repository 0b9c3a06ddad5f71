"""``python -m surefoot``."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]  # -m has put it there: a file of the present folder would be taken for a module of the same name

from surefoot.cli import main

main()
