"""One contract for every architecture: whatever the backend, answers equal those of plain forward passes.

Tiny random models with large weights, so that a wrong mask, position or cache shows as whole nats.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import transformers

from assay.core.errors import ModelError
from assay.core.requests import Generation
from assay.core.responses import Failure, Logprob, Text
from assay.models.engine.backend_choice import SINGLE, EngineChoice, choose_engine
from assay.models.engine.engine import Engine
from assay.models.engine.flops import flop_rates
from assay.models.inference.batching import BatchLimit
from assay.models.inference.generation import TextGenerator
from assay.models.loading.hf_arguments import AUTO, PADDED, TREE
from assay.models.loading.network import Network, wrap
from assay.models.tokens.encoding import Job
from assay.models.tokens.tokenization import EncodedPrompt, EncodedText

VOCABULARY = 211
WINDOW = 8
LONGEST = 160
# What the project promises for float32, and what is left of it in float64.
FLOAT32, FLOAT64 = 1e-4, 1e-9

NAMED = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES: dict[str, Any] = {
    **NAMED,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
# Older configurations have names of their own.
OLD = {**NAMED, "n_layer": 3, "n_head": 4, "n_embd": 48}
ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]


@dataclass(frozen=True)
class Architecture:
    """A tiny model's configuration, which engine `auto` must choose for it, and words of the reason.

    Attributes:
        exact: whether float64 holds all through the model; some compute a part in float32 whatever the weights.
    """

    name: str
    settings: dict[str, Any]
    engine: str = TREE
    reason: str = "agrees with single forward passes"
    exact: bool = True

    def config(self) -> Any:
        return getattr(transformers, f"{self.name}Config")(**self.settings)


def sized(name: str, **changes: Any) -> Architecture:
    return Architecture(name, {**SIZES, **changes})


def off_the_interface(name: str, **settings: Any) -> Architecture:
    return Architecture(name, settings, PADDED, "does not call attention through transformers' interface")


def recurrent(name: str, **settings: Any) -> Architecture:
    return Architecture(name, settings, PADDED, "has a recurrent state")


GEMMA = {"head_dim": 12, "sliding_window": WINDOW, "layer_types": ALTERNATING, "query_pre_attn_scalar": 12}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
LONG_ROPE = {**PLAIN_ROPE, "rope_type": "longrope", "original_max_position_embeddings": 64, "factor": 4.0}
LONG_ROPE |= {"short_factor": [1.0] * 6, "long_factor": [1.0, 2.0, 4.0, 8.0, 8.0, 9.0]}
DYNAMIC_ROPE = {**PLAIN_ROPE, "rope_type": "dynamic", "factor": 2.0}
ARCHITECTURES = {
    "llama": sized("Llama"),
    "gpt2": Architecture("GPT2", {**OLD, "n_positions": 256}),
    "gpt-neox": sized("GPTNeoX"),
    "mistral": sized("Mistral", sliding_window=WINDOW),
    "gemma2": replace(sized("Gemma2", attn_logit_softcapping=5.0, **GEMMA), exact=False),
    "gemma3": sized("Gemma3Text", **GEMMA),
    "qwen2": sized("Qwen2"),
    "qwen2-window": sized("Qwen2", use_sliding_window=True, sliding_window=WINDOW, layer_types=ALTERNATING),
    "qwen3": sized("Qwen3", head_dim=12),
    "phi": sized("Phi"),
    "opt": sized("OPT", ffn_dim=64, word_embed_proj_dim=48),
    "granite": sized("Granite", logits_scaling=4.0, attention_multiplier=0.2, embedding_multiplier=3.0),
    "cohere2": sized("Cohere2", sliding_window=WINDOW, layer_types=ALTERNATING, logit_scale=0.5),
    "gpt-oss": sized("GptOss", **{**GEMMA, **EXPERTS, "rope_parameters": PLAIN_ROPE}),
    "phi3-longrope": sized("Phi3", original_max_position_embeddings=64, rope_parameters=LONG_ROPE),
    "llama4": replace(
        sized(
            "Llama4Text",
            head_dim=12,
            attention_chunk_size=WINDOW,
            num_local_experts=2,
            intermediate_size_mlp=64,
            layer_types=["chunked_attention", "full_attention", "chunked_attention"],
            no_rope_layers=[1, 0, 1],
        ),
        exact=False,
    ),
    "mixtral": sized("Mixtral", sliding_window=WINDOW, **EXPERTS),
    "qwen3-moe": sized("Qwen3Moe", head_dim=12, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32),
    "deepseek-v3": sized(
        "DeepseekV3",
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=12,
        v_head_dim=10,
        first_k_dense_replace=3,
    ),
    "llama-dynamic-rope": replace(
        sized("Llama", max_position_embeddings=64, rope_parameters=DYNAMIC_ROPE),
        engine=SINGLE,
        reason="depend on the longest text in a batch",
    ),
    "gpt-j": off_the_interface("GPTJ", **OLD, n_positions=256, rotary_dim=12),
    "bloom": off_the_interface("Bloom", **OLD, hidden_size=48),
    "falcon": off_the_interface("Falcon", **SIZES, new_decoder_architecture=True, num_kv_heads=2),
    "falcon-alibi": off_the_interface("Falcon", **SIZES, alibi=True, multi_query=False, parallel_attn=False),
    "mpt": off_the_interface("Mpt", **NAMED, d_model=48, n_heads=4, n_layers=3, max_seq_len=256),
    "mamba": recurrent("Mamba", **NAMED, hidden_size=48, num_hidden_layers=3, state_size=8),
    "lfm2": Architecture(
        "Lfm2",
        {**SIZES, "layer_types": ["conv", "full_attention", "conv"]},
        PADDED,
        "attention was called 1 times for 3 layers",
    ),
}


@functools.cache
def module_of(name: str) -> Any:
    """The model, its matrices drawn so large that attention is sharp and every token matters."""
    config = ARCHITECTURES[name].config()
    with torch.random.fork_rng([]), torch.no_grad():
        torch.manual_seed(7)
        module = transformers.AutoModelForCausalLM.from_config(config).eval()
        for key, parameter in module.named_parameters():
            if "sinks" in key:
                parameter.normal_()
            elif parameter.ndim >= 2 and "A_log" not in key:
                parameter.normal_(std=1.5 * parameter.shape[-1] ** -0.5)
            elif key.endswith("bias"):
                parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def copy_of(name: str, dtype: str) -> Any:
    module = copy.deepcopy(module_of(name)).to(getattr(torch, dtype))
    if dtype == "float64" and hasattr(module, "set_experts_implementation"):
        module.set_experts_implementation("eager")  # the other ones know no float64
    return module


@functools.cache
def plain(name: str, dtype: str) -> Any:
    """A copy for plain forward passes; shared, except where a model remembers the longest text that it has read."""
    return copy_of(name, dtype)


def plain_pass(name: str, dtype: str, ids: Sequence[int]) -> torch.Tensor:
    """The logits of one forward pass of a text alone."""
    module = copy_of(name, dtype) if ARCHITECTURES[name].engine == SINGLE else plain(name, dtype)
    with torch.inference_mode():
        found: torch.Tensor = module(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    return found


@functools.cache
def _network(name: str, dtype: str) -> Network:
    return wrap(copy_of(name, dtype), torch.device("cpu"))


def network_of(name: str, dtype: str = "float32") -> Network:
    return _network(name, dtype)


def branches(draw: random.Random) -> Iterator[tuple[tuple[int, ...], int]]:
    """Ids and how many are scored: a tree of four levels, and everything that is easy to get wrong."""
    ids = lambda count: tuple(draw.randrange(VOCABULARY) for _ in range(count))  # noqa: E731
    for stem in (ids(70), ids(5)):
        for branch in (ids(6), ids(1), ids(13)):
            for twig in (ids(2), ids(1)):
                yield from (((*stem, *branch, *twig, *leaf), len(leaf)) for leaf in (ids(3), ids(1)))
    longest = (*stem, *ids(60))
    # Texts that are prefixes of each other, on both sides of every window and threshold.
    yield from ((longest[:length], scored) for length, scored in ((65, 40), (64, 4), (66, 2), (30, 29), (2, 1)))
    yield from ((longest[:40], scored) for scored in (5, 5, 9))  # equal ones, and one that is split elsewhere
    yield from (((*longest[:20], token), 1) for token in (3, 4, 5))  # one-token choices


def continued(name: str, ids: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Ids and what the model says next, by plain forward passes."""
    for _ in range(count):
        ids = (*ids, int(plain_pass(name, "float64", ids)[-1].argmax()))
    return ids


@functools.cache
def texts_of(name: str) -> tuple[EncodedText, ...]:
    """The contract's texts, a few of them the model's own words."""
    rows = list(branches(random.Random(11)))
    rows += [(continued(name, rows[place][0][:-1], count), count) for place, count in ((0, 1), (5, 3), (14, 2))]
    return tuple(EncodedText(number, *row) for number, row in enumerate(rows))


@functools.cache
def truth(name: str) -> dict[int, Logprob]:
    """The answers from one plain forward pass each, in float64."""
    found: dict[int, Logprob] = {}
    for text in texts_of(name):
        logits = plain_pass(name, "float64", text.inputs)[-text.scored :].double()
        scored = torch.tensor(text.ids[-text.scored :])
        total = float(logits.log_softmax(-1).gather(1, scored[:, None]).sum())
        is_greedy = bool((logits.argmax(-1) == scored).all())
        found[text.index] = Logprob(total, text.scored, is_greedy, text.context_length)
    return found


@functools.cache
def choice_of(name: str, requested: str = AUTO, dtype: str = "float32") -> EngineChoice:
    return choose_engine(network_of(name, dtype), requested, "exact", LONGEST)


def ask(
    network: Network, choice: EngineChoice, limit: BatchLimit | None, texts: Sequence[EncodedText]
) -> dict[int, Logprob | Failure]:
    assert choice.reader is None or choice.reader.network is network
    engine = Engine(network, choice, flop_rates(network.module), limit=limit)
    scoring_groups = engine.begin(Job((), texts, (), ()), lambda _: None)
    answers = list(engine.score(scoring_groups))
    assert len(answers) == len(texts)
    return dict(answers)


def check(found: dict[int, Logprob | Failure], expected: dict[int, Logprob], tolerance: float) -> None:
    assert set(found) <= set(expected)
    for index, answer in found.items():
        assert isinstance(answer, Logprob), answer
        right = expected[index]
        assert answer.total == pytest.approx(right.total, abs=tolerance, rel=0)
        assert replace(answer, total=right.total) == right


every = pytest.mark.parametrize("name", ARCHITECTURES)
by_tree = pytest.mark.parametrize("name", [name for name, one in ARCHITECTURES.items() if one.engine == TREE])
otherwise = pytest.mark.parametrize("name", [name for name, one in ARCHITECTURES.items() if one.engine != TREE])
LIMITS = {"1": BatchLimit(rows=1), "3": BatchLimit(rows=3), "auto": None, "tokens": BatchLimit(tokens=37)}


@every
def test_auto_chooses_the_fastest_right_way(name: str) -> None:
    choice = choice_of(name)
    assert choice.engine == ARCHITECTURES[name].engine, choice.reason
    assert ARCHITECTURES[name].reason in choice.reason
    assert choice.max_difference is not None and choice.max_difference < 1e-5


@every
@pytest.mark.parametrize("limit", LIMITS)
def test_batch_size_changes_nothing(name: str, limit: str) -> None:
    check(ask(network_of(name), choice_of(name), LIMITS[limit], texts_of(name)), truth(name), FLOAT32)


@every
@pytest.mark.parametrize("limit", ["3", "auto"])
def test_padded_batches_give_the_same(name: str, limit: str) -> None:
    choice = choice_of(name, PADDED)
    assert choice.reader is None
    check(ask(network_of(name), choice, LIMITS[limit], texts_of(name)), truth(name), FLOAT32)


@every
def test_order_and_resuming_change_nothing(name: str) -> None:
    texts = random.Random(5).sample(texts_of(name), len(texts_of(name)))
    found = ask(network_of(name), choice_of(name), LIMITS["auto"], texts)
    check(found, truth(name), FLOAT32)
    rest = ask(network_of(name), choice_of(name), LIMITS["auto"], texts[len(texts) // 2 :])
    check(rest, {index: answer for index, answer in found.items() if isinstance(answer, Logprob)}, FLOAT32)


@every
def test_sharing_changes_nothing(name: str) -> None:
    alone: dict[int, Logprob | Failure] = {}
    for text in texts_of(name):
        alone |= ask(network_of(name), choice_of(name), LIMITS["auto"], [text])
    check(alone, truth(name), FLOAT32)


@by_tree
@pytest.mark.parametrize("limit", ["1", "tokens"])
def test_float64_leaves_rounding_only(name: str, limit: str) -> None:
    choice = choice_of(name, TREE, "float64")
    tolerance = FLOAT64 if ARCHITECTURES[name].exact else FLOAT32
    check(ask(network_of(name, "float64"), choice, LIMITS[limit], texts_of(name)), truth(name), tolerance)


@by_tree
def test_every_distinct_prefix_is_read_once(name: str) -> None:
    network = network_of(name)
    engine = Engine(network, choice_of(name), flop_rates(network.module), limit=LIMITS["3"])
    list(engine.score(engine.begin(Job((), texts_of(name), (), ()), lambda _: None)))
    texts = texts_of(name)
    threshold = choice_of(name).reader.length_threshold  # type: ignore[union-attr]
    sides = [[text for text in texts if (threshold or 0) and len(text.inputs) > (threshold or 0)]]
    sides.append([text for text in texts if text not in sides[0]])
    prefixes = [{text.ids[:end] for text in side for end in range(1, len(text.ids))} for side in sides]
    assert engine.meter.done.tokens == engine.meter.planned.tokens == sum(len(side) for side in prefixes)


@otherwise
def test_tree_that_cannot_be_had_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match="engine") as error:
        choice_of(name, TREE)
    assert ARCHITECTURES[name].reason in str(error.value)


def test_the_texts_can_show_a_mistake() -> None:
    """Some of them are what the model would say, most are not; and one token more or less in sight changes much."""
    greedy = [answer.is_greedy for answer in truth("llama").values()]
    assert 3 <= sum(greedy) < len(greedy) // 2
    wider = copy_of("mistral", "float64")
    wider.config.sliding_window = WINDOW + 1
    text = texts_of("mistral")[0]
    other = ask(wrap(wider, torch.device("cpu")), EngineChoice(PADDED, ""), None, [text])[0]
    assert isinstance(other, Logprob) and abs(other.total - truth("mistral")[0].total) > 0.01


class Letters:
    """Replaces a tokenizer: every token is one letter."""

    eos_token_id, pad_token_id = 2, 0

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        return "".join(chr(0x4E00 + token) for token in token_ids)


MOST_WRITTEN = 9


def prompts_of(name: str) -> list[EncodedPrompt]:
    """Prompts with a long common prefix and without, equal ones among them; limits differ."""
    rows = sorted({text.inputs for text in texts_of(name)})[::4]
    rows += rows[3:5]
    request = Generation("", max_tokens=MOST_WRITTEN)
    return [EncodedPrompt(number, row, request, MOST_WRITTEN - number % 3) for number, row in enumerate(rows)]


@functools.cache
def plain_texts(name: str) -> dict[int, str]:
    """What each prompt is answered with when every token comes from a plain forward pass over everything before it."""
    say = with_a_cache if ARCHITECTURES[name].engine == SINGLE else without_cache
    return {prompt.index: Letters().decode(say(name, prompt)) for prompt in prompts_of(name)}


def without_cache(name: str, prompt: EncodedPrompt) -> list[int]:
    ids = list(prompt.ids)
    for _ in range(prompt.max_tokens):
        token = int(plain_pass(name, "float32", ids)[-1].argmax())
        if token == Letters.eos_token_id:
            break
        ids.append(token)
    return ids[len(prompt.ids) :]


def with_a_cache(name: str, prompt: EncodedPrompt) -> list[int]:
    """By transformers, alone: what such a model has read keeps the positions that it had then."""
    ids = torch.tensor([prompt.ids])
    options: dict[str, Any] = {"attention_mask": torch.ones_like(ids), "max_new_tokens": prompt.max_tokens}
    found = copy_of(name, "float32").generate(ids, do_sample=False, **options)[0, ids.shape[1] :].tolist()
    return found[:-1] if found[-1] == Letters.eos_token_id else found


def write(name: str, limit: BatchLimit | None, prompts: Sequence[EncodedPrompt]) -> dict[int, str]:
    network = network_of(name)
    engine = Engine(network, choice_of(name), flop_rates(network.module), limit=limit)
    engine.begin(Job((), (), (), prompts), lambda _: None)
    found = dict(engine.generate(prompts, TextGenerator(network, Letters())))  # type: ignore[arg-type]
    assert all(isinstance(answer, Text) for answer in found.values()), found
    return {index: answer.text for index, answer in found.items() if isinstance(answer, Text)}


@every
@pytest.mark.parametrize("limit", ["3", "auto"])
def test_greedy_text_does_not_depend_on_the_batch(name: str, limit: str) -> None:
    prompts = random.Random(2).sample(prompts_of(name), len(prompts_of(name)))
    assert write(name, LIMITS[limit], prompts) == plain_texts(name)
