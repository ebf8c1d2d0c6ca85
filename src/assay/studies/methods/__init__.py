"""All methods of selecting an answer from the same model outputs, side by side (the study "Beyond Metrics")."""
