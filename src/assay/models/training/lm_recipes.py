"""Training recipe of language models: the loss covers the tokens of the right continuation only.

In: training examples and the request encoder of the model. Out: a recipe. Token ids of prompt and continuation are
exactly those of inference; for a continuation to be generated (an example with one request) EOS is appended.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.core.requests import Loglikelihood
from assay.core.training import ACC_NORM, ACCURACY, LOSS, FitSettings, TrainingExample
from assay.models.loading.network import load_module
from assay.models.tokens.encoding import Encoder
from assay.models.tokens.tokenization import EncodedText, Refused
from assay.models.training.recipes import (
    IGNORED,
    LoadedNetwork,
    Parent,
    ValidationScores,
    batches,
    skipped_notice,
    truncated_notice,
    unwrap_peft,
)
from assay.models.training.validation_metrics import prediction_metrics

if TYPE_CHECKING:
    from torch import Tensor

CAUSAL_KIND = ("AutoModelForCausalLM", "a complete causal language model")


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A prompt and its continuation.

    Attributes:
        ids: ids of both; the last `scored` are trained on.
        scored: number of continuation tokens.
        has_eos: whether the last of them is an appended EOS.
    """

    ids: tuple[int, ...]
    scored: int
    has_eos: bool = False


@dataclass(frozen=True, slots=True)
class ValidationSequence:
    """A continuation of a validation example: the example's number, the choice's index and its characters if known."""

    sequence: TokenSequence
    training_example: int
    index: int
    is_right: bool
    length: int | None = None


@dataclass(frozen=True, slots=True)
class EncodedExamples:
    """Training examples as token sequences.

    Attributes:
        sequences: for each usable example, its requested continuations.
        right_indices: index of the right continuation of each.
        lengths: characters of the choices of each; empty if unknown.
        cut: number of examples with a truncated prompt.
        refused: number of examples that cannot be encoded.
        reason: the reason for the first of these.
    """

    sequences: list[list[TokenSequence]]
    right_indices: list[int]
    lengths: list[tuple[int, ...]]
    cut: int
    refused: int
    reason: str


def read_training_examples(
    encoder: Encoder, training_examples: Sequence[TrainingExample], wants_all: bool, is_seq2seq: bool
) -> EncodedExamples:
    """Encodes training examples; of each, the right continuation only or all of them."""
    requests_by_index: list[tuple[int, Loglikelihood]] = []
    spans: list[range] = []
    for training_example in training_examples:
        wanted = training_example.requests if wants_all else (training_example.requests[training_example.right],)
        begin = len(requests_by_index)
        requests = (entry for entry in wanted if isinstance(entry, Loglikelihood))
        requests_by_index += [(begin + index, entry) for index, entry in enumerate(requests)]
        spans.append(range(begin, len(requests_by_index)))
    found = {entry.index: entry for entry in encoder.pairs(requests_by_index)}
    sequences: list[list[TokenSequence]] = []
    right_indices: list[int] = []
    lengths: list[tuple[int, ...]] = []
    cut, reasons = 0, []
    for training_example, span in zip(training_examples, spans, strict=True):
        entries = [found[index] for index in span]
        refusals = [entry.failure.message for entry in entries if isinstance(entry, Refused)]
        if refusals:
            reasons.append(refusals[0])
            continue
        texts = [entry for entry in entries if isinstance(entry, EncodedText)]
        has_eos = len(training_example.requests) == 1
        sequences.append([_sequence(encoder, text, has_eos, is_seq2seq) for text in texts])
        right_indices.append(training_example.right if wants_all else 0)
        lengths.append(training_example.lengths)
        cut += any(text.truncated for text in texts)
    return EncodedExamples(sequences, right_indices, lengths, cut, len(reasons), reasons[0] if reasons else "")


def _sequence(encoder: Encoder, text: EncodedText, has_eos: bool, is_seq2seq: bool) -> TokenSequence:
    """A text to train on; with EOS appended if `has_eos` and there is room for it."""
    eos, most = encoder.rules.tokenizer.eos_token_id, encoder.rules.max_length
    if not has_eos or eos is None or text.ids[-1] == eos or text.scored >= most:
        return TokenSequence(text.ids, text.scored)
    ids = (*text.ids, eos)
    # A decoder reads all but the last token; an encoder-decoder reads both parts separately.
    return TokenSequence(ids if is_seq2seq else ids[-(most + 1) :], text.scored + 1, True)


@dataclass(frozen=True)
class TextRecipe:
    """Training recipe of a decoder.

    Attributes:
        parent: the model to train.
        settings: hyperparameters.
        rows: the right continuations.
        validated: the continuations of the validation examples.
        notices: notices about the training examples.
    """

    parent: Parent
    settings: FitSettings
    rows: Sequence[TokenSequence]
    validated: Sequence[ValidationSequence]
    notices: Sequence[str]

    kind = CAUSAL_KIND
    is_seq2seq = False

    def load(self) -> LoadedNetwork:
        import torch

        arguments = replace(self.parent.arguments, dtype="float32")
        module = load_module(self.parent.checkpoint, arguments, torch.device("cpu"), self.kind)
        output, given = module.get_output_embeddings(), module.get_input_embeddings()
        heads = tuple(name for name, layer in module.named_modules() if layer is output)
        return LoadedNetwork(module, heads, output is None or output.weight is given.weight, is_language_model=True)

    def collate(self, rows: Sequence[TokenSequence]) -> dict[str, Tensor]:
        """A batch: decoder inputs, positions of the predictions, and labels."""
        import torch

        inputs = [row.ids[:-1] for row in rows]
        longest = max(len(read) for read in inputs)
        wanted = sorted({index for row in rows for index in _predicting_positions(row)})
        column = {index: number for number, index in enumerate(wanted, 1)}
        # A first column of ignored labels: the Trainer skips the first label of decoders when it counts.
        labels = torch.full((len(rows), len(wanted) + 1), IGNORED)
        for number, row in enumerate(rows):
            for index, identifier in zip(_predicting_positions(row), row.ids[-row.scored :], strict=True):
                labels[number, column[index]] = identifier
        # Padded on the right, which a decoder does not attend to, and without a mask: as for inference.
        padded = torch.tensor([[*read, *[0] * (longest - len(read))] for read in inputs])
        return {"input_ids": padded, "wanted": torch.tensor(wanted), "labels": labels}

    def logits(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        """Logits, one per column of the labels but the first."""
        known = _parameters(module)
        options: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
        if "logits_to_keep" in known:
            options["logits_to_keep"] = batch["wanted"]
        logits: Tensor = module(input_ids=batch["input_ids"], **options).logits
        return logits if "logits_to_keep" in known else logits[:, batch["wanted"]]

    def loss(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        from torch.nn.functional import cross_entropy

        logits, labels = self.logits(module, batch), batch["labels"][:, 1:]
        return cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")

    def validate(self, module: Any, device: Any, with_metrics: bool) -> ValidationScores:
        totals: dict[int, dict[int, float]] = {}
        normed: dict[int, dict[int, float]] = {}
        hits: dict[int, bool] = {}
        loss = tokens = 0.0
        right_indices: dict[int, int] = {}
        for validated, values, is_greedy in self._read(module, device):
            if validated.is_right:
                loss, tokens = loss - sum(values), tokens + len(values)
                right_indices[validated.training_example], hits[validated.training_example] = validated.index, is_greedy
            own = values[:-1] if validated.sequence.has_eos else values
            totals.setdefault(validated.training_example, {})[validated.index] = sum(own)
            if validated.length is not None:
                per_character = sum(own) / validated.length if validated.length else -math.inf
                normed.setdefault(validated.training_example, {})[validated.index] = per_character
        if not with_metrics:
            return ValidationScores(loss / tokens)
        pairs = _predictions(totals, right_indices)
        if len(pairs) == len(totals):
            by_length = (
                {ACC_NORM: prediction_metrics(_predictions(normed, right_indices))[ACCURACY]}
                if len(normed) == len(totals)
                else {}
            )
            return ValidationScores(loss / tokens, {**prediction_metrics(pairs), **by_length})
        right = sum(one == other for one, other in pairs)
        right += sum(hits[training_example] for training_example, found in totals.items() if len(found) == 1)
        return ValidationScores(loss / tokens, {ACCURACY: right / len(totals)})

    def _read(self, module: Any, device: Any) -> Iterator[tuple[ValidationSequence, list[float], bool]]:
        """Every continuation with the log-probabilities of its tokens, and whether greedy decoding generates it."""
        import torch

        for some in batches(self.validated, self.settings.batch_size):
            batch = {name: value.to(device) for name, value in self.collate([entry.sequence for entry in some]).items()}
            with torch.no_grad():
                logits = self.logits(module, batch).float()
            labels = batch["labels"][:, 1:]
            chosen = labels.clamp(min=0).unsqueeze(-1)
            values = logits.log_softmax(-1).gather(-1, chosen).squeeze(-1).double().cpu()
            greedy, is_label = (logits.argmax(-1) == labels).cpu(), (labels != IGNORED).cpu()
            for number, entry in enumerate(some):
                matches = greedy[number][is_label[number]].tolist()
                own = matches[:-1] if entry.sequence.has_eos else matches
                yield entry, values[number][is_label[number]].tolist(), all(own)


def _predictions(scores: Mapping[int, Mapping[int, float]], right_indices: Mapping[int, int]) -> list[tuple[int, int]]:
    """(right index, predicted index) of every example with choices."""
    return [
        (right_indices[training_example], max(found, key=lambda index: found[index]))
        for training_example, found in scores.items()
        if len(found) > 1
    ]


def text_recipe(
    kind: type[TextRecipe],
    encoder: Encoder,
    parent: Parent,
    training_examples: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    settings: FitSettings,
) -> TextRecipe:
    """The training recipe of a language model, of a given class."""
    if settings.max_length is not None:
        shorter = min(settings.max_length, encoder.rules.max_length)
        encoder = replace(encoder, rules=replace(encoder.rules, max_length=shorter))
    trained = read_training_examples(encoder, training_examples, False, kind.is_seq2seq)
    validated = read_training_examples(encoder, validation, settings.validation_metric != LOSS, kind.is_seq2seq)
    rows = [sequences[0] for sequences in trained.sequences]
    validation_sequences = [
        ValidationSequence(
            sequence, number, index, index == right, lengths[index] if len(lengths) == len(sequences) else None
        )
        for number, (sequences, right, lengths) in enumerate(
            zip(validated.sequences, validated.right_indices, validated.lengths, strict=True)
        )
        for index, sequence in enumerate(sequences)
    ]
    notices = [
        skipped_notice("training example", trained.refused, len(training_examples), trained.reason),
        skipped_notice("validation example", validated.refused, len(validation), validated.reason),
        truncated_notice(trained.cut, len(rows), encoder.rules.max_length, "prompts of "),
        _no_end(encoder, training_examples),
    ]
    return kind(parent, settings, rows, validation_sequences, tuple(text for text in notices if text))


def _predicting_positions(row: TokenSequence) -> range:
    """Positions at which a decoder predicts the trained tokens."""
    last = len(row.ids) - 1
    return range(last - row.scored, last)


def _parameters(module: Any) -> Any:
    return inspect.signature(unwrap_peft(module).forward).parameters


def _no_end(encoder: Encoder, training_examples: Sequence[TrainingExample]) -> str | None:
    if encoder.rules.tokenizer.eos_token_id is not None or all(
        len(training_example.requests) > 1 for training_example in training_examples
    ):
        return None
    return "the tokenizer has no EOS token, so the model does not learn where an answer ends"
