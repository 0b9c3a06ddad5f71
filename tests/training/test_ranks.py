"""One training on several processes: real ones, started by torchrun."""

import json
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.assembly import splits_of
from surefoot.clusters import refuse_launched
from surefoot.errors import DivergedError, InputError
from surefoot.ranks import ALONE, Ranks
from surefoot.records import RunFolder
from surefoot.trained import trained_model
from surefoot.training import predict
from tests.data.pictures import write_folders, write_parquet
from tests.optim.distributed.launch import torchrun
from tests.runs import content

HERE = Path(__file__).parent
SMALL = {"data": "digits", "model": "mlp:width=16", "epochs": 2, "keep_checkpoints": 1}
TOGETHER = "csam:perturbation=synchronised"
METHODS = {
    "csam": {"method": TOGETHER},
    "steered": {"method": "csam:tune=auto,perturbation=synchronised", "track": "standard"},
    "uneven": {"method": "sgd", "batch_size": 131},
    "pieces": {"method": TOGETHER, "accumulate": 3},
    "drawn": {"method": "mixup + sgd", "augment": "none"},
    "remembered": {"method": "adafocal + sgd"},
    "members": {"method": "deep:members=2 + sgd"},
    "averaged": {"method": "swa + sgd"},
    "shards": {"method": TOGETHER, "shard": "fsdp2"},
}
STOPPED = 12  # of 18 steps; there is a checkpoint after 9
ON_FOUR = {
    "csam": {"method": TOGETHER},
    "shards": {"method": TOGETHER, "shard": "fsdp2"},
    "apart": {"method": "csam"},
}


STOPPED_ONES = ON_FOUR | {"for-one": METHODS["shards"]}
KILLED = {"method": "mc_dropout + csam"}  # whose random numbers differ from rank to rank


def logits(path):
    return RunFolder(path).predictions("test").logits


def stopping(folder, name):
    return f"tests.training.stopping:Stop:step={STOPPED},marker={folder / name}.stopped"


def launch(n, jobs, **how):
    done = torchrun(n, HERE / "on_ranks.py", json.dumps(jobs), **how)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Settings of runs on pictures that stay in their files."""
    folder = write_folders(tmp_path_factory.mktemp("pictures"))
    data = f"image_folder:path={folder},size=8,in_memory=false"
    return SMALL | {"method": TOGETHER, "data": data, "batch_size": 15}


@pytest.fixture(scope="module")
def alone(tmp_path_factory, stored):
    """Each method trained by one process."""
    folder = tmp_path_factory.mktemp("alone")
    sf.train(out=folder / "stored", **stored)
    for name, job in METHODS.items():
        sf.train(out=folder / name, **SMALL, **{key: value for key, value in job.items() if key != "shard"})
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory, stored):
    """Each method trained by two processes; one of them twice, some stopped before their end."""
    folder = tmp_path_factory.mktemp("two")
    streamed = f"hf:name={write_parquet(tmp_path_factory.mktemp('saved'))},streaming=true"
    jobs = [{"out": str(folder / name), **SMALL, **job} for name, job in METHODS.items()]
    jobs += [{"out": str(folder / "again"), **SMALL, **METHODS["steered"]}]
    jobs += [{"out": str(folder / "stored"), **stored}]
    jobs += [{"out": str(folder / f"streamed-{n}"), **SMALL, "data": streamed, "batch_size": 16} for n in (1, 2)]
    jobs += [{"out": str(folder / "undisturbed"), **SMALL, **KILLED}]
    jobs += [
        {"out": str(folder / f"stopped-{name}"), "track": stopping(folder, name), **SMALL, **job}
        for name, job in STOPPED_ONES.items()
    ]
    said = launch(2, [*jobs, {"out": str(folder / "refused"), "track": "standard", **SMALL, "shard": "fsdp2"}]).stderr
    assert said.count("Expected trackers that look at logits with --shard fsdp2, but batch_sharpness") == 1
    assert [RunFolder(folder / f"stopped-{name}").done() for name in STOPPED_ONES] == [None] * len(STOPPED_ONES)
    return folder


@pytest.mark.parametrize("name", [*METHODS, "stored"])
def test_two_ranks_are_one_with_the_joint_batch(name, alone, two):
    assert np.abs(logits(alone / name) - logits(two / name)).max() < 1e-4
    one, both = RunFolder(alone / name).steps(), RunFolder(two / name).steps()
    assert [set(record) for record in one] == [set(record) for record in both]
    losses = [[record["loss"] for record in records if "loss" in record] for records in (one, both)]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def test_two_ranks_give_the_same_bits_again(two):
    first, again = content(two / "steered"), content(two / "again")
    assert first.keys() == again.keys()
    assert [name for name in first if first[name] != again[name]] == []


def test_two_ranks_read_a_stream_alike_every_time(two):
    first, again = (RunFolder(two / f"streamed-{n}").predictions("test").logits for n in (1, 2))
    assert np.array_equal(first, again)


def test_the_folder_says_who_trained(alone, two):
    environment = RunFolder(two / "shards").environment
    assert (environment["processes"], environment["shard"]) == (2, "fsdp2")
    assert "processes" not in RunFolder(alone / "csam").environment


def test_a_network_in_shards_can_be_loaded_whole(two):
    files = {file.name for file in max((two / "shards" / "checkpoint").iterdir()).iterdir()}
    assert {"model.safetensors", "state.json", "state.safetensors"} < files
    assert len([name for name in files if name.startswith("shard-")]) == 2
    folder = RunFolder(two / "shards")
    found = predict(trained_model(folder), splits_of(folder.spec).test)
    np.testing.assert_allclose(found.numpy(), logits(folder.path), atol=1e-5)


@pytest.fixture(scope="module")
def four(two):
    """What two processes have begun, ended by four."""
    jobs = [{"out": str(two / f"stopped-{name}"), **SMALL, **job} for name, job in ON_FOUR.items()]
    return launch(4, jobs)


@pytest.mark.parametrize("name", ["csam", "shards"])
def test_another_number_of_ranks_goes_on(name, alone, two, four):
    found = RunFolder(two / f"stopped-{name}")
    assert found.done() is not None
    assert np.abs(logits(alone / "csam") - logits(found.path)).max() < 1e-4


def test_it_is_said_what_the_number_of_ranks_changes(four):
    said = [line for line in four.stderr.splitlines() if "instead of 2" in line]
    assert len(said) == 1
    assert "goes on with 4 processes" in said[0]
    assert "every process climbs along its own gradient" in said[0]


def test_one_process_ends_what_two_began_in_shards(alone, two):
    sf.train(out=two / "stopped-for-one", **SMALL, method=TOGETHER)
    assert np.abs(logits(alone / "csam") - logits(two / "stopped-for-one")).max() < 1e-4


def test_a_killed_rank_loses_nothing(two, tmp_path):
    """The group is started again, and goes on to the same bits, dropout's random numbers included."""
    watched = f"tests.training.stopping:Stop:step={STOPPED},rank=1,marker={tmp_path / 'killed'}"
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in (SMALL | KILLED).items()]
    train = ["-m", "surefoot", "train", f"--out={tmp_path / 'run'}", f"--track={watched}", *settings]
    done = torchrun(2, "--max-restarts=1", *train)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "killed").exists()
    assert "exitcode: -9" in done.stderr
    assert done.stdout.count("test: accuracy") == 1  # rank 0 speaks alone
    killed, undisturbed = content(tmp_path / "run"), content(two / "undisturbed")
    assert killed.keys() == undisturbed.keys()
    differ = [name for name in killed if killed[name] != undisturbed[name]]
    assert set(differ) <= {"spec.json", "run.toml", "environment.json", *filter(is_state, killed)}
    assert {"predictions/test.npz", "steps.jsonl", "measures.jsonl"}.isdisjoint(differ)


def is_state(name):
    """Whether a file is of a checkpoint and knows of the tracker that killed, beside the weights."""
    return name.endswith(("state.json", "state.safetensors"))


def test_refusals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="Expected processes started by torchrun with --shard fsdp2"):
        sf.train(out="nowhere", shard="fsdp2", **SMALL)
    with pytest.raises(InputError, match="Expected --shard none or fsdp2, but got 'all'"):
        sf.train(out="nowhere", shard="all", **SMALL)
    with pytest.raises(InputError, match="Expected --precision fp32 or bf16, but got 'fp8'"):
        sf.train(out="nowhere", precision="fp8", **SMALL)
    with pytest.raises(InputError, match="Expected --accumulate ≥ 1, but got 0"):
        sf.train(out="nowhere", accumulate=0, **SMALL)
    with pytest.raises(InputError, match=r"Expected an optimizer that takes a batch as a whole .* but SAM works on"):
        sf.train(out="nowhere", method="sam:m=4", accumulate=2, **SMALL)
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["nowhere", ".lock"])


def test_commands_that_share_nothing_are_refused(monkeypatch, run_command, tmp_path):
    refuse_launched("compare")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    done = run_command("list")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Expected `surefoot train` under torchrun" in done.stderr
    with pytest.raises(InputError, match=r"Expected `surefoot train` under torchrun, .* but got compare"):
        sf.compare(methods="sgd", seeds=1, out=tmp_path / "runs")


def test_a_share_per_rank():
    for n in (4, 7, 64):
        shares = [Ranks(rank, 3).share(n) for rank in range(3)]
        assert [row for share in shares for row in range(share.start, share.stop)] == list(range(n))
        assert sum(Ranks(rank, 3).weight(n) for rank in range(3)) == pytest.approx(3)
    assert ALONE.weight(7) == 1


def test_an_error_of_the_first_rank_is_raised_as_it_is():
    def fail():
        raise DivergedError("no")

    with pytest.raises(DivergedError, match="no") as caught:
        ALONE.by_first(fail)
    assert not caught.value.is_told_elsewhere
