"""Specifications, written to a record and read again."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from assay.core.specs import ChatSpec, ModelSettings, RunSpec, Seeds, TaskOptions

TEXT = st.text(max_size=8)
NUMBER = st.integers(-(2**40), 2**40)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MAPPING = st.dictionaries(TEXT, PLAIN, max_size=3)
NAMES = st.lists(TEXT, max_size=3).map(tuple)
SAMPLES = st.none() | st.dictionaries(TEXT, st.lists(NUMBER, max_size=3).map(tuple), max_size=2)
SEED = st.none() | NUMBER
SEEDS = st.builds(Seeds, SEED, SEED, SEED, SEED)
CHAT = st.builds(ChatSpec, st.booleans(), st.none() | TEXT, st.none() | TEXT, st.booleans())
OPTIONS = st.builds(
    TaskOptions,
    num_fewshot=SEED,
    fewshot_seed=SEED,
    sampling_seed=SEED,
    chat=CHAT,
    generation=MAPPING,
    predict_only=st.booleans(),
    metadata=MAPPING,
    python_seed=SEED,
    numpy_seed=SEED,
    confirm_unsafe=st.booleans(),
    like=st.none() | TEXT,
    samples=SAMPLES,
    style=st.none() | TEXT,
    scoring=MAPPING,
)
SPECS = st.builds(
    RunSpec,
    model=TEXT,
    tasks=NAMES,
    model_args=MAPPING,
    include_path=NAMES,
    limit=st.none() | st.floats(0.01, 1e6),
    samples=SAMPLES,
    options=OPTIONS,
    settings=st.builds(ModelSettings, TEXT, st.none() | TEXT, TEXT),
    seeds=SEEDS,
    bootstrap_iters=NUMBER,
    allow_code=st.booleans() | NAMES,
)


@given(SPECS)
def test_a_spec_comes_back_from_its_record(spec: RunSpec) -> None:
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_what_an_older_record_lacks_has_its_default() -> None:
    assert RunSpec.from_json({"model": "dummy", "tasks": ["a"]}) == RunSpec("dummy", ("a",))
    older = {"model": "dummy", "tasks": ["a"], "options": {"num_fewshot": 3}, "seeds": {"python": 7}}
    found = RunSpec.from_json(older)
    assert (found.options, found.seeds) == (TaskOptions(num_fewshot=3), Seeds(python=7))


def test_what_a_newer_record_has_besides_is_left_out() -> None:
    newer = {**RunSpec("dummy", ("a",)).to_json(), "colour": "red"}
    newer["options"]["colour"] = "red"
    assert RunSpec.from_json(newer) == RunSpec("dummy", ("a",))
