"""Global generators around task code: seeded inside, untouched outside."""

from __future__ import annotations

import random

import numpy as np

from assay.tasks.lm_eval.build.random_state import seeded


def test_the_same_seeds_draw_the_same() -> None:
    drawn = []
    for _ in range(2):
        with seeded(0, 1234):
            drawn.append((random.random(), float(np.random.random())))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == random.Random(0).random()


def test_nothing_outside_notices() -> None:
    random.seed(7)
    np.random.seed(7)
    expected = random.Random(7).random(), float(np.random.RandomState(7).random())
    with seeded(0, 1234):
        random.random()
        np.random.random()
    assert (random.random(), float(np.random.random())) == expected


def test_use_is_noticed() -> None:
    with seeded(0, 1234) as chance:
        assert not chance.was_used
        random.random()
        assert chance.was_used
        chance.start()
        assert not chance.was_used
        np.random.random()
        assert chance.was_used


def test_no_seed_leaves_a_generator_alone() -> None:
    random.seed(5)
    with seeded(None, None):
        assert random.random() == random.Random(5).random()
