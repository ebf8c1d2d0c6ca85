"""Vocabulary of the package: frozen value types, protocols, identity and errors, shared by all other packages.

May import: the standard library only (and platformdirs, to find the cache folder).
"""
