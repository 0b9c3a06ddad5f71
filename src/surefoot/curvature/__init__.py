"""Curvature of a loss: operators ``A @ v``, Lanczos, and the quantities built on them."""
