"""What a head learns and how it is examined: labels, choices or spans.

Takes lessons as rows (`head_lessons.py` makes them, as the model is asked); gives batches, losses and an examination,
which reads answers as the model does (`head_answers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.core.fitting import FitSettings
from assay.core.requests import SpanExtraction
from assay.core.responses import LabelScores, Text
from assay.models.encoder_heads import CHOICES, MAX_SPAN, SPANS
from assay.models.encoder_network import EncoderNetwork, padding_id, takes_types, wrap_encoder
from assay.models.fitting.courses import Loaded, Parent, Scores, base_of, batches
from assay.models.fitting.new_heads import HeadPlan, load_with_head
from assay.models.fitting.values import pick_values, span_values
from assay.models.head_answers import HeadReader
from assay.models.head_encoding import HeadInput, HeadRequest, HeadRow, PairTokenizer, pad_rows

if TYPE_CHECKING:
    from torch import Tensor

TYPES = "token_type_ids"


@dataclass(frozen=True, slots=True)
class HeadLesson:
    """A lesson as rows.

    Attributes:
        request: what is asked.
        read: all rows of it.
        rows: those that are learnt from: all, or of a span the window that holds it.
        targets: the right label's place, the right choice's, or the first and last token of the span.
        right: place of the right answer among the request's labels or choices.
        answer: the right words of a span.
    """

    request: HeadRequest
    read: HeadInput
    rows: tuple[HeadRow, ...]
    targets: tuple[int, ...]
    right: int
    answer: str


@dataclass(frozen=True)
class HeadCourse:
    """Lessons of an encoder's head.

    Attributes:
        parent: the model that is trained.
        settings: how.
        plan: which head it gets.
        tokenizer: the parent's tokenizer.
        rows: what is learnt from.
        checked: the validation lessons.
        notices: what the user should know of the lessons.
    """

    parent: Parent
    settings: FitSettings
    plan: HeadPlan
    tokenizer: PairTokenizer
    rows: Sequence[HeadLesson]
    checked: Sequence[HeadLesson]
    notices: Sequence[str]

    def load(self) -> Loaded:
        return load_with_head(self.parent, self.plan)

    def collate(self, rows: Sequence[HeadLesson]) -> dict[str, Tensor]:
        """Rows of all lessons one after another, how many each has, and the targets."""
        import torch

        flat = [row for lesson in rows for row in lesson.rows]
        batch = {name: torch.tensor(values) for name, values in pad_rows(flat, 0, True).items()}
        targets = torch.tensor([lesson.targets for lesson in rows])
        counts = torch.tensor([len(lesson.rows) for lesson in rows])
        return {**batch, "counts": counts, "labels": targets}

    def loss(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        from torch.nn.functional import cross_entropy

        tables, targets = self._tables(module, batch), batch["labels"]
        # Of a span, start and end count one half each: both are counted as labels.
        losses = [
            cross_entropy(table.float(), targets[:, place], reduction="sum") for place, table in enumerate(tables)
        ]
        return sum(losses[1:], losses[0])

    def examine(self, module: Any, device: Any, wants_answers: bool) -> Scores:
        network = wrap_encoder(base_of(module), module, device, self.plan.head, self.tokenizer)
        reader = HeadReader(self.plan.labels, self.parent.arguments.max_span or MAX_SPAN)
        loss = 0.0
        pairs: list[tuple[int, int]] = []
        spans: list[tuple[str, str]] = []
        for lesson, logits in self._read(network):
            answer = reader.answer(lesson.request, lesson.read, logits)
            if isinstance(answer, LabelScores):
                loss -= answer.scores[lesson.right]
                pairs.append((lesson.right, max(range(len(answer.scores)), key=answer.scores.__getitem__)))
            else:
                loss += span_loss(lesson, logits)
                spans.append((lesson.answer, answer.text if isinstance(answer, Text) else ""))
        total = len(self.checked)
        if not wants_answers:
            return Scores(loss / total)
        return Scores(loss / total, pick_values(pairs) if pairs else span_values(spans))

    def _read(self, network: EncoderNetwork) -> Iterator[tuple[HeadLesson, list[Tensor]]]:
        """Every validation lesson with the logits of its rows; row by row where padding would tell."""
        size = self.settings.batch_size if network.may_pad else 1
        for lessons in batches(self.checked, self.settings.batch_size):
            flat = [row for lesson in lessons for row in lesson.read.rows]
            logits = [table for some in batches(flat, size) for table in network.read(some)]
            for lesson in lessons:
                count = len(lesson.read.rows)
                yield lesson, logits[:count]
                del logits[:count]

    def _tables(self, module: Any, batch: dict[str, Tensor]) -> list[Tensor]:
        """Logits over the alternatives, one table per target; what is no alternative has none."""
        import torch

        base, mask = base_of(module), batch["attention_mask"]
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
        # The head gives each pair one number by itself, so pairs of all questions go side by side.
        scores = module(**{name: values.unsqueeze(1) for name, values in inputs.items()}).logits.squeeze(-1)
        parts = scores.split(batch["counts"].tolist())
        return [torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=-torch.inf)]


def span_loss(lesson: HeadLesson, logits: Sequence[Tensor]) -> float:
    """The loss of a span in the window that it is learnt from."""
    assert isinstance(lesson.request, SpanExtraction)
    table = logits[lesson.read.rows.index(lesson.rows[0])].log_softmax(-1)
    return -sum(float(table[place, target]) for place, target in enumerate(lesson.targets)) / len(lesson.targets)
