"""Contract checks: does a model or a task keep the rules of its protocol?

In: a model or a task of any class. Out: nothing, or an AssertionError that says which rule was broken and how.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.documents import Document
from assay.core.identity import request_digest
from assay.core.output_checks import FINISH_REASONS, check_answer
from assay.core.protocols import ExposesTokens, Model, Progress, ReportsWorkload, Task
from assay.core.requests import (
    HEAD_KINDS,
    REQUEST_KINDS,
    ChoiceSelection,
    Classification,
    Generation,
    Instance,
    Loglikelihood,
    Rating,
    Request,
    RollingLoglikelihood,
    Sampling,
    SpanExtraction,
)
from assay.core.responses import Failure, LabelScores, Logprob, Output, Text, flatten, unflatten

SAMPLE_REQUESTS: tuple[Request, ...] = (
    Loglikelihood("The river is", " wide"),
    Loglikelihood("The river is", " a green bicycle"),
    Loglikelihood("", "Once"),
    Loglikelihood("Question: What is 2 + 3?\nAnswer:", " 5"),
    RollingLoglikelihood("It snowed all night, and in the morning the gate would not open."),
    RollingLoglikelihood("Yes."),
    RollingLoglikelihood("The river is", stands_on_prefix=False),
    Generation("Once upon a time", max_tokens=8),
    Generation("The first line\nThe second", stop=("\n", "."), max_tokens=12),
    Generation("Nothing is written here", max_tokens=0),
    Generation("She said", max_tokens=6, sampling=Sampling(temperature=1.0, seed=7), draw=1),
    ChoiceSelection("The river is", ("wide", "a green bicycle", "wide")),
    ChoiceSelection("", ("It snowed all night.", "Yes.")),
    SpanExtraction("What would not open?", "It snowed all night, and in the morning the gate would not open."),
    SpanExtraction("Who snowed?", "The river is wide.", may_lack=True),
    Rating("The river is wide."),
    Rating("The river is wide.", "It snowed all night."),
)


def check_model(model: Model, requests: Sequence[Request] | None = None, tolerance: float = 1e-4) -> None:
    """Checks a model against its protocol.

    A model that declares `is_deterministic` must give the same bits in every batch. Log-likelihoods of any other model
    may differ by `tolerance`, and its texts may differ freely.

    Args:
        model: the model; it is not closed.
        requests: requests to send; None for some of each kind that the model declares.
        tolerance: largest difference of a log-likelihood, relative, or absolute below 1.
    """
    _check_declarations(model)
    if requests is None:
        requests = sample_requests(model)
    digest = model.fingerprint.digest
    assert list(model.respond([])) == [], "respond([]) must give nothing"
    together = _ask(model, requests)
    for request, output in zip(requests, together, strict=True):
        _check_output(request, output)
    backwards = _ask(model, requests[::-1])[::-1]
    alone = [_ask(model, [request])[0] for request in requests]
    for request, first, second, third in zip(requests, together, backwards, alone, strict=True):
        _check_same(model, request, (first, second), "in reversed order", tolerance)
        _check_same(model, request, (first, third), "alone", tolerance)
    if isinstance(model, ReportsWorkload):
        _check_workload(model, requests)
    assert model.fingerprint.digest == digest, "the fingerprint changed while the model answered"


def sample_requests(model: Model) -> list[Request]:
    """Sample requests of each kind that a model declares."""
    able = model.capabilities
    labels = able.labels or ("no", "yes")
    texts = Classification("The river is wide.", labels), Classification("Yes.", labels[::-1], "It snowed all night.")
    return [request for request in (*SAMPLE_REQUESTS, *texts) if request.kind in able.kinds]


def _check_declarations(model: Model) -> None:
    assert isinstance(model, Model), f"{type(model).__name__} lacks a member of the Model protocol"
    assert model.fingerprint.digest == model.fingerprint.digest, "the fingerprint differs when read twice"
    unknown = model.capabilities.kinds - {*REQUEST_KINDS, *HEAD_KINDS}
    able = model.capabilities
    assert able.kinds or able.learns, "the model declares no request kind that it answers or learns"
    assert not unknown, f"the model declares unknown request kinds: {sorted(unknown)}"
    if model.capabilities.can_tokenize:
        assert isinstance(model, ExposesTokens), "can_tokenize is set, but a member of Tokenizes is missing"


def _check_workload(model: ReportsWorkload, requests: Sequence[Request]) -> None:
    """The workload that a model declares must agree with its progress reports."""
    load = model.workload(requests)
    assert 0 <= load.read <= load.alone, f"{load}: requests that share tokens cannot need more than each alone"
    assert load.operations > 0, f"{load}: work takes operations"
    reports: list[Progress] = []
    model.watch(reports.append)
    assert isinstance(model, Model)
    _ask(model, requests)
    assert reports, "the model reported no progress while it answered"
    for before, after in itertools.pairwise(reports):
        assert before.done <= after.done and before.tokens <= after.tokens, f"{after} is behind {before}"
    for report in reports:
        # Sums of many floats need not be equal to the last bit.
        assert report.done <= report.total * (1 + 1e-9), f"{report}: more is done than there is"
        assert report.tokens <= report.tokens_total, f"{report}: more tokens are done than there are"


def _ask(model: Model, requests: Sequence[Request]) -> list[Output]:
    """The outputs in the order of the requests, after checking that none failed."""
    found: list[Output] = []
    for request, answer in zip(requests, answers(model, requests), strict=True):
        assert not isinstance(answer, Failure), f"{request} failed: {answer}"
        found.append(answer)
    return found


def answers(model: Model, requests: Sequence[Request]) -> list[Output | Failure]:
    """A model's answers in the order of the requests, as a run takes them; every request must be answered once."""
    found: dict[int, Output | Failure] = {}
    for index, answer in model.respond(requests):
        assert 0 <= index < len(requests), f"an answer has index {index}, and there are {len(requests)} requests"
        assert index not in found, f"request {index} was answered twice"
        # A run checks every answer with the same function: what it counts as failed is not accepted here either.
        found[index] = check_answer(answer, requests[index])
    missing = sorted(set(range(len(requests))) - set(found))
    assert not missing, f"requests without an answer: {missing}"
    return [found[index] for index in range(len(requests))]


def _check_output(request: Request, output: Output) -> None:
    if isinstance(request, Generation):
        assert isinstance(output, Text)
        foreign = [note for note in output.notes if note.startswith("finish_reason ")]
        assert not foreign, f"{request} got {foreign[0]}; expected one of {', '.join(FINISH_REASONS)}"
        left = [stop for stop in request.stop if stop and stop in output.text]
        assert not left, f"{request} got a text with the stop string {left} in it"
        limit = math.inf if request.max_tokens is None else request.max_tokens
        assert output.token_count <= limit, f"{request} got {output.token_count} tokens"
        assert limit or not output.text, f"{request} got the text {output.text!r}, but no tokens were requested"
    elif isinstance(request, SpanExtraction):
        assert isinstance(output, Text)
        assert output.text in request.context, f"{request} got {output.text!r}, which the context does not hold"
        assert output.text or request.may_lack, f"{request} got no answer, but there must be one"
    elif isinstance(request, Rating):
        assert isinstance(output, Text)
        assert math.isfinite(float(output.text)), f"{request} got {output.text!r}; expected a number"
    elif isinstance(request, (Classification, ChoiceSelection)):
        _check_scores(output, request)
    else:
        assert isinstance(output, Logprob)
        if isinstance(request, RollingLoglikelihood) and not request.stands_on_prefix:
            # A text of one token, which is given, has none to score.
            said = f"{request} got prompt_tokens={output.prompt_tokens}: its first token is given, and no other"
            assert output.prompt_tokens == 1 or not output.token_count, said
        else:
            assert output.token_count >= 1, f"{request} scored no token"
    assert unflatten(flatten(output)) == output, f"{output} does not survive the store"


def _check_scores(output: Output, request: Request) -> None:
    assert isinstance(output, LabelScores)
    total = math.fsum(map(math.exp, output.scores))
    assert math.isclose(total, 1.0, abs_tol=1e-4), f"{request} got probabilities that sum to {total}"


def _check_same(model: Model, request: Request, pair: tuple[Output, Output], how: str, tolerance: float) -> None:
    first, second = pair
    said = f"{request} got {first} at first and {second} when requested {how}"
    if model.capabilities.is_deterministic:
        assert first == second, said
    elif isinstance(first, Logprob) and isinstance(second, Logprob):
        assert math.isclose(first.total, second.total, rel_tol=tolerance, abs_tol=tolerance), said
        assert first.token_count == second.token_count, said
    elif isinstance(first, LabelScores) and isinstance(second, LabelScores):
        pairs = zip(first.scores, second.scores, strict=True)
        assert all(math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance) for one, other in pairs), said


def check_task(task: Task) -> None:
    """Checks a task against its protocol; builds every document twice."""
    assert isinstance(task, Task), f"{type(task).__name__} lacks a member of the Task protocol"
    assert task.card.name, "the task has no name"
    assert task.scoring.pipelines, f"{task.card.name}: no filter pipeline"
    names = [pipeline.name for pipeline in task.scoring.pipelines]
    assert len(names) == len(set(names)), f"{task.card.name}: two pipelines of one name: {names}"
    documents = task.documents()
    ids = [document.id for document in documents]
    assert ids == list(range(len(documents))), f"{task.card.name}: document ids are not 0, 1, 2, …: {ids[:10]}"
    for document in documents:
        _check_document(task, document)


def _check_document(task: Task, document: Document) -> None:
    where = f"{task.card.name}, document {document.id}"
    assert document.task == task.card.name, f"{where}: belongs to {document.task!r}"
    assert isinstance(document.fields, Mapping), f"{where}: fields is not a mapping"
    instance = task.build(document)
    assert instance == task.build(document), f"{where}: built differently the second time"
    assert (instance.task, instance.document_id) == (task.card.name, document.id), (
        f"{where}: the instance names another task or document"
    )
    _check_requests(instance, where)
    _check_choices(instance, where)


def _check_requests(instance: Instance, where: str) -> None:
    assert instance.requests, f"{where}: has no requests"
    assert instance.draws >= 1, f"{where}: draws is {instance.draws}"
    assert len(instance.requests) % instance.draws == 0, (
        f"{where}: the number of requests is not a multiple of {instance.draws} draws"
    )
    for request in instance.requests:
        assert request.kind in (*REQUEST_KINDS, *HEAD_KINDS), f"{where}: unknown kind of request {request.kind!r}"
        request_digest(request)  # raises when a field is not JSON


def _check_choices(instance: Instance, where: str) -> None:
    choices = instance.choices
    if not choices:
        return
    if all(isinstance(request, Loglikelihood) for request in instance.requests):
        count = len(instance.requests)
        assert count % len(choices) == 0, f"{where}: {count} requests for {len(choices)} choices"
    for gold in _each(instance.gold):
        if isinstance(gold, int):
            assert 0 <= gold < len(choices), f"{where}: gold {gold} is not one of {len(choices)} choices"


def _each(gold: Any) -> tuple[Any, ...]:
    return tuple(gold) if isinstance(gold, (tuple, list)) else (gold,)
