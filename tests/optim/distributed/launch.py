"""Start a script on several processes, run its checks on all of them and collect what each rank says."""

import json
import os
import subprocess
import time
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

ROOT = Path(__file__).parents[3]
PATIENCE = timedelta(seconds=20)  # a rank that waits longer for another one fails


def torchrun(script, n, *args, timeout=120):
    """Run a script under torchrun; a deadlock ends with the timeout."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}", str(script)]
    return subprocess.run([*command, *map(str, args)], env=env, capture_output=True, text=True, timeout=timeout)


def outcome(script, n, folder):
    """Give what every rank says of every check: "ok" or a traceback."""
    done = torchrun(script, n, folder)
    said = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank*.json"))]
    assert len(said) == n, done.stderr[-3000:]
    return said


def verify(said, name):
    """Fail with the tracebacks of the ranks on which a check failed."""
    failures = [f"rank {rank}: {checks.get(name, 'not reached')}" for rank, checks in enumerate(said)]
    assert all(text.endswith(": ok") for text in failures), "\n".join(failures)


def run_checks(checks, folder):
    """Run checks on this rank until one fails; the ranks may be out of step after that."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=PATIENCE)
    said = {}
    for name, check in checks.items():
        t0 = time.time()
        try:
            torch.manual_seed(0)
            check()
            dist.barrier()
            said[name] = "ok"
            if os.environ.get("T"): print(dist.get_rank(), name, round(time.time()-t0, 2), flush=True)
        except Exception:
            said[name] = traceback.format_exc()
            break
    Path(folder, f"rank{dist.get_rank()}.json").write_text(json.dumps(said))
    os._exit(0 if len(said) == len(checks) and said[name] == "ok" else 1)


def on_every_rank(value):
    """What each rank has for a value."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
