"""How calibration, curvature and margins go together along training: what the page shows of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from surefoot.report.curves import Curve
from surefoot.report.dynamics_figures import (
    Waypoints,
    certificate_figure,
    path_figure,
    phase_figure,
)
from surefoot.report.figures import Figure, curve_figure
from surefoot.report.marks import Mark
from surefoot.report.numbers import join
from surefoot.report.pairing import PHASES, OfMethod, QuantityPair, correlations, read_pair
from surefoot.report.quantities import QUANTITIES
from surefoot.report.sharpness_figure import KINDS, limit_of, sharpness_figure
from surefoot.report.thinning import MOMENTS, spaced
from surefoot.report.tracks import Track

Named = tuple[str, Mark, Mapping[str, Curve]]
TRAJECTORIES = tuple(QUANTITIES[key] for key in ("margin_median", "margin_q10", "margin_share_negative", "kce"))
_ECE = QUANTITIES["ece"].label
Card = tuple[str, str, str, Figure | None]  # place, heading, what it says, the figure


def read_path(tracks: Iterable[Track]) -> list[Waypoints]:
    """Read κ_min along the path to the perturbed weights, of the first run that recorded it: first, middle, last.

    Args:
        tracks: Of the runs of one method.

    Returns:
        Up to three moments; none where nothing was recorded.
    """
    for track in tracks:
        if steps := list(track.of("path/bound")):
            chosen = sorted({0, len(steps) // 2, len(steps) - 1})
            return [_waypoints(track, steps[index]) for index in chosen]
    return []


def _waypoints(track: Track, step: int) -> Waypoints:
    places = {key: float(key.partition("@")[2]) for key in track.series if key.startswith("path/kappa_min@")}
    values = {place: track.of(key)[step] for key, place in places.items() if step in track.of(key)}
    return Waypoints(step, tuple(values), tuple(values.values()), track.of("path/bound")[step])


def dynamics(methods: Sequence[Named], tracks: Sequence[Sequence[Track]]) -> dict[str, Any]:
    """Collect figures and numbers about curvature, margins and certificates.

    Args:
        methods: Label, mark and curves of each method.
        tracks: What was seen of each one's runs.

    Returns:
        ``cards``, each with the place ``id``, ``heading`` and ``says``; ``figures`` for those places; and
        ``correlations``. All empty where only quality was tracked.
    """
    of_method = [(label, mark, group) for (label, mark, _), group in zip(methods, tracks, strict=True)]
    paths = [(label, mark, read_path(group)) for label, mark, group in of_method]
    drawn: list[Card] = [
        _sharpness(methods),
        *(
            (each.key, each.title, f"{each.title} over epochs: test solid, train dashed.", curve_figure(each, methods))
            for each in TRAJECTORIES
        ),
        *(_phase(pair, of_method) for pair in PHASES),
        (
            "path",
            "Smallest curvature on the way to the perturbed weights",
            "Smallest Hessian eigenvalue between the weights and those that SAM climbs to, at the first, a middle and "
            "the last moment; dashed: the bound −‖∇L‖/ρ that the theory asks it to stay above.",
            path_figure(paths),
        ),
        (
            "certificate",
            f"Certificate and measured {_ECE}, log scale",
            f"Test {_ECE} (solid) and the bound on it by margins (dashed), over epochs.",
            certificate_figure(methods),
        ),
    ]
    shown = [(place, heading, says, figure) for place, heading, says, figure in drawn if figure is not None]
    return {
        "cards": [{"id": f"curve-{place}", "heading": heading, "says": says} for place, heading, says, _ in shown],
        "figures": [{"id": f"curve-{place}", "views": {"": figure}} for place, _, _, figure in shown],
        "correlations": correlations(of_method),
    }


def _sharpness(methods: Sequence[Named]) -> Card:
    """Draw sharpness, and say what its lines are; the limit only where one is drawn."""
    limits = list(dict.fromkeys(limit[1] for *_, curves in methods if (limit := limit_of(curves))))
    seen = [told for key, *_, told in KINDS if any(key in curves for *_, curves in methods)]
    says = f"Over epochs: {join(seen)}."
    if limits:
        says += (
            f" Dashed: {' or '.join(limits)}, the limit of the learning rate, beyond which a step overshoots; the axis "
            "is that of what was measured, and the limit may leave it."
        )
    return "sharpness", "Sharpness, log scale", says, sharpness_figure(methods)


def _phase(pair: QuantityPair, methods: Sequence[OfMethod]) -> Card:
    """Draw ECE over sharpness of one split, of the methods that recorded sharpness there."""
    read = [(label, mark, read_pair(pair, tracks)) for label, mark, tracks in methods]
    found = [(label, mark, [spaced(one) for one in each[1]] if each else []) for label, mark, each in read]
    longest = max((len(one.steps) for *_, each in read if each for one in each[1]), default=0)
    names = list(dict.fromkeys(each[0].name for *_, each in read if each))
    whose = " or ".join(names)
    together = all(moments.exact for *_, series in found for moments in series)
    how = "both measured at the same steps" if together else "sharpness read off between its own measurements"
    axis = names[0].partition(",")[0] if len(names) == 1 else "sharpness"
    figure = phase_figure(found, x_title=axis, y_title=f"{pair.split} {pair.y.name}")
    says = f"{pair.y.name} on the {pair.split} split over {whose}, {how}; coloured by step, one line per run."
    says += f" Drawn are {MOMENTS} moments of a run at equal distances." if longest > MOMENTS else ""
    return f"phase-{pair.split}", f"{pair.y.name} against sharpness, {pair.split}", says, figure
