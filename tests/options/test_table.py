"""The table of options: complete, consistent, and the only source of parsers, specification and reference page."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

import pytest

from assay.cli.main import COMMANDS
from assay.core.specs import RunSpec
from assay.core.training import FINETUNE, FIT_KEYS
from assay.options.help import help_text, meaning
from assay.options.option import SWITCH, field_default
from assay.options.parser import NAMES, command, make_parser, parse_command
from assay.options.reference import page
from assay.options.specification import make_spec
from assay.options.table import setting_options, training_options

DOCS = Path(__file__).parents[2] / "docs"
# A value for every setting that a command may offer; those that need another setting come with it.
VALUES = {
    "model_args": ["seed=3"],
    "batch_size": ["4"],
    "device": ["cpu"],
    "engine": ["padded"],
    "metadata": ["a=1"],
    "limit": ["2"],
    "sample": ["2"],
    "sample_seed": ["7", "--sample", "2"],
    "samples": ['{"demo_questions": [0]}'],
    "cluster": ["auto"],
    "num_fewshot": ["1"],
    "fewshot_sampler": ["fixed"],
    "system_instruction": ["Be brief."],
    "like": ["lm-eval"],
    "style": ["letters"],
    "rotations": ["--style", "letters"],
    "metrics": ["acc"],
    "seed": ["5"],
    "gen_kwargs": ["max_gen_toks=8"],
    "orders": ["2", "--style", "letters"],
}


def test_there_is_a_row_for_every_command_and_setting() -> None:
    assert set(NAMES) == set(COMMANDS)
    assert {*training_options(), FINETUNE} == set(FIT_KEYS)


def test_every_path_that_a_row_fills_is_a_field() -> None:
    for option in setting_options().values():
        for path in option.fields:
            field_default(RunSpec, path)
    assert {entry.name for entry in fields(RunSpec)} > {"limit", "options"}


@pytest.mark.parametrize("name", NAMES)
def test_every_help_text_says_what_the_value_is_and_its_default(name: str) -> None:
    for dest, option in command(name).options.items():
        assert option.help and not option.help.lower().startswith("of "), dest
        if option.takes != SWITCH and not (option.is_required or option.is_positional or option.is_hidden):
            assert "(default" in meaning(option) or dest == "apply_chat_template", dest


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_help_fits_on_a_screen(name: str, width: int) -> None:
    lines = help_text(name, command(name), everything=False, width=width).splitlines()
    assert len(lines) <= 52 and max(map(len, lines)) < width


def test_run_shows_the_options_that_people_need() -> None:
    shown, everything = command("run").listed(False), command("run").listed(True)
    assert 18 <= len(shown) <= 24 < len(everything)
    assert {"model", "tasks", "limit", "num_fewshot", "output_path"} <= set(shown)


def test_the_reference_page_is_up_to_date() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == page(), "python -m assay.options.reference > docs/cli.md"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_documents_every_option_that_a_parser_takes(name: str) -> None:
    section = page().partition(f"## assay {name}\n")[2].partition("\n## ")[0]
    flags = [flag for flag in make_parser(name)._option_string_actions if flag.startswith("--")]
    missing = [flag for flag in flags if flag not in section and not flag.startswith("--help")]
    assert missing == []


@pytest.mark.parametrize("flag", ["--metrics", "--metric"])
@pytest.mark.parametrize("name", ["run", "plan", "matrix", "rescore", "compare", "explain", "show"])
def test_metrics_have_one_flag_and_one_alias(name: str, flag: str) -> None:
    assert flag in make_parser(name)._option_string_actions


def test_the_format_has_one_flag() -> None:
    for name in NAMES:
        known = make_parser(name)._option_string_actions
        assert "--json" not in known or known["--json"].dest == "format"
    assert parse_command("ls", ["tasks", "--json"]).options.format == "json"
    assert parse_command("compare", ["a", "b", "--format", "table"]).options.format == "text"


def test_only_what_is_given_becomes_a_setting() -> None:
    line = parse_command("run", ["--model", "dummy", "--tasks", "a,b", "c", "--limit", "3", "--family", "decoder"])
    assert line.settings == {"limit": 3.0, "model_args": {"family": "decoder"}}
    assert (line.options.tasks, line.options.output_path) == (["a", "b", "c"], None)
    assert make_spec("dummy", "a", **line.settings).limit == 3.0


def test_training_settings_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("method: lora\nepochs: 2\nlora-rank: 4\n", encoding="utf-8")
    line = parse_command("run", ["-M", "dummy", "-t", "a", "--finetune", str(path), "--epochs", "1"])
    assert line.settings["finetune"] == {"finetune": "lora", "epochs": "1", "lora_rank": 4}


@pytest.mark.parametrize(("name", "flag"), [("methods", "--style"), ("finetune", "--limit"), ("matrix", "--until_se")])
def test_an_option_without_meaning_is_not_offered(name: str, flag: str) -> None:
    assert flag not in make_parser(name)._option_string_actions
    assert flag[2:] in command(name).refused


@pytest.mark.parametrize("name", NAMES)
def test_no_command_lists_an_option_as_refused_that_it_offers(name: str) -> None:
    flags = {flag[2:] for flag in make_parser(name)._option_string_actions}
    assert not flags & set(command(name).refused)


@pytest.mark.parametrize("name", ["run", "plan", "matrix", "finetune", "methods", "show"])
def test_no_command_refuses_what_it_offers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.cli.main import main

    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    task = ["demo_questions"] if name == "show" else ["--tasks", "demo_questions"]
    offered = [dest for dest in command(name).options if dest in VALUES]
    assert len(offered) >= 10
    for dest in offered:
        option = command(name).options[dest]
        style = "--styles" if name == "methods" else "--style"
        words = [option.flag or f"--{dest}", *(style if word == "--style" else word for word in VALUES[dest])]
        has_limit = "limit" in command(name).options
        few = ["--limit", "2"] if has_limit and dest not in ("limit", "sample", "sample_seed", "samples") else []
        code, errors = main([name, *task, "--model", "dummy", *few, *words]), capsys.readouterr().err
        if name == "finetune":  # every option is read and every task resolved before the model is found untrainable
            assert [line for line in errors.splitlines() if "cannot be trained" not in line] == [], (words, errors)
        else:
            assert code == 0, (words, errors)


def test_a_parser_gives_only_what_was_typed() -> None:
    assert make_parser("compare").parse_args(["a", "b"]) == argparse.Namespace(runs=["a", "b"])


@pytest.mark.parametrize(
    ("name", "flag", "value"), [("finetune", "seed", "7"), ("methods", "gen_kwargs", {"top_k": 3})]
)
def test_options_that_change_the_documents_or_answers_reach_the_run(name: str, flag: str, value: object) -> None:
    word = "7" if flag == "seed" else "top_k=3"
    line = parse_command(name, ["--model", "dummy", "--tasks", "a", f"--{flag}", word])
    assert line.settings == {flag: value}
