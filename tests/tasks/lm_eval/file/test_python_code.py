"""Code that task files name: refused without consent, imported with it, and `lm_eval` means our names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import TaskFileError
from assay.core.specs import TaskOptions
from assay.lm_eval_shim.module_table import SHIM
from assay.tasks.catalog import Catalog
from assay.tasks.lm_eval.file.code_outline import missing_code_faults
from assay.tasks.lm_eval.file.python_code import CodeLoader, Consent, Shim, consent
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, read_task_file
from assay.tasks.selection import select_tasks

Write = Callable[..., Path]
TASK = "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\ndoc_to_target: a\n"


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Any]:
    """Loads a reference as if it stood in a task file of the folder."""
    loader = CodeLoader(Consent((tmp_path.resolve(),)), SHIM)

    def run(text: str, folder: Path = tmp_path) -> Any:
        return loader.load(FunctionReference(text, folder), "toy.yaml:3  process_docs")

    return run


def code(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_function_beside_the_task_file_is_found(tmp_path: Path, load: Callable[..., Any]) -> None:
    code(tmp_path, "utils.py", "def double(x):\n    return 2 * x\n")
    code(tmp_path, "inner/more.py", "THREE = 3\n")
    assert load("utils.double")(4) == 8
    assert load("inner.more.THREE") == 3


def test_two_references_share_one_module(tmp_path: Path, load: Callable[..., Any]) -> None:
    code(tmp_path, "utils.py", "seen = []\ndef add(x):\n    seen.append(x)\n")
    load("utils.add")(1)
    assert load("utils.seen") == [1]


def test_a_module_may_be_an_installed_one(load: Callable[..., Any]) -> None:
    assert load("json.decoder.JSONDecoder").__name__ == "JSONDecoder"


def test_lm_eval_means_our_names(tmp_path: Path, load: Callable[..., Any]) -> None:
    text = (
        "from lm_eval.utils import general_detokenize\n"
        "from lm_eval.api.filter import Filter\n"
        "import lm_eval.api.metrics\n"
        "def late(x):\n    from lm_eval.api.metrics import mean\n    return mean(x)\n"
        "def whole(x):\n    return lm_eval.api.metrics.mean(x)\n"
        "class Own(Filter):\n    pass\n"
    )
    code(tmp_path, "utils.py", text)
    assert load("utils.general_detokenize").__module__ == "assay.lm_eval_shim.text_functions"
    assert load("utils.late")([1, 2]) == load("utils.whole")([1, 2]) == 1.5
    assert load("utils.Own").__mro__[1].__module__ == "assay.lm_eval_shim.filter_classes"
    assert "lm_eval" not in sys.modules


def test_an_installed_lm_eval_is_never_taken(
    tmp_path: Path, load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    code(tmp_path, "site/lm_eval/__init__.py", "raise SystemExit('the real one')\n")
    code(tmp_path, "site/lm_eval/utils.py", "raise SystemExit('the real one')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    code(tmp_path, "utils.py", "from lm_eval.utils import weighted_f1_score\n")
    assert load("utils.weighted_f1_score").__module__ == "assay.lm_eval_shim.text_functions"


def test_modules_of_the_task_folder_import_each_other(tmp_path: Path, load: Callable[..., Any]) -> None:
    code(tmp_path, "math/grader.py", "def grade():\n    return 'graded'\n")
    code(tmp_path, "deep/pack/__init__.py", "LEVEL = 2\n")
    code(tmp_path, "deep/pack/one.py", "from . import LEVEL\nfrom .two import TWO\nfrom ..up import UP\n")
    code(tmp_path, "deep/pack/two.py", "TWO = 2\n")
    code(tmp_path, "deep/up.py", "UP = 'up'\n")
    code(
        tmp_path,
        "utils.py",
        "from lm_eval.tasks.math.grader import grade\nfrom lm_eval.tasks.math import grader\n"
        "import lm_eval.tasks.deep.pack.one as one\n",
    )
    assert load("utils.grade")() == load("utils.grader").grade() == "graded"
    assert (load("utils.one").TWO, load("utils.one").UP, load("utils.one").LEVEL) == (2, "up", 2)
    assert load("lm_eval.tasks.deep.up.UP") == "up"


def test_dataclasses_with_late_annotations_work(tmp_path: Path, load: Callable[..., Any]) -> None:
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass Box:\n    x: int\n"
    code(tmp_path, "utils.py", text)
    assert load("utils.Box")(3).x == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import nonesuch_package\n", "Run: pip install nonesuch_package"),
        ("from sklearn.nonesuch import x\n", "The installed version of sklearn is not the one"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
        ("def (:\n", "cannot be imported: SyntaxError"),
        ("raise SystemExit('no swipl')\n", "it ends the program (no swipl)"),
        ("from lm_eval.models.huggingface import HFLM\n", "Assay does not provide 'lm_eval.models'"),
        ("from lm_eval.api.task import Nonesuch\n", "cannot import name 'Nonesuch'"),
        ("from lm_eval.tasks.nowhere import x\n", "No module named 'lm_eval.tasks.nowhere'"),
        ("x = 1\n", "has no wanted"),
    ],
)
def test_code_that_fails_says_how(tmp_path: Path, load: Callable[..., Any], text: str, expected: str) -> None:
    pytest.importorskip("sklearn")
    code(tmp_path, "utils.py", text)
    for _ in range(2):  # the second time from memory
        with pytest.raises(TaskFileError) as caught:
            load("utils.wanted")
        assert str(caught.value).startswith("toy.yaml:3  process_docs: ")
        assert expected in str(caught.value)


def test_a_failing_module_is_run_once(tmp_path: Path, load: Callable[..., Any]) -> None:
    code(tmp_path, "utils.py", f"with open({str(tmp_path / 'log')!r}, 'a') as log:\n    log.write('x')\n1 / 0\n")
    for name in ("a", "b"):
        with pytest.raises(TaskFileError):
            load(f"utils.{name}")
    assert (tmp_path / "log").read_text() == "x"


def test_code_outside_the_allowed_folders_is_not_imported(tmp_path: Path) -> None:
    code(tmp_path, "mine/utils.py", "from lm_eval.tasks.other import y\nfrom ..theirs.bad import x\n")
    code(tmp_path, "theirs/bad.py", "x = 1\n")
    code(tmp_path, "mine/other.py", "y = 1\n")
    loader = CodeLoader(Consent(((tmp_path / "mine").resolve(),)), SHIM)
    with pytest.raises(TaskFileError, match="lies outside the folders whose code may run"):
        loader.load(FunctionReference("utils.x", tmp_path / "mine"), "t")


# Consent


def test_consent_is_for_all_folders_or_for_packages(tmp_path: Path) -> None:
    assert consent(False, [tmp_path]).folders == ()
    assert consent(True, [tmp_path]).covers(tmp_path / "x" / "y")
    assert not consent(True, [tmp_path]).covers(tmp_path.parent)
    json_folder = Path(sys.modules["json"].__file__ or "").parent
    assert consent(["json"], [tmp_path]).folders == (json_folder.resolve(),)
    with pytest.raises(TaskFileError, match='no installed package "nonesuch"'):
        consent(["nonesuch"], [])


@pytest.mark.parametrize("name", ["lm_eval", "lm-eval"])
def test_trust_in_a_package_that_is_not_installed_says_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: None)
    with pytest.raises(TaskFileError, match=r"Run: pip install 'assay-eval\[lm-eval-tasks\]'"):
        consent([name], [])
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: object())
    with pytest.raises(TaskFileError, match="Say: --trust_package lm_eval"):
        consent(["lm-eval"], [])


def test_without_consent_the_code_that_wants_to_run_is_listed(
    tmp_path: Path, write_yaml: Write, names: KnownNames
) -> None:
    code(tmp_path, "utils.py", "raise SystemExit('ran')\n")
    for name in ("a", "b"):
        write_yaml(f"{name}.yaml", f"task: {name}\ndoc_to_text: !function utils.ask\n{TASK}")
    write_yaml("g.yaml", "group: g\ntask: [a, b]\n")
    with pytest.raises(TaskFileError) as caught:
        select_tasks(["g"], Catalog([tmp_path]), TaskOptions(), names)
    (fault,) = caught.value.faults
    assert str(fault).startswith(f"{tmp_path / 'utils.py'}: is Python code that task files want to run: ask (")
    assert "a.yaml:2  doc_to_text" in str(fault)
    assert str(fault).endswith("Read it; if you trust it, add --allow_code")


def test_code_outside_the_named_folders_needs_its_folder_too(
    tmp_path: Path, write_yaml: Write, names: KnownNames
) -> None:
    code(tmp_path, "utils.py", "raise SystemExit('ran')\n")
    file = write_yaml("a.yaml", f"task: a\ndoc_to_text: !function utils.ask\n{TASK}")
    with pytest.raises(TaskFileError, match="name its folder in --include_path and add --allow_code"):
        select_tasks([str(file)], Catalog([]), TaskOptions(), names)


def test_a_class_is_refused_like_a_function(tmp_path: Path, write_yaml: Write, names: KnownNames) -> None:
    write_yaml("a.yaml", "task: a\nclass: !function task.Own\n")
    with pytest.raises(TaskFileError, match="the module task: is Python code"):
        select_tasks(["a"], Catalog([tmp_path]), TaskOptions(), names, CodeLoader(Consent(), Shim()))


# Looking without running


def test_references_are_checked_without_running_anything(tmp_path: Path, write_yaml: Write) -> None:
    code(
        tmp_path,
        "utils.py",
        "raise SystemExit('ran')\ntry:\n    import x as y\nexcept E:\n    y = None\ndef ask(): ...\n",
    )
    text = (
        "doc_to_text: !function utils.ask\ndoc_to_target: !function utils.y\ndoc_to_choice: !function utils.aks\n"
        "process_docs: !function nowhere.f\nprocess_results: !function json.loads\n"
    )
    faults = missing_code_faults(read_task_file(write_yaml("toy.yaml", text)))
    assert [str(fault).partition("toy.yaml:")[2] for fault in faults] == [
        f'3  doc_to_choice: {tmp_path / "utils.py"} has no aks (did you mean "ask"?); '
        "expected a function or class that it defines",
        f'4  process_docs: "!function nowhere.f" names code that does not exist; '
        f"expected a file {tmp_path / 'nowhere.py'}, "
        "or an installed module nowhere",
    ]


@pytest.mark.parametrize("text", ["from os import *\n", "globals()['pa' + 'th'] = 1\n"])
def test_code_may_make_names_that_it_does_not_write_down(tmp_path: Path, write_yaml: Write, text: str) -> None:
    code(tmp_path, "utils.py", text)
    assert missing_code_faults(read_task_file(write_yaml("toy.yaml", "doc_to_text: !function utils.path\n"))) == []
