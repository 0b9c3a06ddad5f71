"""Results on disk: one compressed file per study, and the page made of all of them.

::

    RESULTS.md              every claim with its verdict, rule, table and command; made of the files below
    results/
      forest.svg            all claims in one figure, made of the files below
      <study>.json.xz       {"format", "result", "runs"}
      <study>-<figure>.png  where somebody drew one here; the page shows it

``result`` is what was found: table, numbers, verdict, rule, command, cost, environment. ``runs`` holds what each run
recorded, without weights and predictions, so that figures can be drawn again. Nothing in a file names a machine or a
person, and what is written again without a change has the same bytes.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.evaluate import measures_of
from surefoot.records import RunFolder, write_bytes
from surefoot.registry import FIGURES, STUDIES
from surefoot.schema import SPLITS
from surefoot.statistics import Estimate, Spread
from surefoot.studies._plain import run_to_json, to_json
from surefoot.studies.contract import Column, Drawing, Row, Table, Verdict, order
from surefoot.studies.forest import forest_of
from surefoot.studies.pages import FOREST, MARK, is_finished, page_of
from surefoot.studies.reuse import unpack
from surefoot.studies.runner import Result, claim_of
from surefoot.studies.verdicts import read_numbers

FORMAT = "surefoot study 1"
SUFFIX = ".json.xz"
PAGE = "RESULTS.md"


@dataclass(frozen=True)
class SavedResult:
    """What a study found, read back from its file.

    Attributes:
        values: Question, source, rule, size, seeds, command, cost, environment and all else as plain values.
        runs: What each run recorded, by its name: ``spec``, ``data``, ``tracked``, ``measures`` and ``shift``.
    """

    values: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Any]]

    @property
    def verdict(self) -> Verdict:
        """Whether the claim held, and why."""
        return Verdict(**self.values["verdict"])

    @property
    def numbers(self) -> dict[str, Estimate]:
        """The numbers that the rule goes by."""
        return read_numbers(self.values)

    @property
    def table(self) -> Table:
        """Published beside measured."""
        table = self.values["table"]
        rows = [
            Row(
                row["label"],
                row["published"],
                {key: Spread(**found) for key, found in row["measured"].items() if found is not None},
            )
            for row in table["rows"]
        ]
        return Table(tuple(Column(**column) for column in table["columns"]), tuple(rows))

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """The figures that show it."""
        return tuple(Drawing(**drawing) for drawing in self.values["drawings"])

    def draw(self, out: Path | str) -> list[Path]:
        """Draw the study's figures.

        Args:
            out: Folder for the files, named such as ``a4-1-reliability.png``.

        Returns:
            The files; a figure whose quantities were not recorded is left out.

        Raises:
            InputError: If matplotlib is not installed.
        """
        from surefoot.report.paper import draw

        written = []
        with tempfile.TemporaryDirectory() as folder:
            for number, drawing in enumerate(self.drawings, start=1):
                shown = self._shown(drawing, Path(folder) / str(number))
                figure = drawing.figure.partition(":")[0]
                path = Path(out) / f"{file_name(self.values['study'])}-{number}-{figure}.png"
                if shown and draw(drawing.figure, shown, path):
                    written.append(path)
        return written

    def _shown(self, drawing: Drawing, folder: Path) -> list[RunFolder]:
        """Write the runs of a figure as folders.

        Runs of an arm are drawn together, though each seed has its own division of the data. Where each may have its
        own setting, it is called as the arm is. A figure that reads specs itself gets them as they are.
        """
        is_tuned = self.values["shown"] is not None
        every = self.values["shown"] if is_tuned else self.values["arms"]
        arms = {arm: names for arm, names in every.items() if arm.startswith(drawing.arms)}
        if FIGURES.read(drawing.figure)[0].facts.get("reads_specs"):
            return [unpack(self.runs[name], folder / name) for names in arms.values() for name in names]
        made = []
        for number, (arm, names) in enumerate(arms.items()):
            for name in names:
                run, first = self.runs[name], self.runs[names[0]]
                method = {**first["spec"]["method"], **({"label": arm} if is_tuned else {})}
                spec = {**first["spec"], "seed": run["spec"]["seed"], "method": method}
                made.append(unpack({**run, "spec": spec, "data": first["data"]}, folder / str(number) / name))
        return made


def load_result(path: Path | str) -> SavedResult:
    """Read a study's file.

    Args:
        path: Such as ``results/a4.json.xz``.

    Returns:
        What it holds.

    Raises:
        InputError: If it is not a file that ``surefoot study`` wrote.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"Expected the file of a study, but there is no {path}. Run `surefoot study` first.")
    try:
        found = json.loads(lzma.decompress(path.read_bytes()))
        is_ours = found["format"] == FORMAT
    except (lzma.LZMAError, ValueError, KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise InputError(
            f"Expected a file that `surefoot study` wrote, but {path} is another one. Choose another name."
        )
    return SavedResult(found["result"], found["runs"])


def file_name(study: str) -> str:
    """Return a study's name as it stands in file names; one of an import path has a colon."""
    return study.replace(":", "-")


def place_of(study: str, results: Path) -> Path:
    """Return where a study's file is."""
    return results / f"{file_name(study)}{SUFFIX}"


def write_result(result: Result, results: Path, command: str) -> Path:
    """Write a study's file.

    Args:
        result: What was found.
        results: Folder for the files of all studies.
        command: What makes it again.

    Returns:
        The file. One that holds the same already is not touched.
    """
    drawn = [FIGURES.read(drawing.figure)[0] for drawing in result.plan.study.drawings]
    needed = {("test", key) for figure in drawn for key in figure.facts.get("measures", ())} | result.runs.asked
    # The file holds no predictions to compute them from, and with more seeds another setting may be chosen: so every
    # run has what was read of any.
    for run, split in product(result.runs.all(), SPLITS):
        measures_of(run, sorted(key for place, key in needed if place == split), split=split)
    asked = needed | {("test", name) for name in result.runs.own}
    shifts = {run.path.name: shift for arm, shift in result.runs.shifts.items() for run in result.runs[arm].values()}
    followed = None if any(figure.facts.get("is_along_training") for figure in drawn) else result.runs.followed
    runs = {run.path.name: run_to_json(run, asked, followed, shifts.get(run.path.name)) for run in result.runs.all()}
    path = place_of(result.plan.name, results)
    write_file(path, to_json(result, command), runs)
    return path


def write_file(path: Path, result: Mapping[str, Any], runs: Mapping[str, Any]) -> None:
    """Write a result and its runs, compressed; whatever version of the compressor wrote the same before is kept."""
    content = {"format": FORMAT, "result": result, "runs": dict(sorted(runs.items()))}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    if path.exists() and lzma.decompress(path.read_bytes()) == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, lzma.compress(text, preset=9))


def read_results(results: Path) -> list[SavedResult]:
    """Read all results in the order of their claims.

    Args:
        results: Folder with the files of studies.

    Returns:
        One each.

    Raises:
        InputError: If there are none.
    """
    found = [load_result(path) for path in results.glob(f"*{SUFFIX}")]
    if not found:
        raise InputError(f"Expected results, but {results} holds none. Run `surefoot study all` first.")
    return sorted(found, key=lambda saved: order(saved.values["study"]))


def check_results(results: Path, studies: list[str]) -> None:
    """Refuse to replace what surefoot did not write; asked before any run is made.

    Args:
        results: Folder for the files of studies; the page goes beside it.
        studies: Names of those that are about to be written.

    Raises:
        InputError: If there is such a file.
    """
    page = place_of_page(results)
    if page.exists() and not page.read_bytes().startswith(MARK.encode()):
        raise InputError(
            f"Expected {page} to be free or a page that `surefoot study` wrote, but it is another file. "
            "Choose another --results, or move it away."
        )
    for path in (place_of(name, results) for name in studies):
        if path.exists():
            load_result(path)


def write_page(results: Path) -> Path:
    """Write ``RESULTS.md`` beside the folder of results and its figure into it, out of nothing else.

    Args:
        results: Folder with the files of studies.

    Returns:
        The page.

    Raises:
        InputError: If there are no results, or a file in its place that surefoot did not write.
    """
    check_results(results, [])
    page = place_of_page(results)
    write_bytes(results / FOREST, forest_text(results).encode())
    write_bytes(page, page_text(results).encode())
    return page


def forest_text(results: Path) -> str:
    """Return the figure of all finished results in a folder, as SVG."""
    return forest_of([saved.values for saved in read_results(results) if is_finished(saved.values)])


def page_text(results: Path) -> str:
    """Return the page of all results in a folder, with the figures that lie beside their files.

    Args:
        results: Folder with the files of studies.

    Returns:
        Markdown.
    """
    found = [saved.values for saved in read_results(results)]
    names = [values["study"] for values in found]
    figures = {name: sorted(path.name for path in results.glob(f"{file_name(name)}-*.png")) for name in names}
    missing = [claim_of(part.name) for part in STUDIES if part.source is None and part.name not in names]
    return page_of(found, results.name, figures, sorted(missing, key=order))


def place_of_page(results: Path) -> Path:
    """Return where the page of a folder of results is."""
    return results.resolve().parent / PAGE
