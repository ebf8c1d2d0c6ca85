"""Dictation: whether a model that writes beside others has the logits that it has alone.

Takes a way of writing; gives the reason why it cannot be used, or None. A few given tokens are written after prompts of
different lengths, and the logits before each are compared with those of `generate` for one prompt, so that padding,
masks, positions and caches that leak from one row into another show before any text is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from assay.core.requests import Generation
from assay.core.responses import Failure
from assay.models.engine.backend_choice import NOISE_FACTOR, logits_tolerance
from assay.models.engine.continuous_batching import QueuedPrompt, SlotGenerator
from assay.models.engine.length_limits import find_leak
from assay.models.engine.probe import LogitsByPrefix, has_window, logits_gap, make_probe
from assay.models.engine.token_sampling import TokenSampler
from assay.models.inference.batching import attempt
from assay.models.inference.generation import TextGenerator, generate_rows
from assay.models.inference.stop_criteria import StopCriteria
from assay.models.loading.network import Network
from assay.models.tokens.tokenization import EncodedPrompt, Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

# Tokens that are dictated; lengths of the shortest prompt, of one that is a little longer, and of long ones in slots.
# Beside a padded prompt stands one as long as the probe; where the model has a window, more are.
FORCED_TOKENS = 3
SHORT, LONGER, LONG = 9, 13, 36
# Settings of generation_config.json that would change the logits by what stands in the padding.
PLAIN: dict[str, Any] = {"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0}


@dataclass(frozen=True, slots=True)
class NullTokenizer:
    """Stands for a tokenizer while dictated tokens, which are not text, are written."""

    pad_token_id: int
    eos_token_id: int | None = None

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        return ""


@dataclass(slots=True)
class ForcedDecoding:
    """A batch of `generate` that is given its tokens.

    Attributes:
        texts: ids of prompts and of what is dictated, one per row.
        found: logits by the ids that they follow.
    """

    texts: Sequence[tuple[int, ...]]
    found: LogitsByPrefix = field(default_factory=dict)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores of `generate`, with all tokens ruled out but the dictated ones; rows are padded on the left."""
        import torch

        count = input_ids.shape[1] - max(len(text) for text in self.texts) + FORCED_TOKENS
        forced = torch.full_like(scores, -torch.inf)
        for row, text in enumerate(self.texts):
            position = len(text) - FORCED_TOKENS + count
            self.found[text[:position]] = scores[row].float().cpu().clone()
            forced[row, text[position]] = 0.0
        return forced


@dataclass(slots=True)
class ForcedSampler(TokenSampler):
    """Picks what is dictated to one row, in slots; keeps the logits by the ids that they follow."""

    text: tuple[int, ...] = ()
    found: LogitsByPrefix = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        return False

    def sample(self, ids: Sequence[int], logits: Tensor) -> int:
        self.found[tuple(ids)] = logits.float().cpu().clone()
        return self.text[len(ids)]


def make_rows(network: Network, max_length: int, ends: Collection[int]) -> list[tuple[int, ...]]:
    """The probe without tokens that end an answer; nothing where its texts are too short to be written after."""
    probe = make_probe(network, max_length)
    if min(len(text.ids) for text in probe) < SHORT + FORCED_TOKENS:
        return []
    columns = int(network.module.config.get_text_config().vocab_size)
    spare = next(token for token in range(columns) if token not in ends)
    return [tuple(spare if token in ends else token for token in text.ids) for text in probe]


def check_slots(slot_generator: SlotGenerator, max_length: int) -> str | None:
    """Why answers cannot be written in slots; the logits must be those of `generate` for the same prompts alone.

    A long prompt, one that shares most of its tokens, and a short one are written together; the last two are compared.
    """
    network = slot_generator.reader.network
    rows = make_rows(network, max_length, slot_generator.text_generator.end_ids)
    if not rows:
        return None
    start = 0 if has_window(network) else max(len(rows[0]) - LONG - FORCED_TOKENS, 0)
    texts = [rows[0][start:], rows[1][start:], _last(rows[-1], SHORT)]
    undecoded = _with_null_tokenizer(slot_generator.text_generator)
    truth = _alone(undecoded, texts[1:])
    logits: LogitsByPrefix = {}
    queue = [
        QueuedPrompt(_prompt(number, text), partial(ForcedSampler, text=text, found=logits))
        for number, text in enumerate(texts)
    ]
    answers = attempt(lambda: list(replace(slot_generator, text_generator=undecoded).generate(queue)))
    found = answers if isinstance(answers, Failure) else logits
    return _reason("slots differ from single rows", truth, found, logits_tolerance(network))


def check_padding(text_generator: TextGenerator, max_length: int) -> str | None:
    """Why prompts cannot be padded on the left; the logits must be those of `generate` for the same prompts alone.

    Two prompts, one of them longer than a window where there is one, are written beside a longer one, which needs no
    padding. Rows of one length show what rounding alone changes.
    """
    network = text_generator.network
    rows = make_rows(network, max_length, text_generator.end_ids)
    stated = find_leak(network.module.config.get_text_config())
    if stated is not None or not rows:
        return stated
    padded = [rows[1] if has_window(network) else _last(rows[1], LONGER), _last(rows[-1], SHORT)]
    undecoded = _with_null_tokenizer(text_generator)
    alone, allowed = _alone(undecoded, padded), logits_tolerance(network)
    batches = ([padded[1], padded[1][::-1]], [rows[0], *padded])
    level, uneven = (attempt(partial(_force_decode, undecoded, batch)) for batch in batches)
    if not isinstance(alone, Failure) and not isinstance(level, Failure):
        noise = logits_gap({ids: alone[ids] for ids in level if ids in alone}, level)
        allowed = max(allowed, NOISE_FACTOR * noise) if noise <= allowed else allowed
    return _reason("left-padded batches differ from single rows", alone, uneven, allowed)


def _last(row: tuple[int, ...], length: int) -> tuple[int, ...]:
    """A prompt of some tokens from the end of a row, with what is dictated."""
    return row[-length - FORCED_TOKENS :]


def _with_null_tokenizer(text_generator: TextGenerator) -> TextGenerator:
    return replace(text_generator, tokenizer=cast(Tokenizer, NullTokenizer(text_generator.pad_id)))


def _alone(text_generator: TextGenerator, texts: Sequence[tuple[int, ...]]) -> LogitsByPrefix | Failure:
    found: LogitsByPrefix = {}
    for text in texts:
        own = attempt(partial(_force_decode, text_generator, [text]))
        if isinstance(own, Failure):
            return own
        found |= own
    return found


def _force_decode(text_generator: TextGenerator, texts: Sequence[tuple[int, ...]]) -> LogitsByPrefix:
    """The logits before each dictated token, by transformers' own `generate` over one batch."""
    batch = [_prompt(number, text) for number, text in enumerate(texts)]
    inputs, start = text_generator.inputs(batch)
    forced = ForcedDecoding(texts)
    criteria = StopCriteria(text_generator.rule(batch[0].request), start)
    generate_rows(text_generator, inputs, {"max_new_tokens": FORCED_TOKENS, **PLAIN}, criteria, forced)
    return forced.found


def _prompt(number: int, text: tuple[int, ...]) -> EncodedPrompt:
    return EncodedPrompt(number, text[:-FORCED_TOKENS], Generation("", max_tokens=FORCED_TOKENS), FORCED_TOKENS)


def _reason(what: str, truth: LogitsByPrefix | Failure, found: LogitsByPrefix | Failure, allowed: float) -> str | None:
    """What is wrong with logits; None when they are near enough."""
    for rows in (truth, found):
        if isinstance(rows, Failure):
            return f"writing fails: {rows.message}"
    assert not isinstance(truth, Failure) and not isinstance(found, Failure)
    gap = logits_gap(truth, found)
    return None if gap <= allowed else f"{what} by {gap:.1g} of the spread of logits"
