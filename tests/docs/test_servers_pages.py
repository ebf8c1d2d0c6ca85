"""The pages of servers: all in the table and in the navigation, with commands whose arguments are read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from assay.core.arguments import parse_arguments
from assay.models.http.http_arguments import read_http_arguments

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "servers"
PAGES = sorted(page.name for page in FOLDER.glob("*.md") if page.name != "README.md")


def test_the_table_and_the_navigation_have_every_page() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\]\(([a-z-]+\.md)\)", index))) == PAGES
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = re.findall(r"servers/([a-z-]+\.md)", str(navigation))
    assert sorted(listed) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_are_accepted(page: str) -> None:
    text = (FOLDER / page).read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"assay run --model (\S+) .*?--model_args (\S+)", text)
    assert commands
    for model, arguments in commands:
        if model in ("openai", "openai-chat"):
            assert read_http_arguments(parse_arguments(arguments, "--model_args")).base_url


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_was_tried(page: str) -> None:
    assert re.search(r"^(## Tried for real|Not tried)", (FOLDER / page).read_text(encoding="utf-8"), re.MULTILINE)
