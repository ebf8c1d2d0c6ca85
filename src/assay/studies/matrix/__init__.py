"""Several models on several tasks: scores, improvement over chance, ranks, correlations."""
