"""A document on the terminal: prompt, answers, target and, if known, tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.documents import Document
from assay.core.protocols import FewShotExample, TokenView
from assay.core.requests import (
    HEAD_KINDS,
    ChoiceSelection,
    Classification,
    Generation,
    Instance,
    Loglikelihood,
    Prompt,
    Rating,
    Request,
    RollingLoglikelihood,
    SpanExtraction,
    untruncated_prompt,
)
from assay.core.responses import NOTE_TEXTS
from assay.report.safe_names import printable

if TYPE_CHECKING:
    from rich.console import Console


# Tokens of the context that are repeated before the boundary of a scored continuation.
_SHOWN_BEFORE = 2


def print_document(
    console: Console,
    document: Document,
    instance: Instance,
    tokens: tuple[TokenView, ...] = (),
    examples: tuple[FewShotExample, ...] = (),
    sampler: str = "",
) -> None:
    """Prints a document's prompt, answers, target and, if known, tokens. White space at ends is made visible."""
    _heading(console, f"{instance.task}, document {document.id}")
    if examples:
        drawn = f" (sampler {sampler})" if sampler else ""
        _label(console, "few-shot examples", ", ".join(f"{item.origin}[{item.place}]" for item in examples) + drawn)
    previous: Prompt | None = None
    for place, request in enumerate(instance.requests):
        view = tokens[place] if place < len(tokens) else None
        prompt = getattr(request, "prompt", None)
        if prompt is not None and prompt != previous:
            _label(console, "prompt", prompt_text(prompt))
            if view is not None:
                _print_context(console, view, is_chat=not isinstance(prompt, str))
            previous = prompt
        _print_request(console, request, place)
        if view is not None and request.kind in HEAD_KINDS:
            _print_context(console, view, is_chat=False)
        if view is not None and view.continuation_ids:
            _label(console, f"  scored, {len(view.continuation_ids)} tokens", _boundary(view))
    _label(console, "target", repr(instance.target))
    if instance.choices:
        _label(console, "gold", repr(instance.gold))
    for note in instance.notes:
        _label(console, "note", NOTE_TEXTS.get(note, note))


def prompt_text(prompt: Prompt) -> str:
    """A prompt as text, demonstrations uncut; messages with their roles."""
    whole = untruncated_prompt(prompt)
    if isinstance(whole, str):
        return whole
    return "\n".join(f"<{message.role}> {message.text}" for message in whole)


def _print_request(console: Console, request: Request, place: int) -> None:
    if isinstance(request, Loglikelihood):
        _label(console, f"continuation {place}", repr(request.continuation))
    elif isinstance(request, Generation):
        stops = ", ".join(map(repr, request.stop)) or "none"
        sampling = "greedy" if request.sampling.is_greedy else f"temperature {request.sampling.temperature}"
        most = (
            "as many tokens as the model takes"
            if request.max_tokens is None
            else f"at most {request.max_tokens} tokens"
        )
        _label(console, "generation", f"{most}, {sampling}, stops: {stops}")
    else:
        for label, text in _parts(request):
            _label(console, label, text)


def _parts(
    request: RollingLoglikelihood | Classification | ChoiceSelection | SpanExtraction | Rating,
) -> list[tuple[str, str]]:
    """The parts of a request without a prompt."""
    if isinstance(request, Classification):
        pair = [] if request.second is None else [("pair", request.second)]
        return [("classification", request.first), *pair, ("labels", ", ".join(request.labels))]
    if isinstance(request, Rating):
        return [("rating", request.first), *([] if request.second is None else [("pair", request.second)])]
    if isinstance(request, ChoiceSelection):
        return [("choosing", request.question), *((f"choice {n}", text) for n, text in enumerate(request.choices))]
    if isinstance(request, SpanExtraction):
        lacks = [("may lack", "an empty answer is an answer")] if request.may_lack else []
        return [("span", request.question), ("context", request.context), *lacks]
    return [("text", request.text)]


def _print_context(console: Console, view: TokenView, is_chat: bool) -> None:
    if is_chat and view.prompt_text is not None:
        _label(console, "  prompt as the model sees it", view.prompt_text)
    if view.truncated:
        _label(console, "  cut from the left", f"{view.truncated} tokens")
    _label(console, f"  context, {len(view.context_ids)} tokens", _tokens(view.context_ids, view.context_pieces))


def _boundary(view: TokenView) -> str:
    """The tokens that are scored, after the last tokens of the context and a mark."""
    before = _tokens(view.context_ids[-_SHOWN_BEFORE:], view.context_pieces[-_SHOWN_BEFORE:])
    cut = "… " if len(view.context_ids) > _SHOWN_BEFORE else ""
    return f"{cut}{before} ‖ {_tokens(view.continuation_ids, view.continuation_pieces)}"


def _tokens(ids: tuple[int, ...], pieces: tuple[str, ...]) -> str:
    return " ".join(f"{number}:{piece!r}" for number, piece in zip(ids, pieces, strict=True))


def _heading(console: Console, text: str) -> None:
    console.rule(printable(text), align="left")


def _label(console: Console, label: str, text: str) -> None:
    console.print(f"{label}:", style="bold", end=" ")
    console.print(printable(text), markup=False, soft_wrap=True)
