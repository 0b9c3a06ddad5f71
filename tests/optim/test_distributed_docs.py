"""The loops in docs/distributed.md run as they stand, under torchrun."""

import re
import textwrap

from tests.optim.distributed.launch import ROOT, torchrun

PAGE = (ROOT / "docs" / "distributed.md").read_text()
DDP, EXPLICIT, FSDP = re.findall(r"^ *```python\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)


def with_explicit_step():
    """The DDP script with the step of the loop without closure in place of the closure's."""
    (step,) = re.findall(r"^ +loss = optimizer.step\(.*\n", DDP, re.MULTILINE)
    indent = " " * (len(step) - len(step.lstrip()))
    instead = textwrap.indent(textwrap.dedent(EXPLICIT) + "loss = loss.detach()\n", indent)
    return DDP.replace(step, instead)


def test_the_loops_run_and_learn(tmp_path):
    """One after the other in one launch, since starting processes takes longer than training them."""
    script = tmp_path / "train.py"
    whole = "\n".join([DDP, with_explicit_step(), FSDP])
    first, *others = re.findall(r"^dist.init_process_group.*\n", whole, re.MULTILINE)
    assert len(others) == 2
    # One process group for all three: a second one under the same torchrun would meet the first one's addresses.
    once = re.sub(r"^dist.(init|destroy)_process_group.*\n", "", whole, flags=re.MULTILINE)
    script.write_text(f"import torch.distributed as dist\n{first}{once}dist.destroy_process_group()\n")
    done = torchrun(2, script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    losses = [float(loss) for loss in re.findall(r"(?:epoch \d:|loss) (\d\.\d+)", done.stdout)]
    assert len(losses) == 5 + 5 + 1
    assert losses[5:10] == losses[:5]  # both loops are the same training
    assert max(losses[4], losses[10]) < 0.5  # guessing costs log 2 = 0.69
    assert {path.name for path in tmp_path.glob("*.pt")} == {"last.pt", "shard0.pt", "shard1.pt"}
