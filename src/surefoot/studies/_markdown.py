"""Results as Markdown: a page per study, and one line per claim."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.report.numbers import show_count, show_seconds
from surefoot.statistics import NOTHING, Estimate
from surefoot.studies.contract import sentence
from surefoot.studies.verdicts import show as show_estimate

Values = Mapping[str, Any]


def result_page(values: Values) -> str:
    """Write one study's page: verdict, rule, table, numbers, figures, and how to make it again."""
    setting, cost = values["setting"], values["cost"]
    parts = [
        f"# {values['claim']}: {values['verdict']['outcome']}",
        values["question"],
        f"**{_capital(values['verdict']['outcome'])}.** {sentence(values['verdict']['reason'])}",
        f"*Rule, written before the runs:* {values['rule']}",
        "## Published and measured",
        f"Published: {values['source']}. Measured: {_where(setting)}, {_seeds(values['seeds'])}, mean ± sd.",
        table_of(values["table"]),
        "## Numbers that the rule goes by",
        _list(f"{name}: {show_estimate(number)}" for name, number in read_numbers(values).items()),
        _list(f"{arm}, seed {seed}: {text}" for arm, found in values["failed"].items() for seed, text in found.items()),
        *(f"![{figure.partition('.')[0]}]({figure})" for figure in values["figures"]),
        "## How",
        f"```bash\n{values['command']}\n```",
        f"{cost['runs']} runs, {show_count(cost['passes'])} gradient passes, {show_seconds(cost['seconds'])} of one "
        f"core, runs shared with other studies included. {_environment(values['environment'])}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def read_numbers(values: Mapping[str, Any]) -> dict[str, Estimate]:
    """Read back the numbers that a verdict went by."""
    found = values["numbers"].items()
    return {name: Estimate(**number) if number["value"] is not None else NOTHING for name, number in found}


def page_of(results: Sequence[Values], folder: str) -> str:
    """Write the page of all claims, one line each."""
    counted = {
        outcome: sum(values["verdict"]["outcome"] == outcome for values in results)
        for outcome in ("held", "did not hold", "not resolved")
    }
    head = [
        "# Results",
        "Every claim that was rerun, and what came of it; made from the folder "
        f"[{folder}]({folder}) by `surefoot study results`. Each line leads to the table, the rule that was written "
        "down before the runs, the figures and the command.",
        f"{counted['held']} held, {counted['did not hold']} did not hold, {counted['not resolved']} not resolved.",
    ]
    lines = ["| claim | question | verdict | seen | size, seeds | cost |", "|---|---|---|---|---|---|"]
    for values in results:
        link = f"[{values['claim']}]({folder}/{values['study']}/README.md)"
        reason = _plain(_brief(values["verdict"]["reason"]))
        size = f"{values['size']}, {len(values['seeds'])}"
        cost = f"{values['cost']['runs']} runs, {show_seconds(values['cost']['seconds'])}"
        cells = (link, _plain(values["question"]), values["verdict"]["outcome"], reason, size, cost)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n\n".join([*head, "\n".join(lines)]) + "\n"


def table_of(table: Values) -> str:
    """Write a table; a quantity that was published has two columns."""
    columns = table["columns"]
    printed = [c for c in columns if any(row["published"].get(c["key"]) is not None for row in table["rows"])]
    heads = [""]
    for column in columns:
        heads += [f"{column['label']}, published"] if column in printed else []
        heads.append(f"{column['label']}, measured")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in table["rows"]:
        cells = [_plain(row["label"])]
        for column in columns:
            cells += [_number(row["published"].get(column["key"]))] if column in printed else []
            cells.append(_spread(row["measured"].get(column["key"]), column))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}".replace("-", "−")


def _spread(spread: Values | None, column: Values) -> str:
    if spread is None:
        return ""
    scale, digits = 100 if column["percent"] else 1, column["digits"]
    text = f"{scale * spread['mean']:.{digits}f}"
    text = text if spread["sd"] is None else f"{text} ± {scale * spread['sd']:.{digits}f}"
    return text.replace("-", "−")


def _list(items: Any) -> str:
    return "\n".join(f"* {_plain(item)}" for item in items)


def _brief(reason: str) -> str:
    """Return the parts of a reason that decide, at most two; the study's own page has the others."""
    deciding, *others = re.split(r"\. (?=(?:Not resolved|Held): )|; of the other parts ", reason)
    parts = deciding.split("; ")
    return "; ".join(parts[:2]) + ("; …" if others or len(parts) > 2 else "")


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _seeds(seeds: Sequence[int]) -> str:
    return "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"


def _where(setting: Values) -> str:
    if not setting:
        return "no run finished"
    n = setting["examples"]
    lengths = " or ".join(f"{epochs} epochs in batches of {batch_size}" for epochs, batch_size in setting["lengths"])
    return f"{setting['data']} ({n['train']} train, {n['test']} test), {setting['model']}, {lengths}"


def _environment(environment: Values) -> str:
    packages = environment.get("packages", {})
    versions = [f"surefoot {environment['surefoot']}", *(f"{name} {version}" for name, version in packages.items())]
    where = (
        f"{environment.get('system', '')}, {environment.get('threads', '?')} thread, {environment.get('device', '')}"
    )
    return f"{', '.join(versions)}; {where}."
