"""Margins: how far the true class is ahead, how far it stays ahead under perturbation, and what follows from it."""
