"""What a run ran on: versions and hardware, nothing about the person or the machine's name."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import surefoot


def environment(threads: int, device: str, ranks: int = 1, shard: str = "none") -> dict[str, Any]:
    """Describe the environment of a run.

    Args:
        threads: How many threads torch uses.
        device: Where the run runs.
        ranks: How many processes train it together.
        shard: How they share the network.

    Returns:
        Plain JSON values.
    """
    packages = {}
    for name in ("torch", "numpy", "scipy", "safetensors"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "unknown"
    return {
        "surefoot": surefoot.__version__,
        "python": platform.python_version(),
        "packages": packages,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": threads,
        "device": device,
        **({"processes": ranks, "shard": shard} if ranks > 1 or shard != "none" else {}),
    }
