"""Fits the calibration of the semantic engine on labelled sets of several kinds and languages."""
