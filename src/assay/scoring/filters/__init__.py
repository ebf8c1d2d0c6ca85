"""Filters: outputs in, outputs out. A factory takes the settings of a task file and gives the filter."""
