"""Small files in the true published formats."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def pictures(n: int, classes: int, seed: int = 0, size: int = 32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 3, size, size), dtype=np.uint8), np.arange(n) % classes


def idx_bytes(array: np.ndarray) -> bytes:
    code = {"uint8": 8, "int32": 12}[array.dtype.name]
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx(folder: Path, *, zipped: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, n in (("train", 60), ("t10k", 20)):
        x, y = pictures(n, 10, n, 28)
        for name, array in (("images-idx3", x[:, 0]), ("labels-idx1", y.astype(np.uint8))):
            content = idx_bytes(array)
            file = folder / f"{prefix}-{name}-ubyte{'.gz' if zipped else ''}"
            file.write_bytes(gzip.compress(content) if zipped else content)


def cifar_parts(classes: int, n: int | None = None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    n = n or 2 * classes
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"] if classes == 10 else ["train", "test"]
    return {name: pictures(n, classes, seed) for seed, name in enumerate(names)}


def write_binary(folder: Path, classes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (x, y) in cifar_parts(classes).items():
        labels = y[:, None] if classes == 10 else np.stack([y % 20, y], 1)
        records = np.concatenate([labels.astype(np.uint8), x.reshape(len(x), -1)], 1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    if classes == 100:
        (folder / "fine_label_names.txt").write_text("".join(f"thing{k}\n" for k in range(100)) + "\n")


def python2_pickle(values: dict[str, Any]) -> bytes:
    """Write protocol 2 as Python 2 did: text as byte strings, NumPy's old module names."""

    def text(value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        return b"T" + struct.pack("<i", len(raw)) + raw

    def write(value: Any) -> bytes:
        if isinstance(value, str | bytes):
            return text(value)
        if isinstance(value, int):
            return b"J" + struct.pack("<i", value)
        if isinstance(value, list):
            return b"](" + b"".join(map(write, value)) + b"e"
        shape = b"(" + b"".join(map(write, value.shape)) + b"t"
        dtype = b"cnumpy\ndtype\n(" + text("u1") + write(0) + write(1) + b"tR"
        dtype += b"(" + write(3) + text("|") + b"NNN" + write(-1) + write(-1) + write(0) + b"tb"
        array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(" + write(0) + b"t" + text("b") + b"tR"
        return array + b"(" + write(1) + shape + dtype + b"\x89" + text(value.tobytes()) + b"tb"

    items = b"".join(text(key) + write(value) for key, value in values.items())
    return b"\x80\x02}(" + items + b"u."


def write_python(folder: Path, classes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (x, y) in cifar_parts(classes).items():
        values: dict[str, Any] = {"batch_label": name, "data": x.reshape(len(x), -1)}
        values |= {"labels" if classes == 10 else "fine_labels": y.tolist(), "filenames": ["a.png"] * len(y)}
        (folder / name).write_bytes(python2_pickle(values))
    if classes == 100:
        meta = {"fine_label_names": [f"thing{k}" for k in range(100)]}
        (folder / "meta").write_bytes(python2_pickle(meta))


def write_cifar_npz(file: Path, classes: int) -> None:
    parts = list(cifar_parts(classes).values())
    train, test = parts[:-1], parts[-1]
    x = np.concatenate([x for x, _ in train]).transpose(0, 2, 3, 1)
    y = np.concatenate([y for _, y in train])
    np.savez(file, x_train=x, y_train=y, x_test=test[0].transpose(0, 2, 3, 1), y_test=test[1])


def write_cifar_c(folder: Path, classes: int) -> None:
    folder.mkdir(parents=True)
    labels = cifar_parts(classes)["test_batch" if classes == 10 else "test"][1]
    rng = np.random.default_rng(1)
    for name in ("fog", "snow"):
        np.save(folder / f"{name}.npy", rng.integers(0, 256, (5 * len(labels), 32, 32, 3), dtype=np.uint8))
    np.save(folder / "labels.npy", np.tile(labels, 5).astype(np.uint8))


def write_noisy(file: Path, labels: dict[str, np.ndarray]) -> None:
    """As torch.save writes a dictionary of arrays: a zip with one pickle of protocol 2."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(labels, protocol=2))
        archive.writestr("archive/version", "3\n")


def write_svhn(folder: Path) -> None:
    from scipy.io import savemat

    folder.mkdir(parents=True, exist_ok=True)
    for name, n in (("train", 60), ("test", 20)):
        x, y = pictures(n, 10, n)
        labels = np.where(y == 0, 10, y).astype(np.uint8)[:, None]
        savemat(folder / f"{name}_32x32.mat", {"X": x.transpose(2, 3, 1, 0), "y": labels}, do_compression=True)


def write_texts(folder: Path, *, zipped: bool = False, prefix: str = "", names: tuple[Any, Any] = (0, 1)) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 40), ("test", 10)):
        rows = [{"text": f"{'good' if k % 2 else 'bad'} film {part} {k}", "label": names[k % 2]} for k in range(n)]
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        ending = ".jsonl.gz" if zipped else ".jsonl"
        (folder / f"{prefix}{part}{ending}").write_bytes(gzip.compress(content) if zipped else content)


def save_picture(file: Path, seed: int, size: tuple[int, int] = (64, 64), mode: str = "RGB") -> None:
    from PIL import Image

    file.parent.mkdir(parents=True, exist_ok=True)
    x = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(x).convert(mode).save(file)


def write_image_folder(root: Path, parts: tuple[str, ...], n: int = 6) -> None:
    for part in parts:
        for label in ("cat", "dog"):
            for k in range(n):
                ending, mode = (".JPEG", "L") if k == 0 else (".png", "RGB")
                save_picture(root / part / label / f"{k}{ending}", k, (40, 30), mode)


def write_tiny_imagenet(root: Path) -> None:
    wnids = ["n02", "n01"]
    for wnid in wnids:
        for k in range(10):
            save_picture(root / "train" / wnid / "images" / f"{wnid}_{k}.JPEG", k)
    lines = []
    for k in range(4):
        save_picture(root / "val" / "images" / f"val_{k}.JPEG", k)
        lines.append(f"val_{k}.JPEG\t{wnids[k % 2]}\t0\t0\t9\t9\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    (root / "wnids.txt").write_text("\n".join(wnids))
    (root / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\ttree frog\nn03\tother\n")
