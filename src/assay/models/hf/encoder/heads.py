"""Encoder heads: which head a checkpoint has, its request kinds, and the names of its outputs.

In: config.json and the model arguments. Out: a `HeadKind`, or an error. Imports neither torch nor transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.requests import (
    ChoiceSelection,
    Classification,
    Loglikelihood,
    Rating,
    RollingLoglikelihood,
    SpanExtraction,
)
from assay.models.loading.checkpoint import ENCODER_TYPES
from assay.models.loading.hf_arguments import ORIGINAL, CausalArguments

# Maximum answer span in tokens (Devlin et al. 2019, in their code for SQuAD).
MAX_SPAN = 30


@dataclass(frozen=True, slots=True)
class HeadKind:
    """A kind of head.

    Attributes:
        name: description for messages.
        loader: transformers auto class that loads encoders with this head.
        kinds: request kinds that it answers.
    """

    name: str
    loader: str
    kinds: frozenset[str]


LABELS = HeadKind("classification head", "AutoModelForSequenceClassification", frozenset({Classification.kind}))
NUMBER = HeadKind("regression head", "AutoModelForSequenceClassification", frozenset({Rating.kind}))
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
    # The next-sentence head beside it is unused.
    "ForPreTraining": MASKED,
}
# Here ForPreTraining is a replaced-token discriminator, not a masked language model.
DISCRIMINATORS = ("ElectraForPreTraining", "FunnelForPreTraining")


def find_head(config: Mapping[str, Any]) -> HeadKind | None:
    """The head named in the configuration; None for an encoder without one, or with an unsupported head."""
    for name in config.get("architectures") or ():
        for ending, head in HEADS.items():
            if name.endswith(ending) and name not in DISCRIMINATORS:
                return NUMBER if head is LABELS and _is_regression(config) else head
    return None


def _is_regression(config: Mapping[str, Any]) -> bool:
    """Whether a classification head is a regression head: it has one output."""
    return len(_own_labels(config)) < 2


def can_take_head(config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint without a supported head is an encoder that a new head can be trained on."""
    return config.get("model_type") in ENCODER_TYPES


def head_labels(config: Mapping[str, Any], args: CausalArguments) -> tuple[str, ...]:
    """Output names of a classification head: the user's, else the configuration's; empty for other heads."""
    if find_head(config) is not LABELS:
        return ()
    return args.labels if args.labels is not None else _own_labels(config)


def _own_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    named = config.get("id2label")
    if isinstance(named, Mapping) and named:
        return tuple(str(name) for _, name in sorted(named.items(), key=lambda item: int(item[0])))
    # transformers omits default values.
    return tuple(f"LABEL_{place}" for place in range(int(config.get("num_labels") or 2)))


def head_settings(config: Mapping[str, Any], args: CausalArguments) -> dict[str, Any]:
    """Head arguments that change answers, for the fingerprint."""
    head = find_head(config)
    if head is LABELS and args.labels is not None:
        return {"labels": list(args.labels)}
    if head is MASKED:
        return {"pll": args.pll or ORIGINAL}
    return {"max_span": args.max_span or MAX_SPAN} if head is SPANS else {}


def check_head(head: HeadKind | None, config: Mapping[str, Any], args: CausalArguments) -> None:
    """Rejects regression heads with several outputs, and arguments that belong to another head.

    Raises:
        ModelError: lists every fault.
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
    if config.get("problem_type") == "regression":
        found = f"its head is a regression head with {len(own)} outputs"
        return [Fault(args.pretrained, found, "a classification head, or a regression head with one output")]
    if args.labels is not None and len(args.labels) != len(own):
        found = f"names {len(args.labels)} labels, the head has {len(own)} outputs: {', '.join(own)}"
        return [Fault("model_args.labels", found, f"{len(own)} names, in the order of the outputs")]
    return []
