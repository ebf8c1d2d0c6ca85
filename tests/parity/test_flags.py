"""The compatibility page lists every flag of `lm_eval run`, and says of none that it is accepted where it is not."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from assay.options.evaluation_commands import ELSEWHERE, WITHOUT_EFFECT
from assay.options.parser import command, make_parser
from parity.flags import FLAGS, VERSION, installed_flags
from parity.installation import VARIABLE

PAGE = (Path(__file__).parents[2] / "docs" / "lm-eval-compatibility.md").read_text(encoding="utf-8")
# Rows of the table of flags: the flag, its short form, what it does.
ROWS = {
    name: (short, message)
    for name, short, message in re.findall(r"^\| `(--\w+)`(?:, `(-\w)`)? \| (.+) \|$", PAGE, flags=re.MULTILINE)
}
NOTHING, REFUSED = "no effect, and says so: ", "refused, with what to do instead: "


def test_the_page_lists_every_flag_and_its_short_form() -> None:
    assert {name: short or None for name, (short, _) in ROWS.items()} == FLAGS
    assert f"lm-eval {VERSION}" in PAGE


def test_every_flag_is_accepted_or_refused_with_what_to_do_instead() -> None:
    ours = make_parser("run")._option_string_actions
    for name, short in FLAGS.items():
        assert (name in ours) != (name[2:] in command("run").refused), name
        if name not in ours:
            continue
        assert short is None or ours[short] is ours[name], name


def test_the_page_says_which_have_no_effect_and_which_are_refused() -> None:
    message = {name[2:]: text for name, (_, text) in ROWS.items()}
    assert {name for name, text in message.items() if text.startswith(NOTHING)} == set(WITHOUT_EFFECT)
    assert {name for name, text in message.items() if text.startswith(REFUSED)} == set(ELSEWHERE)
    for name, reason in WITHOUT_EFFECT.items():
        assert message[name].replace("`", "") == NOTHING + reason


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"needs {VARIABLE}, a Python with lm-eval")
def test_the_recorded_flags_are_those_of_the_installed_lm_eval() -> None:
    assert installed_flags(os.environ[VARIABLE]) == FLAGS
