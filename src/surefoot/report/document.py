"""What every page is made of: one HTML file that holds all it needs and works offline."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from surefoot.errors import InputError
from surefoot.records import write_bytes
from surefoot.report.numbers import show_count, show_difference, show_percent, show_spread, signed

DIGITS = 6  # significant ones, of numbers in figures: finer than a screen
# Plotly puts in an empty style and adds rules to it, and gives the pixels of heat maps this one; 'unsafe-hashes' lets
# these two be attributes as well.
_PIXELS = "".join(
    f"image-rendering: {value}; "
    for value in (
        *("optimizeSpeed", "-moz-crisp-edges", "-o-crisp-edges", "-webkit-optimize-contrast", "optimize-contrast"),
        *("crisp-edges", "pixelated"),
    )
)


def write_document(template: str, path: Path | str, *, figures: list[dict[str, Any]], **context: Any) -> Path:
    """Fill a template and write the page in one move.

    Args:
        template: Its file name in this folder; it extends ``base.html``.
        path: The file to write; its folder is made if need be.
        figures: Each with its place ``id`` and its ``views``, Plotly figures by the view's key.
        **context: What the template asks for.

    Returns:
        ``path``.

    Raises:
        InputError: If there is a file already that is no page of ours.
    """
    path = Path(path)
    check_page(path)
    scripts = {"watch": _text("watch.js"), "script": _text("page.js")}
    css, plotly = _text("page.css"), _bytes("plotly/plotly.min.js.gz")
    allowed = {
        "script_hashes": Markup(" ".join(map(_hash, [*scripts.values(), gzip.decompress(plotly).decode()]))),
        "style_hashes": Markup(" ".join([_hash(css), _hash(""), _hash(_PIXELS), "'unsafe-hashes'"])),
    }
    drawn = json.dumps(_plain(figures), separators=(",", ":")).encode()
    packed = {"figures": _packed(gzip.compress(drawn, mtime=0)), "plotly": _packed(plotly)}
    text = _environment().get_template(template).render(css=css, **scripts, **packed, **allowed, **context)
    text = re.sub(r"\n\s+<", "\n<", text)  # a fifth of a long table is indentation
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode(errors="backslashreplace"))  # names of files may be no text
    return path


def check_page(path: Path) -> None:
    """Refuse to replace what is not a page that we wrote.

    Args:
        path: Where a page is to be.

    Raises:
        InputError: If something else is there.
    """
    if path.is_dir():
        raise InputError(f"Expected a file for the page, but {path} is a folder. Choose another name.")
    if path.exists() and not path.is_file():
        raise InputError(f"Expected a file for the page, but {path} is none. Choose another --out.")
    if path.exists():
        content = path.read_bytes()
        if b"<html" not in content[:2000].lower() or b"surefoot" not in content:
            raise InputError(
                f"Expected {path} to be free or a page that surefoot wrote, but it is another file. "
                "Choose another --out."
            )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("surefoot.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        spread=show_spread, difference=show_difference, count=show_count, percent=show_percent, signed=signed
    )
    return environment


def _plain(value: Any) -> Any:
    """Round numbers, and put null in the place of what JSON cannot say: one NaN would keep all from being drawn."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def _packed(content: bytes) -> str:
    """Write gzipped bytes as text that a page can hold; its script unpacks them."""
    return base64.b64encode(content).decode()


def _hash(text: str) -> str:
    """Name a script or style for the page's content security policy: nothing else in it is run or obeyed."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(name: str) -> str:
    return resources.files("surefoot.report").joinpath(name).read_text(encoding="utf-8")


def _bytes(name: str) -> bytes:
    return resources.files("surefoot.report").joinpath(name).read_bytes()
