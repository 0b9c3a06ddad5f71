"""Files parsed by pyarrow hold what the plain readers find in them, and are refused with the same words."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.sources import _fast, readers
from surefoot.sources._fast import blocks_of_lines

pytest.importorskip("pyarrow")
NAMES = ["text", "p0", "p1", "label"]
NUMBERS = ["p0", "p1", "label"]
TEXTS = ["plain", 'a "quoted" word', "two\nlines", "comma, and\r\nline", "", 'ends with quote"', "é\n\n\n"]


def rows(n: int) -> list[dict[str, object]]:
    draw = np.random.default_rng(0)
    p = draw.random(n).round(6)
    return [{"text": TEXTS[i % 7], "p0": x, "p1": round(1 - x, 6), "label": i % 2} for i, x in enumerate(p.tolist())]


def write_csv(path: Path, made: list[dict[str, object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, NAMES)
        writer.writeheader()
        writer.writerows(made)
    return path


def write_jsonl(path: Path, made: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return path


def read(path: Path, names: list[str] = NAMES) -> dict[str, list[object]]:
    numbers = [name for name in names if name in NUMBERS]
    found: dict[str, list[object]] = {name: [] for name in names}
    for columns, _ in readers.read_table(path)(3, names, numbers):
        for name, values in columns.items():
            found[name] += [float(v) if name in numbers else v for v in values]
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 40, 64, 200, 1 << 22])
@pytest.mark.parametrize(("suffix", "write"), [(".csv", write_csv), (".jsonl", write_jsonl)])
def test_whatever_a_block_ends_in(tmp_path, monkeypatch, fast, suffix, write, size) -> None:
    monkeypatch.setattr(_fast, "_BYTES", size)
    monkeypatch.setattr(_fast, "_BLOCKS", 1000)
    made = rows(40)
    found = read(write(tmp_path / f"made{suffix}", made))
    assert found == {name: [row[name] for row in made] for name in NAMES}


@pytest.mark.parametrize("size", [3, 10, 50])
def test_blocks_end_with_lines_and_outside_quotes(monkeypatch, size) -> None:
    monkeypatch.setattr(_fast, "_BYTES", size)
    text = b'1,"a\nb"\n2,"c\n\n\nd"\n3,e\n4,"f""\n""g"\n5,h'
    found = list(blocks_of_lines(io.BytesIO(text), quotes=True))
    assert b"".join(found) == text
    assert all(block.endswith(b"\n") and block.count(b'"') % 2 == 0 for block in found[:-1])


def test_pyarrow_parses_these_files_at_all(tmp_path) -> None:
    """Else the comparison above would be one of the plain readers with themselves."""
    block = write_csv(tmp_path / "made.csv", rows(9)).read_bytes().partition(b"\n")[2]
    assert _fast.parse_csv(block, NAMES, ",", NAMES, NUMBERS) is not None
    block = write_jsonl(tmp_path / "made.jsonl", rows(9)).read_bytes()
    found = _fast.parse_jsonl(block, ["p0", "text"])
    assert found is not None
    assert list(found) == ["p0", "text"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("short.csv", "p0,p1,label\n0.5,0.5,1\n0.5,1\n", "Expected 3 values per row"),
        ("cut.jsonl", '{"p0": 1, "p1": 0, "label": 0}\n{"p0": 1, "p1"', "line 2 of cut.jsonl"),
        ("two.jsonl", '{"p0": 1, "p1": 0, "label": 0} {"p0": 1, "p1": 0, "label": 0}\n', "line 1 of two.jsonl.*Extra"),
        ("key.jsonl", '{"p0": 1, "p1": 0, "label": 0, "p0": 2}\n', "line 1 of key.jsonl.*'p0' comes twice"),
    ],
)
def test_bad_files_are_refused_in_the_same_words(tmp_path, fast, name, text, message) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read(path, NUMBERS)
    assert "\n" not in str(error.value)


def test_a_quote_that_never_closes_is_one_clear_line_and_bounded_memory(tmp_path, monkeypatch, fast) -> None:
    monkeypatch.setattr(_fast, "_BYTES", 1 << 16)
    path = tmp_path / "open.csv"
    line = "plain,0.25,0.75,1\n"
    path.write_text("text,p0,p1,label\n" + 100 * line + '"open,0.25,0.75,1\n' + 600_000 * line)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"open\.csv cannot be read \(field larger") as error:
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert peak < path.stat().st_size / 3


@pytest.mark.parametrize("text", ['"open,0.25,0.75,1\nplain,0.5,0.5,0\n', '"open'])
def test_a_quote_still_open_at_the_end(tmp_path, fast, text) -> None:
    path = tmp_path / "end.csv"
    path.write_text("text,p0,p1,label\nplain,0.5,0.5,0\n" + text)
    with pytest.raises(InputError, match="Expected 4 values per row"):
        read(path)


def test_a_lone_inch_mark_is_no_quote(tmp_path, monkeypatch, fast) -> None:
    monkeypatch.setattr(_fast, "_BYTES", 64)
    path = tmp_path / "inch.csv"
    path.write_text("text,p0,p1,label\n" + 'x 5" pipe,0.25,0.75,1\n' + 100 * "plain,0.5,0.5,0\n")
    found = read(path)
    assert found["text"] == ['x 5" pipe', *100 * ["plain"]]
    assert found["p0"] == [0.25, *100 * [0.5]]
