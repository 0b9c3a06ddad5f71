"""What the documentation site needs beyond docs/: pages of the root, the reference, and links that fit both places.

The pages stay plain Markdown that a code host shows. MkDocs calls the functions below (``hooks`` in ``mkdocs.yml``):
README, RESULTS, CHANGELOG and CONTRIBUTING join the site, a page per room is made of the public names, and links are
turned to where their targets are on the site. Nothing of the package is imported, so the site builds without torch.
"""

from __future__ import annotations

import ast
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
# Files outside docs/ → where they are on the site. Links to any other file of the repository become plain text.
OUTSIDE = {
    "README.md": "index.md",
    "RESULTS.md": "RESULTS.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "results/forest.svg": "results/forest.svg",
}
# The rooms of the reference in the order in which people meet them.
ROOMS = [
    "api",
    "optim",
    "losses",
    "metrics",
    "calibrators",
    "prediction_sets",
    "auditing",
    "sources",
    "steering",
    "training",
    "trackers",
    "curvature",
    "margins",
    "ensembles",
    "models",
    "data",
    "statistics",
    "studies",
    "records",
    "serve",
]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?([^`]+)`")
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


class Docstrings(Extension):  # type: ignore[misc, unused-ignore]
    """Docstrings as the reference needs them: ``Example:`` is a section of code, and roles are code."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the text of an object's docstring."""
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = ROLE.sub(r"`\1`", text)


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Say for each name that a module imports from the package where it is imported from."""
    path = SOURCE.joinpath(*module.split("."))
    stub = path / "__init__.pyi"
    file = next(each for each in (stub, path / "__init__.py", path.with_suffix(".py")) if each.is_file())
    nodes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if (node.module or "").startswith("surefoot")]
    return {alias.asname or alias.name: (str(node.module), alias.name) for node in ours for alias in node.names}


def home(module: str, name: str) -> str:
    """Find where a public name is defined.

    Args:
        module: From which it can be imported.
        name: The name.

    Returns:
        The full path of its definition.
    """
    while name in _imports(module):
        module, name = _imports(module)[name]
    return f"{module}.{name}"


def public_names() -> dict[str, list[str]]:
    """List the public names by room; those of the package itself under ``surefoot``.

    Returns:
        Room → names, from the list that the tests hold the package to.
    """
    rooms: dict[str, list[str]] = {}
    for full in (ROOT / "tests" / "public_names.txt").read_text().split():
        room, _, name = full.rpartition(".")
        rooms.setdefault(room, []).append(name)
    return rooms


def _room_page(room: str, names: list[str], taken: set[str]) -> str:
    documented = ast.get_docstring(ast.parse((SOURCE.joinpath(*room.split(".")) / "__init__.py").read_text())) or ""
    head = f"# {room}\n\n{documented.partition(chr(10))[0].replace('``', '`')}\n"
    homes = {name: home(room, name) for name in names}
    also = [f"[`{name}`][{path}]" for name, path in homes.items() if path in taken]
    head += f"\nAlso here: {', '.join(also)}.\n" if also else ""
    return "\n".join([head, *(f"::: {path}\n" for path in homes.values() if path not in taken)])


def reference() -> dict[str, str]:
    """Write the pages of the reference.

    Returns:
        Path on the site → Markdown.
    """
    names = public_names()
    pages, on_pages = {}, set[str]()
    for room in ROOMS:
        here = names[f"surefoot.{room}"]
        pages[f"reference/{room}.md"] = _room_page(f"surefoot.{room}", here, on_pages)
        on_pages |= {home(f"surefoot.{room}", name) for name in here}
    homes = {name: home("surefoot", name) for name in names["surefoot"]}
    rest = [path for path in homes.values() if path not in on_pages]
    listed = "\n".join(f"* [`sf.{name}`][{path}]" for name, path in sorted(homes.items(), key=lambda each: each[0]))
    pages["reference/index.md"] = (
        "# Reference\n\nMade from the docstrings. `import surefoot as sf` has the names below; each room has more.\n\n"
        f'<div class="names" markdown>\n\n{listed}\n\n</div>\n\n' + "\n".join(f"::: {path}\n" for path in rest)
    )
    return pages


def on_config(config: Any) -> Any:
    """List the pages of the reference in the navigation."""
    pages = ["reference/index.md", *({f"surefoot.{room}": f"reference/{room}.md"} for room in ROOMS)]
    for entry in config.nav:
        if "Reference" in entry:
            entry["Reference"] = pages
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what is not in docs/."""
    for source, target in OUTSIDE.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for target, text in reference().items():
        files.append(File.generated(config, target, content=text))
    return files


def turned(markdown: str, page: str, known: set[str]) -> str:
    """Turn links as the repository has them to where their targets are on the site.

    Args:
        markdown: A page.
        page: Where it is on the site.
        known: All files of the site.

    Returns:
        The page with links that hold there; a link to what the site does not have is its text.
    """
    back = {target: source for source, target in OUTSIDE.items()}
    folder = posixpath.dirname(back.get(page, f"docs/{page}"))

    def turn(link: re.Match[str]) -> str:
        mark, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path not in OUTSIDE and not path.startswith("docs/"):
            return text if (ROOT / path).exists() else link[0]
        there = OUTSIDE.get(path, path.removeprefix("docs/"))
        if there not in known:
            return link[0]  # MkDocs says what is wrong with it
        return f"{mark}[{text}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if k % 2 else LINK.sub(turn, part) for k, part in enumerate(parts))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn the links of a page."""
    return turned(markdown, page.file.src_uri, {file.src_uri for file in files})
