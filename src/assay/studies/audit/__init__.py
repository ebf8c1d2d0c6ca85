"""Audit of answer extraction: which rule read each answer, where rules disagree, what was cut off."""
