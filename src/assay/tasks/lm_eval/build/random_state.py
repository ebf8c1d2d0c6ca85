"""Seeding of the process's global random generators, from which task code draws.

Around such code the generators are seeded with the run's seeds and restored afterwards, so that what a task draws
depends only on the seeds, and nothing else in the process is affected.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class GlobalSeeds:
    """The global generators of Python and numpy with given seeds. None leaves a generator unchanged."""

    def __init__(self, python_seed: int | None, numpy_seed: int | None) -> None:
        self._python_seed = python_seed
        self._numpy_seed = numpy_seed
        self._begun: Any = None

    def start(self) -> None:
        """Seeds both generators, again if they were seeded before."""
        import numpy

        if self._python_seed is not None:
            random.seed(self._python_seed)
        if self._numpy_seed is not None:
            numpy.random.seed(self._numpy_seed)
        self._begun = _states()

    @property
    def was_used(self) -> bool:
        """Whether anything was drawn since the start."""
        return bool(_states() != self._begun)


def _states() -> Any:
    import numpy

    state: Any = numpy.random.get_state(legacy=True)
    return random.getstate(), state[1].tobytes(), state[2:]


@contextmanager
def seeded(python_seed: int | None, numpy_seed: int | None) -> Iterator[GlobalSeeds]:
    """Seeds the global generators for the duration of the block."""
    import numpy

    python, state = random.getstate(), numpy.random.get_state()
    chance = GlobalSeeds(python_seed, numpy_seed)
    chance.start()
    try:
        yield chance
    finally:
        random.setstate(python)
        numpy.random.set_state(state)
