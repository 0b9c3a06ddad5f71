"""Losses, one file each: a function that makes a :class:`~surefoot.losses._base.Loss`."""
