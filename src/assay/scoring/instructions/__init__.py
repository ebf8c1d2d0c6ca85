"""IFEval's verifiable instructions (Zhou et al. 2023): whether a text follows them."""
