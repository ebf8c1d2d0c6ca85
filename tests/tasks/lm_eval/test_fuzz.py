"""Any content of a task file gives a user error, never a traceback.

Random bytes, random YAML of the dialect's own keys, and damaged good files go through the reader, the schema, the check
and, if no fault was found, through definition and building. The draws are the same in every run; `pytest -m slow`
takes many more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from assay.core.errors import TaskFileError, UserError
from assay.core.identity import request_digest
from assay.core.specs import TaskOptions
from assay.data.sources import MemorySource
from assay.run.resolve import known_names
from assay.tasks.catalog import LIBRARY
from assay.tasks.file_checks import check_paths
from assay.tasks.lm_eval.file.definition import define
from assay.tasks.lm_eval.file.groups import define_group
from assay.tasks.lm_eval.file.schema import (
    FEWSHOT_KEYS,
    GROUP_KEYS,
    TASK_KEYS,
    base_faults,
    column_faults,
    group_faults,
)
from assay.tasks.lm_eval.file.schema import task_faults as schema_faults
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, TaskFile, TopLevelKeyReader, read_task_file
from assay.tasks.lm_eval.task import LmEvalTask

NAMES = known_names()
ROWS = [
    {"q": "What is 1+1?", "choices": ["2", "3"], "label": 0, "n": 2.0, "": None},
    {"q": "", "choices": [], "label": -1, "n": None, "": 1},
    {"q": "{{q}}", "choices": [1, None], "label": 7, "n": 0.5, "": "x"},
]
GOOD = [path.read_text(encoding="utf-8") for path in sorted(LIBRARY.rglob("*.yaml"))]
GOOD += [path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "broken").glob("type_*.yaml"))]
COUNTER = itertools.count()

EVERY_RUN = settings(
    max_examples=250,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
LONG_RUN = settings(EVERY_RUN, max_examples=20_000, derandomize=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


# What goes in

marks = st.text(alphabet="{}[]:-?&*!|>'\"%@`#,=~<.\\ \n\tab01_\r\x85\u2028\ufeffé", max_size=60)
# fmt: off
templates = st.sampled_from([
    "{{q}}", "q", "choices", "label", "{{choices}}", "{{label}}", "{{q", "{% if q %}x", "{{q|nofilter}}", "{{[q, q]}}",
    "{{1/0}}", "{{q[0]}}", "{{n.x.y}}", "{{q * 3}}", "{{range(9)|list}}", "{{''.__class__}}", "[1, 2", "['a', 'b']",
    "{{undefined}}", "{{n|int}}", "{{q.split()[5]}}", "{{label + q}}", "{{choices[label]}}", "²", "٣", "7",
])
words = st.sampled_from([
    "acc", "acc_norm", "exact_match", "mean", "f1", "word_perplexity", "perplexity", "regex", "take_first", "default",
    "first_n", "test", "train", "multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling", "none",
    "acc_mutual_info", "majority_vote", "bypass", "", " ", "\n\n",
])
inner_keys = st.sampled_from([
    "metric", "aggregation", "higher_is_better", "hf_evaluate", "name", "filter", "function", "regex_pattern", "until",
    "temperature", "do_sample", "max_gen_toks", "max_tokens", "version", "weight_by_size", "k", "data_files",
    *FEWSHOT_KEYS,
])
# fmt: on
numbers = st.integers(-3, 300) | st.floats() | st.integers() | st.sampled_from([10**30, 2**63, -1, 0, 1])
scalars = st.none() | st.booleans() | numbers | templates | words | st.text(max_size=8) | st.dates()
keys = inner_keys | st.none() | st.booleans() | st.integers(0, 2) | st.text(max_size=3)
values = st.recursive(
    scalars, lambda part: st.lists(part, max_size=3) | st.dictionaries(keys, part, max_size=3), max_leaves=8
)
dialect = st.sampled_from([*TASK_KEYS, *GROUP_KEYS, "class", "process_docs", "custom_dataset", "process_results"])
mappings = st.dictionaries(dialect | keys, values, max_size=8)
metrics = st.lists(st.fixed_dictionaries({"metric": words}, optional={"aggregation": words, "k": values}), max_size=2)
steps = st.lists(st.fixed_dictionaries({"function": words}, optional={"regex_pattern": templates}), max_size=2)
pipelines = st.lists(st.fixed_dictionaries({"name": scalars, "filter": steps}), max_size=2)
generation = st.dictionaries(inner_keys | st.text(max_size=3), values, max_size=3)
whole = st.fixed_dictionaries(
    {
        "task": st.just("toy"),
        "dataset_path": st.just("memory"),
        "test_split": st.just("test"),
        "output_type": st.sampled_from(["generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling"]),
        "doc_to_text": templates | st.integers(-2, 3),
        "doc_to_target": templates | st.integers(-2, 3) | st.lists(scalars, max_size=2),
        "doc_to_choice": templates | st.lists(st.text(max_size=2), min_size=1, max_size=3) | st.none(),
    },
    optional={
        "num_fewshot": st.integers(0, 4),
        "fewshot_config": st.dictionaries(st.sampled_from([*FEWSHOT_KEYS]), values, max_size=2),
        "description": templates,
        "gen_prefix": templates,
        "target_delimiter": words,
        "repeats": st.integers(1, 3),
        "generation_kwargs": generation,
        "filter_list": pipelines,
        "metric_list": metrics,
        "metadata": values,
    },
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A good file after one to four accidents at the keyboard."""
    lines = draw(st.sampled_from(GOOD)).splitlines()
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(lines) - 1, 0)))
        line = lines[place] if lines else ""
        column = draw(st.integers(0, len(line)))
        accident = draw(st.sampled_from(["delete", "double", "shift", "tab", "insert", "cut", "swap", "key"]))
        changed = {
            "delete": [],
            "double": [line, line],
            "shift": [" " * draw(st.integers(1, 3)) + line],
            "tab": ["\t" + line.lstrip()],
            "insert": [line[:column] + draw(marks | st.text(max_size=3)) + line[column:]],
            "cut": [line[:column]],
            "swap": [line[column:] + line[:column]],
            "key": [f"{line.partition(':')[0]}: {draw(st.text(max_size=5) | marks)}"],
        }
        lines[place : place + 1] = changed[accident]
    return "\n".join(lines)


# What is done with it


def survive(folder: Path, content: bytes) -> None:
    """Everything that is done to a task file; only errors for users may come out."""
    path = folder / f"f{next(COUNTER)}.yaml"
    path.write_bytes(content)
    try:
        TopLevelKeyReader().top_level_keys(str(path))
    except TaskFileError as error:
        assert error.faults
    try:
        whole_check(read_task_file(path))
    except UserError as error:
        assert error.faults and all(fault.found for fault in error.faults)
    finally:
        path.unlink()


def whole_check(file: TaskFile) -> None:
    faults = [*schema_faults(file, NAMES), *base_faults(file, NAMES), *column_faults(file, list(ROWS[0]))]
    assert all(map(str, faults))
    if "group" in file.data and not group_faults(file):
        define_group(file, file.data, str(file.data["group"]))
    if not schema_faults(file, NAMES) and not has_code(file.data):
        build_all(LmEvalTask(define(file), TaskOptions(), MemorySource({"test": ROWS, "train": ROWS[:2]})))


def has_code(value: Any) -> bool:
    inner: Iterator[Any] = iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return isinstance(value, FunctionReference) or any(map(has_code, inner))


def build_all(task: LmEvalTask) -> None:
    assert task.card.config and task.scoring.metrics
    for document in task.documents():
        try:
            instance = task.build(document)
        except UserError:
            continue
        for request in instance.requests:
            assert request_digest(request)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def dumped(mapping: dict[Any, Any]) -> bytes:
    return encoded(yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True))


CONTENTS: dict[str, st.SearchStrategy[bytes]] = {
    "bytes": st.binary(max_size=80),
    "texts": (st.text(max_size=80) | marks).map(encoded),
    "mappings of the dialect's keys": mappings.map(dumped),
    "tasks that are nearly right": whole.map(dumped),
    "good files after accidents": damaged().map(encoded),
}


@pytest.mark.parametrize("kind", CONTENTS)
@EVERY_RUN
@given(data=st.data())
def test_no_file_gives_a_traceback(folder: Path, kind: str, data: st.DataObject) -> None:
    survive(folder, data.draw(CONTENTS[kind]))


@pytest.mark.parametrize("kind", CONTENTS)
@settings(EVERY_RUN, max_examples=15)
@given(data=st.data())
def test_no_file_makes_a_check_fail(folder: Path, kind: str, data: st.DataObject) -> None:
    path = folder / f"f{next(COUNTER)}.yaml"
    path.write_bytes(data.draw(CONTENTS[kind]))
    assert check_paths([path], NAMES, list(ROWS[0])).files == 1
    path.unlink()


# Made by hand

TASK = """task: toy
dataset_path: json
test_split: test
doc_to_text: q
doc_to_target: label
"""
MERGES = [f"b{n}: &b{n}\n  <<: [{', '.join([f'*b{n - 1}'] * 10)}]" for n in range(1, 10)]
ALIASES = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
# Content → a part of the message; None for a file without faults.
NASTY: dict[str, tuple[str, str | None]] = {
    "a long line": (TASK + "description: " + "x" * 4_000_000, None),
    "ten megabytes": (TASK + "description: " + "x" * 10_000_000, "has 10.0 MB; expected a task file of at most 5 MB"),
    "brackets": (TASK + "metadata: " + "[" * 100_000, "nested too deeply"),
    "braces": ("{a: " * 100_000, "nested too deeply"),
    "dashes": ("- " * 100_000, "nested too deeply"),
    "fewer brackets": (TASK + "metadata: " + "[" * 900 + "]" * 900, "nested too deeply"),
    "steps": ("\n".join(" " * n + "a:" for n in range(1_000)), "nested too deeply"),
    "aliases of aliases": (
        "\n".join(["a0: &a0 [x, y]", *ALIASES, "group: *a9", "task: *a9"]),
        "more than 200,000 keys",
    ),
    "merges of merges": ("\n".join(["b0: &b0 {k: v}", *MERGES]), "merges (<<) more than 200,000 keys"),
    "a list that holds itself": ("group: &a [*a]\ntask: &b [*b]", "refers to itself"),
    "a mapping that merges itself": (TASK + "metadata: &a\n  <<: *a", None),
    "a merge of a number": ("<<: 3", "is not YAML"),
    "a null character": (TASK + "a: \0", "control character 0x0000"),
    "a null character in a name": ('include: "a\\0b"', "embedded null"),
    "an endless device": ("include: /dev/zero", "no regular file"),
    "a list as key": ("[a, b]: c", "a list or a mapping stands where a key should"),
    "nothing as key": (TASK + "~: c", "the key is None"),
    "a number as key": (TASK + "1.5: c", "the key is 1.5"),
    "a boolean as key": (TASK + "on: c", "the key is True (bool)"),
    "a number that is none as key": (TASK + ".nan: 1", "the key is nan"),
    "code as key": (TASK + "!function a.b: c", "FunctionReference"),
    "an object": (TASK + "metadata: !!python/object/apply:os.system [ls]", "unknown tag"),
    "a set": (TASK + "doc_to_choice: !!set {a, b}", "(set)"),
    "pairs": (TASK + "metric_list: !!omap [metric: acc]", "(tuple)"),
    "bytes": (TASK + 'description: !!binary "aGVsbG8="', "(bytes)"),
    "a date": (TASK + "num_fewshot: 2024-01-01", "(date)"),
    "no date": (TASK + "metadata: 2024-01-01T00:00:00+25:00", "looks like a date, but is none"),
    "endless numbers": (TASK + "generation_kwargs: {temperature: .inf, max_gen_toks: .nan}", "is inf (float)"),
    "a number of 5,000 digits": (TASK + "num_fewshot: " + "9" * 5_000, "looks like a whole number, but is none"),
    "a number of 9,000 hex digits": (TASK + "num_fewshot: 0x" + "f" * 9_000, "looks like a whole number, but is none"),
    "a number of 4,000 digits": (
        TASK + "generation_kwargs: {max_tokens: " + "9" * 4_000 + "}",
        "a whole number, 1 or more",
    ),
    "half a character": (TASK + 'description: "\\ud800"', "invalid Unicode character"),
    "parentheses": (
        TASK + "description: '{{" + "(" * 3_000 + "q" + ")" * 3_000 + "}}'",
        "template is nested too deeply",
    ),
    "loops": (
        TASK + "description: '" + "{% for a in q %}" * 99 + "{% endfor %}" * 99 + "'",
        "template is nested too deeply",
    ),
    "a deep pattern": (
        TASK + f"filter_list: [{{name: a, filter: [{{function: regex, regex_pattern: '{'(' * 3_000}'}}]}}]",
        "does not compile",
    ),
}


@pytest.mark.parametrize("kind", NASTY)
def test_nasty_files_are_reported_like_all_others(tmp_path: Path, kind: str) -> None:
    content, expected = NASTY[kind]
    path = tmp_path / "a.yaml"
    path.write_bytes(encoded(content))
    faults = check_paths([path], NAMES).faults
    assert any(expected in str(fault) for fault in faults) if expected else not faults


def test_includes_that_multiply_are_read_once(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"i{number}.yaml").write_text(f"include: [i{number + 1}.yaml, i{number + 1}.yaml]\n")
    (tmp_path / "i40.yaml").write_text(TASK)
    assert read_task_file(tmp_path / "i0.yaml").data["task"] == "toy"


def test_includes_without_end_are_refused(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"i{number}.yaml").write_text(f"include: i{number + 1}.yaml\n")
    with pytest.raises(TaskFileError, match="more than 50 files deep"):
        read_task_file(tmp_path / "i0.yaml")


@pytest.mark.parametrize("template", ["{{cycler()}}", "{{'a' * 10**15}}"])
def test_a_template_that_fails_oddly_is_an_error_for_users(folder: Path, template: str) -> None:
    survive(folder, dumped({**yaml.safe_load(TASK), "doc_to_text": template}))


@pytest.mark.parametrize(
    "keys",
    [
        {"output_type": "generate_until", "doc_to_target": [-2]},
        {"output_type": "multiple_choice", "doc_to_target": -2, "num_fewshot": 1},
    ],
)
def test_an_answer_before_the_first_choice_is_an_error_for_users(folder: Path, keys: dict[str, Any]) -> None:
    survive(folder, dumped({**yaml.safe_load(TASK), "doc_to_choice": ["a"], **keys}))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", CONTENTS)
@LONG_RUN
@given(data=st.data())
def test_no_file_gives_a_traceback_in_a_long_run(folder: Path, kind: str, data: st.DataObject) -> None:
    survive(folder, data.draw(CONTENTS[kind]))
