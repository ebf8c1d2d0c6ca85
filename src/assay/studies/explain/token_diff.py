"""Compares two requests token by token: the first difference, and whether BOS occurs once, twice or never.

Takes a pair of tasks and opens both models for their tokenizers; no weights are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.core.errors import UserError
from assay.core.protocols import ExposesTokens, TokenView
from assay.core.requests import Request
from assay.run.events import Listener
from assay.run.reopen import open_recorded
from assay.store.store import Store
from assay.studies.explain import explain_values as kinds
from assay.studies.explain.causes import TaskPair
from assay.studies.explain.explain_values import Cause
from assay.studies.paired.recorded_tasks import ReopenedTask, main_requests

_SHOWN = 4


class ModelAccess(NamedTuple):
    """Dependencies for opening a recorded model: the store with the trained models, and a listener."""

    store: Store
    listener: Listener


def token_cause(pair: TaskPair, access: ModelAccess) -> tuple[Cause | None, str]:
    """How the first document with a different prompt, or else the first one, is tokenized; or why that is unknown."""
    if not pair.is_open or not pair.common:
        return None, "tokens are not compared: that needs two runs that can be reopened and share a document"
    places = (pair.different or pair.common)[0]
    views = []
    for reopened, item in zip(pair.reopened, pair.answered(places), strict=True):
        try:
            views.append(_view(reopened, main_requests(item.instance)[0], access))
        except UserError as error:
            return None, f"tokens are not compared: {error}"
    if None in views:
        return None, "tokens are not compared: a model does not expose its tokens"
    first, second = (view for view in views if view is not None)
    lines = token_lines(first, second)
    if not lines:
        return None, ""
    document = pair.answered(places)[0].document.id
    return Cause(kinds.TOKENS, f"document {document} is tokenized differently", tuple(lines)), ""


def token_lines(first: TokenView, second: TokenView) -> list[str]:
    """The differences between two views of a request; empty if the tokens are the same."""
    return [*_bos_lines(first, second), *_parting(first, second)]


def _view(reopened: ReopenedTask, request: Request, access: ModelAccess) -> TokenView | None:
    model = open_recorded(reopened.record, reopened.spec, access.listener, access.store)
    try:
        if model.capabilities.can_tokenize and isinstance(model, ExposesTokens):
            return model.view(request)
        return None
    finally:
        model.close()


def _ids(view: TokenView) -> tuple[int, ...]:
    return (*view.context_ids, *view.continuation_ids)


def _bos_lines(first: TokenView, second: TokenView) -> list[str]:
    """A token that one sequence has in front of the entire other one: most often a BOS, missing or doubled."""
    one, two = _ids(first), _ids(second)
    for name, longer, shorter in (("first", one, two), ("second", two, one)):
        if longer[1:] == shorter and longer:
            is_double = len(longer) > 1 and longer[0] == longer[1]
            how = "twice, the other once" if is_double else "and the other does not"
            return [f"the {name} begins with token {longer[0]} {how}"]
    return []


def _parting(first: TokenView, second: TokenView) -> list[str]:
    one, two = _ids(first), _ids(second)
    if one == two:
        return []
    shared = next((index for index, both in enumerate(zip(one, two, strict=False)) if both[0] != both[1]), None)
    index = min(len(one), len(two)) if shared is None else shared
    pieces = [(*view.context_pieces, *view.continuation_pieces) for view in (first, second)]
    shown = [_shown(ids, texts, index) for ids, texts in zip((one, two), pieces, strict=True)]
    return [
        f"{len(one):,} → {len(two):,} tokens, the same up to token {index}",
        f"first:  {shown[0]}",
        f"second: {shown[1]}",
    ]


def _shown(ids: Sequence[int], pieces: Sequence[str], index: int) -> str:
    part = range(index, min(index + _SHOWN, len(ids)))
    return " ".join(f"{ids[number]}:{pieces[number]!r}" for number in part) or "(its end)"
