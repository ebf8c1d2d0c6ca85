"""Extraction measured on outputs of a real model to questions of ours, labelled by hand."""
