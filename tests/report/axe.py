"""Whether people with a screen reader or a keyboard can use a page, as far as axe-core can tell."""

from __future__ import annotations

from pathlib import Path

from tests.report.live import LivePage

AXE = Path(__file__).parent / "assets" / "axe.min.js"  # axe-core 4.14.0, Mozilla Public License 2.0
GRAVE = ("serious", "critical")


def serious(page: LivePage) -> list[str]:
    """Run axe-core on an open page.

    Args:
        page: As it stands now. The script comes in through the debugger, so the page's policy need not allow it.

    Returns:
        What it finds serious or critical: rule, help, and the first places.
    """
    page.ask(AXE.read_text(encoding="utf-8") + ";0")
    found = page.ask("axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)")
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in GRAVE
    ]
