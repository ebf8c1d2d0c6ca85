"""Generation probe: compares the logits of batched generation with those of each prompt alone, by forced decoding.

In: a generation backend. Out: the reason why it cannot be used, or None. A few fixed tokens are decoded after
prompts of different lengths, and the logits before each are compared with those of `generate` for one prompt, so that
leaks between rows through padding, masks, positions or caches show before any text is generated.
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

# Number of forced tokens; lengths of the shortest prompt, of a slightly longer one, and of long ones in slots. A padded
# prompt shares its batch with one as long as the probe; with a sliding window, more prompts are long.
FORCED_TOKENS = 3
SHORT, LONGER, LONG = 9, 13, 36
# Neutral values for settings of generation_config.json that would make logits depend on padding.
PLAIN: dict[str, Any] = {"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0}


@dataclass(frozen=True, slots=True)
class NullTokenizer:
    """Placeholder tokenizer for forced tokens, which are not text."""

    pad_token_id: int
    eos_token_id: int | None = None

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        return ""


@dataclass(slots=True)
class ForcedDecoding:
    """Logits processor of `generate` that forces given tokens.

    Attributes:
        texts: ids of each row: prompt and forced tokens.
        found: logits by preceding ids.
    """

    texts: Sequence[tuple[int, ...]]
    found: LogitsByPrefix = field(default_factory=dict)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores of `generate` with all tokens masked but the forced ones; rows are padded on the left."""
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
    """Returns the forced tokens of one row in continuous batching, and records logits by preceding ids."""

    text: tuple[int, ...] = ()
    found: LogitsByPrefix = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        return False

    def sample(self, ids: Sequence[int], logits: Tensor) -> int:
        self.found[tuple(ids)] = logits.float().cpu().clone()
        return self.text[len(ids)]


def make_rows(network: Network, max_length: int, ends: Collection[int]) -> list[tuple[int, ...]]:
    """The probe texts without EOS tokens; empty if they are too short."""
    probe = make_probe(network, max_length)
    if min(len(text.ids) for text in probe) < SHORT + FORCED_TOKENS:
        return []
    columns = int(network.module.config.get_text_config().vocab_size)
    spare = next(token for token in range(columns) if token not in ends)
    return [tuple(spare if token in ends else token for token in text.ids) for text in probe]


def check_slots(slot_generator: SlotGenerator, max_length: int) -> str | None:
    """Why continuous batching cannot be used, or None; its logits must equal those of `generate` for each prompt alone.

    A long prompt, one that shares most of its tokens, and a short one run together; the last two are compared.
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
    """Why left-padded batches cannot be used, or None; logits must equal those of `generate` for each prompt alone.

    Two prompts, one longer than the sliding window if there is one, run with a longer one that needs no padding. Rows
    of equal length measure the effect of rounding alone.
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
    """The last `length` tokens of a row as a prompt, with the forced tokens."""
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
    """The logits before each forced token, from transformers' `generate` over one batch."""
    batch = [_prompt(number, text) for number, text in enumerate(texts)]
    inputs, start = text_generator.inputs(batch)
    forced = ForcedDecoding(texts)
    criteria = StopCriteria(text_generator.rule(batch[0].request), start)
    generate_rows(text_generator, inputs, {"max_new_tokens": FORCED_TOKENS, **PLAIN}, criteria, forced)
    return forced.found


def _prompt(number: int, text: tuple[int, ...]) -> EncodedPrompt:
    return EncodedPrompt(number, text[:-FORCED_TOKENS], Generation("", max_tokens=FORCED_TOKENS), FORCED_TOKENS)


def _reason(what: str, truth: LogitsByPrefix | Failure, found: LogitsByPrefix | Failure, allowed: float) -> str | None:
    """How logits differ; None if they are close enough."""
    for rows in (truth, found):
        if isinstance(rows, Failure):
            return f"generation fails: {rows.message}"
    assert not isinstance(truth, Failure) and not isinstance(found, Failure)
    gap = logits_gap(truth, found)
    return None if gap <= allowed else f"{what} by {gap:.1g} of the spread of logits"
