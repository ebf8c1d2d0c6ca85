"""Audit of answer extraction: which rule found each answer, where rules disagree, which texts were truncated."""
