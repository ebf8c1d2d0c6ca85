"""`--config FILE`: options from YAML, under the command line's; and lm-eval's options that send results elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.options.config_file import with_config
from assay.options.evaluation_commands import ELSEWHERE
from assay.options.parser import make_parser

Cli = Callable[..., Any]


@pytest.fixture
def written(task_folder: Path, tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(f"model: dummy\ntasks: [colours]\ninclude_path: {task_folder}\n{text}")
        return path

    return write


def read(path: Path, *arguments: str) -> Any:
    return make_parser("run").parse_args(
        with_config(make_parser("run"), ["-C", str(path), *arguments], ELSEWHERE).arguments
    )


def test_a_run_takes_its_options_from_the_file(cli: Cli, written: Callable[[str], Path]) -> None:
    done = cli("run", "--config", written("limit: 3\nseed: [1, 2, 3, 4]\n"))
    assert done.code == 0
    assert "9 requests built" in done.out


def test_the_command_line_wins_and_says_so(cli: Cli, written: Callable[[str], Path]) -> None:
    path = written("limit: 3\n")
    done = cli("run", "--config", path, "-L", "2")
    assert "6 requests built" in done.out
    assert f"--config {path}: the command line overrides limit" in done.err


def test_an_unknown_key_is_an_error_with_its_line_and_the_nearest_name(
    cli: Cli, written: Callable[[str], Path]
) -> None:
    done = cli("run", "--config", written("num_fewshots: 3\n"))
    assert done.code == 2
    assert 'run.yaml:4  num_fewshots: unknown key "num_fewshots" (did you mean "num_fewshot"' in done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1]\n", "run.yaml"),
        ("limit: ten\n", "--limit"),
        ("log_samples: often\n", "log_samples"),
        ("device: !function os.system\n", "is code"),
    ],
)
def test_other_mistakes_are_errors_too(cli: Cli, tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    done = cli("run", "--config", path, "--model", "dummy", "--tasks", "colours")
    assert (done.code, expected in done.err) == (2, True), done.err


def test_a_file_that_is_not_there_is_an_error(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "--config", tmp_path / "none.yaml", "--tasks", "colours")
    assert done.code == 2
    assert "none.yaml" in done.err


def test_values_of_every_shape_arrive_as_on_a_command_line(written: Callable[[str], Path]) -> None:
    path = written(
        "model_args: {pretrained: a, add_bos_token: true}\ngen_kwargs: temperature=0.5\nsamples: {colours: [0, 2]}\n"
        "apply_chat_template: true\nfewshot_as_multiturn: false\nlog_samples: true\nwrite_out: false\ndevice: null\n"
        "wandb_args: {}\nsystem_instruction: --no dashes\n"
    )
    options = read(path)
    assert json.loads(options.model_args[0]) == {"pretrained": "a", "add_bos_token": True}
    assert options.gen_kwargs == ["temperature=0.5"]
    assert json.loads(options.samples) == {"colours": [0, 2]}
    assert (options.apply_chat_template, options.fewshot_as_multiturn) == (True, "false")
    assert options.log_samples
    assert not {"write_out", "device", "wandb_args"} & set(vars(options))
    assert options.system_instruction == "--no dashes"


def test_a_list_on_the_command_line_takes_the_place_of_the_files(written: Callable[[str], Path]) -> None:
    options = read(written("model_args: {a: 1}\n"), "--include_path=here", "-a", "b=2", "--tasks", "x", "y")
    assert (options.include_path, options.model_args, options.tasks) == (["here"], ["b=2"], ["x", "y"])


@pytest.mark.parametrize("name", ELSEWHERE)
def test_sending_results_elsewhere_is_refused_with_the_way_to_do_it(cli: Cli, tmp_path: Path, name: str) -> None:
    done = cli("run", "--model", "dummy", "--tasks", "colours", f"--{name}", "project=x", "name=y")
    assert done.code == 2
    assert f"--{name}: is not an option of assay run. Assay sends results nowhere" in done.err
    assert "--output_path DIR" in done.err
    assert not (tmp_path / "store.db").exists()


def test_sending_results_elsewhere_is_refused_in_a_file_too(cli: Cli, written: Callable[[str], Path]) -> None:
    done = cli("run", "--config", written("hf_hub_log_args: {push_results_to_hub: true}\n"))
    assert (done.code, "hf upload" in done.err) == (2, True)


def test_repeated_options_add_up_as_in_lm_eval() -> None:
    words = ["--model", "hf", "--model_args", "a=1", "--model_args", "b=2", "c=3", "--tasks", "x", "--tasks", "y,z"]
    options = make_parser("run").parse_args(words)
    assert (options.model_args, options.tasks) == (["a=1", "b=2", "c=3"], ["x", "y,z"])


def test_model_arguments_without_a_model_mean_hf(cli: Cli) -> None:
    done = cli("run", "--model_args", "pretrained=nowhere/at/all", "--tasks", "demo")
    assert done.code == 2
    assert "nowhere/at/all" in done.err
