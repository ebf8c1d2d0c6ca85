"""How torch's threads wait for each other on a CPU; must be said before torch is imported."""

from __future__ import annotations

import os
import sys

# By default OpenMP's threads spin for long while they wait. When another process needs a core, a spinning thread holds
# what the one it waits for would need, and a run becomes several times slower. Spinning some 20 microseconds and then
# sleeping costs nothing that can be measured on a quiet machine and halves the damage on a busy one.
SETTING, VALUE = "GOMP_SPINCOUNT", "20000"


def wait_briefly() -> None:
    """Lets waiting threads sleep soon, unless the user has said how they wait, or torch is there already."""
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(SETTING, VALUE)
