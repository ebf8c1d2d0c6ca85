"""Lessons of language models: the right continuation is learnt, and nothing else.

Takes lessons and the encoder with which the model is asked; gives courses. Ids of prompt and continuation are exactly
those of asking; behind a continuation that is to be written (a lesson with one request) EOS is learnt too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.core.fitting import ACCURACY, BY_CHARACTER, LOSS, FitSettings, Lesson
from assay.core.requests import Loglikelihood
from assay.models.encoding import Encoder
from assay.models.fitting.courses import IGNORED, Loaded, Parent, Scores, base_of, batches, left_out
from assay.models.fitting.values import pick_values
from assay.models.network import load_module
from assay.models.seq2seq_network import KIND as PAIR_KIND
from assay.models.seq2seq_network import start_token
from assay.models.tokens import EncodedText, Refused

if TYPE_CHECKING:
    from torch import Tensor

CAUSAL_KIND = ("AutoModelForCausalLM", "a complete causal language model")


@dataclass(frozen=True, slots=True)
class Line:
    """A prompt and its continuation.

    Attributes:
        ids: of both; the last `scored` are learnt.
        scored: how many.
        ends: whether the last of them is an EOS that was put behind the continuation.
    """

    ids: tuple[int, ...]
    scored: int
    ends: bool = False


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A continuation of a validation lesson: which lesson's, at which place, and the choice's characters if known."""

    line: Line
    lesson: int
    place: int
    is_right: bool
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Lessons as lines.

    Attributes:
        lines: one list per lesson that can be asked, of all its continuations that were wanted.
        rights: the place of the right one in each.
        lengths: characters of the choices of each; empty where not known.
        cut: how many lost tokens of their prompt.
        refused: how many cannot be asked.
        reason: why the first of these cannot.
    """

    lines: list[list[Line]]
    rights: list[int]
    lengths: list[tuple[int, ...]]
    cut: int
    refused: int
    reason: str


def read_lessons(encoder: Encoder, lessons: Sequence[Lesson], wants_all: bool, is_pair: bool) -> Reading:
    """The lessons as lines; of each the right continuation alone, or all of them."""
    asked: list[tuple[int, Loglikelihood]] = []
    spans: list[range] = []
    for lesson in lessons:
        wanted = lesson.requests if wants_all else (lesson.requests[lesson.right],)
        begin = len(asked)
        requests = (entry for entry in wanted if isinstance(entry, Loglikelihood))
        asked += [(begin + place, entry) for place, entry in enumerate(requests)]
        spans.append(range(begin, len(asked)))
    found = {entry.index: entry for entry in encoder.pairs(asked)}
    lines: list[list[Line]] = []
    rights: list[int] = []
    lengths: list[tuple[int, ...]] = []
    cut, reasons = 0, []
    for lesson, span in zip(lessons, spans, strict=True):
        entries = [found[place] for place in span]
        refusals = [entry.failure.message for entry in entries if isinstance(entry, Refused)]
        if refusals:
            reasons.append(refusals[0])
            continue
        texts = [entry for entry in entries if isinstance(entry, EncodedText)]
        ends = len(lesson.requests) == 1
        lines.append([_line(encoder, text, ends, is_pair) for text in texts])
        rights.append(lesson.right if wants_all else 0)
        lengths.append(lesson.lengths)
        cut += any(text.truncated for text in texts)
    return Reading(lines, rights, lengths, cut, len(reasons), reasons[0] if reasons else "")


def _line(encoder: Encoder, text: EncodedText, ends: bool, is_pair: bool) -> Line:
    """A text as it is learnt; with EOS where the continuation is to end, as far as there is room for it."""
    eos, most = encoder.rules.tokenizer.eos_token_id, encoder.rules.max_length
    if not ends or eos is None or text.ids[-1] == eos or text.scored >= most:
        return Line(text.ids, text.scored)
    ids = (*text.ids, eos)
    # A decoder reads all but the last token; an encoder-decoder reads the two parts apart.
    return Line(ids if is_pair else ids[-(most + 1) :], text.scored + 1, True)


@dataclass(frozen=True)
class TextCourse:
    """Lessons of a decoder.

    Attributes:
        parent: the model that is trained.
        settings: how.
        rows: the right continuations.
        checked: the continuations of the validation lessons.
        notices: what the user should know of the lessons.
    """

    parent: Parent
    settings: FitSettings
    rows: Sequence[Line]
    checked: Sequence[CheckedLine]
    notices: Sequence[str]

    kind = CAUSAL_KIND

    def load(self) -> Loaded:
        import torch

        arguments = replace(self.parent.arguments, dtype="float32")
        module = load_module(self.parent.checkpoint, arguments, torch.device("cpu"), self.kind)
        output, given = module.get_output_embeddings(), module.get_input_embeddings()
        heads = tuple(name for name, layer in module.named_modules() if layer is output)
        return Loaded(module, heads, output is None or output.weight is given.weight, is_writer=True)

    def collate(self, rows: Sequence[Line]) -> dict[str, Tensor]:
        """What the decoder reads, where its predictions are wanted, and what they should be."""
        import torch

        inputs = [row.ids[:-1] for row in rows]
        longest = max(len(read) for read in inputs)
        wanted = sorted({place for row in rows for place in _places(row)})
        column = {place: number for number, place in enumerate(wanted, 1)}
        # A first column of nothing: the Trainer counts the labels of decoders without it.
        labels = torch.full((len(rows), len(wanted) + 1), IGNORED)
        for number, row in enumerate(rows):
            for place, identifier in zip(_places(row), row.ids[-row.scored :], strict=True):
                labels[number, column[place]] = identifier
        # Padded on the right, where a decoder never looks, and without a mask: as the model is asked.
        padded = torch.tensor([[*read, *[0] * (longest - len(read))] for read in inputs])
        return {"input_ids": padded, "wanted": torch.tensor(wanted), "labels": labels}

    def logits(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        """The predictions, one per column of the labels but the first."""
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

    def examine(self, module: Any, device: Any, wants_answers: bool) -> Scores:
        totals: dict[int, dict[int, float]] = {}
        normed: dict[int, dict[int, float]] = {}
        hits: dict[int, bool] = {}
        loss = tokens = 0.0
        rights: dict[int, int] = {}
        for checked, values, is_greedy in self._read(module, device):
            if checked.is_right:
                loss, tokens = loss - sum(values), tokens + len(values)
                rights[checked.lesson], hits[checked.lesson] = checked.place, is_greedy
            own = values[:-1] if checked.line.ends else values
            totals.setdefault(checked.lesson, {})[checked.place] = sum(own)
            if checked.length is not None:
                per_character = sum(own) / checked.length if checked.length else -math.inf
                normed.setdefault(checked.lesson, {})[checked.place] = per_character
        if not wants_answers:
            return Scores(loss / tokens)
        pairs = _picked(totals, rights)
        if len(pairs) == len(totals):
            by_length = (
                {BY_CHARACTER: pick_values(_picked(normed, rights))[ACCURACY]} if len(normed) == len(totals) else {}
            )
            return Scores(loss / tokens, {**pick_values(pairs), **by_length})
        right = sum(one == other for one, other in pairs)
        right += sum(hits[lesson] for lesson, found in totals.items() if len(found) == 1)
        return Scores(loss / tokens, {ACCURACY: right / len(totals)})

    def _read(self, module: Any, device: Any) -> Iterator[tuple[CheckedLine, list[float], bool]]:
        """Every continuation with the log-probabilities of its tokens, and whether it is what greedy decoding gives."""
        import torch

        for some in batches(self.checked, self.settings.batch_size):
            batch = {name: value.to(device) for name, value in self.collate([entry.line for entry in some]).items()}
            with torch.no_grad():
                logits = self.logits(module, batch).float()
            labels = batch["labels"][:, 1:]
            chosen = labels.clamp(min=0).unsqueeze(-1)
            values = logits.log_softmax(-1).gather(-1, chosen).squeeze(-1).double().cpu()
            greedy, kept = (logits.argmax(-1) == labels).cpu(), (labels != IGNORED).cpu()
            for number, entry in enumerate(some):
                matches = greedy[number][kept[number]].tolist()
                own = matches[:-1] if entry.line.ends else matches
                yield entry, values[number][kept[number]].tolist(), all(own)


def _picked(scores: Mapping[int, Mapping[int, float]], rights: Mapping[int, int]) -> list[tuple[int, int]]:
    """The right place and the one with the highest score, of every lesson with choices."""
    return [
        (rights[lesson], max(found, key=lambda place: found[place]))
        for lesson, found in scores.items()
        if len(found) > 1
    ]


class PairCourse(TextCourse):
    """Lessons of an encoder-decoder: the encoder reads the prompt, the decoder learns the continuation."""

    kind = PAIR_KIND

    def collate(self, rows: Sequence[Line]) -> dict[str, Tensor]:
        import torch

        contexts = [row.ids[: -row.scored] for row in rows]
        targets = [row.ids[-row.scored :] for row in rows]
        wide, long = max(map(len, contexts)), max(map(len, targets))
        labels = [[IGNORED, *target, *[IGNORED] * (long - len(target))] for target in targets]
        return {
            "input_ids": torch.tensor([[*ids, *[0] * (wide - len(ids))] for ids in contexts]),
            "attention_mask": torch.tensor([[*[1] * len(ids), *[0] * (wide - len(ids))] for ids in contexts]),
            "labels": torch.tensor(labels),
        }

    def logits(self, module: Any, batch: dict[str, Tensor]) -> Tensor:
        # The decoder reads its start token and all labels but the last; behind them it never looks.
        read = batch["labels"][:, :-1].clamp(min=0)
        read[:, 0] = start_token(base_of(module), str(self.parent.checkpoint.folder))
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        found: Tensor = module(**inputs, decoder_input_ids=read, use_cache=False).logits
        return found


def text_course(
    encoder: Encoder, parent: Parent, lessons: Sequence[Lesson], checks: Sequence[Lesson], settings: FitSettings
) -> TextCourse:
    """The course of a language model."""
    kind = PairCourse if parent.able.family == "encoder-decoder" else TextCourse
    is_pair = kind is PairCourse
    if settings.max_length is not None:
        shorter = min(settings.max_length, encoder.rules.max_length)
        encoder = replace(encoder, rules=replace(encoder.rules, max_length=shorter))
    learnt = read_lessons(encoder, lessons, False, is_pair)
    checked = read_lessons(encoder, checks, settings.watched != LOSS, is_pair)
    rows = [lines[0] for lines in learnt.lines]
    examined = [
        CheckedLine(line, number, place, place == right, lengths[place] if len(lengths) == len(lines) else None)
        for number, (lines, right, lengths) in enumerate(
            zip(checked.lines, checked.rights, checked.lengths, strict=True)
        )
        for place, line in enumerate(lines)
    ]
    notices = [
        left_out("lessons", learnt.refused, len(lessons), learnt.reason),
        left_out("validation lessons", checked.refused, len(checks), checked.reason),
        _cut_notice(learnt.cut, len(rows), encoder.rules.max_length),
        _no_end(encoder, lessons),
    ]
    return kind(parent, settings, rows, examined, tuple(text for text in notices if text))


def _places(row: Line) -> range:
    """Where a decoder predicts the tokens that are learnt."""
    last = len(row.ids) - 1
    return range(last - row.scored, last)


def _parameters(module: Any) -> Any:
    return inspect.signature(base_of(module).forward).parameters


def _cut_notice(count: int, total: int, length: int) -> str | None:
    return f"the prompts of {count} of {total} lessons were cut from the left to {length} tokens" if count else None


def _no_end(encoder: Encoder, lessons: Sequence[Lesson]) -> str | None:
    if encoder.rules.tokenizer.eos_token_id is not None or all(len(lesson.requests) > 1 for lesson in lessons):
        return None
    return "the tokenizer has no EOS, so the model does not learn where an answer ends"
