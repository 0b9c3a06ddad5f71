"""Metrics, one file each: a pure function of probabilities and labels, and the sums from which it is computed."""
