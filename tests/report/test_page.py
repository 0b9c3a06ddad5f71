"""The page as text: well-formed, self-contained, safe, and whole where something is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

from surefoot.records import RunFolder
from surefoot.report.marks import N_COLORS
from surefoot.report.page import write_page
from surefoot.report.summary import Summary, summarise
from tests.report.browser import unpacked
from tests.runs import BINS, fake_run

VOID = {"meta", "link", "input", "br", "img", "hr", "path"}
NASTY = "</script><script>alert(1)</script><b>"


@dataclass
class Document(HTMLParser):
    """Reads a page strictly: what is opened must be closed, in order."""

    opened: list[str] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        tag = self.opened[-1] if self.opened else ""
        self.texts[tag] = self.texts.get(tag, "") + data

    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.elements if "id" in attributes]


def read(page: Path) -> Document:
    document = Document()
    document.feed(page.read_text(encoding="utf-8"))
    document.close()
    assert document.opened == []
    return document


def figures(page: Path) -> dict[str, dict[str, dict[str, list[dict]]]]:
    return {figure["id"]: figure["views"] for figure in json.loads(unpacked(page, "figures"))}


def make(folder: Path, runs: list[RunFolder], **options: str) -> Path:
    return write_page(summarise(runs), folder / "report.html", **options)


@pytest.fixture
def runs(tmp_path: Path) -> list[RunFolder]:
    return [fake_run(tmp_path / "runs", method, seed) for method in ("sgd", "sam") for seed in (0, 1, 2)]


def test_well_formed_with_every_figure_in_its_place(tmp_path: Path, runs: list[RunFolder]) -> None:
    page = make(tmp_path, runs)
    ids = read(page).ids()
    wanted = {"reliability-0", "reliability-1", "curve-loss", "curve-accuracy", "curve-ece"}
    assert set(figures(page)) == wanted
    assert wanted <= set(ids)
    assert len(ids) == len(set(ids))


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path, runs: list[RunFolder]) -> None:
    page = make(tmp_path, runs)
    for tag, attributes in read(page).elements:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            assert not str(attributes.get(name) or "").startswith(("http", "//")), (tag, attributes)
    text = page.read_text(encoding="utf-8")
    assert "@import" not in text.partition("</style>")[0]
    assert "url(" not in text.partition("</style>")[0]
    assert unpacked(page, "plotly").startswith("/* plotly.js v")


def test_labels_and_options_from_users_stay_text(tmp_path: Path) -> None:
    run = fake_run(tmp_path, NASTY, options={"path": NASTY}, classes=(NASTY, "b"))
    page = make(tmp_path, [run], title=NASTY, command=NASTY)
    document, text = read(page), page.read_text(encoding="utf-8")
    assert NASTY not in text
    tame = read(make(tmp_path / "tame", [fake_run(tmp_path / "tame", "sgd")], command="x"))
    for tag in ("script", "b"):
        assert [tag for tag, _ in document.elements].count(tag) == [tag for tag, _ in tame.elements].count(tag)
    names = [trace["name"] for trace in figures(page)["curve-loss"][""]["data"] if "name" in trace]
    assert names
    assert all("<" not in name and "&lt;script&gt;" in name for name in names)


def test_title_verdict_command_sizes_and_options_are_told(tmp_path: Path, runs: list[RunFolder]) -> None:
    text = make(tmp_path, runs, command="surefoot compare --seeds 3").read_text(encoding="utf-8")
    for told in (
        "<h1>sgd and sam on toy</h1>",
        "Chosen on the calibration split: sgd. On test: ECE 5.0 %",
        "surefoot compare --seeds 3",
        "100 train, 10 calibration, 10 test",
        "mlp:width=4",
        "sam:lr=0.1",
        "torch 2.9.0",
        "6 runs · 120 gradient passes · 9.0 s",
        'scope="row"',
    ):
        assert told in text
    assert "<h1>My own</h1>" in make(tmp_path, runs, title="My own").read_text(encoding="utf-8")


def test_table_has_percent_best_and_interval(tmp_path: Path) -> None:
    runs = [fake_run(tmp_path, "sgd", seed, measures={"ece": 0.1 + 0.01 * seed}) for seed in (0, 1, 2)]
    runs += [fake_run(tmp_path, "sam", seed, measures={"ece": 0.05}) for seed in (0, 1, 2)]
    text = make(tmp_path, runs).read_text(encoding="utf-8")
    assert "11.00 ± 1.00" in text
    assert "best on the calibration split: </span>5.00 ± 0.00" in text
    plain = re.sub(r"<[^>]+>", "", text.partition("<script type")[0])
    assert "−6.00 (−8.48…−3.52)" in plain  # half width 4.3027 · 1 / √3
    assert ", excludes zero" in text


def test_bins_are_pooled_over_seeds(tmp_path: Path) -> None:
    other = {"count": [0, 6, 0], "confidence": [None, 0.3, None], "accuracy": [None, 1.0, None]}
    runs = [fake_run(tmp_path, "sgd", seed, bins={None: bins}) for seed, bins in enumerate((BINS, other))]
    bars = figures(make(tmp_path, runs))["reliability-0"][""]["data"][0]
    assert bars["customdata"] == [[8, pytest.approx(0.35), pytest.approx(0.875)], [8, 0.9, 0.75]]


def test_gaps_are_shaded_on_the_right_side(tmp_path: Path) -> None:
    bins = {"count": [4, 4], "confidence": [0.3, 0.9], "accuracy": [0.5, 0.6]}
    data = figures(make(tmp_path, [fake_run(tmp_path, bins={None: bins})]))["reliability-0"][""]["data"]
    over, under = data[1], data[2]
    assert (over["y"], over["base"][1]) == ([None, pytest.approx(0.3)], 0.6)
    assert (under["y"], under["base"][0]) == ([pytest.approx(0.2), None], 0.3)


def test_curves_are_means_with_a_band_over_seeds(tmp_path: Path, runs: list[RunFolder]) -> None:
    data = figures(make(tmp_path, runs))["curve-loss"][""]["data"]
    band = data[0]
    line = next(trace for trace in data if trace.get("name") == "sgd, test")
    assert line["x"] == [0, 1, 2]
    assert line["y"] == pytest.approx([2.01, 1.91, 1.81])  # seeds add 0, 0.01 and 0.02
    assert (band["y"][0], band["y"][-1]) == pytest.approx((2.0, 2.02))
    assert line["line"]["dash"] == "solid"


def test_a_method_has_one_colour_in_all_figures(tmp_path: Path, runs: list[RunFolder]) -> None:
    drawn = figures(make(tmp_path, runs))
    for index, label in enumerate(("sgd", "sam")):
        lines = [
            trace["line"]["color"]
            for name in ("curve-loss", "curve-accuracy", "curve-ece")
            for trace in drawn[name][""]["data"]
            if trace.get("name", "").startswith(f"{label},")
        ]
        bars = drawn[f"reliability-{index}"][""]["data"][0]["marker"]["color"]
        assert lines == [f"--method-{index}"] * 6
        assert bars.startswith(f"--method-{index}/")


def test_every_colour_is_defined_for_light_and_dark(tmp_path: Path, runs: list[RunFolder]) -> None:
    text = make(tmp_path, runs).read_text(encoding="utf-8")
    style, data = text.partition("</style>")[0], json.dumps(figures(tmp_path / "report.html"))
    used = set(re.findall(r'"(--[\w-]+)(?:/[\d.]+)?"', data)) | {f"--method-{index}" for index in range(N_COLORS)}
    assert len(used) > N_COLORS
    assert {name: len(re.findall(rf"{name}: #[0-9a-f]{{6}};", style)) for name in used} == dict.fromkeys(used, 2)


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"quality": False}, {"curve-loss", "curve-accuracy", "curve-ece"}),
        ({"bins": {}}, {"reliability-0"}),
        ({"tce": None}, set()),
        ({"measures": {}}, set()),
    ],
)
def test_a_missing_piece_leaves_the_rest_whole(tmp_path: Path, options: dict, missing: set[str]) -> None:
    page = make(tmp_path, [fake_run(tmp_path, **options)])
    every = {"reliability-0", "curve-loss", "curve-accuracy", "curve-ece"}
    assert set(figures(page)) == every - missing
    assert not missing & set(read(page).ids())
    assert "What the words mean" in page.read_text(encoding="utf-8")


def test_values_that_are_not_finite_do_not_break_the_data(tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    run.append_steps([{"step": 20, "epoch": 2, "tracker": "quality", "test/loss": float("nan"), "test/ece": None}])
    page = make(tmp_path, [run])
    assert "NaN" not in unpacked(page, "figures")
    assert set(figures(page)) >= {"curve-loss"}


def test_missing_environment_and_no_runs_at_all(tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    (run.path / "environment.json").unlink()
    assert "Software" not in read(make(tmp_path, [run])).texts["dt"]
    assert "There are no runs" in write_page(Summary(()), tmp_path / "none.html").read_text(encoding="utf-8")


def test_run_folders_are_named_as_seen_from_the_page(tmp_path: Path) -> None:
    run = fake_run(tmp_path / "here" / "runs")
    near = make(tmp_path / "here", [run]).read_text(encoding="utf-8")
    assert f'href="./runs/{run.path.name}/"' in near
    far = make(tmp_path / "a" / "b" / "c", [run]).read_text(encoding="utf-8")
    assert run.path.name in far
    for text in (near, far):
        assert str(tmp_path) not in text
        assert "../.." not in text.partition("<script type")[0]


def test_report_imports_no_torch() -> None:
    modules = "page", "tables", "summary", "facts", "figures"
    code = f"import sys, {', '.join(f'surefoot.report.{name}' for name in modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert subprocess.run([sys.executable, "-c", f"import torch; {code}"], check=False).returncode == 1
