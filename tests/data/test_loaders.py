"""Every loader on small files in the true published format, and on damaged ones."""

from __future__ import annotations

import gzip
import importlib.util
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.data import load_splits
from surefoot.data._divide import Division, divide
from surefoot.data._pickles import read_pickle
from surefoot.data.cifar_c import read_cifar_c
from surefoot.data.idx import read_idx
from surefoot.data.people import read_noisy_labels, read_votes
from surefoot.data.svhn import read_svhn
from surefoot.errors import InputError, OptionError, SurefootError
from surefoot.registry import DATA
from surefoot.schema import SPLITS, Splits
from tests.conftest import small_arrays
from tests.data import made

needs_pillow = pytest.mark.skipif(not importlib.util.find_spec("PIL"), reason="Pillow is not installed")
needs_datasets = pytest.mark.skipif(not importlib.util.find_spec("datasets"), reason="datasets is not installed")


def load(text: str) -> Splits:
    return load_splits(DATA.parse(text))


@pytest.fixture(autouse=True)
def nothing_else_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def small_npz(root: Path) -> str:
    np.savez(root / "small.npz", **small_arrays())
    return f"npz:{root / 'small.npz'}"


def text_file(root: Path) -> str:
    (root / "a.txt").write_text("to be or not to be, that is the question. " * 40)
    return f"characters:{root / 'a.txt'},length=8"


def both_cifars(root: Path, classes: int) -> str:
    made.write_binary(root / ("cifar-10-batches-bin" if classes == 10 else "cifar-100-binary"), classes)
    made.write_cifar_c(root / f"CIFAR-{classes}-C", classes)
    return f"cifar{classes}c:fog,calibration=0.5,path={root}"


def write(writer: Callable[..., None], root: Path, folder: str, spec: str, *args: object) -> str:
    writer(root / folder, *args)
    return f"{spec}:path={root}"


MADE: dict[str, Callable[[Path], str]] = {
    "fashion": lambda root: "fashion",
    "digits": lambda root: "digits",
    "npz": small_npz,
    "noisy": lambda root: "noisy:" + small_npz(root).replace(",", ";"),
    "redivided": lambda root: "redivided:digits",
    "idx": lambda root: write(made.write_idx, root, "", "idx"),
    "mnist": lambda root: write(made.write_idx, root, "mnist", "mnist"),
    "fashion_full": lambda root: write(made.write_idx, root, "fashion-mnist", "fashion_full"),
    "cifar10": lambda root: write(made.write_binary, root, "cifar-10-batches-bin", "cifar10", 10),
    "cifar100": lambda root: write(made.write_binary, root, "cifar-100-binary", "cifar100", 100) + ",calibration=0.5",
    "cifar10c": lambda root: both_cifars(root, 10),
    "cifar100c": lambda root: both_cifars(root, 100),
    "svhn": lambda root: write(made.write_svhn, root, "svhn", "svhn"),
    "text": lambda root: write(made.write_texts, root, "", "text"),
    "characters": text_file,
    "image_folder": lambda root: (made.write_image_folder(root, ("train", "test")), f"image_folder:{root}")[1],
    "imagenet": lambda root: (made.write_image_folder(root, ("train", "val")), f"imagenet:path={root},n_train=8")[1],
    "tiny_imagenet": lambda root: write(made.write_tiny_imagenet, root, "tiny-imagenet-200", "tiny_imagenet"),
    "hf": lambda root: saved_by_datasets(root),
}
MARKS = dict.fromkeys(("image_folder", "imagenet", "tiny_imagenet"), needs_pillow) | {"hf": needs_datasets}
CASES = [pytest.param(part.name, marks=MARKS.get(part.name, ())) for part in DATA]


@pytest.mark.parametrize("name", CASES)
def test_contract(name: str, tmp_path: Path) -> None:
    """What holds for every data set."""
    spec = DATA.parse(MADE[name](tmp_path) if name in MADE else name)
    splits = load_splits(spec)
    for split in SPLITS:
        part = splits[split]
        assert len(part) > 0
        assert part.inputs.dtype == torch.float32
        assert part.inputs.isfinite().all()
        assert part.inputs.shape == (len(part), *splits.input_shape)
        assert part.labels.dtype == torch.int64
        assert 0 <= part.labels.min() <= part.labels.max() < splits.n_classes
        assert part.rows is not None
        assert len(part.rows.numbers) == len(part)
    places = [
        {(split.rows.source, n) for n in split.rows.numbers.tolist()} for split in map(splits.__getitem__, SPLITS)
    ]
    assert not places[0] & places[1]
    assert not places[1] & places[2]
    assert not places[0] & places[2]
    if splits.scaling is not None and splits.scaling.is_pixels:
        pixels = splits.scaling.to_pixels(splits.test.inputs)
        assert torch.allclose(splits.scaling.to_inputs(pixels), splits.test.inputs)
    assert load_splits(spec).fingerprint == splits.fingerprint


def test_every_data_set_that_reads_files_has_small_ones_here() -> None:
    assert set(MADE) <= {part.name for part in DATA}
    assert {part.name for part in DATA if part.facts.get("marks") or "path" in part.options} <= set(MADE)


@pytest.mark.parametrize("name", [part.name for part in DATA])
def test_without_its_files_a_data_set_says_what_to_do(name: str, tmp_path: Path) -> None:
    """Also for data sets that someone adds: they load, or one line names the next step."""
    text = name if "path" not in (part := DATA[name]).options else f"{name}:path={tmp_path / 'none'}"
    text += ",corruption=fog" if "corruption" in part.options else ""
    if part.facts.get("embedded") or name not in MADE:
        assert load(text).n_classes > 1
        return
    with pytest.raises(
        SurefootError, match=r"surefoot data get|path=FOLDER|Check the path|Write|Put|pip install"
    ) as it:
        load(text)
    assert "\n" not in str(it.value)


@pytest.mark.parametrize("classes", [10, 100])
def test_three_forms_of_cifar_are_the_same(classes: int, tmp_path: Path) -> None:
    made.write_binary(tmp_path / "bin", classes)
    made.write_python(tmp_path / "py", classes)
    made.write_cifar_npz(tmp_path / "all.npz", classes)
    found = [load(f"cifar{classes}:path={tmp_path / place},calibration=0.5") for place in ("bin", "py", "all.npz")]
    for other in found[1:]:
        for split in SPLITS:
            assert torch.equal(other[split].inputs, found[0][split].inputs)
            assert torch.equal(other[split].labels, found[0][split].labels)
    if classes == 100:
        assert found[0].class_names == found[1].class_names == tuple(f"thing{k}" for k in range(100))
    x, y = made.cifar_parts(classes)["test_batch" if classes == 10 else "test"]
    assert np.array_equal(found[1].scaling.to_pixels(found[1].test.inputs).numpy(), x)
    assert found[1].test.labels.tolist() == y.tolist()


def test_the_search_path_is_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("SUREFOOT_DATA", f"{first}{os.pathsep}{second}")
    with pytest.raises(InputError, match=r"first or .*second or .*cache/surefoot.*Run `surefoot data get cifar10`"):
        load("cifar10")
    made.write_python(tmp_path / "cache" / "surefoot" / "cifar-10-batches-py", 10)
    assert len(load("cifar10").test) == 20
    second.mkdir()
    made.write_cifar_npz(second / "cifar10.npz", 10)
    assert load("cifar10").input_shape == (3, 32, 32)
    with pytest.raises(InputError, match="surefoot data get cifar10 --to"):
        load(f"cifar10:path={tmp_path / 'nowhere'}")


def test_subsets_are_the_first_of_each_class_and_leave_calibration_alone(tmp_path: Path) -> None:
    made.write_binary(tmp_path, 10)
    whole = load(f"cifar10:path={tmp_path},calibration=0.2")
    few = load(f"cifar10:path={tmp_path},calibration=0.2,n_train=30,n_test=10")
    assert few.calibration.rows.numbers.tolist() == whole.calibration.rows.numbers.tolist()
    assert torch.bincount(few.train.labels).tolist() == [3] * 10
    assert set(few.train.rows.numbers) <= set(whole.train.rows.numbers)
    assert few.test.rows.numbers.tolist() == list(range(10))
    other = load(f"cifar10:path={tmp_path},calibration=0.2,split_seed=1")
    assert other.calibration.rows.numbers.tolist() != whole.calibration.rows.numbers.tolist()
    with pytest.raises(InputError, match="n_train between 1 and 80, the rows there are, but got 81"):
        load(f"cifar10:path={tmp_path},calibration=0.2,n_train=81")


def test_shares_that_do_not_divide_go_to_the_largest_remainder() -> None:
    labels = {"train": np.repeat([0, 1, 2], [50, 30, 20]), "test": np.array([0, 1, 2])}
    rows = divide(labels, Division(0.1, n_train=7))
    assert np.bincount(labels["train"][rows["train"].numbers]).tolist() == [4, 2, 1]  # of 3.5, 2.1, 1.4
    assert np.bincount(labels["train"][rows["calibration"].numbers]).tolist() == [5, 3, 2]


def test_noisy_labels_change_labels_and_nothing_else(tmp_path: Path) -> None:
    made.write_binary(tmp_path / "cifar-10-batches-bin", 10)
    noisy = (np.arange(100) * 7 + 3) % 10
    made.write_noisy(tmp_path / "cifar-n" / "CIFAR-10_human.pt", {"worse_label": noisy})
    clean, worse = (load(f"cifar10:path={tmp_path},labels={which}") for which in ("clean", "worse_label"))
    for split in ("train", "calibration"):
        assert torch.equal(clean[split].inputs, worse[split].inputs)
        assert worse[split].labels.tolist() == noisy[worse[split].rows.numbers].tolist()
    assert torch.equal(clean.test.labels, worse.test.labels)
    assert clean.fingerprint != worse.fingerprint
    with pytest.raises(InputError, match=r"Expected aggre_label in .*it holds worse_label"):
        load(f"cifar10:path={tmp_path},labels=aggre_label")
    made.write_noisy(tmp_path / "cifar-n" / "CIFAR-10_human.pt", {"worse_label": noisy[:50]})
    with pytest.raises(InputError, match="row 99 included, but CIFAR-10N, worse_label has 50"):
        load(f"cifar10:path={tmp_path},labels=worse_label")
    made.write_noisy(tmp_path / "cifar-n" / "CIFAR-10_human.pt", {"worse_label": noisy + 5})
    with pytest.raises(InputError, match="labels in 0…9, but got 14"):
        load(f"cifar10:path={tmp_path},labels=worse_label")


class Malicious:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (f"touch {self.proof}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_not_run(protocol: int, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    content = pickle.dumps({b"data": Malicious(proof)}, protocol)
    made.write_python(tmp_path / "py", 10)
    (tmp_path / "py" / "data_batch_3").write_bytes(content)
    with pytest.raises(InputError, match=r"hold arrays only, but it asks for (posix|nt)\.system"):
        load(f"cifar10:path={tmp_path / 'py'}")
    made.write_noisy(tmp_path / "CIFAR-10_human.pt", {"worse_label": Malicious(proof)})
    with pytest.raises(InputError, match="asks for"):
        read_noisy_labels(10, "worse_label", str(tmp_path))
    assert not proof.exists()
    pickle.loads(content)
    assert proof.exists()  # the pickle would have done it


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\ngetattr\n.",
        b"cnumpy\nload\n.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cnumpy\nndarray\n.",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.",
        b"c_codecs\nencode\n.",
        pickle.dumps(np.array([object], dtype=object), 2),
        b"\x80\x02K",
        b"",
        b"not a pickle",
        b"P1\n.",
    ],
)
def test_what_is_no_pickle_of_arrays_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="Expected here to"):
        read_pickle(content, "here")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_survive_the_restricted_reader(protocol: int) -> None:
    arrays = [np.arange(6).reshape(2, 3).astype(kind) for kind in ("u1", "<i8", ">i4", "<f8", "?")]
    arrays.append(np.asfortranarray(np.arange(6).reshape(2, 3)))
    for array, read in zip(arrays, read_pickle(pickle.dumps(arrays, protocol), "here"), strict=True):
        assert np.array_equal(array, read)
        assert read.dtype.kind == array.dtype.kind


def test_a_pickled_array_must_have_the_bytes_of_its_shape() -> None:
    content = made.python2_pickle({"data": np.zeros((2, 3), np.uint8)})
    assert read_pickle(content, "here")[b"data"].shape == (2, 3)
    with pytest.raises(InputError, match=r"shape \(9, 3\) has 6 bytes"):
        read_pickle(content.replace(b"(J\x02\0\0\0J\x03", b"(J\x09\0\0\0J\x03"), "here")


def spoil(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


@pytest.mark.parametrize("form", ["bin", "py"])
def test_damaged_cifar_is_refused(form: str, tmp_path: Path) -> None:
    writer, suffix = (made.write_binary, ".bin") if form == "bin" else (made.write_python, "")
    writer(tmp_path, 10)
    file = tmp_path / f"data_batch_2{suffix}"
    whole = file.read_bytes()
    spoil(file, lambda content: content[:-100])
    with pytest.raises(InputError, match="Get the file again"):
        load(f"cifar10:path={tmp_path}")
    wrong = b"\x0b" + whole[1:] if form == "bin" else whole.replace(b"](J\0\0\0\0", b"](J\x0b\0\0\0")
    file.write_bytes(wrong)
    with pytest.raises(InputError, match=r"labels in 0…9 in .*data_batch_2.*, but got 11"):
        load(f"cifar10:path={tmp_path}")
    file.unlink()
    with pytest.raises(InputError, match=r"No such file or directory\. Run `surefoot data get cifar10`"):
        load(f"cifar10:path={tmp_path}")


def test_a_pickle_of_other_things_is_refused(tmp_path: Path) -> None:
    made.write_python(tmp_path, 10)
    for content in ({"data": 3, "labels": [1]}, {"data": np.zeros((2, 5), np.uint8), "labels": [1, 2]}, {"labels": []}):
        (tmp_path / "data_batch_1").write_bytes(made.python2_pickle(content))
        with pytest.raises(InputError, match=r"hold data \(n, 3072\) as bytes and labels"):
            load(f"cifar10:path={tmp_path}")


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_gives_what_was_written(zipped: bool, tmp_path: Path) -> None:
    made.write_idx(tmp_path, zipped=zipped)
    x, y = made.pictures(20, 10, 20, 28)
    splits = load(f"idx:{tmp_path}")
    assert np.array_equal(splits.scaling.to_pixels(splits.test.inputs).numpy(), x[:, :1])
    assert splits.test.labels.tolist() == y.tolist()
    (tmp_path / "numbers").write_bytes(made.idx_bytes(np.array([[1, -2], [3, 70000]], np.int32)))
    assert read_idx(tmp_path / "numbers").tolist() == [[1, -2], [3, 70000]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda content: content[:-1], r"47040 bytes for shape \(60, 28, 28\) in .*, but got 47039"),
        (lambda content: content + b"x", "but got 47041"),
        (lambda content: b"\x89PNG" + content[4:], "begin like an IDX file, 00 00 type axes, but got 89 50 4e 47"),
        (lambda content: b"\0\0\x07" + content[3:], "begin like an IDX file"),
        (lambda content: b"", "but got nothing"),
        (lambda content: content[:6], "begin like an IDX file"),
    ],
)
def test_damaged_idx_is_refused(change: Callable[[bytes], bytes], says: str, tmp_path: Path) -> None:
    made.write_idx(tmp_path, zipped=False)
    spoil(tmp_path / "train-images-idx3-ubyte", change)
    with pytest.raises(InputError, match=says):
        load(f"idx:{tmp_path}")


def test_a_damaged_or_missing_gzip_is_refused(tmp_path: Path) -> None:
    made.write_idx(tmp_path)
    spoil(tmp_path / "t10k-images-idx3-ubyte.gz", lambda content: content[:-20])
    with pytest.raises(InputError, match="Expected to read"):
        load(f"idx:{tmp_path}")
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(made.idx_bytes(np.zeros((2, 28, 28), np.uint8))))
    with pytest.raises(InputError, match=r"Expected t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte\.gz"):
        load(f"idx:{tmp_path}")


def test_svhn_calls_ten_zero(tmp_path: Path) -> None:
    made.write_svhn(tmp_path)
    x, y = made.pictures(20, 10, 20)
    pixels, labels = read_svhn(tmp_path / "test_32x32.mat")
    assert np.array_equal(pixels.transpose(0, 3, 1, 2), x)
    assert labels.tolist() == y.tolist()


def test_damaged_svhn_is_refused(tmp_path: Path) -> None:
    from scipy.io import savemat

    file = tmp_path / "test_32x32.mat"
    made.write_svhn(tmp_path)
    for change in (lambda content: content[:3000], lambda content: b"", lambda content: b"MATLAB" * 100):
        made.write_svhn(tmp_path)
        spoil(file, change)
        with pytest.raises(InputError, match="Get the file again"):
            read_svhn(file)
    x = np.zeros((32, 32, 3, 2), np.uint8)
    savemat(file, {"X": x, "y": np.array([[1], [11]])})
    with pytest.raises(InputError, match=r"2 labels in 1…10 in .*, from 1 to 11"):
        read_svhn(file)
    savemat(file, {"X": x})
    with pytest.raises(InputError, match="it holds X"):
        read_svhn(file)
    file.unlink()
    with pytest.raises(InputError, match="surefoot data get svhn"):
        read_svhn(file)


def test_severities_are_fifths_of_a_file(tmp_path: Path) -> None:
    both_cifars(tmp_path, 10)
    folder = tmp_path / "CIFAR-10-C"
    whole = np.load(folder / "snow.npy")
    for severity in range(1, 6):
        pixels, labels = read_cifar_c(folder, "snow", severity)
        assert np.array_equal(pixels, whole[(severity - 1) * 20 : severity * 20])
        assert labels.tolist() == (np.arange(20) % 10).tolist()
    splits = load(f"cifar10c:snow,severity=5,path={tmp_path}")
    assert np.array_equal(splits.scaling.to_pixels(splits.test.inputs).numpy(), whole[80:].transpose(0, 3, 1, 2))
    for corruption, severity, says in (
        ("rain", 1, "got 'rain'. Choose from fog, snow"),
        ("../CIFAR-10-C/fog", 1, "Choose from fog, snow"),
        ("labels", 1, "Choose from fog, snow"),
        ("fog", 6, "1 to 5, but got 6"),
    ):
        with pytest.raises(OptionError, match=says):
            read_cifar_c(folder, corruption, severity)
    np.save(folder / "fog.npy", whole[:7])
    with pytest.raises(InputError, match=r"5·n images \(32, 32, 3\) as bytes"):
        read_cifar_c(folder, "fog", 1)
    spoil(folder / "snow.npy", lambda content: content[:-50])
    with pytest.raises(InputError, match=r"to be an \.npy file"):
        read_cifar_c(folder, "snow", 1)


def test_votes_must_be_votes(tmp_path: Path) -> None:
    counts = np.array([[50, 1, *[0] * 8], [0] * 9 + [51]], float)
    np.save(tmp_path / "cifar10h-counts.npy", counts)
    assert read_votes(str(tmp_path)).sum(1).tolist() == [51, 51]
    for wrong in (counts / 51, -counts, counts[:, :9], np.zeros((2, 10))):
        np.save(tmp_path / "cifar10h-counts.npy", wrong)
        with pytest.raises(InputError, match="surefoot data get cifar10h"):
            read_votes(str(tmp_path))


def test_texts_know_the_words_of_the_training_split_alone(tmp_path: Path) -> None:
    made.write_texts(tmp_path, zipped=True, prefix="films_", names=("no", "yes"))
    splits = load(f"text:{tmp_path / 'films'},length=6,vocabulary=500")
    assert splits.class_names == ("no", "yes")
    assert splits.input_shape == (6,)
    assert splits.scaling is None
    # bad/good, film, "test" was never seen in training, a number that may have been, padding
    assert (splits.test.inputs[:, 2] == 1).all()
    assert (splits.test.inputs[:, 4:] == 0).all()
    assert splits.train.inputs.max() == 2 + 4 + len(splits.train) - 1  # bad, good, film, train, one number each
    assert (splits.calibration.inputs[:, 3] == 1).all()  # numbers of the calibration split are unknown words


def test_texts_train_a_model(tmp_path: Path) -> None:
    from surefoot.models import build_model
    from surefoot.registry import MODELS

    made.write_texts(tmp_path)
    assert build_model(MODELS.parse("text_transformer"), load(f"text:{tmp_path}")) is not None
    assert build_model(MODELS.parse("char_lm"), load(text_file(tmp_path))) is not None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "JSON in line 41"),
        ('{"text": "a"}', "in line 41 of"),
        ('{"text": 3, "label": 0}', "in line 41 of"),
        ("[1]", "in line 41 of"),
        ('{"text": "a", "label": true}', "in line 41 of"),
        ('{"text": "a", "label": -1}', "but got -1"),
    ],
)
def test_bad_lines_are_refused(line: str, says: str, tmp_path: Path) -> None:
    made.write_texts(tmp_path)
    spoil(tmp_path / "train.jsonl", lambda content: content + line.encode())
    with pytest.raises(InputError, match=says):
        load(f"text:{tmp_path},calibration=0.5")


def test_bad_text_files_are_refused(tmp_path: Path) -> None:
    made.write_texts(tmp_path, zipped=True)
    spoil(tmp_path / "test.jsonl.gz", lambda content: content[:-9])
    with pytest.raises(InputError, match="Get the file again"):
        load(f"text:{tmp_path}")
    (tmp_path / "test.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a", "label": "new"}\n'))
    with pytest.raises(InputError, match="but got 'new'"):
        load(f"text:{tmp_path}")
    (tmp_path / "test.jsonl.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(InputError, match="it is empty"):
        load(f"text:{tmp_path}")


def test_characters_are_what_follows(tmp_path: Path) -> None:
    splits = load(text_file(tmp_path))
    text = (tmp_path / "a.txt").read_text()
    for split in SPLITS:
        for row, label, start in zip(
            splits[split].inputs.long().tolist(),
            splits[split].labels.tolist(),
            splits[split].rows.numbers.tolist(),
            strict=True,
        ):
            assert "".join(splits.class_names[token] for token in row) == text[start : start + 8]
            assert splits.class_names[label] == text[start + 8]
    (tmp_path / "a.txt").write_text("short")
    with pytest.raises(InputError, match="too short"):
        load(f"characters:{tmp_path / 'a.txt'}")


@needs_pillow
def test_folders_of_pictures(tmp_path: Path) -> None:
    made.write_image_folder(tmp_path, ("train", "val", "test"))
    splits = load(f"image_folder:{tmp_path},size=16")
    assert splits.input_shape == (3, 16, 16)
    assert splits.class_names == ("cat", "dog")
    assert [len(splits[split]) for split in SPLITS] == [12, 12, 12]
    (tmp_path / "test" / "cat" / "1.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"1\.png to be a picture"):
        load(f"image_folder:{tmp_path}")
    (tmp_path / "test" / "cow").mkdir()
    with pytest.raises(InputError, match="got 'cow'"):
        load(f"image_folder:{tmp_path}")


@needs_pillow
def test_pictures_of_the_right_size_keep_their_pixels(tmp_path: Path) -> None:
    made.write_image_folder(tmp_path, ("train", "val"))
    made.save_picture(tmp_path / "val" / "cat" / "1.png", 9, (16, 16))
    splits = load(f"imagenet:path={tmp_path},size=16")
    pixels = np.random.default_rng(9).integers(0, 256, (16, 16, 3), dtype=np.uint8).transpose(2, 0, 1)
    seen = [splits.scaling.to_pixels(splits[split].inputs).numpy() for split in ("calibration", "test")]
    assert any(np.array_equal(picture, pixels) for picture in np.concatenate(seen))
    assert len(splits.calibration) == 2
    assert splits.calibration.rows.source == splits.test.rows.source == "test"


@needs_pillow
def test_pictures_that_no_split_needs_are_not_read(tmp_path: Path) -> None:
    made.write_image_folder(tmp_path, ("train", "val"))
    (tmp_path / "train" / "dog" / "5.png").write_bytes(b"never read")
    assert len(load(f"imagenet:path={tmp_path},n_train=4").train) == 4


@needs_pillow
def test_tiny_imagenet_names_its_classes(tmp_path: Path) -> None:
    made.write_tiny_imagenet(tmp_path)
    splits = load(f"tiny_imagenet:path={tmp_path}")
    assert splits.class_names == ("goldfish", "tree frog")
    assert splits.test.labels.tolist() == [1, 0, 1, 0]
    spoil(tmp_path / "val" / "val_annotations.txt", lambda content: content + b"val_9.JPEG\tn77\n")
    with pytest.raises(InputError, match="got 'n77'"):
        load(f"tiny_imagenet:path={tmp_path}")


@pytest.mark.parametrize(("library", "text"), [("PIL", "image_folder:{}"), ("datasets", "hf:{}")])
def test_a_missing_library_is_named(library: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        (tmp_path / part / "cat").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=r"pip install 'surefoot\[(images|hf)\]'"):
        load(text.format(tmp_path))


def test_hugging_face_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets
    from PIL import Image

    def table(n: int, unlabelled: bool = False) -> Any:
        x, y = made.pictures(n, 2)
        names = datasets.ClassLabel(names=["no", "yes"])
        rows = {
            "img": [Image.fromarray(each.transpose(1, 2, 0)) for each in x],
            "label": [-1] * n if unlabelled else y.tolist(),
        }
        return datasets.Dataset.from_dict(rows, features=datasets.Features({"img": datasets.Image(), "label": names}))

    texts = datasets.Dataset.from_dict({"sentence": [f"word{k % 3} {k % 2}" for k in range(20)], "label": [0, 1] * 10})
    hub = {
        "org/pictures": {"train": table(20), "validation": table(6), "test": table(8)},
        "org/hidden": {"train": table(20), "validation": table(6), "test": table(8, unlabelled=True)},
        "org/texts": {"train": texts, "test": texts},
        "org/odd": {"train": texts},
    }
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, streaming: hub[name])  # which needs the network
    assert [len(load("hf:org/pictures")[split]) for split in SPLITS] == [20, 6, 8]
    assert load("hf:org/pictures").class_names == ("no", "yes")
    assert [len(load("hf:org/hidden")[split]) for split in SPLITS] == [18, 2, 6]
    assert load("hf:org/texts,length=4").input_shape == (4,)
    for name, says in (("org/odd", "parts train and test"), ("org/none", "Check name and config")):
        with pytest.raises(InputError, match=says):
            load(f"hf:{name}")
    with pytest.raises(InputError, match="Write inputs=COLUMN"):
        load("hf:org/texts,inputs=body")


def saved_by_datasets(root: Path) -> str:
    import datasets

    parts = {}
    for part, n in (("train", 40), ("test", 10)):
        rows = {"text": [f"{'good' if k % 2 else 'bad'} {k}" for k in range(n)], "label": [k % 2 for k in range(n)]}
        features = datasets.Features({
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["no", "yes"]),
        })
        parts[part] = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict(parts).save_to_disk(str(root / "saved"))
    return f"hf:{root / 'saved'}"


def test_texts_are_found_where_data_are_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path from there, so that a run's name does not depend on the machine."""
    made.write_texts(tmp_path / "data" / "text")
    found = load("text:text")
    assert found.fingerprint == load(f"text:{tmp_path / 'data' / 'text'}").fingerprint
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match="Expected text_train"):
        load("text:text")
