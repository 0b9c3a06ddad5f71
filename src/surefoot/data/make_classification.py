"""Made-up tables with known difficulty, by scikit-learn."""

from __future__ import annotations

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Division
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Splits


@DATA.register("make_classification", licence="made up")
def make_classification(
    *,
    n_train: int = 2000,
    n_calibration: int = 1000,
    n_test: int = 4000,
    features: int = 20,
    classes: int = 2,
    rare: float = 0.5,
    separation: float = 1.0,
    flipped: float = 0.01,
    seed: int = 0,
) -> Splits:
    """Made-up table of scikit-learn's make_classification; rare=0.05 makes one class of twenty-one rare.

    A class lies around three corners of a cube in eight features; four more are combinations of these, the rest noise.

    Args:
        n_train: Rows to train on.
        n_calibration: Rows to calibrate on.
        n_test: Rows to test on.
        features: Columns, at least twelve.
        classes: How many classes.
        rare: Share of the last class, at most 1/classes; the others are equally frequent.
        separation: Length of the cube's edges: larger is easier.
        flipped: Share of labels that are drawn at random.
        seed: Determines everything.

    Returns:
        The three splits.

    Raises:
        InputError: If scikit-learn is missing or does not take these numbers.
    """
    try:
        from sklearn.datasets import make_classification as make
    except ImportError as error:
        raise InputError(
            "Expected scikit-learn, but it is not installed. Run pip install 'surefoot[sklearn]'."
        ) from error
    if classes < 2 or not 0 < rare <= 1 / classes:
        raise InputError(
            f"Expected classes ≥ 2 and rare in (0, 1/classes], but got {classes} and {rare:g}. Lower rare."
        )
    n = n_train + n_calibration + n_test
    try:
        inputs, labels = make(
            n_samples=n,
            n_features=features,
            n_informative=8,
            n_redundant=4,
            n_classes=classes,
            n_clusters_per_class=3,
            weights=[*[(1 - rare) / (classes - 1)] * (classes - 1), rare],
            class_sep=separation,
            flip_y=flipped,
            random_state=seed,
        )
    except ValueError as error:
        raise InputError(f"Expected numbers that make_classification takes, but: {error}. Change them.") from error
    ends = {"train": n_train, "calibration": n_train + n_calibration, "test": n}
    starts = {"train": 0, "calibration": n_train, "test": n_train + n_calibration}
    arrays = {
        f"{key}_{part}": values[starts[part] : ends[part]]
        for part in ends
        for key, values in (("x", inputs.astype("float32")), ("y", labels))
    }
    return splits_from_arrays(arrays, origin="make_classification", division=Division())
