"""The live page: follows run folders while they train. Imports no torch, and writes nothing."""

from surefoot.serve.findings import findings
from surefoot.serve.server import WatchServer

__all__ = ["WatchServer", "findings"]
