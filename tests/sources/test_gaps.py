"""A missing value: how many rows, which, in which columns and what to do, in every format and by every reader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing import audit
from surefoot.errors import InputError
from surefoot.sources import _fast, open_predictions
from tests.auditing.made import made, softmax

N = 500
LOGITS, LABELS = made(N)
PROBS = softmax(LOGITS).round(6)
SAYS = (
    "7 of 500 rows have a gap, NaN or infinity (rows 70, 140, 141, 210, 280, …; in {p0} 4×, {p2} 2×, {label} 2×) in "
    "{file}. Leave these rows out with --skip-missing, or fill in what is missing."
)
P0, P2, LABEL = (70, 140, 210, 280), (141, 280), (350, 420)
SPELLINGS = ("", "NA", "nan", "null")


def holes() -> tuple[np.ndarray, np.ndarray]:
    probs, labels = PROBS.copy(), LABELS.astype(float)
    probs[list(P0), 0] = probs[list(P2), 2] = labels[list(LABEL)] = np.nan
    return probs, labels


def message(path: Path, array: bool = False, label: str = "label") -> str:
    p0, p2 = ("'probs[0]'", "'probs[2]'") if array else ("'p0'", "'p2'")
    return SAYS.format(p0=p0, p2=p2, label=repr(label), file=path.name)


def check(path: Path, says: str) -> None:
    with pytest.raises(InputError) as error:
        audit(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [1 << 22, 700], ids=["one block", "many blocks"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_csv(tmp_path: Path, fast: bool, spelling: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fast, "_BYTES", size)
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 150)
    probs, labels = holes()
    rows = ["label,p0,p1,p2"]
    for p, y in zip(probs, labels, strict=True):
        rows.append(",".join(spelling if np.isnan(v) else f"{v:g}" for v in (y, *p)))
    path = tmp_path / "a.csv"
    path.write_text("\n".join(rows))
    check(path, message(path))


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "columns"])
@pytest.mark.parametrize("how", ["null", "NaN", "no key"])
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_json(tmp_path: Path, fast: bool, suffix: str, how: str, lists: bool) -> None:
    probs, labels = holes()
    gap = float("nan") if how == "NaN" else None
    rows = []
    for p, y in zip(probs.tolist(), labels.tolist(), strict=True):
        values = [gap if np.isnan(v) else v for v in p]
        row: dict[str, object] = {"label": gap if np.isnan(y) else int(y)}
        row |= {"probs": values} if lists else {f"p{k}": v for k, v in enumerate(values)}
        rows.append({k: v for k, v in row.items() if v is not None} if how == "no key" else row)
    path = tmp_path / f"a.{suffix}"
    path.write_text(json.dumps(rows) if suffix == "json" else "".join(json.dumps(row) + "\n" for row in rows))
    check(path, message(path, lists))


def test_json_of_columns_npz_npy_and_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    probs, labels = holes()
    path = tmp_path / "columns.json"
    path.write_text(json.dumps({"probs": probs.tolist(), "labels": labels.tolist()}).replace("NaN", "null"))
    check(path, message(path, True, "labels"))
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels)
    check(tmp_path / "a.npz", message(tmp_path / "a.npz", True, "labels"))
    np.save(tmp_path / "probs.npy", probs)
    np.save(tmp_path / "labels.npy", labels)
    check(
        tmp_path / "probs.npy",
        "7 of 500 rows have a gap, NaN or infinity (rows 70, 140, 141, 210, 280, …; in 'column 0'",
    )
    rows = [None if np.isnan(y) else int(y) for y in labels]
    columns = {f"p{k}": pyarrow.array(probs[:, k], from_pandas=True) for k in range(3)}
    parquet.write_table(pyarrow.table({**columns, "label": pyarrow.array(rows)}), tmp_path / "a.parquet")
    check(tmp_path / "a.parquet", message(tmp_path / "a.parquet"))
    lists = [[None if np.isnan(v) else v for v in row] for row in probs.tolist()]
    parquet.write_table(pyarrow.table({"probs": lists, "label": rows}), tmp_path / "b.parquet")
    check(tmp_path / "b.parquet", message(tmp_path / "b.parquet", True))


def test_gaps_in_the_first_rows_hide_no_column(tmp_path: Path, fast: bool) -> None:
    """Columns that are called as the classes are known by their values: a gap does not make one disappear."""
    (tmp_path / "a.csv").write_text("label,cat,dog,bird\ncat,0.9,0.1,\n" + "dog,0.1,0.8,0.1\nbird,0,0,1\n" * 20)
    with pytest.raises(InputError, match=r"1 of 41 rows has a gap, NaN or infinity \(row 0; in 'bird' 1×\)"):
        open_predictions(tmp_path / "a.csv")


def test_labels_outside_the_classes_are_counted_too(tmp_path: Path) -> None:
    labels = LABELS.copy()
    labels[[5, 77, 300, 400]] = -100
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=labels)
    with pytest.raises(
        InputError, match=r"in 0…2, but 4 of 500 rows have others: row 5 has -100, row 77 has -100, row 3"
    ):
        audit(tmp_path / "a.npz")


def test_rows_without_a_group_are_a_group(tmp_path: Path, fast: bool) -> None:
    rows = [f"{y},{p[0]},{p[1]},{p[2]},{'north' if y else ''}" for y, p in zip(LABELS, PROBS, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["label,p0,p1,p2,site", *rows]))
    (found,) = audit(tmp_path / "a.csv", groups=["site"])
    assert {each.value for each in found.slices} == {"north", "(missing)"}
