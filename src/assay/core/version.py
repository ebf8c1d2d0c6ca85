"""The version number of Assay."""

__version__ = "0.1.0"
