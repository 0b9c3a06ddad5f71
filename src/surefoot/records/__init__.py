"""The run folder: the only thing that is written and read back. Imports no torch."""

from surefoot.atomic import sync_folder, write_bytes
from surefoot.records._checksums import check_checksums, write_checksums
from surefoot.records._ownership import checkpoints, remove_checkpoint
from surefoot.records.found import find_runs
from surefoot.records.outputs import check_output
from surefoot.records.store import RunFolder

__all__ = [
    "RunFolder",
    "check_checksums",
    "check_output",
    "checkpoints",
    "find_runs",
    "remove_checkpoint",
    "sync_folder",
    "write_bytes",
    "write_checksums",
]
