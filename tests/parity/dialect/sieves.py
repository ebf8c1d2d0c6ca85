"""Filters of our own: a subclass of the regex filter, a plain one, a registered one, functions, and a sampler."""

import re

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter
from lm_eval.api.samplers import ContextSampler
from lm_eval.filters.extraction import RegexFilter


class LastNumber(RegexFilter):
    def __init__(self, regex_pattern=r"(-?\d+)", group_select=-1, fallback="none", suffix=""):
        super().__init__(regex_pattern, group_select, fallback)
        self.suffix = suffix

    def apply(self, resps, docs):
        return [[found + self.suffix for found in answers] for answers in super().apply(resps, docs)]


class WithoutEchoes(Filter):
    """Takes the question out of an answer, so it needs the document."""

    def apply(self, resps, docs):
        return [[text.replace(str(doc["a"]), "a") for text in texts] for texts, doc in zip(resps, docs, strict=True)]


@register_filter("reversed_words")
class ReversedWords(Filter):
    def __init__(self, joint=" "):
        self.joint = joint

    def apply(self, resps, docs):
        return [[self.joint.join(reversed(text.split())) for text in texts] for texts in resps]


def digits_only(resps, docs):
    return [[re.sub(r"\D", "", text) for text in texts] for texts in resps]


def best_of(resps, docs):
    pairs = zip(resps, docs, strict=True)
    return [[max(texts, key=lambda text: (text == doc["text"], len(text)))] for texts, doc in pairs]


class EveryOther(ContextSampler):
    """Every second document of the pool, whatever is asked."""

    def sample(self, n, eval_doc=None, df=None, **kwargs):
        return list(self.df)[::2][:n]
