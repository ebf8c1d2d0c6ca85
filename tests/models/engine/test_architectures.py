"""The contract for many more architectures: built from small configurations, every backend, scoring and generation.

Each model runs as `auto` and as `padded`; its answers are those of plain forward passes of one row in float64 and
of `generate` for one prompt. Windows, chunks and scaling thresholds are shorter than the texts. All decoders that
transformers can build this way are swept by `pytest -m slow tests/models/engine/test_architectures.py`.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from assay.core.requests import Generation
from assay.core.responses import Logprob, Text
from assay.models.engine.backend_choice import SINGLE, choose_engine
from assay.models.engine.engine import Engine
from assay.models.engine.flops import flop_rates
from assay.models.inference.generation import TextGenerator
from assay.models.loading.hf_arguments import AUTO, PADDED, TREE
from assay.models.loading.network import Network, wrap
from assay.models.runtime import quiet
from assay.models.tokens.encoding import Job
from assay.models.tokens.tokenization import EncodedPrompt, EncodedText

VOCABULARY, LONGEST, WINDOW = 97, 160, 8
FLOAT32 = 1e-4
# More parameters than this are not a small configuration.
MOST_PARAMETERS = 3_000_000

# What configurations call their sizes; each gets those that it knows.
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "attention_hidden_size", "lru_width", "embedding_size"), 48),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "decoder_ffn_dim", "intermediate_size_mlp"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"), 3),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_global_key_value_heads", "swa_num_key_value_heads"), 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "context_length"), 256),
    **dict.fromkeys(("head_dim", "global_head_dim", "swa_head_dim", "swa_v_head_dim", "rotary_dim"), 12),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size"), 32),
    **dict.fromkeys(("sliding_window", "attention_chunk_size", "attention_window_size", "window_size"), WINDOW),
    **dict.fromkeys(("block_size", "chunk_size", "mamba_chunk_size"), 8),
    **dict.fromkeys(("index_topk", "keep_window_size", "floor_scale"), 100),
    "word_embed_proj_dim": 48,
    "encoder_layers": 1,
    "swa_num_attention_heads": 4,
    "num_kv_shared_layers": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "index_n_heads": 2,
    "index_head_dim": 12,
    "time_step_rank": 4,
    "n_groups": 1,
    "mamba_n_groups": 1,
    **dict.fromkeys(("state_size", "ssm_state_size", "mamba_d_state"), 8),
    "mamba_n_heads": 4,
    "mamba_d_head": 24,
    "mamba_num_heads": 4,
    "mamba_head_dim": 24,
    "mamba_expand": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 12,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCABULARY,
    "expert_ffn_hidden_size": 32,
}
LATENT = {"head_dim": 8, "num_key_value_heads": 4}
ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
CHUNKED = ["chunked_attention", "full_attention", "chunked_attention"]
LINEAR = ["linear_attention", "full_attention", "linear_attention"]


@dataclass(frozen=True)
class Case:
    """A model type, its settings besides the sizes, and the expected backends for scoring and generation.

    Attributes:
        settings: settings besides the sizes; None removes a size.
        engine: what `auto` must choose; None for whatever is right.
        writing: words of how answers are written as `auto`.
    """

    settings: dict[str, Any]
    engine: str | None = None
    writing: str = ""


def tree(**settings: Any) -> Case:
    return Case(settings, TREE, "slots")


def padded(**settings: Any) -> Case:
    return Case(settings, PADDED, "padded")


def leaky(engine: str = PADDED, **settings: Any) -> Case:
    """Right when padded on the right, wrong when padded on the left."""
    return Case(settings, engine, "one by one because left-padded batches differ from single rows")


def single(**settings: Any) -> Case:
    return Case(settings, SINGLE)


CASES: dict[str, Case] = {
    **dict.fromkeys(
        (
            *("afmoe", "apertus", "arcee", "bitnet", "biogpt", "cohere", "cwm", "dots1", "ernie4_5", "ernie4_5_moe"),
            *("exaone4", "flex_olmo", "gemma", "gemma3n_text", "glm", "glm4", "glm4_moe", "granitemoe", "helium"),
            *(
                "hunyuan_v1_dense",
                "mimo_v2_flash",
                "minimax_m2",
                "ministral3",
                "modernbert-decoder",
                "nemotron",
                "olmo",
            ),
            *("olmo2", "olmo3", "phimoe", "qwen2_moe", "seed_oss", "smollm3", "starcoder2", "vaultgemma"),
            *("ctrl", "gpt_bigcode"),
        ),
        tree(),
    ),
    # A window in the cache of `generate` and not in the mask: scored as a tree, written as `generate` does.
    "olmoe": Case({"sliding_window": WINDOW}, TREE, "padded because slots differ"),
    "gemma4_text": tree(layer_types=ALTERNATING),
    "llama4_text": tree(layer_types=CHUNKED, no_rope_layers=[1, 0, 1], attn_temperature_tuning=True, attn_scale=1.0),
    "stablelm": tree(hidden_size=64, head_dim=16, num_key_value_heads=4),
    "deepseek_v2": tree(**LATENT),
    **dict.fromkeys(("xglm", "codegen", "diffllama", "doge", "falcon_mamba", "nemotron_h", "openai-gpt"), padded()),
    "jamba": padded(attn_layer_offset=1, attn_layer_period=2, expert_layer_period=2, expert_layer_offset=1),
    "qwen3_next": padded(layer_types=LINEAR),
    "deepseek_v32": padded(**LATENT),
    "hy_v4": padded(),
    "axk2": padded(**LATENT),
    "rwkv": leaky(),
    "recurrent_gemma": leaky(),
    "roformer": leaky(),
    "deepseek_v4": Case({}, PADDED, "one by one because it compresses blocks of tokens"),
    "minimax": leaky(layer_types=LINEAR),
    "prophetnet": single(),
}


def small_config(model_type: str) -> Any:
    known = CONFIG_MAPPING[model_type]
    # A copy: configurations change the lists that they are given (Gemma 4 its `layer_types`).
    settings = copy.deepcopy(CASES[model_type].settings) if model_type in CASES else {}
    fields = {*known().to_dict(), *known.attribute_map}
    sizes = {name: value for name, value in SMALL.items() if name in fields}
    aliases = {name for name, meant in known.attribute_map.items() if meant in sizes}
    given = {**{name: value for name, value in sizes.items() if name not in aliases}, **settings}
    config = known(**{name: value for name, value in given.items() if value is not None})
    if hasattr(config, "is_decoder"):
        config.is_decoder = True
    return config


@functools.lru_cache(maxsize=2)
def module_of(model_type: str) -> Any:
    """The model, its matrices drawn so large that attention is sharp and every token matters."""
    config = small_config(model_type)
    with torch.device("meta"), quiet():
        shape = transformers.AutoModelForCausalLM.from_config(config)
    if sum(part.numel() for part in shape.parameters()) > MOST_PARAMETERS:
        pytest.skip("no small configuration of it is known here")
    with torch.random.fork_rng([]), torch.no_grad(), quiet():
        torch.manual_seed(7)
        module = transformers.AutoModelForCausalLM.from_config(config).eval()
        for name, part in module.named_parameters():
            if part.ndim >= 2 and "A_log" not in name:
                part.normal_(std=1.5 * part.shape[-1] ** -0.5)
            elif name.endswith("bias"):
                part.add_(0.1 * torch.randn_like(part))
    return module


def in_float64(module: Any) -> Any:
    wide = copy.deepcopy(module).double()
    if hasattr(wide, "set_experts_implementation"):
        wide.set_experts_implementation("eager")  # the other ones know no float64
    return wide


def some_texts() -> list[EncodedText]:
    """A tree of three levels, on both sides of every window and threshold, and texts that are prefixes of others."""
    draw = random.Random(11)
    ids = lambda count: tuple(draw.randrange(3, VOCABULARY) for _ in range(count))  # noqa: E731
    stem = ids(40)
    rows = [((*stem, *branch, *leaf), len(leaf)) for branch in (ids(6), ids(1)) for leaf in (ids(3), ids(1))]
    long = (*stem[:5], *ids(135))
    rows += [(long[:length], scored) for length, scored in ((140, 60), (65, 40), (30, 29), (11, 3), (2, 1))]
    return [EncodedText(number, *row) for number, row in enumerate(rows)]


TEXTS = some_texts()
MOST_WRITTEN = 5
PROMPTS = [
    EncodedPrompt(
        number, TEXTS[place].inputs[:-cut], Generation("", max_tokens=MOST_WRITTEN), MOST_WRITTEN - number % 2
    )
    for number, (place, cut) in enumerate(((0, 2), (2, 1), (4, 4), (4, 45), (7, 1), (0, 30)))
]


class Letters:
    """Replaces a tokenizer: every token is one letter."""

    eos_token_id, pad_token_id = 2, 0

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        return "".join(chr(0x4E00 + token) for token in token_ids)


def plain_scores(module: Any) -> dict[int, float]:
    """The log-likelihood of every text, by one forward pass of it alone."""
    found = {}
    for text in TEXTS:
        with torch.inference_mode():
            logits = module(input_ids=torch.tensor([text.inputs]), use_cache=False).logits[0, -text.scored :].double()
        found[text.index] = float(logits.log_softmax(-1)[range(text.scored), text.ids[-text.scored :]].sum())
    return found


def reference_scores(module: Any) -> dict[int, float]:
    """In float64 where the model allows it."""
    try:
        return plain_scores(in_float64(module))
    except RuntimeError:
        return plain_scores(module)


def plain_text(module: Any, prompt: EncodedPrompt) -> str:
    """What `generate` writes after one prompt."""
    ids = torch.tensor([prompt.ids])
    given = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, "eos_token_id": 2, "do_sample": False}
    found = module.generate(ids, max_new_tokens=prompt.max_tokens, **given)[0, ids.shape[1] :].tolist()
    return Letters().decode(found).removesuffix(Letters().decode([Letters.eos_token_id]))


def answers(network: Network, requested: str) -> tuple[Engine, dict[int, float], dict[int, str]]:
    engine = Engine(network, choose_engine(network, requested, "exact", LONGEST), flop_rates(network.module))
    scoring_groups = engine.begin(Job((), TEXTS, (), PROMPTS), lambda _: None)
    scores = dict(engine.score(scoring_groups))
    texts = dict(engine.generate(PROMPTS, TextGenerator(network, Letters())))  # type: ignore[arg-type]
    assert all(isinstance(answer, Logprob) for answer in scores.values()), scores
    assert all(isinstance(answer, Text) for answer in texts.values()), texts
    totals = {place: answer.total for place, answer in scores.items() if isinstance(answer, Logprob)}
    return engine, totals, {place: answer.text for place, answer in texts.items() if isinstance(answer, Text)}


def check(model_type: str) -> Engine:
    """Runs a model as `auto`, and as `padded` where that is another backend; both must be right."""
    with quiet():
        module = module_of(model_type)
        scores = reference_scores(module)
        texts = {prompt.index: plain_text(module, prompt) for prompt in PROMPTS}
    engines: list[Engine] = []
    for requested in (AUTO, PADDED):
        if engines and engines[0].choice.engine == requested:
            break
        engine, found, written = answers(wrap(module, torch.device("cpu")), requested)
        assert found == pytest.approx(scores, abs=FLOAT32, rel=0), (requested, engine.choice)
        assert written == texts, (requested, engine.choice, engine.description()["writing"])
        engine.close()
        engines.append(engine)
    return engines[0]


@pytest.mark.parametrize("model_type", CASES)
def test_every_backend_is_right(model_type: str) -> None:
    case = CASES[model_type]
    engine = check(model_type)
    assert engine.choice.engine == case.engine, engine.choice.reason
    assert case.writing in (engine.description()["writing"] or "")


def given_tokens(module: Any, prompt: EncodedPrompt, written: Sequence[int]) -> torch.Tensor:
    """The logits of `generate` for one prompt, before each of some tokens that it is made to write."""
    ids = torch.tensor([prompt.ids])

    def force(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(scores, -torch.inf)
        forced[0, written[input_ids.shape[1] - ids.shape[1]]] = 0.0
        return forced

    given = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, "eos_token_id": None, "do_sample": False}
    watched = {"logits_processor": [force], "output_logits": True, "return_dict_in_generate": True}
    with quiet():
        found = module.generate(ids, max_new_tokens=len(written), **given, **watched)
    return torch.cat(found.logits).float()


NARROW = (
    "arcee",
    "gemma",
    "gemma4_text",
    "glm4",
    "olmo2",
    "starcoder2",
    "llama4_text",
    "falcon_mamba",
    "rwkv",
    "minimax",
)


@pytest.mark.parametrize("model_type", NARROW)
def test_bfloat16_loses_no_more_than_its_digits(model_type: str) -> None:
    """Every token written is one that `generate` alone finds as likely as any after the same text, up to rounding.

    A whole pass is not the measure: the cached steps of some models (MiniMax) differ from it by far more in bfloat16.
    """
    module = copy.deepcopy(module_of(model_type)).to(torch.bfloat16)
    engine, found, written = answers(wrap(module, torch.device("cpu")), AUTO)
    assert engine.choice.engine == CASES[model_type].engine, engine.choice.reason
    for index, score in plain_scores(module).items():
        assert abs(found[index] - score) < 0.1 + 0.03 * TEXTS[index].scored
    for prompt in PROMPTS:
        ids = [ord(letter) - ord(Letters().decode([0])) for letter in written[prompt.index]]
        lines = given_tokens(module, prompt, ids)
        behind = lines.amax(-1) - lines[range(len(ids)), ids]
        assert float((behind / lines.std(-1)).max()) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("model_type", sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} - {*CASES}))
def test_the_other_architectures_are_right_too(model_type: str) -> None:
    try:
        module = module_of(model_type)
        reference_scores(module)
        plain_text(module, PROMPTS[0])
    except Exception as error:
        pytest.skip(f"no small configuration of it is known here: {error}")
    check(model_type)
