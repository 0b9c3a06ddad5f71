"""Tokens and pixels: arrays with more than two axes, labels that do not count, batches, and vocabularies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.auditing import _reading, audit
from surefoot.errors import InputError
from surefoot.schema import Predictions
from surefoot.sources import source


def made(shape: tuple[int, ...], axis: int, *, ignored: int = -100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits with classes along an axis, labels drawn from them, a tenth of which do not count."""
    rng = np.random.default_rng(seed)
    logits = (1.5 * rng.standard_normal(shape)).astype(np.float32)
    labels = (logits + rng.gumbel(size=shape)).argmax(axis)
    labels[rng.random(labels.shape) < 0.1] = ignored
    return 2 * logits, labels


def flat(logits: np.ndarray, labels: np.ndarray, axis: int, ignored: int = -100) -> tuple[np.ndarray, np.ndarray]:
    rows = np.moveaxis(logits, axis, -1).reshape(-1, logits.shape[axis])
    return rows[labels.ravel() != ignored], labels.ravel()[labels.ravel() != ignored]


CASES = {"pixels": ((3, 5, 6, 7), 1), "tokens": ((4, 9, 11), 2), "volumes": ((2, 3, 4, 5, 2), 1)}


@pytest.mark.parametrize("way", ["npz", "npy", "fortran", "arrays", "tensors", "half", "batches", "generator"])
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_rows(way: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 40)  # so that pieces of a slab are read
    monkeypatch.setattr("surefoot.sources.source.ROWS_AT_ONCE", 4)
    shape, axis = CASES[case]
    logits, labels = made(shape, axis)
    if way == "half":
        logits = logits.astype(np.float16).astype(np.float32)
    rows, truth = flat(logits, labels, axis)
    plain = sf.audit(logits=rows, labels=truth).audit
    if way in ("npz", "fortran"):
        scores = np.asfortranarray(logits) if way == "fortran" else logits
        np.savez(tmp_path / "a.npz", logits=scores, labels=labels)
        found = sf.audit(tmp_path / "a.npz").audit
    elif way == "npy":
        np.save(tmp_path / "logits.npy", logits)
        np.save(tmp_path / "labels.npy", labels)
        found = sf.audit(tmp_path / "logits.npy").audit
    elif way == "arrays":
        found = sf.audit(logits=logits, labels=labels).audit
    elif way in ("tensors", "half"):
        values = torch.from_numpy(logits)
        found = sf.audit(logits=values.half() if way == "half" else values, labels=torch.from_numpy(labels)).audit
    else:
        pairs = [(torch.from_numpy(a[None]), torch.from_numpy(b[None])) for a, b in zip(logits, labels, strict=True)]
        found = sf.audit(pairs if way == "batches" else iter(pairs), logits=True).audit
    for key in ("accuracy", "ece", "nll", "brier", "classwise_ece", "misclassification_auroc"):
        assert found.measures[key].estimate == pytest.approx(plain.measures[key].estimate, abs=1e-9), key
    n = int((labels == -100).sum())
    assert f"{n:,} of {labels.size:,} rows with the label -100 were left out: such labels do not count." in found.notes
    assert found.n == labels.size - n


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_torchmetrics(case: str) -> None:
    peer = pytest.importorskip("torchmetrics.functional.classification", reason="torchmetrics is not installed")
    shape, axis = CASES[case]
    logits, labels = made(shape, axis, ignored=255)
    measures = sf.audit(logits=logits, labels=labels, ignore_index=255).measures
    probs = torch.from_numpy(np.moveaxis(logits, axis, 1)).softmax(1)
    options = {"num_classes": shape[axis], "ignore_index": 255}
    truth = torch.from_numpy(labels)
    ece = peer.multiclass_calibration_error(probs, truth, n_bins=15, **options).item()
    right = peer.multiclass_accuracy(probs, truth, average="micro", **options).item()
    assert measures["ece"].estimate == pytest.approx(ece, abs=1e-5)
    assert measures["accuracy"].estimate == pytest.approx(right, abs=1e-6)


def test_labels_that_do_not_count_have_to_be_said_but_for_one(tmp_path: Path) -> None:
    logits, labels = made((2, 4, 5, 5), 1, ignored=255)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    with pytest.raises(InputError, match=r"Say --ignore-index 255 if rows with this label do not count\."):
        sf.audit(tmp_path / "a.npz")
    found = sf.audit(tmp_path / "a.npz", ignore_index=255).audit
    assert any("with the label 255 were left out, as you said" in note for note in found.notes)
    rows, truth = np.moveaxis(logits, 1, -1).reshape(-1, 4), labels.ravel()
    again = sf.audit(logits=rows, labels=truth, ignore_index=255).audit  # of plain rows too, where it is said
    assert again.n == found.n
    assert again.verdict.ece.estimate == pytest.approx(found.verdict.ece.estimate)
    with pytest.raises(InputError, match="Expected at least one row"):
        sf.audit(logits=logits, labels=np.full_like(labels, -100))


def test_the_axis_of_the_classes() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((2, 5, 5)), rng.integers(0, 5, (2, 5))
    with pytest.raises(InputError, match=r"axes 1 and 2 both could.*Say --class-axis 1 or --class-axis 2\."):
        sf.audit(logits=logits, labels=labels)
    last, middle = (sf.audit(logits=logits, labels=labels, class_axis=axis).measures["nll"] for axis in (-1, 1))
    rows = flat(logits, labels, 2)
    assert last.estimate == pytest.approx(sf.audit(logits=rows[0], labels=rows[1]).measures["nll"].estimate)
    rows = flat(logits, labels, 1)
    assert middle.estimate == pytest.approx(sf.audit(logits=rows[0], labels=rows[1]).measures["nll"].estimate)
    with pytest.raises(InputError, match="Expected --class-axis to fit, but got 0"):
        sf.audit(logits=logits, labels=labels, class_axis=0)
    with pytest.raises(
        InputError, match=r"one label per row, or labels with the axes.*\(2, 5, 5\) and labels \(2, 4\)"
    ):
        sf.audit(logits=logits, labels=labels[:, :4])
    with pytest.raises(InputError, match="Expected --class-axis with scores of more than two axes"):
        sf.audit(logits=logits[0], labels=labels[0], class_axis=1)


def test_groups_of_pictures_and_of_pixels(tmp_path: Path) -> None:
    logits, labels = made((4, 3, 5, 5), 1)
    scanner, tissue = np.array(["x", "y", "x", "y"]), np.where(np.arange(100).reshape(4, 5, 5) % 2, "a", "b")
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels, scanner=scanner, tissue=tissue)
    slices = {
        (each.column, each.value): each.verdict
        for each in sf.audit(tmp_path / "a.npz", group=["scanner", "tissue"]).audit.slices
    }
    rows, truth = flat(logits[scanner == "x"], labels[scanner == "x"], 1)
    assert slices["scanner", "x"].gap.estimate == pytest.approx(
        sf.audit(logits=rows, labels=truth).verdict.gap.estimate
    )
    kept = labels[tissue == "a"]
    assert slices["tissue", "a"].n == int((kept != -100).sum())


def words(n_batches: int, n_words: int, positions: int = 64) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches of token logits that are twice as sharp as they should be."""
    source = torch.Generator().manual_seed(0)
    for _ in range(n_batches):
        logits = 2 * torch.randn(1, positions, n_words, generator=source)
        labels = torch.multinomial(logits[0].softmax(1), 1, generator=source).T
        yield 2 * logits, labels


def test_a_vocabulary_keeps_no_table_over_words_and_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reading, "MOST_SAMPLED_VALUES", 20_000 * 100)
    monkeypatch.setattr(_reading, "SAMPLED_VALUES", 20_000 * 10)
    found = sf.audit(words(3, 20_000), logits=True).audit
    assert found.verdict.classes == ()
    assert "classwise_ece" not in found.measures
    assert "Nothing is said about single classes: there are more than 10,000." in found.notes
    assert found.repair is not None
    assert found.repair.fitted_on.endswith("both on 100 rows drawn at random")
    assert 1.2 < found.repair.temperature < 4
    with pytest.raises(InputError, match="a table over 20,000 classes is not kept"):
        sf.audit(words(1, 20_000), logits=True, metrics="classwise_ece")


def test_a_generator_can_be_read_once_and_a_list_again() -> None:
    logits, labels = made((40, 3), 1, ignored=0)
    pairs = [(logits[k : k + 10], labels[k : k + 10]) for k in range(0, 40, 10)]
    once, often = sf.audit(iter(pairs), logits=True).audit, sf.audit(pairs, logits=True).audit
    plain = sf.audit(logits=logits, labels=labels).audit
    assert once.verdict == often.verdict
    assert once.verdict.ece.estimate == pytest.approx(plain.verdict.ece.estimate)
    assert once.repair is not None
    assert often.repair is not None
    assert once.repair.temperature == often.repair.temperature
    assert once.repair.nll == pytest.approx(often.repair.nll)  # all rows are in the sample
    with pytest.raises(InputError, match="Expected at least one batch, but got none"):
        sf.audit(iter([]))
    with pytest.raises(
        InputError, match=re.escape("pairs of logits and labels, but got a str. Yield (logits, labels).")
    ):
        sf.audit(iter(["a"]))
    with pytest.raises(InputError, match="Expected one label per row in every batch, but got"):
        sf.audit([(logits, labels[:3])])


def test_tokens_can_be_fitted_on_but_not_written_over(tmp_path: Path) -> None:
    logits, labels = made((4, 30, 5), 2)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    fitted = sf.calibrate(tmp_path / "a.npz", method="temperature")
    rows = flat(logits, labels, 2)
    plain = sf.calibrate(Predictions(*rows, "calibration"), method="temperature")
    assert fitted.calibrator == plain.calibrator
    fitted.save(tmp_path / "c.json")
    np.savez(tmp_path / "b.npz", logits=logits[:2], labels=labels[:2])
    with pytest.raises(InputError, match=r"scores \(n, classes\) to repair, but those in b\.npz have more axes"):
        sf.repair(tmp_path / "b.npz", tmp_path / "c.json", tmp_path / "out.npz")


def test_a_stored_slab_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from surefoot.sources._stored import StoredArray

    sizes = []
    read = StoredArray._read

    def spy(self: StoredArray, shape: tuple[int, ...]) -> np.ndarray:
        sizes.append(int(np.prod(shape)))
        return read(self, shape)

    monkeypatch.setattr(StoredArray, "_read", spy)
    logits, labels = made((2, 400, 1000), 2)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    audit(tmp_path / "a.npz")
    assert max(sizes) <= source.VALUES_AT_ONCE  # and not the 400,000 values of one sequence
