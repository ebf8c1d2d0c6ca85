"""Who answers: every kind of model behind the one protocol, and the table of their names.

Takes requests, gives outputs. May import: `assay.core` and `assay.stats`. torch and transformers are
imported only inside functions, so that listing models costs nothing.
"""
