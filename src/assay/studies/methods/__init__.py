"""Every way of picking an answer on the same model outputs, side by side (the study "Beyond Metrics")."""
