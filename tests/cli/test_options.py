"""Options: lm-eval's names and forms, and the errors for wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UserError
from assay.core.specs import Seeds
from assay.options.evaluation_commands import WITHOUT_EFFECT
from assay.options.option import split_names
from assay.options.specification import parse_seeds

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, Seeds(0, 1234, 1234, 1234)),
        ("7", Seeds(7, 7, 7, 7)),
        ("1,2,3", Seeds(1, 2, 3, 1234)),
        ("1, 2, 3, 4", Seeds(1, 2, 3, 4)),
        ("None", Seeds(None, None, None, None)),
        ("0,none,8,52", Seeds(0, None, 8, 52)),
    ],
)
def test_seeds(text: str | None, expected: Seeds) -> None:
    assert parse_seeds(text) == expected


@pytest.mark.parametrize("text", ["1,2", "1,2,3,4,5", "x", "", "1.5"])
def test_wrong_seeds_are_reported(text: str) -> None:
    with pytest.raises(UserError, match="--seed: .*1, 3 or 4"):
        parse_seeds(text)


def test_seeds_of_an_axis_are_counted_or_listed(cli: Cli, tmp_path: Path) -> None:
    words = ["run", "--model", "ngram", "--tasks", "demo_scramble_cycle", "--fewshot-sampler", "fixed", "--limit", 3]
    counted = cli(*words, "--num_fewshot", 2, "--seeds", "2", "--axes-figure", tmp_path / "f.svg")
    assert counted.code == 0 and "demo_scramble_cycle#seed=1235" in counted.out
    assert "demo_scramble_cycle, exact_match (strip): 2 seeds on 3 documents" in counted.out
    assert (tmp_path / "f.svg").exists()
    assert "demo_scramble_cycle#seed=7" in cli(*words, "--num_fewshot", 2, "--seeds", "1,7").out
    wrong = cli(*words, "--seeds", "many")
    assert wrong.code == 2 and '--seeds: is "many"; expected a number of seeds, or a list of them: 1,2,7' in wrong.err
    assert "--axes_figure" in cli(*words, "--seeds", "2", "--axes_figure", "f.pdf").err


def test_a_figure_of_axes_without_any_is_refused_before_the_run(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "--model", "ngram", "--tasks", "demo_scramble_cycle", "--axes_figure", tmp_path / "f.svg")
    assert done.code == 2 and "--axes_figure: no task of the run is evaluated in several variants" in done.err
    assert done.out == "" and "requests" not in done.err


def test_task_names_may_be_given_with_blanks_and_commas() -> None:
    assert split_names(["a,b", "c", " d , ,"]) == ["a", "b", "c", "d"]


@pytest.fixture
def run(cli: Cli, task_folder: Path) -> Cli:
    """`assay run` of the task `colours` with the dummy model and further words."""
    return lambda *words: cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder, *words)


def test_options_of_lm_eval_without_effect_are_taken_with_a_note(run: Cli) -> None:
    done = run("--use_cache", "x", "--verbosity", "INFO", "--cache_requests", "true", "--trust_remote_code")
    assert done.code == 0
    for name in ("use_cache", "verbosity", "cache_requests", "trust_remote_code"):
        assert f"note: --{name} has no effect: {WITHOUT_EFFECT[name]}" in done.err


@pytest.mark.parametrize(
    ("words", "where", "what"),
    [
        (["--limit", "0"], "--limit", "is 0.0; expected a count of 1 or more"),
        (["--limit", "-3"], "--limit", "is -3.0"),
        (["--limit", "nan"], "--limit", "is nan"),
        (["--limit", "many"], "--limit", 'is "many"; expected a number. See: assay run --help'),
        (["--num_fewshot", "five"], "--num_fewshot", 'is "five"; expected a whole number. See: assay run --help'),
        (["--sample", "0"], "--sample", "is 0; expected a whole number of 1 or more, or a share between 0 and 1"),
        (["--sample", "1.5"], "--sample", "is 1.5; expected a whole number"),
        (["--sample", "inf"], "--sample", "is inf"),
        (["--sample_seed", "3"], "--sample_seed", "is given without what it seeds; expected --sample"),
        (["--num_fewshot", "-1"], "--num_fewshot", "is -1; expected 0 or more"),
        (["--limit", "3", "--samples", '{"colours": [1]}'], "--limit", "is given together with --samples"),
        (
            ["--engine", "padde"],
            "--engine",
            'no engine "padde" (did you mean "padded"?); expected one of auto, tree, padded',
        ),
        (["--samples", "{"], "--samples", "is not JSON"),
        (["--samples", "nowhere.json"], "--samples", '"nowhere.json" cannot be read: No such file'),
        (["--samples", '{"colours": 3}'], "--samples", 'has the wrong shape; expected {"task": [0, 5]}'),
        (["--samples", '{"colours": [true]}'], "--samples", "has the wrong shape"),
        (["--samples", '{"colours": [99]}'], "--samples colours", "no documents [99]; expected places from 0 to 19"),
        (["--fewshot_as_multiturn", "maybe"], "--fewshot_as_multiturn", 'is "maybe"; expected true or false'),
        (["--fewshot_as_multiturn"], "--fewshot_as_multiturn", "needs --apply_chat_template"),
        (["--seed", "1,2"], "--seed", "has 2 values; expected 1, 3 or 4"),
        (["--log_samples"], "--log_samples", "needs a place to write to. Add --output_path DIR"),
        (["--predict_only"], "--predict_only", "needs a place to write to. Add --output_path DIR"),
        (["--model_args", "pretrained"], "--model_args", '"pretrained" has no name'),
        (["--model_args", "sed=1"], "model_args", 'dummy has no "sed" (did you mean "seed"?)'),
        (["--gen_kwargs", "{"], "--gen_kwargs", "is not JSON"),
        (["--num_fewshot", "50"], "num_fewshot", "50 few-shot examples are needed, but the pool has 20 rows"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(run: Cli, words: list[str], where: str, what: str) -> None:
    done = run(*words)
    assert done.code == 2
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert where in line and what in line
    assert "Traceback" not in done.err


def test_samples_that_are_not_text_are_reported(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "places.json").write_bytes(b"\xff\xfe")
    done = run("--samples", tmp_path / "places.json")
    assert (done.code, "--samples: is not JSON" in done.err) == (2, True)


def test_samples_as_text_and_as_a_file(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "places.json").write_text('{"colours": [5, 0, 5]}', encoding="utf-8")
    for given in ('{"colours": [5, 0]}', tmp_path / "places.json"):
        assert "6 requests built" in run("--samples", given).out


def test_a_limit_is_a_count_or_a_share(run: Cli) -> None:
    assert "9 requests built" in run("--limit", "3").out
    assert "15 requests built" in run("-L", "0.25").out
    assert "3 requests built" in run("--limit", "1.0").out


def test_unknown_names_of_model_and_tasks_come_together(cli: Cli) -> None:
    done = cli("run", "--model", "dumy", "--tasks", "demo_clze", "demo_txt,demo")
    assert done.code == 2
    assert 'error: --tasks: unknown task "demo_clze" (did you mean "demo_cloze"' in done.err
    assert 'error: --tasks: unknown task "demo_txt" (did you mean "demo_text"' in done.err
    assert 'error: unknown model "dumy" (did you mean "dummy"?). See: assay ls models' in done.err
