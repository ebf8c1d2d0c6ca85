"""The user's own texts as tasks: names, groups, notices, windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.requests import RollingLoglikelihood, Windows
from assay.core.specs import TaskOptions, TextOptions
from assay.tasks.text_tasks import TextCorpus, open_corpus


def opened(path: Path, **texts: Any) -> TextCorpus:
    return open_corpus(f"text:{path}", TaskOptions(texts=TextOptions(**texts)))


def lines(path: Path, *texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    return path


def test_one_domain_is_one_task_named_by_its_path(tmp_path: Path) -> None:
    path = lines(tmp_path / "e.jsonl", "a", "b")
    corpus = opened(path)
    assert corpus.group is None and [task.card.name for task in corpus.tasks] == [f"text:{path}"]
    documents = corpus.tasks[0].documents()
    assert documents[1].fields == {"text": "b", "source": f"{path}:2"}


def test_several_domains_are_a_pooled_group(tmp_path: Path) -> None:
    lines(tmp_path / "c" / "web.jsonl", "one", "two")
    lines(tmp_path / "c" / "news.jsonl", "three")
    corpus = opened(tmp_path / "c")
    assert corpus.group is not None and corpus.group.is_pooled
    assert corpus.group.members == (f"text:{tmp_path}/c:news", f"text:{tmp_path}/c:web")
    assert [(task.card.alias, len(task.documents())) for task in corpus.tasks] == [("news", 1), ("web", 2)]


def test_empty_documents_are_counted_in_a_notice(tmp_path: Path) -> None:
    corpus = opened(lines(tmp_path / "e.jsonl", "", " ", ""))
    assert corpus.notices == (f"text:{tmp_path}/e.jsonl: documents without any text were left out (2)",)
    assert corpus.tasks[0].empty == 2


def test_documents_are_evaluated_in_the_windows_of_the_run(tmp_path: Path) -> None:
    (task,) = opened(lines(tmp_path / "e.jsonl", "b"), window=64, stride=16).tasks
    assert task.build(task.documents()[0]).requests == (RollingLoglikelihood("b", windows=Windows(64, 16)),)
    assert task.card.config["perplexity"] == {"window": 64, "stride": 16}
