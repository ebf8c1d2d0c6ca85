"""`lm_eval.api.filter`, `lm_eval.filters.…` and `lm_eval.api.registry`: filter classes and their registration.

Task code uses the classes directly, inherits from them, and registers its own under names that task files use.
lm-eval's classes map the answers of all documents at once; ours map those of one document, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from assay.core.protocols import Filter as TaskFilter
from assay.scoring.filters import draw_selection as selection
from assay.scoring.filters import text_filters as text

Row = Mapping[str, Any]


class Filter:
    """Base class of filters; returns the answers unchanged."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def apply(self, resps: Iterable[Any], docs: Sequence[Row]) -> Iterable[Any]:
        """Maps the answers: one entry per document, in the order of `docs`."""
        return resps


def _applied(step: TaskFilter, resps: Iterable[Any], docs: Sequence[Row]) -> list[Any]:
    return [step([answers], document)[0] for answers, document in zip(resps, docs, strict=True)]


class RegexFilter(Filter):
    """Extracts one match of a pattern from every answer."""

    def __init__(
        self, regex_pattern: str = r"#### (\-?[0-9\.\,]+)", group_select: int = 0, fallback: str = text.INVALID
    ) -> None:
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def apply(self, resps: Iterable[Any], docs: Sequence[Row]) -> Iterable[Any]:
        return _applied(text.regex(self.regex_pattern, self.group_select, self.fallback), resps, docs)


class MultiChoiceRegexFilter(RegexFilter):
    """Extracts a choice as "(A)"."""

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = text.INVALID,
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: Sequence[str] | None = None,
    ) -> None:
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore

    def apply(self, resps: Iterable[Any], docs: Sequence[Row]) -> Iterable[Any]:
        step = text.multi_choice_regex(
            self.regex_pattern,
            self.group_select,
            self.fallback,
            self.ignore_case,
            self.ignore_punctuation,
            self.regexes_to_ignore,
        )
        return _applied(step, resps, docs)


class _Ready(Filter):
    """A filter without settings: one of ours under lm-eval's name."""

    make: ClassVar[Callable[[], TaskFilter]]

    def apply(self, resps: Iterable[Any], docs: Sequence[Row]) -> Iterable[Any]:
        return _applied(type(self).make(), resps, docs)


class WhitespaceFilter(_Ready):
    """Strips white space."""

    make = staticmethod(text.remove_whitespace)


class LowercaseFilter(_Ready):
    """Lower case."""

    make = staticmethod(text.lowercase)


class UppercaseFilter(_Ready):
    """Upper case."""

    make = staticmethod(text.uppercase)


class TakeFirstFilter(_Ready):
    """Keeps the first answer."""

    make = staticmethod(selection.take_first)


class MajorityVoteFilter(_Ready):
    """Keeps the most frequent answer."""

    make = staticmethod(selection.majority_vote)


class MapFilter(Filter):
    """Replaces every answer by its value in a table."""

    def __init__(self, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None) -> None:
        self.mapping_dict = mapping_dict or {}
        self.default_value = default_value

    def apply(self, resps: Iterable[Any], docs: Sequence[Row]) -> Iterable[Any]:
        return _applied(text.map_values(self.mapping_dict, self.default_value), resps, docs)


# Registration

# Name → filter class that task code has registered.
FILTERS: dict[str, Callable[..., Any]] = {}

_Class = TypeVar("_Class", bound=type)


def register_filter(*names: str) -> Callable[[_Class], _Class]:
    """Registers a filter class for task files under one or more names; the latest registration wins."""

    def keep(own: _Class) -> _Class:
        FILTERS.update(dict.fromkeys(names, own))
        return own

    return keep


def register_task(*names: str) -> Callable[[_Class], _Class]:
    """Accepted without effect: task classes are found through task files."""
    return lambda own: own
