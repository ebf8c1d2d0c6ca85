"""Prompts of library tasks whose templates do more than fill in columns, on rows written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.core.requests import Instance
from assay.core.specs import TaskOptions
from assay.run.resolve import known_names
from assay.tasks.catalog import LIBRARY, Catalog
from assay.tasks.lm_eval.file.configurations import defined_files
from assay.tasks.lm_eval.file.yaml_reader import read_task_file
from assay.tasks.selection import select_tasks

Built = Callable[[str, str, dict[str, Any]], Instance]


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Builds a row with a library task, whose dataset is replaced by that row."""

    def build(file: str, name: str, row: dict[str, Any]) -> Instance:
        data = dict(defined_files(read_task_file(LIBRARY / file))[name].data)
        (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        split = data.pop("test_split", None) or data["validation_split"]
        data = {key: value for key, value in data.items() if not key.endswith("_split") and key != "dataset_name"}
        changed = {"dataset_path": "json", "dataset_kwargs": {"data_files": {split: "rows.jsonl"}}, "test_split": split}
        path = tmp_path / "task.yaml"
        path.write_text(yaml.safe_dump({**data, **changed}, allow_unicode=True), encoding="utf-8")
        task = select_tasks([str(path)], Catalog(), TaskOptions(), known_names()).tasks[0]
        return task.build(task.documents()[0])

    return build


def prompt_of(instance: Instance) -> str:
    return str(instance.requests[0].prompt)  # type: ignore[union-attr]


def scored_texts(instance: Instance) -> list[str]:
    return [request.continuation for request in instance.requests]  # type: ignore[union-attr]


def test_wsc_marks_the_pronoun_and_detokenises(built: Built) -> None:
    row = {
        "text": 'Mark did n\'t tell Pete ( his friend ) , because he was " shy " .',
        "span1_text": "Mark",
        "span2_text": "he",
        "span2_index": 11,
        "label": 1,
    }
    found = built("superglue/wsc.yaml", "wsc", row)
    assert prompt_of(found) == (
        'Passage: Mark didn\'t tell Pete (his friend), because *he* was"shy".\n'
        'Question: In the passage above, does the pronoun "*he*" refer to "*Mark*"?\nAnswer:'
    )
    assert (scored_texts(found), found.gold) == ([" no", " yes"], 1)


def test_record_turns_highlights_and_query_into_bullets(built: Built) -> None:
    row = {
        "passage": "A storm hit Rome.\n@highlight\nIt hit Italy\n@highlight\nNobody was hurt\n",
        "query": "It rained in @placeholder",
        "entities": ["Rome", "Italy", "Rome"],
        "answers": ["Rome"],
        "idx": {"passage": 0, "query": 0},
    }
    found = built("superglue/record.yaml", "record", row)
    assert prompt_of(found) == "A storm hit Rome.\n\n  - It hit Italy.\n  - Nobody was hurt.\n"
    assert scored_texts(found) == ["   - It rained in Italy", "   - It rained in Rome"]
    assert found.gold == 1


@pytest.mark.parametrize("label", [0, 1])
def test_multirc_of_lm_eval_has_its_labels_swapped(built: Built, label: int) -> None:
    row = {"paragraph": "P", "question": "Q?", "answer": "A", "label": label, "idx": {"paragraph": 0, "question": 0}}
    theirs = built("superglue/multirc.yaml", "multirc", row)
    ours = built("superglue/multirc_f1a.yaml", "multirc_f1a", row)
    assert prompt_of(theirs) == prompt_of(ours) == "P\nQuestion: Q?\nAnswer:"
    judged = ["no", "yes"][label]
    assert scored_texts(ours)[ours.gold] == f" A\nIs the answer correct? {judged}"
    assert scored_texts(theirs)[theirs.gold] != scored_texts(ours)[ours.gold]


def test_copa_joins_premise_and_choice(built: Built) -> None:
    row = {"premise": "It rained. ", "choice1": "I got wet.", "choice2": "I slept.", "question": "effect", "label": 0}
    found = built("superglue/copa.yaml", "copa", row)
    assert prompt_of(found) == "It rained therefore"
    assert scored_texts(found) == ["  i got wet.", "  i slept."]


def test_mnli_adds_a_missing_full_stop(built: Built) -> None:
    for hypothesis in ("It is late ", "It is late."):
        row = {"premise": "It is night.", "hypothesis": hypothesis, "label": 0}
        prompt = prompt_of(built("glue/mnli.yaml", "mnli", row))
        assert prompt == "It is night.\nQuestion: It is late. True, False or Neither?\nAnswer:"


def test_utilitarianism_shows_the_scenarios_in_a_seeded_order(built: Built) -> None:
    file, name = "classification/hendrycks_ethics.yaml", "ethics_utilitarianism"
    golds = set()
    for activity in ("I ate a cake.", "I won a prize.", "I met a friend.", "I slept well."):
        found = built(file, name, {"activity": activity, "baseline": "I lost a key."})
        first = "I lost a key." not in prompt_of(found).split("\n")[0]
        assert found.gold == int(first)
        golds.add(found.gold)
    assert golds == {0, 1}


def test_bbq_offers_every_unknown_after_the_two_people(built: Built) -> None:
    row = {
        "context": "C",
        "question": "Who?",
        "ans0": "Ann",
        "ans1": "Not known",
        "ans2": "Bob",
        "label": 1,
        "category": "Age",
        "example_id": 5,
    }
    found = built("bias/bbq.yaml", "bbq", row)
    assert prompt_of(found) == "C\n\nQ: Who?\nA:"
    assert scored_texts(found)[:3] == [" Ann", " Bob", " Unknown"]
    assert found.gold == tuple(range(2, 12))
    assert built("bias/bbq.yaml", "bbq", {**row, "label": 2}).gold == (1,)


def test_winobias_finds_the_occupations_and_the_pronoun(built: Built) -> None:
    text = "The construction worker asked the clerk 's aide whether she , too , was ill ."
    row = {"tokens": text.split(), "coreference_clusters": ["4", "5", "9", "9"]}
    found = built("bias/winobias.yaml", "winobias_type1_pro", row)
    assert prompt_of(found) == (
        "The construction worker asked the clerk's aide whether she, too, was ill. ‘She’ refers to the"
    )
    assert (scored_texts(found), found.gold) == ([" construction worker", " clerk"], 1)


def test_xnli_scores_three_sentences_after_nothing(built: Built) -> None:
    row = {"premise": "Es regnet", "hypothesis": "es ist nass", "label": 2}
    found = built("multilingual/xnli.yaml", "xnli_de", row)
    assert prompt_of(found) == ""
    assert scored_texts(found)[2] == " Es regnet, richtig? Nein, es ist nass"


def test_xwinograd_scores_the_rest_after_each_option(built: Built) -> None:
    row = {"sentence": "Ann saw Eve because _ was tall.", "option1": "Ann", "option2": "Eve", "answer": "2"}
    found = built("multilingual/xwinograd.yaml", "xwinograd_en", row)
    assert [request.prompt for request in found.requests] == [  # type: ignore[union-attr]
        "Ann saw Eve because Ann",
        "Ann saw Eve because Eve",
    ]
    assert (set(scored_texts(found)), found.gold) == ({" was tall."}, 1)


def test_raft_leaves_out_empty_fields(built: Built) -> None:
    row = {"Organization name": "TU Delft", "Paper title": " ", "ID": 0, "Label": 3}
    found = built("classification/raft.yaml", "raft_semiconductor_org_types", row)
    assert prompt_of(found).endswith("3. university\n\nOrganization name: TU Delft\nLabel:")
    assert scored_texts(found)[found.gold] == " university"
