"""Results as Markdown: a section per study, below one line per claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from surefoot.report.numbers import show_count, show_seconds
from surefoot.studies.choices import choices_of
from surefoot.studies.contract import sentence
from surefoot.studies.forest import due_to, headline_of, show_measured, show_published
from surefoot.studies.papers import is_asked_here, papers_of
from surefoot.studies.verdicts import deciding, read_numbers, show

MARK = "<!-- Written by `surefoot study results`; what is changed here is lost. -->\n"
FOREST = "forest.svg"
Values = Mapping[str, Any]


def page_of(
    results: Sequence[Values], folder: str, figures: Mapping[str, Sequence[str]], missing: Sequence[str] = ()
) -> str:
    """Write the page of all claims: in short by paper, in one figure, in a table, and then what each line rests on.

    Args:
        results: What each study found.
        folder: Where their files are, seen from the page.
        figures: Files of figures that are there too, by study; the page shows them.
        missing: Claims that have no result here.

    Returns:
        Markdown.
    """
    heads = ("claim", "what is claimed", "verdict", "number", "published", "measured", "same setting?", "seeds")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    begun = [values for values in results if not is_finished(values)]
    results = [values for values in results if is_finished(values)]
    lines += [f"| {' | '.join(map(_plain, _cells(values)))} |" for values in results]
    parts = [
        f"{MARK}\n# Results",
        *papers_of(results),
        f"![What was published beside what was measured, claim by claim]({folder}/{FOREST})",
        "A claim *held* where the intervals of all its parts lie on its side; it is *contradicted* where one lies on "
        "the other side in the published setting or in that of a question asked here, and *did not transfer* where "
        "that is so in another one (where a difference was published, many rules count less than a third of it as the "
        "other side); else it is *underpowered*, and the reason says how many seeds would tell. One number stands for "
        "each claim, in the figure and in the table; differences of errors and accuracies are in percentage points. "
        "T is a temperature fitted on the calibration split, TCE the ECE behind it, KCE the kernel calibration error, "
        "NLL the negative log-likelihood, OOD what is out of distribution, and *auto* an option that tunes itself on "
        "held-out rows.",
        "\n".join(lines),
        *([f"Begun, and not judged before all runs are made: {', '.join(map(progress, begun))}."] if begun else []),
        *([f"Not run yet: {', '.join(missing)}."] if missing else []),
        "Below stand the rule of each with the day on which it was fixed, all its numbers and the command. "
        f"`surefoot study show {(results or begun)[0]['claim']} --out figures` draws the figures of one from its file "
        f"in [{folder}]({folder}), which holds the records of its runs too.",
        *(_section(values, [f"{folder}/{name}" for name in figures.get(values["study"], ())]) for values in results),
    ]
    return "\n\n".join(parts) + "\n"


def is_finished(values: Values) -> bool:
    """Return whether a study has all its runs, but for those that failed."""
    return not values.get("missing", 0)


def progress(values: Values) -> str:
    """Say how many of its runs a study still has to make."""
    n = values.get("missing", 0)
    return f"{values['claim']} ({n} run{'s' * (n != 1)} to be made)"


def _cells(values: Values) -> tuple[str, ...]:
    """Write a study's line of the table."""
    found = headline_of(values)
    number, published, measured = "", "", ""
    if found is not None:
        number, published, measured = found[0].number, show_published(found[0]), show_measured(*found)
    return (
        f"[{values['claim']}](#{_anchor(_title(values))})",
        values["statement"],
        values["verdict"]["outcome"] + (f", due to {due}" if (due := due_to(values)) else ""),
        number,
        published,
        measured or _brief(values["verdict"]["reason"]),
        _setting(values),
        _n_seeds(values),
    )


def _setting(values: Values) -> str:
    if is_asked_here(values):
        return "asked here"
    return f"no: {values['differs']}" if values["differs"] else "yes"


def _section(values: Values, figures: Sequence[str]) -> str:
    """Write one study: verdict, rule, table, numbers, figures, and how to make it again."""
    cost = values["cost"]
    parts = [
        f"## {_title(values)}",
        values["question"],
        f"*{_capital(values['verdict']['outcome'])}.* {sentence(values['verdict']['reason'])}",
        rule_of(values, mark="*"),
        f"*Published:* {values['source'] or 'nothing'}. *Measured:* {measured_on(values)}, mean ± sd.",
        _table(values["table"]),
        *(["Chosen by NLL on the calibration split:", _list(choices)] if (choices := choices_of(values)) else []),
        "Numbers that the rule goes by:",
        _list(f"{name}: {number}" for name, number in numbers_of(values)),
        _list(failures_of(values)),
        *(f"![{PurePath(figure).stem}]({figure})" for figure in figures),
        f"```bash\n{values['command']}\n```",
        f"{cost['runs']} runs, {show_count(cost['passes'])} gradient passes, {show_seconds(cost['seconds'])} of one "
        f"core, runs shared with other studies included. {_environment(values['environment'])}",
    ]
    return "\n\n".join(part for part in parts if part)


def rule_of(values: Values, *, mark: str = "") -> str:
    """Write a study's rule and when it was fixed."""
    when = f", {values['fixed']}; judged on seeds {_seeds(values['seeds'])}" if values["fixed"] else ""
    return f"{mark}Rule{when}:{mark} {values['rule']}"


def _seeds(seeds: Sequence[int]) -> str:
    """Write seeds, those in a row by their ends.

    Example:
        >>> _seeds([30, 31, 32, 60, 61, 70])
        '30 to 32, 60 to 61, 70'
    """
    rows: list[list[int]] = []
    for seed in seeds:
        if rows and seed == rows[-1][-1] + 1:
            rows[-1].append(seed)
        else:
            rows.append([seed])
    return ", ".join(f"{row[0]} to {row[-1]}" if len(row) > 1 else f"{row[0]}" for row in rows)


def _n_seeds(values: Values) -> str:
    """Write how many seeds the arms have; those that failed are told elsewhere."""
    failed = values["failed"]
    found = sorted({len(runs) + len(failed.get(arm, ())) for arm, runs in values["arms"].items()})
    return " or ".join(map(str, found))


def table_of(table: Values) -> tuple[list[str], list[list[str]]]:
    """Write a table as text: its heads, then its rows; a quantity that was published has two columns."""
    columns = table["columns"]
    printed = [c for c in columns if any(row["published"].get(c["key"]) is not None for row in table["rows"])]
    heads = [""]
    for column in columns:
        heads += [f"{column['label']}, published"] if column in printed else []
        heads.append(f"{column['label']}, measured")
    rows = []
    for row in table["rows"]:
        cells = [row["label"]]
        for column in columns:
            cells += [_number(row["published"].get(column["key"]))] if column in printed else []
            cells.append(_spread(row["measured"].get(column["key"]), column))
        rows.append(cells)
    return heads, rows


def numbers_of(values: Values) -> list[tuple[str, str]]:
    """Write the numbers that the rule goes by, with their intervals."""
    return [(name, show(number)) for name, number in read_numbers(values).items()]


def failures_of(values: Values) -> list[str]:
    """Write which runs failed, and why."""
    return [f"{arm}, seed {seed}: {text}" for arm, found in values["failed"].items() for seed, text in found.items()]


def measured_on(values: Values) -> str:
    """Say on what a study ran, and how often."""
    setting, n_seeds = values["setting"], _n_seeds(values)
    if not setting:
        return "no run finished"
    others = setting.get("others", ())
    places = "; ".join(map(_place, (setting, *others)))
    return f"{places}{';' if others else ','} {n_seeds} seed{'s' if n_seeds != '1' else ''}"


def _place(setting: Values) -> str:
    n = setting["examples"]
    lengths = " or ".join(f"{epochs} epochs in batches of {batch_size}" for epochs, batch_size in setting["lengths"])
    return f"{_data(setting['data'])} ({n['train']} train, {n['test']} test), {setting['model']}, {lengths}"


def _data(text: str) -> str:
    """Write data as on the command line; what each seed divides anew says so.

    Example:
        >>> _data("redivided:of=cifar10:n_train=5000;n_test=4000,seed=10,test=true")
        'cifar10:n_train=5000,n_test=4000, divided anew by each seed'
    """
    found = re.fullmatch(r"redivided:of=(.*),seed=\d+,test=(?:true|false)", text)
    return f"{found[1].replace(';', ',')}, divided anew by each seed" if found else text


def _title(values: Values) -> str:
    return f"{values['claim']}: {values['verdict']['outcome']}"


def _anchor(title: str) -> str:
    """Return the name under which a heading can be linked to: lower case, spaces as hyphens, no other signs."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _table(table: Values) -> str:
    heads, rows = table_of(table)
    lines = [f"| {' | '.join(map(_plain, cells))} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}".replace("-", "−")


def _spread(spread: Values | None, column: Values) -> str:
    if spread is None:
        return ""
    scale, digits = 100 if column["percent"] else 1, column["digits"]
    text = f"{scale * spread['mean']:.{digits}f}"
    text = text if spread["sd"] is None else f"{text} ± {scale * spread['sd']:.{digits}f}"
    return text.replace("-", "−")


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"* {_plain(item)}" for item in items)


def _brief(reason: str) -> str:
    """Return the parts of a reason that decide, at most two; the study's own section has the others."""
    parts, has_others = deciding(reason)
    return "; ".join(parts[:2]) + ("; …" if has_others or len(parts) > 2 else "")


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _environment(environment: Values) -> str:
    packages = environment.get("packages", {})
    versions = [f"surefoot {environment['surefoot']}", *(f"{name} {version}" for name, version in packages.items())]
    where = (
        f"{environment.get('system', '')}, {environment.get('threads', '?')} thread, {environment.get('device', '')}"
    )
    return f"{', '.join(versions)}; {where}."
