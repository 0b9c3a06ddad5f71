"""A page opened in a real browser: headless Chromium, which must be there where SUREFOOT_REQUIRE_BROWSER=1."""

from __future__ import annotations

import base64
import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from surefoot.report.document import _hash
from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str:
    """Find Chromium; without it the test is skipped, or fails where a browser is required."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.environ.get("SUREFOOT_REQUIRE_BROWSER") == "1":
        pytest.fail("Expected Chromium, for SUREFOOT_REQUIRE_BROWSER=1, but found none. Install chromium.")
    if found is None:
        pytest.skip("no Chromium on this machine; install chromium to open the page in a browser")
    return found


def drawn_page(page: Path, profile: Path, *flags: str) -> str:
    """Open a page, let its scripts run, and give the document back as it then stands.

    Args:
        page: The HTML file.
        profile: An empty folder for the browser's own files.
        *flags: More flags for the browser.

    Returns:
        The document as HTML.
    """
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
    command = [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", *quiet, f"--user-data-dir={profile}"]
    command += ["--window-size=1200,900", "--virtual-time-budget=15000", *flags, "--dump-dom", page.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


def add_script(page: Path, script: str) -> None:
    """Let a page run one more script at its end, whose hash its policy then names."""
    text = page.read_text(encoding="utf-8").replace("script-src ", f"script-src {_hash(script)} ", 1)
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")


def unpacked(page: Path, name: str) -> str:
    """Read what a page holds packed: its ``figures``, or ``plotly``."""
    text = page.read_text(encoding="utf-8").partition(f'<script type="application/gzip" id="{name}">')[2]
    return gzip.decompress(base64.b64decode(text.partition("</script>")[0])).decode()


def repack(page: Path, name: str, content: str) -> None:
    """Put something else in its place."""
    text = page.read_text(encoding="utf-8")
    head, start, rest = text.partition(f'<script type="application/gzip" id="{name}">')
    packed = base64.b64encode(gzip.compress(content.encode())).decode()
    page.write_text(head + start + packed + rest[rest.index("</script>") :], encoding="utf-8")
