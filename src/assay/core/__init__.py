"""Vocabulary of the package: frozen value types, protocols, identity and errors, shared by all other packages.

Imports the standard library only.
"""
