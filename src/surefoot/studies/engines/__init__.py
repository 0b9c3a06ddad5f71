"""Where runs are made: one file per engine."""
