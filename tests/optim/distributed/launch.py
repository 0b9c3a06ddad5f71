"""Start checks on several processes and collect what each rank says of them."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.patience import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def torchrun(n, script, *args, timeout=PATIENCE, cwd=None):
    """Run a script under torchrun; a deadlock ends with the timeout, and all processes with it."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}", str(script)]
    command += map(str, args)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, cwd=cwd, **pipes) as running:
        try:
            out, err = running.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            running.terminate()  # unlike kill, this lets torchrun end its workers
            raise
    return subprocess.CompletedProcess(command, running.returncode, out, err)


def find(names):
    """The checks of some modules, by name; ``module:check`` is a single one."""
    found = {}
    for name in names:
        module, _, single = name.partition(":")
        checks = importlib.import_module(f"tests.optim.distributed.{module}").CHECKS
        found |= {f"{module}:{check.__name__}": check for check in checks if single in ("", check.__name__)}
    return found


def said_by_all(n, names):
    """Give, for every rank, what it says of every check: "ok" or a traceback."""
    with tempfile.TemporaryDirectory() as folder:
        done = torchrun(n, HERE / "run.py", folder, *names)
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
    dist.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    said = {}
    for name, check in checks.items():
        try:
            torch.manual_seed(0)
            check()
            dist.barrier()
            said[name] = "ok"
        except BaseException:  # failures of pytest.raises are no Exceptions
            said[name] = traceback.format_exc()
            break
    Path(folder, f"rank{dist.get_rank()}.json").write_text(json.dumps(said))
    os._exit(0)  # at once: threads of a broken group would wait, and torchrun would end ranks that still write


def on_every_rank(value):
    """What each rank has for a value."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
