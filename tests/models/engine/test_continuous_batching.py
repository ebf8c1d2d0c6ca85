"""Writing in slots: refill, stop strings, limits, random streams, close calls, and everything that can break."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from assay.core.requests import Generation, Sampling
from assay.core.responses import Failure, Text
from assay.models.engine.continuous_batching import QueuedPrompt, SlotGenerator, prefix_groups
from assay.models.engine.flops import Meter, flop_rates
from assay.models.engine.forward import TreeReader, make_reader
from assay.models.engine.token_sampling import make_sampler
from assay.models.inference.batching import Batching, BatchLimit
from assay.models.inference.generation import TextGenerator, generate_texts
from assay.models.loading.network import Network
from assay.models.tokens.tokenization import EncodedPrompt

END = 2
LETTER = 0x4E00


class Letters:
    """Replaces a tokenizer: every token is one letter, the last ones are halves of a letter."""

    eos_token_id, pad_token_id = END, 0

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False, **_: Any) -> str:
        return "".join(chr(LETTER + token) for token in token_ids if not (skip_special_tokens and token == END))


def prompts(count: int, stem: int = 80, most: int = 8, **settings: Any) -> list[EncodedPrompt]:
    draw = random.Random(4)
    ids = lambda size: tuple(draw.randrange(3, 64) for _ in range(size))  # noqa: E731
    trunk = ids(stem)
    request = Generation("", **settings)
    return [EncodedPrompt(place, (*trunk, *ids(1 + place % 7)), request, most) for place in range(count)]


def slot_generator(reader: TreeReader, rows: int | None = None, **options: Any) -> SlotGenerator:
    text_generator = TextGenerator(reader.network, Letters())  # type: ignore[arg-type]
    meter = Meter(flop_rates(reader.network.module))
    batching = Batching(BatchLimit(rows=rows), options.pop("on_shrink", lambda _: None))
    return SlotGenerator(
        reader, text_generator, batching, meter, options.pop("slots_for", lambda room, count: 64), 1024
    )


def queue_of(network: Network, given: Sequence[EncodedPrompt]) -> list[QueuedPrompt]:
    settings = network.module.generation_config
    pickers: list[Any] = [partial(make_sampler, prompt, settings, network.device) for prompt in given]
    assert all(sample() is not None for sample in pickers)
    return [QueuedPrompt(prompt, sample) for prompt, sample in zip(given, pickers, strict=True)]


def write(reader: TreeReader, given: Sequence[EncodedPrompt], rows: int | None = None, **options: Any) -> list[Any]:
    found = list(slot_generator(reader, rows, **options).generate(queue_of(reader.network, given)))
    assert sorted(place for place, _ in found) == sorted(prompt.index for prompt in given)
    return [answer for _, answer in sorted(found, key=lambda entry: entry[0])]


def by_transformers(network: Network, given: Sequence[EncodedPrompt]) -> list[Any]:
    text_generator = TextGenerator(network, Letters())  # type: ignore[arg-type]
    found = dict(generate_texts(given, text_generator, Batching(BatchLimit(rows=1))))
    return [found[prompt.index] for prompt in given]


@pytest.mark.parametrize("rows", [1, 2, 5, None])
def test_texts_are_those_of_generate(reader: TreeReader, rows: int | None) -> None:
    given = [*prompts(9), *[EncodedPrompt(9, (5, 6), Generation(""), 3)]]
    assert write(reader, given, rows) == by_transformers(reader.network, given)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_first_of_tied_tokens_is_generated(network: Network, dtype: str) -> None:
    """Tokens 32 on have the logits of tokens 0 on; `generate` takes the first."""
    import torch

    module = network.module.to(getattr(torch, dtype))
    module.lm_head.weight.data[32:] = module.lm_head.weight.data[:32]
    texts = [answer.text for answer in write(make_reader(network), prompts(24))]
    assert len("".join(texts)) > 100 and all(ord(letter) - LETTER < 32 for text in texts for letter in text)


@pytest.mark.parametrize("options", [(), (("top_k", 5),), (("top_p", 0.7),), (("min_p", 0.05), ("top_k", 0))])
def test_draws_are_those_of_generate(reader: TreeReader, options: tuple[tuple[str, Any], ...]) -> None:
    given = prompts(6, sampling=Sampling(0.9, 11, options))
    found = write(reader, given, 4)
    assert found == by_transformers(reader.network, given) == write(reader, given[::-1], 1)


def test_penalties_look_at_the_whole_text(reader: TreeReader) -> None:
    given = prompts(4, sampling=Sampling(options=(("repetition_penalty", 1.8),)))
    assert write(reader, given, 3) == by_transformers(reader.network, given) != write(reader, prompts(4), 3)


def test_each_prompt_has_its_own_limit(reader: TreeReader) -> None:
    given = [EncodedPrompt(place, (7, 8, 9), Generation(""), 1 + place) for place in range(5)]
    found = write(reader, given, 2)
    assert [answer.token_count for answer in found] == [1, 2, 3, 4, 5]
    assert all(answer.finish_reason == "length" for answer in found)
    assert all(found[4].text.startswith(answer.text) for answer in found)


def generated_text(reader: TreeReader, prompt: EncodedPrompt) -> str:
    return str(write(reader, [prompt])[0].text)


@pytest.mark.parametrize(("start", "length"), [(0, 1), (0, 2), (2, 1), (3, 3), (6, 2)])
def test_a_stop_string_ends_at_once(reader: TreeReader, start: int, length: int) -> None:
    plain = prompts(1)[0]
    text = generated_text(reader, plain)
    stop = text[start : start + length]
    end = text.index(stop)
    prompt = EncodedPrompt(0, plain.ids, Generation("", stop=("", stop)), plain.max_tokens)
    answer = write(reader, [prompt])[0]
    assert (answer.text, answer.finish_reason, answer.token_count) == (text[:end], "stop", end + length)


def test_the_end_token_ends(reader: TreeReader) -> None:
    plain = prompts(1)[0]
    text = generated_text(reader, plain)
    reader.network.module.generation_config.eos_token_id = ord(text[3]) - LETTER
    answer = write(reader, [plain])[0]
    first = text.index(text[3])
    assert answer.finish_reason == "eos" and answer.token_count == first + 1 and answer.text.startswith(text[:first])


def test_prompts_are_read_as_a_tree(reader: TreeReader) -> None:
    given = prompts(8)
    text_generator = slot_generator(reader, 3)
    list(
        text_generator.generate(
            [
                QueuedPrompt(
                    one,
                    lambda one=one: make_sampler(one, reader.network.module.generation_config, reader.network.device),
                )
                for one in given
            ]
        )
    )  # type: ignore[misc]
    prefixes = {prompt.ids[:end] for prompt in given for end in range(1, len(prompt.ids) + 1)}
    assert text_generator.meter.done.tokens == len(prefixes) and text_generator.meter.generated == sum(
        one.max_tokens for one in given
    )


def test_a_free_slot_is_taken_at_the_next_step(reader: TreeReader) -> None:
    """Two slots; while the first prompt writes nine tokens, seven others follow each other in the second slot."""
    draw = random.Random(8)
    given = [
        EncodedPrompt(place, (3 + place, *(draw.randrange(3, 64) for _ in range(5))), Generation(""), 2 if place else 9)
        for place in range(8)
    ]
    steps: list[int] = []
    reader.network.module.base_model.register_forward_pre_hook(
        lambda _, args, kwargs: steps.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    write(reader, given, 2)
    assert steps.count(2) == 7 and steps.count(1) == 1


def test_memory_that_runs_out_takes_fewer_slots(reader: TreeReader) -> None:
    given, reported = prompts(9), []
    expected = write(reader, given)

    def refuse(_: Any, args: Any, kwargs: Any) -> None:
        if 3 < kwargs["input_ids"].shape[1] < 60:
            raise MemoryError

    hook = reader.network.module.base_model.register_forward_pre_hook(refuse, with_kwargs=True)
    found = write(reader, given, on_shrink=reported.append)
    hook.remove()
    assert found != expected  # a prompt whose own tokens do not fit fails
    assert [answer for answer in found if isinstance(answer, Text)] == [
        one for one, answer in zip(expected, found, strict=True) if isinstance(answer, Text)
    ]
    assert {answer.kind for answer in found if isinstance(answer, Failure)} == {"out_of_memory"}
    assert reported and reported[-1].rows == 1


def test_a_broken_token_fails_its_own_prompts_only(reader: TreeReader) -> None:
    given = prompts(6, stem=20)
    expected = write(reader, given)
    seen = {token for prompt in given for token in prompt.ids} | {
        ord(letter) - LETTER for one in expected for letter in one.text
    }
    broken = next(token for token in range(3, 64) if token not in seen)
    reader.network.module.get_input_embeddings().weight.data[broken] = math.nan
    found = write(reader, [*given, EncodedPrompt(9, (*given[0].ids, broken, 5), Generation(""), 4)])
    assert found[-1].kind == "not_finite" and found[:-1] == expected


def test_an_error_of_one_prompt_costs_no_other(reader: TreeReader) -> None:
    given = prompts(6)
    expected = write(reader, given)
    bad = EncodedPrompt(9, (*given[0].ids, 64), Generation(""), 4)  # no such token
    found = write(reader, [*given, bad])
    assert found[:-1] == expected and found[-1].kind == "error"


def test_close_calls_are_decided_alone(reader: TreeReader) -> None:
    """Two tokens with the same logits everywhere: rows in any batch must choose as a row alone does."""
    weight = reader.network.module.get_output_embeddings().weight.data
    weight[10:30] = weight[30:50]
    weight[10:30] += 1e-6
    given = prompts(12, most=12)
    alone = [write(reader, [prompt])[0] for prompt in given]
    assert write(reader, given) == write(reader, given, 5) == alone


def test_families_share_a_long_prefix() -> None:
    related, others = prompts(6), prompts(3, stem=3)
    tasks = [QueuedPrompt(prompt, lambda: None) for prompt in (*related, *others)]  # type: ignore[arg-type,return-value]
    groups = [[task.prompt for task in family] for family in prefix_groups(tasks)]
    assert [len(group) for group in groups] == [6, 3] and set(groups[0]) == set(related)
    assert list(prefix_groups([])) == []


def test_equal_prompts_are_read_once(network: Network) -> None:
    reader = make_reader(network)
    given = [EncodedPrompt(place, tuple(range(3, 40)), Generation(""), 6) for place in range(7)]
    lengths: list[int] = []
    network.module.base_model.register_forward_pre_hook(
        lambda _, args, kwargs: lengths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    found = write(reader, given, 3)
    assert len({answer.text for answer in found}) == 1 and sum(size for size in lengths if size > 3) == 36
