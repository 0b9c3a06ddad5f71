"""Text from files as it is shown: what a terminal would obey stands there as what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_OBEYED = (
    *range(0x20),  # control characters: among them escape, newline, tab and bell
    *range(0x7F, 0xA0),  # delete, and the other control characters
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # order and line breaks
)
_SHOWN = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _OBEYED}
_SHOWN |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_SHOWN |= {code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)}  # bytes of names that are not UTF-8
_SHOWN |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000) if code not in _SHOWN}  # halves of characters
_IN_JSON = {code: f"\\u{code:04x}" for code in (*_OBEYED, *range(0xD800, 0xE000)) if code >= 0x7F}
_SHOWN_LINES = {code: shown for code, shown in _SHOWN.items() if code != ord("\n")}


def harmless(text: object, *, lines: bool = False) -> str:
    r"""Write a text so that it can do nothing to a terminal but be read, on one line.

    Args:
        text: A name, or a sentence with names in it.
        lines: Keep line breaks, of a text that is made of several lines.

    Returns:
        The same, with control characters as ``\n``, ``\x1b`` and so on.

    Example:
        >>> print(harmless("cat\n\x1b[32mwell calibrated"))
        cat\n\x1b[32mwell calibrated
    """
    return str(text).translate(_SHOWN_LINES if lines else _SHOWN)


def harmless_values(values: Any) -> Any:
    """Do so with all texts in nested dictionaries and lists, keys too."""
    if isinstance(values, str):
        return harmless(values)
    if isinstance(values, Mapping):
        return {harmless_values(key): harmless_values(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(map(harmless_values, values)) if type(values) in (list, tuple) else values
    return values


def json_text(values: Any) -> str:
    r"""Write JSON that people can read, and that a terminal obeys no more than any other text.

    Args:
        values: Plain values.

    Returns:
        Several lines; whoever reads it as JSON gets every character as it was.

    Example:
        >>> print(json_text({"a": "é \u202e \x9b"}))
        {
          "a": "é \u202e \u009b"
        }
    """
    return json.dumps(values, indent=2, ensure_ascii=False).translate(_IN_JSON)
