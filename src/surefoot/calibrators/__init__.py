"""Post-hoc calibrators, one file each: fitted on the calibration split, applied to others."""
