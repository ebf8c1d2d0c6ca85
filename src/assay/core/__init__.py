"""The vocabulary: frozen values, protocols, identity and errors that every other room speaks.

Takes nothing, gives the words. May import: the standard library only.
"""
