"""What every page is made of: one HTML file that holds all it needs and works offline."""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from surefoot.errors import InputError
from surefoot.records import write_bytes
from surefoot.report.numbers import show_count, show_difference, show_percent, show_spread, signed


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
    text = (
        _environment()
        .get_template(template)
        .render(figures=_finite(figures), css=_text("page.css"), script=_text("page.js"), plotly=_plotly(), **context)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode())
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


def _finite(value: Any) -> Any:
    """Put null in the place of what JSON cannot say: one NaN would keep every figure from being drawn."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(name: str) -> str:
    return resources.files("surefoot.report").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    return script.replace("</script", "<\\/script")  # inside a page it would end the script
