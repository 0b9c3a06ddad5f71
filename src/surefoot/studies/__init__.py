"""Questions that take many runs to answer, and the engines that run them."""
