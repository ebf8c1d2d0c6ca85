"""Maps the labels of a task to the outputs of a classification head.

In: the head's label names and the task's. Out: indices, or an error message. Used before a run and for each request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_GENERIC = re.compile(r"LABEL_\d+", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s_-]+")


def are_generic(names: Sequence[str]) -> bool:
    """Whether these are the default names that transformers gives to unnamed outputs: LABEL_0, LABEL_1, …"""
    return all(_GENERIC.fullmatch(name) for name in names)


def label_indices(own: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...] | None:
    """The index of the head's output for each requested label; None if there is no clear match.

    Names are compared without case, spaces, underscores and hyphens. Outputs with default names are taken in order
    if there are as many as labels.
    """
    if not wanted:
        return None
    for spelled in (str, normalized_label):
        indices = {spelled(name): index for index, name in enumerate(own)}
        names = [spelled(name) for name in wanted]
        # Two names that differ in spelling only would be ambiguous after normalisation.
        is_clear = len(indices) == len(own) and len(set(names)) == len(names)
        if is_clear and all(name in indices for name in names):
            return tuple(indices[name] for name in names)
    return tuple(range(len(own))) if are_generic(own) and len(own) == len(wanted) else None


def normalized_label(name: str) -> str:
    """A label's name without case, spaces, underscores and hyphens."""
    return _BETWEEN.sub("", name).casefold()


def unknown_labels_message(own: Sequence[str], wanted: Sequence[str]) -> str:
    """The message for labels that the head does not have."""
    return f"labels outside the head: requested {', '.join(wanted) or 'none'}; the head has {', '.join(own)}"
