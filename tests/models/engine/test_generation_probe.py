"""A model generates the same in a batch as alone, or the probe detects it."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from transformers import RwkvConfig, RwkvForCausalLM
from transformers.models.llama.modeling_llama import LlamaModel

from assay.core.requests import Generation, Sampling
from assay.core.responses import Text
from assay.models.engine.backend_choice import SINGLE, EngineChoice, choose_engine
from assay.models.engine.engine import Engine
from assay.models.engine.flops import flop_rates
from assay.models.engine.generation_probe import NullTokenizer, check_padding, make_rows
from assay.models.inference.batching import BatchLimit
from assay.models.inference.generation import TextGenerator
from assay.models.loading.network import Network, wrap
from assay.models.tokens.tokenization import EncodedPrompt

SILENT: Any = NullTokenizer(0)


@pytest.fixture
def leaky() -> Network:
    """A recurrent model, which reads padding on the left as text."""
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        config = RwkvConfig(vocab_size=64, hidden_size=32, attention_hidden_size=32, num_hidden_layers=2)
        return wrap(RwkvForCausalLM(config).eval(), torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padding_that_is_masked_changes_nothing(network: Network, dtype: torch.dtype) -> None:
    network.module.to(dtype)
    assert check_padding(TextGenerator(network, SILENT), 100) is None


def test_padding_that_leaks_is_found(leaky: Network) -> None:
    assert "left-padded batches differ" in str(check_padding(TextGenerator(leaky, SILENT), 100))


class LeaksFromFar(LlamaModel):
    """Sees padding when there is more than 60 tokens of it."""

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **given: Any) -> Any:
        if isinstance(attention_mask, torch.Tensor):
            attention_mask = attention_mask | ((attention_mask == 0).sum(-1, keepdim=True) > 60)
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, **given)


def test_padding_that_leaks_only_beside_a_much_longer_prompt_is_found(network: Network) -> None:
    made = LeaksFromFar(network.module.config).eval()
    made.load_state_dict(network.module.model.state_dict())
    network.module.model = made
    assert "left-padded batches differ" in str(check_padding(TextGenerator(network, SILENT), 100))


def test_model_that_padding_leaks_into_generates_one_by_one_and_says_so(leaky: Network) -> None:
    notices: dict[str, str] = {}
    choice = choose_engine(leaky, "auto", "exact", 100)
    engine = Engine(leaky, choice, flop_rates(leaky.module), on_notice=notices.__setitem__)
    given = [EncodedPrompt(number, tuple(range(3, 9 + 7 * number)), Generation(""), 4) for number in range(3)]
    found = dict(engine.generate(given, TextGenerator(leaky, SILENT)))
    assert choice.engine == "padded" and all(isinstance(answer, Text) for answer in found.values())
    assert "generates one by one because left-padded batches differ" in notices["writing padded"]
    assert str(engine.description()["writing"]).startswith("one by one because")


def written(engine: Engine, temperature: float = 0.0) -> str | None:
    """Writes three short answers; gives how the record says that they were written."""
    request = Generation("", sampling=Sampling(temperature=temperature))
    given = [EncodedPrompt(number, tuple(range(3, 9 + 7 * number)), request, 2) for number in range(3)]
    assert all(isinstance(answer, Text) for _, answer in engine.generate(given, TextGenerator(engine.network, SILENT)))
    return cast("str | None", engine.description()["writing"])


def test_record_says_how_answers_were_generated(network: Network) -> None:
    tree, single = choose_engine(network, "auto", "exact", 100), EngineChoice(SINGLE, "said so")
    assert written(Engine(network, tree, flop_rates(network.module))) == "slots"
    assert written(Engine(network, single, flop_rates(network.module))) == "one by one"


@pytest.mark.parametrize(("rows", "temperature"), [(1, 0.0), (8, 0.7)])
def test_what_is_generated_one_by_one_anyway_is_not_tried(leaky: Network, rows: int, temperature: float) -> None:
    notices: dict[str, str] = {}
    engine = Engine(
        leaky, EngineChoice("padded", ""), flop_rates(leaky.module), "exact", BatchLimit(rows), notices.__setitem__
    )
    assert written(engine, temperature) == "one by one" and not notices


def test_no_forced_token_ends_an_answer(network: Network) -> None:
    rows = make_rows(network, 100, (5, 6, 7))
    assert rows and not {5, 6, 7} & {token for row in rows for token in row}
    assert make_rows(network, 6, ()) == []
