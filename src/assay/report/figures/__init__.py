"""Figures: plain numbers in, one SVG, PDF or PNG file out; the only user of matplotlib."""
