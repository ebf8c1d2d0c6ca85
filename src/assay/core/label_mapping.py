"""Which output of a classification head stands for which label of a task.

Takes the head's names and the task's; gives places, or the words for an error. Asked before a run and for each request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_GENERIC = re.compile(r"LABEL_\d+", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s_-]+")


def are_generic(names: Sequence[str]) -> bool:
    """Whether these are the names that transformers gives to outputs nobody has named: LABEL_0, LABEL_1, …"""
    return all(_GENERIC.fullmatch(name) for name in names)


def label_indices(own: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...] | None:
    """For each wanted label the place of the head's output that stands for it; None where that cannot be told.

    Names are compared without case, spaces, underscores and hyphens. Outputs without names of their own
    are taken in order when there are as many as labels.
    """
    if not wanted:
        return None
    for spelled in (str, normalized_label):
        indices = {spelled(name): index for index, name in enumerate(own)}
        names = [spelled(name) for name in wanted]
        # Two names that differ in spelling only cannot be told apart by their plain names.
        is_clear = len(indices) == len(own) and len(set(names)) == len(names)
        if is_clear and all(name in indices for name in names):
            return tuple(indices[name] for name in names)
    return tuple(range(len(own))) if are_generic(own) and len(own) == len(wanted) else None


def normalized_label(name: str) -> str:
    """A label's name without what is only spelling."""
    return _BETWEEN.sub("", name).casefold()


def unknown_labels_message(own: Sequence[str], wanted: Sequence[str]) -> str:
    """What to say of labels that the head does not know."""
    return f"labels outside the head: asked for {', '.join(wanted) or 'none'}; the head has {', '.join(own)}"
