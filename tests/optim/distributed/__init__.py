"""Tests that start processes with torchrun."""
