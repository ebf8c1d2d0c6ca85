"""What the engine's tests share: a tiny network on one thread, because more threads only wait for each other here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from assay.core.responses import Failure, Logprob
from assay.models.engine.c_kernels import CKernels, find_c_kernels
from assay.models.engine.forward import TreeReader, make_reader, using_attention
from assay.models.engine.tree_scoring import LikelihoodTable, TreeScorer
from assay.models.inference.batching import Batching, BatchLimit
from assay.models.loading.network import Network, wrap
from assay.models.tokens.tokenization import EncodedText

VOCABULARY = 64
Ask = Callable[..., dict[int, Logprob | Failure]]


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def network() -> Network:
    """A tiny Llama of 64 tokens that a test may change."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.4,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        return wrap(LlamaForCausalLM(config).eval(), torch.device("cpu"))


@pytest.fixture
def reader(network: Network) -> TreeReader:
    return make_reader(network)


@pytest.fixture
def c_kernels() -> CKernels:
    """The C kernels; skips the test if they are not available."""
    found = find_c_kernels()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def ask() -> Ask:
    """Scores texts through a reader; each is answered once."""

    def score(reader: TreeReader, texts: Sequence[EncodedText], limit: int = 1024, **options: object) -> object:
        batching = Batching(BatchLimit(tokens=limit), options.pop("on_shrink", lambda _: None))  # type: ignore[arg-type]
        scorer = TreeScorer(reader, LikelihoodTable, batching, **options)  # type: ignore[arg-type]
        with using_attention(reader.network):
            answers = list(scorer.score(scorer.plan(texts)))
        assert sorted(index for index, _ in answers) == sorted(text.index for text in texts)
        return dict(answers)

    return score  # type: ignore[return-value]
