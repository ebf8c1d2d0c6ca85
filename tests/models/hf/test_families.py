"""Which family a checkpoint is opened as, and the errors for those without a usable head."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.errors import ModelError
from assay.core.requests import Loglikelihood
from assay.core.responses import Logprob
from assay.core.specs import ModelSettings
from assay.models.hf.decoder.model import CausalModel
from assay.models.hf.encoder.model import EncoderModel
from assay.models.hf.seq2seq.model import EncoderDecoder
from assay.models.loading.checkpoint import family
from assay.models.registry import open_model


def opened(folder: Path, **args: Any) -> Any:
    return open_model("hf", {"pretrained": str(folder), **args}, ModelSettings(device="cpu"))


def configured(folder: Path, **config: Any) -> Path:
    """A folder with a configuration and no weights at all."""
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "t5"}, "encoder-decoder"),
        ({"model_type": "bart", "is_encoder_decoder": False, "architectures": ["BartForCausalLM"]}, "causal"),
        ({"is_encoder_decoder": True, "architectures": ["T5Model"]}, "encoder-decoder"),
        ({"is_encoder_decoder": True, "architectures": ["EncoderDecoderModel"]}, "encoder-decoder"),
        ({"is_encoder_decoder": True, "architectures": ["T5EncoderModel"]}, "encoder"),
        ({"is_encoder_decoder": True, "architectures": ["BartForSequenceClassification"]}, "encoder"),
    ],
)
def test_family_is_read_from_the_configuration(config: dict[str, Any], kind: str) -> None:
    assert family(config) == kind


def test_the_configuration_decides(t5: Path, bart: Path, llama: Path, plain: Path) -> None:
    kinds = [type(opened(folder)) for folder in (t5, bart, llama, plain)]
    assert kinds == [EncoderDecoder, EncoderDecoder, CausalModel, CausalModel]


def test_the_user_may_override_it(bart: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bart, tmp_path / "copy"))
    decoder = opened(copy, family="decoder")
    assert isinstance(decoder, CausalModel) and decoder.capabilities.family == "causal"
    assert "rolling_loglikelihood" in decoder.capabilities.kinds
    config = json.loads((copy / "config.json").read_text())
    configured(copy, **{**config, "is_encoder_decoder": False, "architectures": None})
    forced = opened(copy, family="encoder-decoder")
    assert isinstance(forced, EncoderDecoder) and forced.capabilities.family == "encoder-decoder"
    assert isinstance(dict(forced.respond([Loglikelihood("a", "b")]))[0], Logprob)
    assert isinstance(opened(copy, backend="seq2seq"), EncoderDecoder)


def test_the_family_makes_another_model(bart: Path) -> None:
    two = opened(bart).fingerprint, opened(bart, family="decoder").fingerprint
    assert two[0].differences(two[1]) == {"settings.family": ("encoder-decoder", None)}


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["LlamaModel"], "model_type": "llama"},
        {"architectures": ["T5EncoderModel"], "model_type": "t5", "is_encoder_decoder": True},
        {"architectures": ["GPT2ForTokenClassification"], "model_type": "gpt2"},
    ],
)
def test_a_network_that_is_not_an_encoder_and_has_no_head_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    folder = configured(tmp_path, **config)
    with pytest.raises(ModelError, match=r"has no head that answers requests.*a decoder \(GPT kind\)"):
        opened(folder)
    assert isinstance(opened(folder, family="encoder"), EncoderModel)


@pytest.mark.parametrize(
    ("name", "model_type", "kinds"),
    [
        ("BertModel", "bert", set()),
        ("BertForTokenClassification", "bert", set()),
        ("BertForPreTraining", "bert", {"loglikelihood", "rolling_loglikelihood"}),
        ("ElectraForPreTraining", "electra", set()),
        ("XLMRobertaForSequenceClassification", "xlm-roberta", {"classification"}),
        ("GPT2ForSequenceClassification", "gpt2", {"classification"}),
        ("BertForMultipleChoice", "bert", {"choosing"}),
        ("XLNetForQuestionAnsweringSimple", "xlnet", {"span"}),
    ],
)
def test_the_head_says_what_an_encoder_answers(name: str, model_type: str, kinds: set[str], tmp_path: Path) -> None:
    model = opened(configured(tmp_path, architectures=[name], model_type=model_type))
    assert isinstance(model, EncoderModel) and model.capabilities.kinds == kinds


def test_arguments_of_heads_are_for_encoders(llama: Path) -> None:
    with pytest.raises(ModelError, match="model_args.labels: LlamaForCausalLM has no classification head"):
        opened(llama, labels="no|yes")


def test_a_decoder_has_no_encoder(llama: Path) -> None:
    with pytest.raises(ModelError, match=r"model_args.family: .*LlamaForCausalLM is a decoder"):
        opened(llama, family="encoder-decoder")


def test_the_prefix_tree_is_for_decoders(t5: Path) -> None:
    with pytest.raises(ModelError, match='engine: engine "tree", but .* is an encoder-decoder'):
        opened(t5, engine="tree")
    assert isinstance(opened(t5, engine="padded"), EncoderDecoder)


def test_nothing_is_loaded_to_open_and_describe(t5: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(t5, tmp_path / "copy"))
    (copy / "model.safetensors").write_bytes(b"no weights")
    model = opened(copy)
    assert model.capabilities.kinds == {"loglikelihood", "generation"} and model.fingerprint.weights
    assert model.description() == {} and model.view(Loglikelihood("a", "b")).continuation_ids
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        list(model.respond([Loglikelihood("a", "b")]))


def test_a_perplexity_task_is_refused_before_anything_is_loaded(t5: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(t5, tmp_path / "copy"))
    (copy / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match=r"\(encoder-decoder\): cannot answer rolling_loglikelihood requests"):
        evaluate("hf", "demo_text", store=":memory:", model_args={"pretrained": str(copy)})


def test_multiple_choice_and_generation_are_evaluated(t5: Path) -> None:
    args = {"pretrained": str(t5), "max_length": 200, "max_gen_toks": 8}
    result = evaluate("hf", ["demo_questions", "demo_arithmetic_2d"], store=":memory:", model_args=args, limit=2)
    # Two questions of four choices and two sums.
    assert (result.counts.asked, result.counts.failed) == (10, 0)
    assert (result.model_run["engine"], result.model_run["encoded_contexts"]) == ("padded", 4)
