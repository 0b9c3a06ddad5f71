"""The published claims, one file each."""
