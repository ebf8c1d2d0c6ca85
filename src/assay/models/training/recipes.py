"""Training recipes, the interface between model families and training: network, rows, loss, validation.

Takes training examples; defines the `Recipe` that each family implements, and the checks that all of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from assay.core.errors import Fault, ModelError
from assay.core.plural import plural, verb
from assay.core.protocols import Capabilities
from assay.core.requests import ChoiceSelection, Classification, Loglikelihood
from assay.core.training import ACCURACY, DIRECTIONS, FitSettings, TrainingExample, metric_unavailable_reason
from assay.models.loading.checkpoint import Checkpoint
from assay.models.loading.hf_arguments import CausalArguments

if TYPE_CHECKING:
    from torch import Tensor

# transformers' label for positions without loss.
IGNORED = -100

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ValidationScores:
    """Validation results: the mean loss and, if requested, metrics by name."""

    loss: float
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> float | None:
        """The accuracy, if computed."""
        return self.values.get(ACCURACY)


class Recipe(Protocol):
    """Training examples prepared for one model family."""

    @property
    def rows(self) -> Sequence[Any]:
        """Training rows, one per example."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """Notices about the training examples."""
        ...

    def load(self) -> LoadedNetwork:
        """The parent in float32 on the CPU, with the head to train; new heads come from torch's random state."""
        ...

    def collate(self, rows: Sequence[Any]) -> dict[str, Tensor]:
        """A batch; `loss` sums over the entries of `labels` other than IGNORED."""
        ...

    def loss(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        """The summed loss of a batch."""
        ...

    def validate(self, module: Any, device: Any, with_metrics: bool) -> ValidationScores:
        """Loss on the validation examples, and the other metrics if requested."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A network to train.

    Attributes:
        module: the transformers model.
        heads: names of the layers that the method `head` trains and that `lora` trains in full.
        is_tied: whether its output layer is tied to the input embeddings.
        is_language_model: whether it is a language model, whose output layer `lora` does not train.
        notices: notices about the network.
    """

    module: Any
    heads: tuple[str, ...] = ()
    is_tied: bool = False
    is_language_model: bool = False
    notices: tuple[str, ...] = ()


RecipeMaker = Callable[["Parent", Sequence[TrainingExample], Sequence[TrainingExample], FitSettings], Recipe]


@dataclass(frozen=True, slots=True)
class Parent:
    """The model to train.

    Attributes:
        checkpoint: its files.
        arguments: its model arguments.
        digest: digest of its fingerprint.
        capabilities: its capabilities.
        recipe: builds the family's recipe from training and validation examples.
        device: device to train on; None for the best available.
    """

    checkpoint: Checkpoint
    arguments: CausalArguments
    digest: str
    capabilities: Capabilities
    recipe: RecipeMaker
    device: str | None = None


def unwrap_peft(module: Any) -> Any:
    """The network without peft's wrapper."""
    return module.get_base_model() if hasattr(module, "peft_config") else module


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Items in order, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def skipped_notice(noun: str, count: int, total: int, reason: str) -> str | None:
    """The notice about examples that cannot be used; raises an error if none can."""
    if not count:
        return None
    if count == total:
        raise ModelError(Fault(f"{noun}s", f"none of the {total} can be used: {reason}"))
    return f"{count} of {plural(total, noun)} {verb(count, 'was', 'were')} skipped: {reason}"


def truncated_notice(count: int, total: int, length: int, what: str = "") -> str | None:
    """The notice about training examples that were truncated; None if none were."""
    if not count:
        return None
    examples = plural(total, "training example")
    return f"{what}{count} of {examples} {verb(count, 'was', 'were')} truncated to {plural(length, 'token')}"


def check_training_examples(
    training_examples: Sequence[TrainingExample], validation: Sequence[TrainingExample], learns: frozenset[str]
) -> None:
    """Raises an error for examples that the model cannot be trained on."""
    if not training_examples:
        raise ModelError(Fault("training examples", "there are none", "at least one training document"))
    for noun, group in (("training example", training_examples), ("validation example", validation)):
        for number, training_example in enumerate(group, 1):
            fault = _fault(training_example, learns)
            if fault:
                raise ModelError(Fault(f"{noun} {number}", *fault))


def check_metric(metric: str, validation: Sequence[TrainingExample]) -> None:
    """Raises an error for a metric that cannot be computed from the validation examples."""
    reason = metric_unavailable_reason(metric, validation)
    if reason is not None:
        others = [name for name in DIRECTIONS if metric_unavailable_reason(name, validation) is None]
        raise ModelError(Fault("metric", f'found "{metric}", but {reason}', "one of: " + ", ".join(others)))


def _fault(training_example: TrainingExample, learns: frozenset[str]) -> tuple[str, str] | None:
    """What is wrong with a training example, and what was expected."""
    if not training_example.requests:
        return "it has no requests", "at least one request"
    strange = sorted({request.kind for request in training_example.requests} - learns)
    if strange:
        return f"{strange[0]} requests, which this model cannot be trained on", "one of: " + ", ".join(sorted(learns))
    first = training_example.requests[0]
    if isinstance(first, Loglikelihood):
        return _misplaced(training_example.right, len(training_example.requests))
    if len(training_example.requests) > 1:
        return f"{len(training_example.requests)} {first.kind} requests", "one request for a head"
    if isinstance(first, Classification) and len(set(first.labels)) < max(len(first.labels), 2):
        return f"the labels {', '.join(first.labels) or '(none)'}", "two or more distinct labels"
    if isinstance(first, (Classification, ChoiceSelection)):
        return _misplaced(
            training_example.right, len(first.labels if isinstance(first, Classification) else first.choices)
        )
    return None


def _misplaced(right: int, size: int) -> tuple[str, str] | None:
    if not size:
        return "there are no choices", "at least one"
    return None if 0 <= right < size else (f"the right answer is {right}", f"an index from 0 to {size - 1}")
