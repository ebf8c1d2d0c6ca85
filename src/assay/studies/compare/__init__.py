"""Whether a run is better than another, on the same documents."""
