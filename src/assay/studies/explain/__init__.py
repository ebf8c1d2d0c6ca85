"""Why two recorded runs have different numbers, found step by step."""
