"""Files that are confident nonsense are refused or doubted aloud, and those that only look odd are not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing import audit
from surefoot.auditing._walking import read
from surefoot.errors import InputError
from surefoot.sources import open_predictions
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand


def good(n: int = 1500, k: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels of a model that is right in about nine of ten rows."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.standard_normal((n, k))
    logits[np.arange(n), labels] += 3.2
    return logits.astype(np.float32), labels


def lexical(k: int) -> np.ndarray:
    """Where each class stands if folders 1…k are sorted as texts."""
    return np.array(sorted(range(k), key=lambda i: str(i + 1))).argsort()


LOGITS, LABELS = good()
PERCENT = 100 * softmax(LOGITS)
BINARY, TRUTH = good(k=2)
RARE = (np.arange(4000) % 50 == 0).astype(int)
RISK = np.clip(np.where(RARE == 1, 0.8, 0.05) + 0.1 * np.random.default_rng(0).standard_normal(4000), 0.01, 0.99)
FEW = LABELS < 9
KEEP = FEW & (LABELS > 0)

WRONG: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "percent": ({"scores": PERCENT, "labels": LABELS}, "all rows sum to 100 and no score is negative, like percent"),
    "percent called probs": (
        {"probs": PERCENT, "labels": LABELS},
        "Expected probs, as they are called, but all rows sum",
    ),
    "percent called logits": ({"logits": PERCENT, "labels": LABELS}, "Say --percent, or say --logits if"),
    "rounded percent": ({"scores": PERCENT.round(), "labels": LABELS}, "Say --percent"),
    "votes of 500 trees": ({"scores": PERCENT * 5, "labels": LABELS}, "all rows sum to 500 and no score is negative"),
    "0-100 each on its own": (
        {"scores": 100 / (1 + np.exp(-LOGITS)), "labels": LABELS},
        "none is negative, and row 0 sums to",
    ),
    "flat percent": ({"probs": 100 * RISK, "labels": RARE}, "Say --percent if they are percent"),
    "flat percent without a name": ({"score": 100 * RISK, "labels": RARE}, "Say --percent if they are percent"),
    "reversed columns": (
        {"logits": LOGITS[:, ::-1], "labels": LABELS},
        "would be if the labels ran backwards in a.npz",
    ),
    "reversed labels": ({"logits": LOGITS, "labels": 9 - LABELS}, "would be if the labels ran backwards in a.npz"),
    "two classes changed": ({"logits": BINARY, "labels": 1 - TRUTH}, "if the two classes changed places in a.npz"),
    "rare class changed": ({"probs": 1 - RISK, "labels": RARE}, "if the two classes changed places in a.npz"),
    "from 1, last absent": (
        {"logits": LOGITS[FEW], "labels": LABELS[FEW] + 1},
        "would be if the labels counted from 1 in a.npz. Say --labels-are from-1 if they do",
    ),
    "from 1": (
        {"logits": LOGITS, "labels": LABELS + 1},
        "They count from 1: say --labels-are from-1 if they are class",
    ),
    "a background class": (
        {"logits": np.concatenate([LOGITS[:, :1] - 9, LOGITS], 1), "labels": LABELS},
        "would be if the first column were left out in a.npz",
    ),
    "classes sorted as texts": (
        {"logits": LOGITS[:, lexical(10)], "labels": LABELS},
        "would be if the labels were in another order (1 → 9, 2 → 1, 3 → 2, …)",
    ),
    "distances": ({"scores": 9 - LOGITS, "labels": LABELS}, "if the smallest score were the prediction in a.npz"),
    "sigmoids": ({"probs": 1 / (1 + np.exp(-LOGITS)), "labels": LABELS}, "If rows can have several true classes"),
    "shares as labels": (
        {"probs": softmax(LOGITS), "labels": softmax(LOGITS)},
        "the labels are shares between classes",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_nonsense_is_refused_in_one_line_that_says_what_to_do(
    name: str, tmp_path: Path, run_command: RunCommand
) -> None:
    arrays, says = WRONG[name]
    np.savez(tmp_path / "a.npz", **arrays)
    for command in ("audit", "calibrate"):
        done = run_command(command, "a.npz")
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    ("name", "words", "accuracy"),
    [
        ("percent", ["--percent"], (LOGITS.argmax(1) == LABELS).mean()),
        ("rounded percent", ["--percent"], (PERCENT.round().argmax(1) == LABELS).mean()),
        ("flat percent", ["--percent"], ((RISK > 0.5) == RARE).mean()),
        ("from 1, last absent", ["--labels-are", "from-1"], (LOGITS[FEW].argmax(1) == LABELS[FEW]).mean()),
        ("from 1", ["--labels-are", "from-1"], (LOGITS.argmax(1) == LABELS).mean()),
    ],
)
def test_what_the_error_advises_gives_the_right_answer(
    name: str, words: list[str], accuracy: float, tmp_path: Path, run_command: RunCommand
) -> None:
    np.savez(tmp_path / "a.npz", **WRONG[name][0])
    done = run_command("audit", "a.npz", "--json", "--no-page", *words)
    (found,) = json.loads(done.stdout)["audits"]
    assert found["measures"]["accuracy"]["estimate"] == pytest.approx(accuracy)
    assert found["doubts"] == []
    assert "as you said" in found["took"]
    done = run_command("calibrate", "a.npz", "--method", "temperature", *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["reversed labels", "two classes changed", "from 1, last absent", "distances"])
def test_a_user_can_say_that_the_file_is_right_and_is_told_what_is_odd(
    name: str, tmp_path: Path, run_command: RunCommand
) -> None:
    arrays, _ = WRONG[name]
    np.savez(tmp_path / "a.npz", **arrays)
    done = run_command("audit", "a.npz", "--labels-are", "from-0", "--logits")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Doubt: Only ")
    assert " of the rows are right, and " in done.stdout.splitlines()[0]
    assert "if the file is right as it is" not in done.stdout
    assert "would be if" in (tmp_path / "a-audit.html").read_text(encoding="utf-8").split('id="what-was-read"')[0]
    done = run_command("calibrate", "a.npz", "--labels-are", "from-0", "--logits", "--method", "vector")
    assert "Note: Only " in done.stdout


@pytest.mark.parametrize("name", ["sigmoids", "percent"])
def test_saying_logits_of_what_is_none_is_doubted_aloud(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **WRONG[name][0])
    (found,) = audit(tmp_path / "a.npz", kind="logits")
    assert any("but they are read as logits" in doubt for doubt in found.doubts)


def test_far_below_chance_without_another_explanation_is_doubted(tmp_path: Path, run_command: RunCommand) -> None:
    np.savez(tmp_path / "a.npz", probs=np.tile([0.95, 0.05], (400, 1)), labels=np.ones(400, int))
    done = run_command("audit", "a.npz")
    assert done.stdout.startswith(
        "Doubt: Only 0.0 % of the rows are right, where guessing gives 50.0 %, at a mean confidence of 95.0 %. Check"
    )


def test_hard_predictions_are_doubted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", probs=np.eye(10)[LOGITS.argmax(1)], labels=LABELS)
    (found,) = audit(tmp_path / "a.npz")
    assert found.doubts == (
        "Every prediction has a probability of 1, as predicted classes have; a calibrated model needs doubt.",
    )


def noise(k: int, n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"logits": rng.standard_normal((n, k)), "labels": rng.integers(0, k, n)}


RIGHT: dict[str, dict[str, np.ndarray]] = {
    "good": {"logits": LOGITS, "labels": LABELS},
    "good, few classes seen": {"logits": LOGITS[KEEP], "labels": LABELS[KEEP]},
    "good, one class seen": {"logits": LOGITS[LABELS == 4], "labels": LABELS[LABELS == 4]},
    "good, a thousand classes": dict(zip(("logits", "labels"), good(3000, 1000), strict=True)),
    "rare": {"probs": RISK, "labels": RARE},
    "rare, everything called positive": {"probs": 0.5 + 0.49 * RISK, "labels": RARE},
    "calibrated": dict(zip(("logits", "labels"), made(3000), strict=True)),
    "ordinal": {
        "logits": -np.abs(np.arange(5) - (np.arange(2000) % 5)[:, None] - 0.3) * 2,
        "labels": np.clip(np.arange(2000) % 5 + (np.arange(2000) % 3 == 0), 0, 4),
    },
    **{f"nothing learned {k} {n}": noise(k, n, k + n) for k, n in ((2, 60), (2, 3000), (10, 500), (300, 900))},
    "few": {"logits": LOGITS[:12], "labels": LABELS[:12]},
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_files_that_are_right_are_not_doubted(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **RIGHT[name])
    (source,) = open_predictions(tmp_path / "a.npz")
    found = read(source, n_bins=15, where="a.npz")
    assert [doubt for doubt in found.doubts if "guessing gives" not in doubt] == []


def test_two_columns_that_changed_places_are_worth_a_word(tmp_path: Path) -> None:
    order = [0, 1, 2, 4, 3, 5, 6, 7, 8, 9]
    np.savez(tmp_path / "a.npz", logits=LOGITS[:, order], labels=LABELS)
    (found,) = audit(tmp_path / "a.npz")
    assert "would be if the labels were in another order (3 → 4, 4 → 3)" in found.doubts[0]


def test_multi_label_rows_of_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"label": [0], "probs": [0.9, 0.1, 0.8]}\n{"label": [0, 2], "probs": [0.9, 0.1, 0.8]}\n'
    )
    with pytest.raises(InputError, match=r"one true class per row, but row 1 has 2 in a.jsonl: a multi-label table"):
        audit(tmp_path / "a.jsonl")


def test_a_row_of_sigmoids_far_into_the_file_gets_no_false_advice(tmp_path: Path) -> None:
    probs = softmax(LOGITS)
    probs[1200] = 0.7
    np.savez(tmp_path / "a.npz", probs=probs, labels=LABELS)
    with pytest.raises(InputError, match=r"row 1200 sums to 7 in a\.npz.*sum of 1.*multi-label table") as error:
        audit(tmp_path / "a.npz")
    assert "--logits" not in str(error.value)
