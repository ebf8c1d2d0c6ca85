"""Tasks with their own code, from task file to score."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.api import show_document
from assay.core.errors import DataError, TaskFileError, UserError
from assay.core.requests import Generation, Loglikelihood
from assay.core.responses import Logprob, Text
from assay.core.results import RunResult
from assay.testing import ScriptedModel

pytest.importorskip("datasets")

ROWS = [{"q": f"{n} + {n}", "a": str(2 * n), "n": n} for n in range(1, 7)]
BASE = "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return tmp_path


def answer(request: Any) -> Any:
    """Right for sums up to 6, and certain of even numbers."""
    if isinstance(request, Generation):
        left = request.prompt.rpartition("=")[0].split()[-1] if isinstance(request.prompt, str) else "0"
        return Text(str(2 * int(left)) if int(left) < 4 else "none")
    return Logprob(-1.0 if isinstance(request, Loglikelihood) and request.continuation.endswith("4") else -2.0, 1, True)


@pytest.fixture
def run(folder: Path) -> Callable[..., RunResult]:
    def go(yaml: str, code: str, **settings: Any) -> RunResult:
        (folder / "toy.yaml").write_text(yaml, encoding="utf-8")
        (folder / "utils.py").write_text(code, encoding="utf-8")
        settings = {"include_path": folder, "allow_code": True, **settings}
        return evaluate(ScriptedModel(answer), "toy", store=":memory:", **settings)

    return go


GENERATED = f"task: toy\n{BASE}doc_to_text: '{{{{q}}}} ='\ndoc_to_target: a\n"


def values(result: RunResult) -> dict[str, float | None]:
    return {f"{m.metric},{m.filter}": m.estimate.value for m in result.tasks[0].metrics}


def test_every_place_that_may_hold_code(run: Callable[..., RunResult]) -> None:
    yaml = f"""
task: toy
{BASE}
process_docs: !function utils.odd
doc_to_text: !function utils.text
doc_to_target: !function utils.target
num_fewshot: 1
fewshot_config:
  samples: !function utils.samples
  doc_to_text: !function utils.shown
filter_list:
  - name: own
    filter:
      - function: !function utils.Digits
      - function: take_first
  - name: custom
    filter:
      - function: custom
        filter_fn: !function utils.first_words
metric_list:
  - metric: !function utils.closeness
    aggregation: !function utils.best
    higher_is_better: true
  - metric: exact_match
"""
    code = """
from lm_eval.api.filter import Filter

def odd(dataset):
    return dataset.filter(lambda row: row["n"] % 2)

def text(doc):
    doc["seen"] = True
    return f"{doc['q'].split()[0]} ="

def shown(doc):
    return "Q: " + doc["q"]

def target(doc):
    return doc["a"]

def samples():
    return [{"q": "0 + 0", "a": "0"}]

class Digits(Filter):
    def apply(self, resps, docs):
        assert "seen" not in docs[0]
        return map(lambda inst: ["".join(filter(str.isdigit, text)) for text in inst], resps)

def first_words(resps, docs):
    return [inst[0].split()[0] for inst in resps]

def closeness(items):
    return (items[0], items[1])

def best(items):
    return sum(right == said for right, said in items) / 10
"""
    result = run(yaml, code)
    # Documents 1, 3, 5: the first two are answered rightly.
    assert values(result) == {
        "closeness,own": 0.2,
        "exact_match,own": pytest.approx(2 / 3),
        "closeness,custom": 0.2,
        "exact_match,custom": pytest.approx(2 / 3),
    }
    assert result.tasks[0].answered[0].instance.requests[0].prompt == "Q: 0 + 0 0\n\n1 ="  # type: ignore[union-attr]


def test_a_task_may_score_by_itself(run: Callable[..., RunResult]) -> None:
    yaml = GENERATED + "process_results: !function utils.judge\nmetric_list:\n  - {metric: odd, aggregation: median}\n"
    code = (
        "def judge(doc, results):\n    return {'odd': doc['n'], **({'right': 1} if results[0] == doc['a'] else {})}\n"
    )
    result = run(yaml, code)
    assert values(result) == {"odd,none": 4, "right,none": 1.0}
    assert [metric.estimate.n for metric in result.tasks[0].metrics] == [6, 3]


def test_a_dataset_may_be_made_by_code(run: Callable[..., RunResult]) -> None:
    yaml = (
        "task: toy\ncustom_dataset: !function utils.make\nmetadata: {sizes: [2]}\ntest_split: test\n"
        "doc_to_text: '{{n}} ='\ndoc_to_target: '{{n * 2}}'\n"
    )
    code = "def make(sizes, extra=0, **notes):\n    return {'test': [{'n': n + extra} for n in range(sizes[0])]}\n"
    assert run(yaml, code).tasks[0].denominators.total == 2
    assert run(yaml, code, metadata={"sizes": [3], "extra": 5}).tasks[0].denominators.total == 3


def test_documents_drawn_at_random_are_the_same_every_time(run: Callable[..., RunResult]) -> None:
    code = (
        "import random\ndef shuffled(dataset):\n    rows = list(dataset)\n    random.shuffle(rows)\n    return rows\n"
    )
    runs = [run(GENERATED + "process_docs: !function utils.shuffled\n", code) for _ in range(2)]
    orders = [[item.document.fields["n"] for item in result.tasks[0].answered] for result in runs]
    assert orders[0] == orders[1] != sorted(orders[0])


def test_a_sampler_class_chooses_the_examples(run: Callable[..., RunResult], folder: Path) -> None:
    code = (
        "from lm_eval.api.samplers import ContextSampler\nclass Last(ContextSampler):\n"
        "    def sample(self, n, eval_doc=None, **kwargs):\n        return self.df[-n:]\n"
    )
    run(GENERATED + "fewshot_split: test\nfewshot_config: {sampler: !function utils.Last}\n", code, num_fewshot=2)
    (shown,) = show_document("toy", include_path=folder, allow_code=True, num_fewshot=2)
    assert [(item.origin, item.place) for item in shown.examples] == [("split test", 4), ("split test", 5)]


CLASS = """
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

class Sums(ConfigurableTask):
    VERSION = 7

    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": self.VERSION}})

    def download(self, *args, **kwargs):
        self.dataset = {"test": [{"n": n} for n in range(1, 7)], "train": [{"n": 0}, {"n": 9}]}

    def has_training_docs(self):
        return True

    def training_docs(self):
        return self.dataset["train"]

    def has_test_docs(self):
        return True

    def test_docs(self):
        return self.dataset["test"]

    def doc_to_text(self, doc):
        return f"{doc['n']} ="

    def doc_to_target(self, doc):
        return str(2 * doc["n"])

    def construct_requests(self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs):
        return [
            Instance(request_type="generate_until", doc=doc, arguments=(ctx, {"until": ["."]}), idx=0, **kwargs),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " 4"), idx=1, **kwargs),
        ]

    def process_results(self, doc, results):
        text, (total, greedy) = results
        return {"right": text == self.doc_to_target(doc), "total": total}

    def aggregation(self):
        return {"right": mean, "total": max}

    def higher_is_better(self):
        return {"right": True, "total": False}
"""


def test_a_class_is_a_task(run: Callable[..., RunResult]) -> None:
    result = run("task: toy\nclass: !function utils.Sums\n", CLASS)
    assert values(result) == {"right,none": 0.5, "total,none": -1.0}
    right, total = result.tasks[0].metrics
    assert right.harness_stderr == pytest.approx(0.2236067977)
    assert (right.higher_is_better, total.higher_is_better, total.harness_stderr) == (True, False, None)
    task = result.tasks[0]
    assert (task.card.version, task.card.kind) == (7, "class")
    generation, likelihood = task.answered[0].instance.requests
    assert generation == Generation("1 =", (".",), None)
    assert likelihood == Loglikelihood("1 =", " 4")


def test_a_class_has_examples_and_conversations(run: Callable[..., RunResult], folder: Path) -> None:
    run("task: toy\nclass: !function utils.Sums\n", CLASS)
    (shown,) = show_document("toy", 1, include_path=folder, allow_code=True, num_fewshot=1)
    assert shown.instance.requests[0].prompt in ("0 = 0\n\n2 =", "9 = 18\n\n2 =")  # type: ignore[union-attr]
    (shown,) = show_document(
        "toy", 1, include_path=folder, allow_code=True, apply_chat_template=True, system_instruction="Be brief."
    )
    prompt = shown.instance.requests[0].prompt  # type: ignore[union-attr]
    assert [(message.role, message.text) for message in prompt] == [("system", "Be brief."), ("user", "2 =")]  # type: ignore[union-attr]


def test_a_class_without_scores_of_its_own_uses_its_configuration(run: Callable[..., RunResult]) -> None:
    code = (
        "from lm_eval.api.task import ConfigurableTask\nclass Plain(ConfigurableTask):\n"
        "    def __init__(self, config):\n        super().__init__(config=config)\n"
        "    def download(self, *args, **kwargs):\n        self.dataset = {'test': [{'n': n} for n in range(1, 5)]}\n"
    )
    yaml = (
        "task: toy\nclass: !function utils.Plain\ntest_split: test\n"
        "doc_to_text: '{{n}} ='\ndoc_to_target: '{{2 * n}}'\n"
        "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    )
    assert values(run(yaml, code)) == {"exact_match,none": 0.75}


@pytest.mark.parametrize(
    ("yaml", "code", "expected"),
    [
        ("process_docs: !function utils.f\n", "def f(data):\n    return data['nonesuch']\n", "its function failed: "),
        ("process_docs: !function utils.f\n", "def f(data):\n    return []\n", 'the split "test" is empty'),
    ],
)
def test_failing_code_is_reported_with_its_place(
    run: Callable[..., RunResult], yaml: str, code: str, expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        run(GENERATED + yaml, code)


def test_code_that_fails_in_scoring_is_reported_with_its_place(run: Callable[..., RunResult]) -> None:
    result = run(GENERATED + "process_results: !function utils.f\n", "def f(doc, results):\n    1 / 0\n")
    problem = result.tasks[0].problem
    assert problem is not None and "document 0: process_results raised ZeroDivisionError" in problem.text


@pytest.mark.parametrize(
    ("code", "error", "expected"),
    [
        ("Sums = 3\n", TaskFileError, "is a int; expected a class"),
        ("class Sums:\n    pass\n", TaskFileError, "Sums is not a task"),
        (
            "class Sums:\n    def __init__(self):\n        raise KeyError('x')\n",
            DataError,
            "its function failed: KeyError",
        ),
        (
            CLASS.replace("return f\"{doc['n']} =\"", "return doc['m']"),
            DataError,
            "document 0: its class failed: KeyError",
        ),
    ],
)
def test_a_failing_class_is_reported(
    run: Callable[..., RunResult], code: str, error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        run("task: toy\nclass: !function utils.Sums\n", code)


def test_code_of_a_file_given_by_its_path_may_run_too(folder: Path) -> None:
    (folder / "toy.yaml").write_text(GENERATED.replace("doc_to_target: a", "doc_to_target: !function utils.f"))
    (folder / "utils.py").write_text("def f(doc):\n    return doc['a']\n")
    path = str(folder / "toy.yaml")
    with pytest.raises(TaskFileError, match="add --allow_code"):
        evaluate(ScriptedModel(answer), path, store=":memory:")
    assert evaluate(ScriptedModel(answer), path, store=":memory:", allow_code=True).tasks[0].denominators.total == 6


def test_tasks_that_run_what_the_model_wrote_need_consent(run: Callable[..., RunResult]) -> None:
    yaml = GENERATED + "unsafe_code: true\n"
    with pytest.raises(UserError, match="--confirm_run_unsafe_code"):
        run(yaml, "")
    assert run(yaml, "", confirm_run_unsafe_code=True).tasks[0].denominators.total == 6


def test_tasks_with_pictures_are_refused_before_anything_runs(run: Callable[..., RunResult]) -> None:
    with pytest.raises(UserError, match="asks about images, which no model of this version takes"):
        run(GENERATED + "doc_to_image: q\n", "")
