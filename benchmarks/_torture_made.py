"""Files for ``torture.py``: good ones of every format, changed by chance, and odd ones that are made up."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Draws = np.random.Generator
WORDS = [
    b"NaN",
    b"inf",
    b"-1",
    b"",
    b"1e400",
    b"9" * 400,
    b"0x10",
    b"null",
    b'"',
    b"\x1b[2J",
    b"\xff\xfe",
    b"[[",
    b"1e-320",
]
WORDS += [
    b"True",
    b"-0.0",
    b"1_000",
    b"\x00",
    b"\xe2\x80\xae",
    b"\n",
    b",",
    b"0.5",
    b"2",
    b"999999999999999999999",
    b"{}",
]


def rows(draws: Draws, n: int = 40, k: int = 3) -> tuple[Any, Any]:
    """Draw probabilities that know something about labels."""
    logits = 2 * draws.normal(size=(n, k))
    labels = (logits + 2 * draws.normal(size=logits.shape)).argmax(1)
    probs = np.exp(logits - logits.max(1, keepdims=True))
    return np.round(probs / probs.sum(1, keepdims=True), 6), labels


def _npz(packed: bool = False, **arrays: Any) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, **arrays)
    return file.getvalue()


def _records(probs: Any, labels: Any) -> list[dict[str, Any]]:
    return [
        {**{f"p{i}": float(v) for i, v in enumerate(p)}, "label": int(y)} for p, y in zip(probs, labels, strict=True)
    ]


def _csv(probs: Any, labels: Any, mark: str = ",") -> bytes:
    lines = [mark.join([*(f"p{i}" for i in range(probs.shape[1])), "label"])]
    lines += [mark.join([*(f"{v:.6f}" for v in p), str(y)]) for p, y in zip(probs, labels, strict=True)]
    return ("\n".join(lines) + "\n").encode()


def _table(probs: Any, labels: Any, ending: str) -> bytes:
    import pyarrow as pa
    from pyarrow import feather, parquet

    file = io.BytesIO()
    table = pa.table({**{f"p{i}": probs[:, i] for i in range(probs.shape[1])}, "label": labels})
    if ending == "parquet":
        parquet.write_table(table, file)
    else:
        feather.write_feather(table, file)
    return file.getvalue()


def _lists(probs: Any, labels: Any) -> bytes:
    pairs = zip(probs, labels, strict=True)
    return "".join(json.dumps({"probs": p.tolist(), "label": int(y)}) + "\n" for p, y in pairs).encode()


FORMATS: dict[str, Callable[[Any, Any], bytes]] = {
    "a.npz": lambda p, y: _npz(logits=np.log(p + 1e-9), labels=y),
    "packed.npz": lambda p, y: _npz(True, probs=p, labels=y, class_names=np.array(["cat", "dog", "owl"])),
    "a.csv": _csv,
    "a.tsv": lambda p, y: _csv(p, y, "\t"),
    "a.csv.gz": lambda p, y: gzip.compress(_csv(p, y), mtime=0),
    "columns.json": lambda p, y: json.dumps({"probs": p.tolist(), "labels": y.tolist()}).encode(),
    "rows.json": lambda p, y: json.dumps(_records(p, y)).encode(),
    "a.jsonl": lambda p, y: "".join(json.dumps(row) + "\n" for row in _records(p, y)).encode(),
    "lists.jsonl": _lists,
    "a.parquet": lambda p, y: _table(p, y, "parquet"),
    "a.feather": lambda p, y: _table(p, y, "feather"),
}


def mutated(content: bytes, draws: Draws) -> bytes:
    """Change a file by chance: one to three times bits, blocks, cuts, words, numbers, digits or lines."""
    for _ in range(int(draws.integers(1, 4))):
        at, kind = int(draws.integers(0, max(1, len(content)))), int(draws.integers(0, 12))
        length = int(draws.integers(1, 60))
        if kind == 0 and content:
            content = content[:at] + bytes([content[at] ^ (1 << int(draws.integers(0, 8)))]) + content[at + 1 :]
        elif kind == 1:
            content = content[:at]
        elif kind == 2:
            content = content[:at] + bytes(length) + content[at + length :]
        elif kind == 3:
            content = content[:at] + draws.bytes(length) + content[at:]
        elif kind == 4:
            content = content[:at] + content[at : at + length] * 2 + content[at + length :]
        elif kind == 5:
            content = content[:at] + content[at + length :]
        elif kind == 6:
            content = content[:at] + WORDS[int(draws.integers(len(WORDS)))] + content[at + 1 :]
        elif kind < 9:
            content = _other_number(content, at, draws)
        elif kind == 9:
            content = _other_digit(content, at, draws)
        else:
            content = _other_lines(content, draws)
    return content


def _other_digit(content: bytes, at: int, draws: Draws) -> bytes:
    """Put another digit in the place of the next one: most files stay whole, and say something else."""
    start = next((i for i in range(at, min(len(content), at + 200)) if content[i : i + 1].isdigit()), None)
    return content if start is None else content[:start] + b"%d" % draws.integers(10) + content[start + 1 :]


def _other_lines(content: bytes, draws: Draws) -> bytes:
    """Leave a line out, repeat one, or bring all behind the first into another order."""
    lines = content.split(b"\n")
    at, kind = int(draws.integers(len(lines))), int(draws.integers(3))
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[int(draws.integers(len(lines)))])
    elif len(lines) > 3:
        lines[1:-1] = [lines[1:-1][int(place)] for place in draws.permutation(len(lines) - 2)]
    return b"\n".join(lines)


def odd_rows(draws: Draws) -> tuple[Any, Any]:
    """Draw predictions that are right in form: few or many rows, certain ones, ties, one class only."""
    probs, labels = rows(draws, int(draws.choice([2, 5, 12, 40, 90])))
    for row in draws.integers(0, len(probs), int(draws.integers(0, 6))):
        odd = [
            np.eye(3)[int(draws.integers(3))],
            np.full(3, 1 / 3),
            np.array([0.5, 0.5, 0.0]),
            np.array([1 - 2e-9, 1e-9, 1e-9]),
        ]
        probs[row] = odd[int(draws.integers(4))]
    if draws.random() < 0.1:
        labels[:] = int(draws.integers(3))
    return probs, labels


def _other_number(content: bytes, at: int, draws: Draws) -> bytes:
    """Put a word in the place of the next number of a text."""
    start = next((i for i in range(at, min(len(content), at + 200)) if content[i : i + 1].isdigit()), None)
    if start is None:
        return content
    end = start
    while end < len(content) and content[end : end + 1] in b"0123456789.e+-":
        end += 1
    return content[:start] + WORDS[int(draws.integers(len(WORDS)))] + content[end:]


_TYPES = ["f2", "f4", "f8", ">f8", "i1", "i8", "u8", "?", "c16", "U5", "S3", "M8[s]", "m8[s]", "V4", "O", "i2,f4"]
_NAMES = ["logits", "probs", "labels", "label", "y_true", "weights", "class_names", "confidence", "correct", "x", "ids"]


def odd_npz(draws: Draws) -> bytes:
    """Make an archive of arrays that nobody would save: any type, shape, order and name."""
    file, probs, labels = io.BytesIO(), *rows(draws)
    with zipfile.ZipFile(file, "w", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED][int(draws.integers(2))]) as archive:
        archive.writestr("logits.npy", _npy(np.log(probs + 1e-9)))
        if draws.random() < 0.8:
            archive.writestr("labels.npy", _npy(labels))
        for _ in range(int(draws.integers(1, 4))):
            name = _NAMES[int(draws.integers(len(_NAMES)))]
            shape = tuple(int(v) for v in draws.choice([0, 1, 2, 3, 40, 41], size=int(draws.integers(0, 4))))
            made = np.zeros(shape, _TYPES[int(draws.integers(len(_TYPES)))])
            if made.dtype.kind in "fiu" and made.size:
                made[...] = draws.choice([0, 1, 0.5, 2, -1, np.nan if made.dtype.kind == "f" else 3], size=shape)
            content = _npy(np.asfortranarray(made) if draws.random() < 0.3 else made)
            archive.writestr(f"{name}.npy" if draws.random() < 0.9 else name, content)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def odd_npy(draws: Draws) -> bytes:
    """Make one array, with a header that may lie."""
    content = _npy(np.concatenate([(found := rows(draws))[0], found[1][:, None]], 1))
    lie = [
        b"(40, 4)",
        b"(40, 40000000000)",
        b"(-40, 4)",
        b"(0, 4)",
        b"(40,)",
        b"(40, 4, 1)",
        b"(4, 40)",
        b"()",
        b"(True,2)",
    ]
    new = lie[int(draws.integers(len(lie)))]
    return (
        content.replace(b"(40, 4)" + b" " * max(0, len(new) - 7), new)
        if draws.random() < 0.8
        else mutated(content, draws)
    )


def odd_json(draws: Draws, depth: int = 0) -> Any:
    """Make values up, some with names that mean something."""
    kind = int(draws.integers(0, 8 if depth < 3 else 5))
    if kind < 5:
        return [None, True, 0.5, 2, "cat\x1b[2J", -1, 1e300, "", float("nan")][int(draws.integers(9))]
    if kind < 7:
        names = [*_NAMES, "p0", "p1", "prob", "score", "a"]
        return {
            names[int(draws.integers(len(names)))]: odd_json(draws, depth + 1) for _ in range(int(draws.integers(1, 5)))
        }
    return [odd_json(draws, depth + 1) for _ in range(int(draws.integers(0, 4)))]


def odd_text(draws: Draws) -> bytes:
    """Make a table whose header, marks, quotes, encoding or lengths of rows are odd."""
    probs, labels = rows(draws, n=int(draws.integers(1, 30)))
    text = _csv(probs, labels, [",", ";", "\t", "|", " "][int(draws.integers(5))]).decode()
    kind = int(draws.integers(0, 8))
    if kind == 0:
        text = "\ufeff" + text
    elif kind == 1:
        text = text.replace("\n", "\r\n")
    elif kind == 2:
        text = text.replace("p0", '"p0\n"')
    elif kind == 3:
        text = text.partition("\n")[2]
    elif kind == 4:
        text = text.replace("label", ["label", "p1", "", "=cmd()", "\x1b[31mlabel", "weight"][int(draws.integers(6))])
    elif kind == 5:
        text = text.replace("0.", ",", int(draws.integers(1, 4)))
    elif kind == 6:
        text = '"' + text
    return text.encode(["utf-8", "utf-16", "latin-1", "utf-8"][int(draws.integers(4))], errors="replace")


def generated(draws: Draws) -> tuple[str, bytes]:
    """Make a file up: its name and content."""
    kind = int(draws.integers(0, 7))
    if kind == 0:
        return "odd.npz", odd_npz(draws)
    if kind == 1:
        return "odd.npy", odd_npy(draws)
    if kind == 2:
        return "odd.json", json.dumps(odd_json(draws)).encode()
    if kind == 3:
        return "odd.jsonl", "".join(
            json.dumps(odd_json(draws)) + "\n" for _ in range(int(draws.integers(1, 6)))
        ).encode()
    if kind == 4:
        return ["odd.csv", "odd.tsv", "odd.txt"][int(draws.integers(3))], odd_text(draws)
    names, formats = list(FORMATS), list(FORMATS.values())
    wrong, right = int(draws.integers(len(names))), int(draws.integers(len(names)))
    if kind == 5:  # one format under the name of another
        return names[wrong], formats[right](*rows(draws))
    n, k = int(draws.choice([1, 2, 3, 20])), int(draws.choice([1, 2, 9, 300]))
    return names[wrong], formats[wrong](*rows(draws, n, k)) if k == 3 or "packed" not in names[wrong] else b""
