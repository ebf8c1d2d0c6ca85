"""Text generation with transformers' `generate`: greedy prompts in batches, sampled prompts one by one.

In: encoded prompts and a loaded model. Out: (index, Text | Failure) as batches finish. Up to rounding, no answer
depends on its batch; each sampled request has its own random stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from assay.core.identity import digest
from assay.core.requests import Generation
from assay.core.responses import Failure, Text
from assay.models.inference.batching import Batching, run_batches
from assay.models.inference.stop_criteria import FiniteGuard, StopCriteria, StopRule
from assay.models.loading.network import Network
from assay.models.runtime import quiet
from assay.models.tokens.tokenization import EncodedPrompt, Tokenizer, cut_at_stops

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Generated = tuple[int, Text | Failure]

BROKEN = Failure("not_finite", "logits were NaN or infinite during generation; float32 may help", retryable=False)
# Settings of generation_config.json that depend on the prompt, where padding would count as text.
HISTORY_SETTINGS = ("repetition_penalty", "no_repeat_ngram_size", "encoder_repetition_penalty")


def ignore_tokens(index: int, ids: Sequence[int]) -> None:
    """For who does not look at the tokens of answers."""


@dataclass(frozen=True, slots=True)
class TextGenerator:
    """A loaded model and its tokenizer, for generation.

    Attributes:
        network: the model.
        tokenizer: its tokenizer.
        think_end: text or id that ends the thinking part of an answer.
        on_tokens: receives the index of a prompt and all ids of its answer so far; in padded batches, only once.
    """

    network: Network
    tokenizer: Tokenizer
    think_end: str | int | None = None
    on_tokens: Callable[[int, Sequence[int]], None] = ignore_tokens

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Every token that ends an answer: those of the generation config and the tokenizer's EOS."""
        stated = self.network.module.generation_config.eos_token_id
        found = list(stated) if isinstance(stated, (list, tuple)) else [stated]
        return tuple(sorted({entry for entry in (*found, self.tokenizer.eos_token_id) if entry is not None}))

    @property
    def pad_id(self) -> int:
        for candidate in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, *self.end_ids):
            if candidate is not None:
                return candidate
        return 0

    @property
    def end_text(self) -> str:
        """EOS as text, an implicit stop string: models sometimes spell it in ordinary tokens."""
        end = self.tokenizer.eos_token_id
        return "" if end is None else self.tokenizer.decode([end])

    def rule(self, request: Generation) -> StopRule:
        """The stop rule of a request."""
        stops = tuple(stop for stop in (*request.stop, self.end_text) if stop)
        return StopRule(self.tokenizer, stops, self.end_ids, self.think_end)

    def inputs(self, batch: Sequence[EncodedPrompt]) -> tuple[dict[str, Any], int]:
        """Inputs of `generate` for some prompts, and the number of ids before each answer.

        Prompts are padded on the left; the padding is masked.
        """
        import torch

        longest = max(len(prompt.ids) for prompt in batch)
        gaps = [longest - len(prompt.ids) for prompt in batch]
        ids = [[*[self.pad_id] * gap, *prompt.ids] for gap, prompt in zip(gaps, batch, strict=True)]
        mask = [[*[0] * gap, *[1] * (longest - gap)] for gap in gaps]
        device = self.network.device
        return {
            "input_ids": torch.tensor(ids, device=device),
            "attention_mask": torch.tensor(mask, device=device),
        }, longest


def generate_texts(
    prompts: Iterable[EncodedPrompt], text_generator: TextGenerator, batching: Batching
) -> Iterator[Generated]:
    """Generates an answer for every prompt; prompts with equal settings share batches, longest first."""
    groups: dict[str, list[EncodedPrompt]] = {}
    for prompt in prompts:
        groups.setdefault(_settings_key(prompt, text_generator), []).append(prompt)
    for group in groups.values():
        ordered = sorted(group, key=lambda prompt: (-len(prompt.ids), prompt.ids))

        def work(batch: Sequence[EncodedPrompt]) -> list[Generated]:
            return _generate_batch(batch, text_generator)

        for batch, result in run_batches(ordered, _row_length, batching, work):
            if isinstance(result, Failure):
                yield from ((prompt.index, result) for prompt in batch)
            else:
                yield from result


def share_batches(prompts: Sequence[EncodedPrompt], text_generator: TextGenerator) -> bool:
    """Whether `generate_texts` may put any two of the prompts into one batch."""
    return len({_settings_key(prompt, text_generator) for prompt in prompts}) < len(prompts)


def _row_length(prompt: EncodedPrompt) -> int:
    return len(prompt.ids) + prompt.max_tokens


def _settings_key(prompt: EncodedPrompt, text_generator: TextGenerator) -> str:
    """A key that is equal for prompts that may share a batch."""
    request = prompt.request
    options = generate_options(request)
    config = text_generator.network.module.generation_config
    is_beam = int(options.get("num_beams") or config.num_beams or 1) > 1
    if options["do_sample"] or is_beam or "max_length" in options:
        return f"alone {prompt.index}"
    looks_back = len(options) > 1 or any(getattr(config, name, None) not in (None, 0, 1.0) for name in HISTORY_SETTINGS)
    return digest([prompt.max_tokens, request.stop, options, len(prompt.ids) if looks_back else None])


def generate_options(request: Generation) -> dict[str, Any]:
    """Options for transformers' `generate`, by lm-eval's rules; temperature only when sampling.

    An explicit `do_sample` wins over the temperature; sampling without a temperature uses the model's own.
    """
    options = dict(request.sampling.options)
    temperature = options.pop("temperature", request.sampling.temperature)
    do_sample = bool(options.pop("do_sample", temperature > 0))
    if do_sample and temperature > 0:
        options["temperature"] = temperature
    return {**options, "do_sample": do_sample}


def _generate_batch(batch: Sequence[EncodedPrompt], text_generator: TextGenerator) -> list[Generated]:
    request, most = batch[0].request, batch[0].max_tokens
    options = generate_options(request)
    inputs, start = text_generator.inputs(batch)
    is_single_line = (
        int(options.get("num_beams") or text_generator.network.module.generation_config.num_beams or 1) == 1
    )
    criteria = StopCriteria(text_generator.rule(request), start, is_single_line)
    guard = FiniteGuard(start)
    with _random_stream(batch[0], text_generator.network.device if options["do_sample"] else None):
        rows = generate_rows(text_generator, inputs, {"max_new_tokens": most, **options}, criteria, guard)
    results: list[Generated] = []
    for number, prompt in enumerate(batch):
        ids = rows[number][start:]
        count = criteria.lengths.get(number) or _length(ids, text_generator.end_ids)
        if guard.first_bad.get(number, count) < count:
            results.append((prompt.index, BROKEN))
        else:
            results.append((prompt.index, finish(prompt, ids[:count], text_generator, number in criteria.stopped)))
    return results


def _length(ids: Sequence[int], end_ids: Sequence[int]) -> int:
    """Number of tokens up to and including the first that ends the answer."""
    return next((place + 1 for place, identifier in enumerate(ids) if identifier in end_ids), len(ids))


def generate_rows(
    text_generator: TextGenerator,
    inputs: dict[str, Any],
    options: dict[str, Any],
    criteria: StopCriteria,
    guard: Callable[[Tensor, Tensor], Tensor],
) -> list[list[int]]:
    """Runs `generate`; returns the ids of each row, prompt included.

    Args:
        text_generator: the model.
        inputs: see `TextGenerator.inputs`.
        options: options of `generate`.
        criteria: decides when a row ends.
        guard: logits processor; receives the ids so far and the next scores, returns the scores to sample from.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    if "max_length" in options:
        del options["max_new_tokens"]
    with quiet(), torch.inference_mode():
        sequences = text_generator.network.module.generate(
            **inputs,
            stopping_criteria=StoppingCriteriaList([cast(Any, criteria)]),
            logits_processor=LogitsProcessorList([cast(Any, guard)]),
            pad_token_id=text_generator.pad_id,
            eos_token_id=list(text_generator.end_ids) or None,
            **options,
        )
    return cast("Tensor", sequences).tolist()


@contextmanager
def _random_stream(prompt: EncodedPrompt, device: torch.device | None) -> Iterator[None]:
    """Seeds torch with the request's own stream, and restores the global random state afterwards."""
    import torch

    if device is None:
        yield
        return
    on_device = device.type in ("cuda", "mps")
    with torch.random.fork_rng(
        [device.index or 0] if on_device else [], device_type=device.type if on_device else "cuda"
    ):
        torch.manual_seed(stream_seed(prompt))
        yield


def stream_seed(prompt: EncodedPrompt) -> int:
    """The seed of a request's random stream; independent of batch and order."""
    request = prompt.request
    return int(digest([request.sampling.seed, request.draw, list(prompt.ids)])[:15], 16)


def finish(prompt: EncodedPrompt, ids: Sequence[int], text_generator: TextGenerator, is_stopped: bool) -> Text:
    """The answer as text, with its finish reason."""
    text_generator.on_tokens(prompt.index, ids)
    think_end = text_generator.think_end
    shown = ids
    if isinstance(think_end, int) and think_end in ids:
        shown = ids[len(ids) - list(reversed(ids)).index(think_end) :]
    whole = text_generator.tokenizer.decode(list(shown), skip_special_tokens=True)
    if shown is not ids:
        whole = whole.lstrip()
    after = cut_at_stops(whole, (), think_end if isinstance(think_end, str) else None)
    text = cut_at_stops(after, text_generator.rule(prompt.request).stops)
    is_ended = bool(ids) and ids[-1] in text_generator.end_ids
    reason = "stop" if is_stopped or text != after else "eos" if is_ended else "length"
    notes = (*prompt.notes, "stop_at_limit") if reason == "length" else prompt.notes
    return Text(text, reason, len(ids), len(prompt.ids), prompt.truncated, notes)
