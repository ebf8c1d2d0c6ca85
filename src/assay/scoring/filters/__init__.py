"""Filters transform outputs. A factory takes the settings of a task file and returns the filter."""
