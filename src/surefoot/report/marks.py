"""What a method looks like: the same colour and symbol in every figure.

Colours are names of custom properties in ``page.css``, where each has a light and a dark value; the page looks
them up when it draws. Eight colours and seven symbols repeat together only after 56 methods.
"""

from __future__ import annotations

from dataclasses import dataclass

N_COLORS = 8
# Plotly's name of a symbol, and its outline around (14, 6) for the key beside the figures.
SYMBOLS = (
    ("circle", "M10 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
    ("square", "M10.5 2.5h7v7h-7z"),
    ("diamond", "M14 1l5 5l-5 5l-5-5z"),
    ("triangle-up", "M14 1.5l4.6 8h-9.2z"),
    ("cross", "M12.6 1.5h2.8v3.1h3.1v2.8h-3.1v3.1h-2.8v-3.1h-3.1v-2.8h3.1z"),
    ("triangle-down", "M14 10.5l4.6-8h-9.2z"),
    ("hexagon", "M14 1.5l4 2.2v4.6l-4 2.2l-4-2.2v-4.6z"),
)
N_MARKS = N_COLORS * len(SYMBOLS)


@dataclass(frozen=True)
class Mark:
    """Colour and symbol of one method."""

    color: str
    symbol: str
    outline: str


def mark_of(index: int) -> Mark:
    """Return the method at this place its mark.

    Args:
        index: Place of the method in the summary, from 0.

    Returns:
        Its mark.

    Example:
        >>> mark_of(8).color, mark_of(8).symbol
        ('--method-0', 'square')
    """
    symbol, outline = SYMBOLS[index % len(SYMBOLS)]
    return Mark(f"--method-{index % N_COLORS}", symbol, outline)
