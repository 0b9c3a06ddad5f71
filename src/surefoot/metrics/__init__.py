"""Metrics, one file each: a pure function of probabilities and labels, and the sums from which it is computed.

Every registered metric declares ``label``, ``lower_is_better`` (``None`` where neither direction is better),
``range`` and ``reference``, and, where they exist, ways to compute it that need less than all probabilities:

- ``sums`` and ``finish``: sums over examples in float64, of a size that does not grow with their number, and the
  metric as a function of them. :class:`Stream` adds them up over batches and ranks.
- ``whole``: why there are no such sums; the metric needs all examples at once.
- ``top``: the metric as a function of each example's confidence and correctness alone.
- ``each``: the value per example that the metric is the mean of.

- ``bins``: true where ``finish`` reads the sums of equal-width bins of the top label.
- ``interval``: the kind of interval that covers, or ``none``; ``quadratic``: true where time grows as n².

``perfect`` is the value for perfect predictions where that is not the better end of the range.
"""

from surefoot.metrics._binning import bin_index
from surefoot.metrics._sums import Stream
from surefoot.metrics._top import from_logits, top_label

__all__ = ["Stream", "bin_index", "from_logits", "top_label"]
