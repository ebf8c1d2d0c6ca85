"""Rules of the library's task files, checked on the files themselves: cards, datasets that can be loaded, size."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from assay.data.load_faults import SCRIPT_REPLACEMENTS
from assay.data.sources import FILE_BUILDERS
from assay.run.resolve import known_names
from assay.tasks.catalog import LIBRARY
from assay.tasks.lm_eval.file.card import CARD_KEYS, REQUIRED, primary_faults
from assay.tasks.lm_eval.file.configurations import defined_files
from assay.tasks.lm_eval.file.schema import group_faults, task_faults
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, read_task_file

PATHS = {path.relative_to(LIBRARY).as_posix(): path for path in sorted(LIBRARY.rglob("*.yaml"))}
DEFINING = {name: path for name, path in PATHS.items() if not path.name.startswith("_")}
FAMILIES = {
    *("bias", "classification", "commonsense", "demo", "glue", "grammar", "instruction_following", "knowledge"),
    *("language_modeling", "math", "mixtures", "multilingual", "nli", "qa", "reading", "reasoning", "suites"),
    *("summarization", "superglue", "translation"),
}
# Repositories that `datasets` 4 and later cannot load from their main branch: those with a loading script that a sweep
# of all of lm-eval's datasets found in July 2026, others of this kind, and repositories that were taken down.
UNLOADABLE = {
    *SCRIPT_REPLACEMENTS,
    *("EleutherAI/advanced_ai_risk", "EleutherAI/persona", "EleutherAI/sycophancy", "asi/wikitext_fr", "baber/logiqa2"),
    *("bigbio/meddialog", "bigbio/mediqa_qa", "bigbio/meqsum", "demelin/moral_stories", "EdinburghNLP/orange_sum"),
    *("facebook/mlqa", "HAERAE-HUB/csatqa", "Helsinki-NLP/tatoeba_mt", "Hennara/aexams", "IWSLT/iwslt2017"),
    *("kumapo/JAQKET", "LSDSem/story_cloze", "loubnabnl/humaneval_infilling", "masakhane/mafand"),
    *("masakhane/masakhapos", "orai-nlp/basqueGLUE", "PlanTL-GOB-ES/wnli-es", "Rakuten/JGLUE", "tyouisen/aclue"),
    *("ZoneTwelve/tmmluplus", "tau/scrolls", "livecodebench/code_generation_lite", "EdinburghNLP/xsum"),
    *("lighteval/logiqa_harness", "EleutherAI/qa4mre", "hendrycks/competition_math", "lukaemon/bbh", "LTCB/enwik8"),
}
# The Hub's own conversion, which has no script.
CONVERTED = "refs/convert/parquet"
MOST_DESCRIPTION = 100
MOST_WHEEL_BYTES = 3_000_000


def files_of(path: Path) -> Iterator[TaskFile]:
    yield from defined_files(read_task_file(path)).values()


def tasks_of(path: Path) -> list[TaskFile]:
    return [file for file in files_of(path) if "group" not in file.data]


@pytest.mark.parametrize("name", DEFINING)
def test_a_file_is_in_the_folder_of_its_family_and_has_its_name(name: str) -> None:
    family, _, file = name.partition("/")
    assert family in FAMILIES
    data = read_task_file(DEFINING[name]).data
    assert file == f"{data.get('group', data.get('task'))}.yaml"


@pytest.mark.parametrize("name", DEFINING)
def test_a_file_has_no_faults(name: str) -> None:
    for file in files_of(DEFINING[name]):
        found = group_faults(file) if "group" in file.data else task_faults(file, known_names())
        assert [*found, *file.repeated, *primary_faults(file)] == []


@pytest.mark.parametrize("name", DEFINING)
def test_every_card_has_what_listings_and_reports_need(name: str) -> None:
    for file in tasks_of(DEFINING[name]):
        card = file.data.get("card", {})
        assert {key for key in REQUIRED if key not in card} == set(), file.data["task"]
        assert [key for key in REQUIRED if card[key] in ("", [])] == []
    for file in files_of(DEFINING[name]):
        description = file.data["card"]["description"]
        assert len(description) <= MOST_DESCRIPTION and description.endswith((".", "?", "!"))


@pytest.mark.parametrize("name", [name for name in DEFINING if not name.startswith("demo/")])
def test_every_benchmark_has_a_title_a_version_and_known_faults(name: str) -> None:
    for file in files_of(DEFINING[name]):
        assert {"title", "traps"} - file.data["card"].keys() == set(), name
        is_inner = "group" in file.data and "configurations" in read_task_file(DEFINING[name]).data
        assert is_inner or (file.data.get("metadata") or {}).get("version") is not None, name


@pytest.mark.parametrize("name", DEFINING)
def test_the_same_task_of_lm_eval_has_the_same_name(name: str) -> None:
    # A family may name its counterpart once. So a file that includes another cannot take its facts by accident.
    names = {file.data.get("group", file.data.get("task")): file for file in files_of(DEFINING[name])}
    for own, file in names.items():
        theirs = file.data["card"].get("lm_eval") or {}
        is_named = own == theirs.get("task") or (len(names) > 1 and own.startswith(str(theirs.get("task"))))
        assert is_named or not theirs.get("same"), own


@pytest.mark.parametrize("name", DEFINING)
def test_languages_are_codes(name: str) -> None:
    for file in tasks_of(DEFINING[name]):
        assert [code for code in file.data["card"]["languages"] if not re.fullmatch(r"[a-z]{2,3}(-\w+)*", code)] == []


@pytest.mark.parametrize("name", DEFINING)
def test_datasets_load_without_a_script(name: str) -> None:
    for file in tasks_of(DEFINING[name]):
        path, options = file.data["dataset_path"], file.data.get("dataset_kwargs") or {}
        assert path in FILE_BUILDERS or re.fullmatch(r"[\w.-]+/[\w.-]+", path), f"{path}: write owner/name"
        assert path not in UNLOADABLE or options.get("revision") == CONVERTED, f"{path} has a script"
        assert "trust_remote_code" not in options
        # The conversion names no configurations: each is a folder, and `datasets` knows only the name "default".
        assert options.get("revision") != CONVERTED or file.data.get("dataset_name") is None, f"{path}: write data_dir"


@pytest.mark.parametrize("name", PATHS)
def test_no_file_names_code(name: str) -> None:
    assert "!function" not in PATHS[name].read_text(encoding="utf-8")


def test_the_wheel_stays_small() -> None:
    package = Path(assay.__file__).parent
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(len(zlib.compress(path.read_bytes())) for path in files) < MOST_WHEEL_BYTES


def test_required_facts_are_keys_of_a_card() -> None:
    assert {*REQUIRED} <= CARD_KEYS.keys()
