"""The heads of encoders: which one a checkpoint has, what it answers, and what its outputs are called.

Takes config.json and the user's arguments; gives a `Head`, or an error. Imports neither torch nor transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.requests import ChoiceSelection, Classification, Loglikelihood, RollingLoglikelihood, SpanExtraction
from assay.models.loading.arguments import ORIGINAL, CausalArguments
from assay.models.loading.checkpoint import ENCODER_TYPES

# Most tokens of a span (Devlin et al. 2019, in their code for SQuAD).
MAX_SPAN = 30


@dataclass(frozen=True, slots=True)
class HeadKind:
    """A kind of head.

    Attributes:
        name: what it is, in words.
        loader: transformers' class that loads encoders with it.
        kinds: request kinds that it answers.
    """

    name: str
    loader: str
    kinds: frozenset[str]


LABELS = HeadKind("classification head", "AutoModelForSequenceClassification", frozenset({Classification.kind}))
CHOICES = HeadKind("multiple-choice head", "AutoModelForMultipleChoice", frozenset({ChoiceSelection.kind}))
SPANS = HeadKind("span head", "AutoModelForQuestionAnswering", frozenset({SpanExtraction.kind}))
MASKED = HeadKind(
    "masked-language-model head", "AutoModelForMaskedLM", frozenset((Loglikelihood.kind, RollingLoglikelihood.kind))
)

HEADS = {
    "ForSequenceClassification": LABELS,
    "ForMultipleChoice": CHOICES,
    "ForQuestionAnswering": SPANS,
    "ForQuestionAnsweringSimple": SPANS,
    "ForMaskedLM": MASKED,
    # The next-sentence head beside it goes unused.
    "ForPreTraining": MASKED,
}
# What they call so is a head that tells real tokens from replaced ones.
DISCRIMINATORS = ("ElectraForPreTraining", "FunnelForPreTraining")


def find_head(config: Mapping[str, Any]) -> HeadKind | None:
    """The head that a configuration names; None for an encoder alone, and for a head that answers nothing here."""
    for name in config.get("architectures") or ():
        for ending, head in HEADS.items():
            if name.endswith(ending) and name not in DISCRIMINATORS:
                return head
    return None


def can_take_head(config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint without a known head is an encoder that can be given one."""
    return config.get("model_type") in ENCODER_TYPES


def head_labels(config: Mapping[str, Any], args: CausalArguments) -> tuple[str, ...]:
    """Names of a classification head's outputs: the user's, else the configuration's; empty for other heads."""
    if find_head(config) is not LABELS:
        return ()
    return args.labels if args.labels is not None else _own_labels(config)


def _own_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    named = config.get("id2label")
    if isinstance(named, Mapping) and named:
        return tuple(str(name) for _, name in sorted(named.items(), key=lambda item: int(item[0])))
    # transformers leaves out what is its default.
    return tuple(f"LABEL_{place}" for place in range(int(config.get("num_labels") or 2)))


def head_settings(config: Mapping[str, Any], args: CausalArguments) -> dict[str, Any]:
    """What the user said of the head that changes its answers, for the fingerprint."""
    head = find_head(config)
    if head is LABELS and args.labels is not None:
        return {"labels": list(args.labels)}
    if head is MASKED:
        return {"pll": args.pll or ORIGINAL}
    return {"max_span": args.max_span or MAX_SPAN} if head is SPANS else {}


def check_head(head: HeadKind | None, config: Mapping[str, Any], args: CausalArguments) -> None:
    """Fails for a head that gives one number, and for arguments that are about another head.

    Raises:
        ModelError: with every fault.
    """
    names = ", ".join(config.get("architectures") or [str(config.get("model_type"))])
    faults = []
    for argument, owner in (("labels", LABELS), ("pll", MASKED), ("max_span", SPANS)):
        if getattr(args, argument) is not None and head is not owner:
            found = f"{names} has no {owner.name}"
            faults.append(Fault(f"model_args.{argument}", found, next=f"Leave {argument} out"))
    if head is LABELS:
        faults.extend(_label_faults(config, args))
    if faults:
        raise ModelError(*faults)


def _label_faults(config: Mapping[str, Any], args: CausalArguments) -> list[Fault]:
    own = _own_labels(config)
    if len(own) < 2 or config.get("problem_type") == "regression":
        found = "its head gives one number for a text (regression), not a score for each of several labels"
        return [Fault(args.pretrained, found, "a classification head with two outputs or more")]
    if args.labels is not None and len(args.labels) != len(own):
        found = f"names {len(args.labels)} labels, the head has {len(own)} outputs: {', '.join(own)}"
        return [Fault("model_args.labels", found, f"{len(own)} names, in the order of the outputs")]
    return []
