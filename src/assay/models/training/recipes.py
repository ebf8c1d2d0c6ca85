"""The seam between families and training: a course is a model to load, rows to learn from, a loss, an examination.

Takes lessons; says what a family makes of them, and what is common to all: which lessons can be learnt from at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from assay.core.errors import Fault, ModelError
from assay.core.fingerprints import Capabilities
from assay.core.requests import ChoiceSelection, Classification, Loglikelihood
from assay.core.training import ACCURACY, DIRECTIONS, FitSettings, TrainingExample, metric_unavailable_reason
from assay.models.loading.arguments import CausalArguments
from assay.models.loading.checkpoint import Checkpoint

if TYPE_CHECKING:
    from torch import Tensor

# A label that is not learnt, in transformers' word.
IGNORED = -100

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ValidationScores:
    """What an examination found: the mean loss; where answers were asked for, what they are worth, by name."""

    loss: float
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> float | None:
        """The share of right answers."""
        return self.values.get(ACCURACY)


class Recipe(Protocol):
    """Lessons as one kind of network learns them."""

    @property
    def rows(self) -> Sequence[Any]:
        """What is learnt from, one per lesson."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know of the lessons."""
        ...

    def load(self) -> LoadedNetwork:
        """The parent in float32 on the CPU, with the head that is to be trained; a new one by torch's random state."""
        ...

    def collate(self, rows: Sequence[Any]) -> dict[str, Tensor]:
        """A batch; `labels` has as many entries other than IGNORED as `loss` adds up."""
        ...

    def loss(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        """The sum of the losses of a batch."""
        ...

    def validate(self, module: Any, device: Any, with_metrics: bool) -> ValidationScores:
        """How the model does on the validation lessons: the loss, and the other metrics where they are wanted."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A network to train.

    Attributes:
        module: the transformers model.
        heads: names of the layers that the method `head` trains and that `lora` trains in full.
        is_tied: whether its output layer is the input embeddings.
        is_writer: whether it is a language model, whose output layer is no head of its own for `lora`.
        notices: what the user should know of it.
    """

    module: Any
    heads: tuple[str, ...] = ()
    is_tied: bool = False
    is_language_model: bool = False
    notices: tuple[str, ...] = ()


RecipeMaker = Callable[["Parent", Sequence[TrainingExample], Sequence[TrainingExample], FitSettings], Recipe]


@dataclass(frozen=True, slots=True)
class Parent:
    """The model that is trained.

    Attributes:
        checkpoint: its files.
        arguments: how the user opened it.
        digest: of its fingerprint.
        able: what it can do and learn.
        course: turns lessons and validation lessons into what its family learns from.
        device: where to train; None for the best there is.
    """

    checkpoint: Checkpoint
    arguments: CausalArguments
    digest: str
    capabilities: Capabilities
    recipe: RecipeMaker
    device: str | None = None


def unwrap_peft(module: Any) -> Any:
    """The network itself, without what peft puts around it."""
    return module.get_base_model() if hasattr(module, "peft_config") else module


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Items in order, some at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def skipped_notice(noun: str, count: int, total: int, reason: str) -> str | None:
    """The notice about lessons that cannot be used; an error where that is all of them."""
    if not count:
        return None
    if count == total:
        raise ModelError(Fault(noun, f"none of the {total} can be used: {reason}"))
    return f"{count} of {total} {noun} were left out: {reason}"


def check_training_examples(
    training_examples: Sequence[TrainingExample], validation: Sequence[TrainingExample], learns: frozenset[str]
) -> None:
    """Fails for lessons that a model cannot learn from."""
    if not training_examples:
        raise ModelError(Fault("lessons", "there are none", "at least one document to learn from"))
    for noun, group in (("lesson", training_examples), ("validation lesson", validation)):
        for number, training_example in enumerate(group, 1):
            fault = _fault(training_example, learns)
            if fault:
                raise ModelError(Fault(f"{noun} {number}", *fault))


def check_metric(metric: str, validation: Sequence[TrainingExample]) -> None:
    """Fails for a metric that the validation lessons do not have."""
    reason = metric_unavailable_reason(metric, validation)
    if reason is not None:
        others = [name for name in DIRECTIONS if metric_unavailable_reason(name, validation) is None]
        raise ModelError(Fault("metric", f'found "{metric}", but {reason}', "one of: " + ", ".join(others)))


def _fault(training_example: TrainingExample, learns: frozenset[str]) -> tuple[str, str] | None:
    """What is wrong with a lesson and what was expected."""
    if not training_example.requests:
        return "it asks nothing", "at least one request"
    strange = sorted({request.kind for request in training_example.requests} - learns)
    if strange:
        return f"{strange[0]} requests, which this model cannot learn", "one of: " + ", ".join(sorted(learns))
    first = training_example.requests[0]
    if isinstance(first, Loglikelihood):
        return _misplaced(training_example.right, len(training_example.requests))
    if len(training_example.requests) > 1:
        return f"{len(training_example.requests)} {first.kind} requests", "one: a head answers it at once"
    if isinstance(first, Classification) and len(set(first.labels)) < max(len(first.labels), 2):
        return f"the labels {', '.join(first.labels) or '(none)'}", "two labels or more, all different"
    if isinstance(first, (Classification, ChoiceSelection)):
        return _misplaced(
            training_example.right, len(first.labels if isinstance(first, Classification) else first.choices)
        )
    return None


def _misplaced(right: int, size: int) -> tuple[str, str] | None:
    if not size:
        return "there are no choices", "at least one"
    return None if 0 <= right < size else (f"place {right} is said to be right", f"a place from 0 to {size - 1}")
