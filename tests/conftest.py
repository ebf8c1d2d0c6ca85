"""Settings of every test: examples of property tests may take their time on a busy machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
