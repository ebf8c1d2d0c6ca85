"""Calibration: whether a model is right as often as it is confident."""
