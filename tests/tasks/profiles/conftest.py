"""Task files with the names, columns and prompts of lm-eval's, over a few rows on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.options.specification import make_spec
from assay.run.resolve import resolve_tasks
from assay.tasks.catalog import Catalog
from assay.tasks.selection import Selection

Rows = Sequence[Mapping[str, Any]]
_LETTERS = ["A", "B", "C", "D"]


def _arc(question: str, texts: list[str], key: str) -> dict[str, Any]:
    return {"question": question, "choices": {"text": texts, "label": _LETTERS[: len(texts)]}, "answerKey": key}


def _mmlu(question: str, choices: list[str], answer: int) -> dict[str, Any]:
    return {"question": question, "subject": "high_school_biology", "choices": choices, "answer": answer}


_ARC = ([_arc("What is ice?", ["water", "fire"], "A")], [_arc("What burns?", ["stone", "wood"], "B")])
_ARC_KEYS = {
    "training_split": "train",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{choices.label.index(answerKey)}}",
    "doc_to_choice": "{{choices.text}}",
}
_STEM = {**_ARC_KEYS, "doc_to_text": "question"}


def _story(label: str, begun: str, then: str, endings: list[str], right: str) -> dict[str, Any]:
    """A row of HellaSwag with its own columns and those that lm-eval's code adds."""
    return {
        "activity_label": label,
        "ctx_a": begun,
        "ctx_b": then,
        "ctx": f"{begun} {then}",
        "endings": endings,
        "label": right,
        "query": f"{label}: {begun} {then.capitalize()}".strip(),
        "choices": endings,
    }


_WINOGRANDE = {
    "training_split": "train",
    "doc_to_text": "{{(answer | int) - 1}}",
    "doc_to_target": "{{sentence.split('_')[1].strip()}}",
    "doc_to_choice": "{{[sentence.split('_')[0] + option1, sentence.split('_')[0] + option2]}}",
}
_COMMONSENSE = {
    "training_split": "train",
    "doc_to_text": "Question: {{ question.strip() }}\nA. {{choices['text'][0]}}\nB. {{choices['text'][1]}}\nAnswer:",
    "doc_to_target": "answerKey",
    "doc_to_choice": ["A", "B"],
}
# Name → keys of the file, rows of the examples, rows of the test.
TASKS: dict[str, tuple[dict[str, Any], Rows, Rows]] = {
    "arc_challenge": (_ARC_KEYS, *_ARC),
    "arc_easy": (_ARC_KEYS, *_ARC),
    "openbookqa": (_STEM, *_ARC),
    "commonsense_qa": (_COMMONSENSE, *_ARC),
    "mmlu_high_school_biology": (
        {
            "fewshot_split": "train",
            "description": "The file's own words.\n\n",
            "doc_to_text": "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nAnswer:",
            "doc_to_target": "answer",
            "doc_to_choice": ["A", "B"],
        },
        [_mmlu("A cell is", ["alive", "dead"], 0)],
        [_mmlu("A gene is", ["a stone", "a code"], 1)],
    ),
    "piqa": (
        {
            "training_split": "train",
            "doc_to_text": "Question: {{goal}}\nAnswer:",
            "doc_to_target": "label",
            "doc_to_choice": "{{[sol1, sol2]}}",
        },
        [{"goal": "To cut", "sol1": "use a knife.", "sol2": "use a pillow.", "label": 0}],
        [{"goal": "To dry", "sol1": "use water.", "sol2": "use a towel.", "label": 1}],
    ),
    "hellaswag": (
        {
            "training_split": "train",
            "doc_to_text": "{{query}}",
            "doc_to_target": "{{label}}",
            "doc_to_choice": "choices",
        },
        [_story("Cooking", "A man cuts.", "he", ["fries it.", "flies."], "0")],
        [_story("Sport", "A: b.", "she", ["sinks.", "runs."], "1")],
    ),
    "winogrande": (
        _WINOGRANDE,
        [{"sentence": "Ann met Eve and _ smiled.", "option1": "Ann", "option2": "Eve", "answer": "1"}],
        [{"sentence": "Bob saw Tim as _ left.", "option1": "Bob", "option2": "Tim", "answer": "2"}],
    ),
    "boolq": (
        {
            "training_split": "train",
            "doc_to_text": "{{passage}}\nQuestion: {{question}}?\nAnswer:",
            "doc_to_target": "label",
            "doc_to_choice": ["no", "yes"],
        },
        [{"passage": "Ice is cold.", "question": "is ice hot", "label": 0}],
        [{"passage": "Fire is hot.", "question": "is fire hot", "label": 1}],
    ),
    "social_iqa": (
        {
            "training_split": "train",
            "doc_to_text": "Q: {{context}} {{question}}\nA:",
            "doc_to_target": "{{ (label|int) - 1 }}",
            "doc_to_choice": "{{[answerA, answerB, answerC]}}",
        },
        [
            {
                "context": "Ann fell.",
                "question": "What now?",
                "answerA": "cry",
                "answerB": "x",
                "answerC": "y",
                "label": "1",
            }
        ],
        [
            {
                "context": "Bob won.",
                "question": "How is he?",
                "answerA": "a",
                "answerB": "glad",
                "answerC": "c",
                "label": "2",
            }
        ],
    ),
    "blimp_x": (
        {"doc_to_text": "", "doc_to_target": 0, "doc_to_choice": "{{[good, bad]}}", "num_fewshot": 0},
        [],
        [{"good": "He runs.", "bad": "He run."}],
    ),
    "medqa_4options": (_COMMONSENSE, *_ARC),
    "race": (_ARC_KEYS, *_ARC),
    "truthfulqa_mc1": (_ARC_KEYS, *_ARC),
    "quiz": (_ARC_KEYS, *_ARC),
    "sums": (
        {
            "output_type": "generate_until",
            "doc_to_text": "question",
            "doc_to_target": "answerKey",
            "doc_to_choice": None,
        },
        *_ARC,
    ),
}
TASKS["gsm8k"] = TASKS["sums"]


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., Path]:
    """Writes one of the tasks above, perhaps with other keys, another name or other rows, and gives its folder."""

    def write(
        name: str, like: str | None = None, train: Rows | None = None, test: Rows | None = None, **more: Any
    ) -> Path:
        keys, examples, rows = TASKS[like or name]
        splits = {"train": examples if train is None else train, "test": rows if test is None else test}
        splits = {split: found for split, found in splits.items() if found}
        for split, found in splits.items():
            text = "".join(json.dumps(row) + "\n" for row in found)
            (tmp_path / f"{name}-{split}.jsonl").write_text(text, encoding="utf-8")
        data = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {split: f"{name}-{split}.jsonl" for split in splits}},
            "output_type": "multiple_choice",
            "test_split": "test",
            **keys,
            **more,
        }
        data = {key: value for key, value in data.items() if value is not None}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def select(tmp_path: Path) -> Callable[..., Selection]:
    """The requests of a run of tasks in the folder."""

    def select(names: str, like: str | Path | None, **settings: Any) -> Selection:
        listed = names.split(",")
        chosen = str(like) if like is not None else None
        spec = make_spec("dummy", listed, include_path=tmp_path, like=chosen, **settings)
        return resolve_tasks(spec, (), Catalog([tmp_path]))

    return select
