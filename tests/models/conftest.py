"""Tiny real models, built on the spot: a byte-level BPE tokenizer and two random networks, once per session."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import Model
from assay.core.specs import ModelSettings
from assay.models.hf.families import open_hf

CORPUS = [
    "Once upon a time there was a little girl who liked to answer questions about the world.",
    "The answer is four. What is two plus two? Answer: four. Question: what colour is the sky?",
    "Blue, said the girl, and the answers were right. The quick brown fox jumps over the lazy dog.",
] * 4
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
MAX_LENGTH = 48


def train_tokenizer(adds_bos: bool, template: str | None = None, frame: str = "<s> $A") -> Any:
    """A byte-level BPE of 320 entries; ids 0 and 1 are BOS and EOS. `frame` is what a text is put in."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(single=frame, special_tokens=[("<s>", 0), ("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="session")
def tokenizers() -> dict[bool, Any]:
    """Tokenizers by whether they add BOS."""
    return {adds_bos: train_tokenizer(adds_bos) for adds_bos in (True, False)}


def save_llama(folder: Path, tokenizer: Any, **changes: Any) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    settings: dict[str, Any] = {
        "vocab_size": 320,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": MAX_LENGTH,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "initializer_range": 0.4,
    }
    with torch.random.fork_rng([]):
        torch.manual_seed(changes.pop("seed", 5))
        model = LlamaForCausalLM(LlamaConfig(**{**settings, **changes}))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with a tokenizer that adds BOS and a chat template that writes it."""
    return save_llama(tmp_path_factory.mktemp("llama"), train_tokenizer(True, TEMPLATE))


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 with a tokenizer that adds nothing and has no chat template."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("gpt2")
    config = GPT2Config(
        vocab_size=320, n_embd=32, n_layer=2, n_head=4, n_positions=MAX_LENGTH, initializer_range=0.4,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(6)
        GPT2LMHeadModel(config).save_pretrained(folder)
    train_tokenizer(False).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 as the real ones are: no BOS, texts end with EOS, the decoder starts with the padding token."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("t5")
    config = T5Config(
        vocab_size=320, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, n_positions=MAX_LENGTH,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, initializer_factor=2.0,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(7)
        T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer = train_tokenizer(True, frame="$A </s>")
    tokenizer.bos_token, tokenizer.pad_token = None, "<s>"
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BART as the real ones are: texts between BOS and EOS, the decoder starts with EOS."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    folder = tmp_path_factory.mktemp("bart")
    config = BartConfig(
        vocab_size=320, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=MAX_LENGTH,
        pad_token_id=2, bos_token_id=0, eos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=None,
        init_std=0.4,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(8)
        BartForConditionalGeneration(config).save_pretrained(folder)
    train_tokenizer(True, frame="<s> $A </s>").save_pretrained(folder)
    return folder


def train_bert_tokenizer() -> Any:
    """A tokenizer of word pieces without capitals: [CLS] a [SEP] b [SEP], with type ids.

    The pieces are counted here: what `tokenizers` learns for WordPiece is another vocabulary every time.
    """
    from transformers import BertTokenizer

    counts: Counter[str] = Counter()
    for word in re.findall(r"\w+|[^\w\s]", " ".join(CORPUS).lower()):
        counts.update(dict.fromkeys(word, 10**6) | {f"##{letter}": 10**6 for letter in word})
        counts.update({word: 10**3})
        counts.update(word[:size] for size in range(2, len(word)))
        counts.update(f"##{word[start:]}" for start in range(1, len(word) - 1))
    pieces = sorted(counts, key=lambda piece: (-counts[piece], piece))[:155]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return BertTokenizer(vocab={piece: place for place, piece in enumerate([*special, *pieces])}, do_lower_case=True)


def train_roberta_tokenizer() -> Any:
    """A byte-level BPE tokenizer: <s>a</s></s>b</s>, without type ids."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaTokenizer

    backend = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend.train_from_iterator(CORPUS, vocab_size=340, special_tokens=special, show_progress=False)
    learnt = json.loads(backend.to_str())["model"]
    return RobertaTokenizer(vocab=learnt["vocab"], merges=[tuple(merge) for merge in learnt["merges"]])


@pytest.fixture(scope="session")
def bert_tokenizer() -> Any:
    return train_bert_tokenizer()


@pytest.fixture(scope="session")
def roberta_tokenizer() -> Any:
    return train_roberta_tokenizer()


def save_encoder(folder: Path, kind: str, head: str, tokenizer: Any, **changes: Any) -> Path:
    """A tiny encoder of a kind (Bert, Roberta, DistilBert) with the head that a class name ends with."""
    import torch
    import transformers

    positions = MAX_LENGTH + (2 if kind == "Roberta" else 0)
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": positions,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.4,
    }
    if kind == "DistilBert":
        settings |= {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}
    else:
        settings |= {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = getattr(transformers, f"{kind}Config")(**{**settings, **changes})
    with torch.random.fork_rng([]):
        torch.manual_seed(9)
        getattr(transformers, f"{kind}{head}")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoders(
    tmp_path_factory: pytest.TempPathFactory, bert_tokenizer: Any, roberta_tokenizer: Any
) -> Callable[..., Path]:
    """Makes tiny encoders: `encoders("Bert", "ForMaskedLM")`; each once per session."""
    made: dict[str, Path] = {}

    def make(kind: str, head: str, **changes: Any) -> Path:
        key = json.dumps([kind, head, changes], sort_keys=True)
        if key not in made:
            tokenizer = roberta_tokenizer if kind == "Roberta" else bert_tokenizer
            made[key] = save_encoder(tmp_path_factory.mktemp(kind), kind, head, tokenizer, **changes)
        return made[key]

    return make


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's cache."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def opened() -> Iterator[Callable[..., Model]]:
    """Opens models of any family as `hf` does, with settings by name, and closes them."""
    models: list[Model] = []

    def open_one(folder: Path, batch_size: str = "auto", device: str = "cpu", **args: Any) -> Model:
        models.append(open_hf({"pretrained": str(folder), **args}, ModelSettings(batch_size, device)))
        return models[-1]

    yield open_one
    for model in models:
        model.close()


@pytest.fixture
def copied(llama: Path, tmp_path: Path) -> Path:
    """A copy of the Llama that a test may change."""
    return Path(shutil.copytree(llama, tmp_path / "copy"))


@pytest.fixture(scope="session")
def stories() -> Path:
    """A real, trained model of 1 MB from the shared folder; skips without it."""
    shared = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared"))
    folder = shared / "data" / "models" / "stories260k"
    if not folder.is_dir():
        pytest.skip("the model stories260k is not on this machine")
    return folder
