"""Training recipe of an encoder head: batches, loss and validation for labels, choices or spans.

Takes training examples as rows, encoded as for inference (`head_examples.py`); validation decodes answers as the model
does (`head_outputs.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.core.requests import Rating, SpanExtraction
from assay.core.responses import LabelScores, Text
from assay.core.training import FitSettings
from assay.models.hf.encoder.encoder_network import EncoderNetwork, padding_id, takes_types, wrap_encoder
from assay.models.hf.encoder.head_encoding import HeadInput, HeadRequest, HeadRow, PairTokenizer, pad_rows
from assay.models.hf.encoder.head_outputs import HeadPredictor
from assay.models.hf.encoder.heads import CHOICES, MAX_SPAN, NUMBER, SPANS
from assay.models.hf.encoder.new_heads import HeadPlan, load_with_head
from assay.models.training.recipes import LoadedNetwork, Parent, ValidationScores, batches, unwrap_peft
from assay.models.training.validation_metrics import number_metrics, prediction_metrics, span_metrics

if TYPE_CHECKING:
    from torch import Tensor

TYPES = "token_type_ids"


@dataclass(frozen=True, slots=True)
class HeadTrainingExample:
    """A training example as rows.

    Attributes:
        request: the request.
        read: all its rows.
        rows: the rows to train on: all, or for a span the window that contains it.
        targets: index of the right label or choice, the first and last token of the span, or the right number.
        right: index of the right answer among the request's labels or choices.
        answer: the right text of a span, or the right number as text.
    """

    request: HeadRequest
    read: HeadInput
    rows: tuple[HeadRow, ...]
    targets: tuple[float, ...]
    right: int
    answer: str


@dataclass(frozen=True)
class HeadRecipe:
    """Training recipe of an encoder head.

    Attributes:
        parent: the model to train.
        settings: hyperparameters.
        plan: which head to train.
        tokenizer: the parent's tokenizer.
        rows: the training examples.
        validated: the validation examples.
        notices: notices about the training examples.
    """

    parent: Parent
    settings: FitSettings
    plan: HeadPlan
    tokenizer: PairTokenizer
    rows: Sequence[HeadTrainingExample]
    validated: Sequence[HeadTrainingExample]
    notices: Sequence[str]

    def load(self) -> LoadedNetwork:
        return load_with_head(self.parent, self.plan)

    def collate(self, rows: Sequence[HeadTrainingExample]) -> dict[str, Tensor]:
        """A batch: rows of all examples one after another, the number of rows of each, and the targets."""
        import torch

        flat = [row for training_example in rows for row in training_example.rows]
        batch = {name: torch.tensor(values) for name, values in pad_rows(flat, 0, True).items()}
        targets = torch.tensor([training_example.targets for training_example in rows])
        counts = torch.tensor([len(training_example.rows) for training_example in rows])
        return {**batch, "counts": counts, "labels": targets}

    def loss(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        from torch.nn.functional import cross_entropy, mse_loss

        tables, targets = self._tables(module, batch), batch["labels"]
        if self.plan.head is NUMBER:
            return mse_loss(tables[0].float(), targets.float(), reduction="sum")
        # For a span, start and end are two labels, so each counts one half of the mean.
        losses = [
            cross_entropy(table.float(), targets[:, index], reduction="sum") for index, table in enumerate(tables)
        ]
        return sum(losses[1:], losses[0])

    def validate(self, module: Any, device: Any, with_metrics: bool) -> ValidationScores:
        network = wrap_encoder(unwrap_peft(module), module, device, self.plan.head, self.tokenizer)
        reader = HeadPredictor(self.plan.labels, self.parent.arguments.max_span or MAX_SPAN)
        loss = 0.0
        pairs: list[tuple[int, int]] = []
        spans: list[tuple[str, str]] = []
        numbers: list[tuple[float, float]] = []
        for training_example, logits in self._read(network):
            answer = reader.answer(training_example.request, training_example.read, logits)
            if isinstance(answer, LabelScores):
                loss -= answer.scores[training_example.right]
                pairs.append((training_example.right, max(range(len(answer.scores)), key=answer.scores.__getitem__)))
            elif isinstance(training_example.request, Rating):
                right, found = training_example.targets[0], float(logits[0][0])
                loss += (found - right) ** 2
                numbers.append((right, found))
            else:
                loss += span_loss(training_example, logits)
                spans.append((training_example.answer, answer.text if isinstance(answer, Text) else ""))
        total = len(self.validated)
        if not with_metrics:
            return ValidationScores(loss / total)
        if numbers:
            return ValidationScores(loss / total, number_metrics(numbers))
        return ValidationScores(loss / total, prediction_metrics(pairs) if pairs else span_metrics(spans))

    def _read(self, network: EncoderNetwork) -> Iterator[tuple[HeadTrainingExample, list[Tensor]]]:
        """Every validation example with the logits of its rows; row by row if padding would change outputs."""
        size = self.settings.batch_size if network.may_pad else 1
        for training_examples in batches(self.validated, self.settings.batch_size):
            flat = [row for training_example in training_examples for row in training_example.read.rows]
            logits = [table for some in batches(flat, size) for table in network.read(some)]
            for training_example in training_examples:
                count = len(training_example.read.rows)
                yield training_example, logits[:count]
                del logits[:count]

    def _tables(self, module: Any, batch: dict[str, Tensor]) -> list[Tensor]:
        """Logits over the alternatives, one table per target; padding is -inf."""
        import torch

        base, mask = unwrap_peft(module), batch["attention_mask"]
        inputs = {
            "input_ids": batch["input_ids"].masked_fill(mask == 0, padding_id(base, self.tokenizer)),
            "attention_mask": mask,
        }
        if takes_types(base, self.tokenizer):
            inputs[TYPES] = batch[TYPES]
        if self.plan.head is SPANS:
            output = module(**inputs)
            padding = mask == 0
            return [table.masked_fill(padding, -torch.inf) for table in (output.start_logits, output.end_logits)]
        if self.plan.head is not CHOICES:
            return [module(**inputs).logits]
        # The head scores each pair independently, so pairs of all questions share a batch.
        scores = module(**{name: values.unsqueeze(1) for name, values in inputs.items()}).logits.squeeze(-1)
        parts = scores.split(batch["counts"].tolist())
        return [torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=-torch.inf)]


def span_loss(training_example: HeadTrainingExample, logits: Sequence[Tensor]) -> float:
    """The loss of a span in its training window."""
    assert isinstance(training_example.request, SpanExtraction)
    table = logits[training_example.read.rows.index(training_example.rows[0])].log_softmax(-1)
    return -sum(float(table[index, int(target)]) for index, target in enumerate(training_example.targets)) / len(
        training_example.targets
    )
