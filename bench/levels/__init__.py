"""How often stated 95 % intervals hold the truth, and how often tests find what is not there: simulated evaluations."""
