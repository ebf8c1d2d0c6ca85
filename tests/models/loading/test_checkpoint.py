"""What a folder says of itself, and what makes a checkpoint itself; no torch is needed for either."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.specs import ModelSettings
from assay.models.download.file_hashes import FILE_NAME, hash_files
from assay.models.hf.decoder.decoder_model import CausalModel, open_causal
from assay.models.loading.checkpoint import family

Opened = Callable[..., CausalModel]


def change(folder: Path, file: str, **values: Any) -> None:
    path = folder / file
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **values}))


def change_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(bytes(data))


def test_the_folder_has_no_part_in_the_fingerprint(llama: Path, copied: Path, opened: Opened) -> None:
    assert opened(llama).fingerprint.digest == opened(copied).fingerprint.digest


def test_weights_make_another_model(copied: Path, opened: Opened) -> None:
    before = opened(copied).fingerprint
    change_weights(copied)
    after = opened(copied).fingerprint
    assert before.weights != after.weights and before.digest != after.digest


@pytest.mark.parametrize(
    "args",
    [
        {"dtype": "bfloat16"},
        {"max_length": 32},
        {"add_bos_token": False},
        {"prefix_token_id": 1},
        {"arithmetic": "lm_eval"},
        {"max_gen_toks": 8},
        {"enable_thinking": True},
        {"attn_implementation": "eager"},
    ],
)
def test_settings_that_change_answers_make_another_model(llama: Path, opened: Opened, args: Mapping[str, Any]) -> None:
    assert opened(llama).fingerprint.digest != opened(llama, **args).fingerprint.digest


def test_settings_that_do_not_are_left_out(llama: Path, opened: Opened) -> None:
    same = opened(llama, batch_size="3", device="cuda:0", max_length=48, dtype="float32")
    assert opened(llama).fingerprint.digest == same.fingerprint.digest


@pytest.mark.parametrize(
    ("file", "values", "part"),
    [
        ("tokenizer_config.json", {"bos_token": "</s>"}, "tokenizer"),
        ("config.json", {"rms_norm_eps": 0.5}, "settings"),
        ("generation_config.json", {"repetition_penalty": 1.5}, "settings"),
    ],
)
def test_small_files_count(copied: Path, opened: Opened, file: str, values: dict[str, Any], part: str) -> None:
    before = opened(copied).fingerprint
    change(copied, file, **values)
    assert getattr(before, part) != getattr(opened(copied).fingerprint, part)


def test_template_is_hashed_by_itself(copied: Path, opened: Opened) -> None:
    before = opened(copied).fingerprint
    (copied / "chat_template.jinja").write_text("another")
    after = opened(copied).fingerprint
    assert before.template != after.template and before.tokenizer == after.tokenizer


def test_version_of_the_writer_is_silent(copied: Path, opened: Opened) -> None:
    before = opened(copied).fingerprint.digest
    change(copied, "config.json", transformers_version="4.1.0")
    assert before == opened(copied).fingerprint.digest


def test_hashes_are_cached(tmp_path: Path) -> None:
    file, cache = tmp_path / "weights.bin", tmp_path / "cache"
    file.write_bytes(b"one")
    first = hash_files([("w", file)], cache)
    memory = json.loads((cache / FILE_NAME).read_text())
    (cache / FILE_NAME).write_text(json.dumps(dict.fromkeys(memory, "0" * 64)))
    assert hash_files([("w", file)], cache) != first  # taken from the memory, without reading the file


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": 1}'])
def test_broken_memory_is_a_miss(tmp_path: Path, content: str) -> None:
    file, cache = tmp_path / "weights.bin", tmp_path / "cache"
    file.write_bytes(b"one")
    first = hash_files([("w", file)], cache)
    (cache / FILE_NAME).write_text(content)
    assert hash_files([("w", file)], cache) == first
    assert [path.name for path in cache.iterdir()] == [FILE_NAME]


def test_cache_that_cannot_be_written_is_not_an_error(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"one")
    assert hash_files([("w", file)], file / "no folder") == hash_files([("w", file)], tmp_path / "cache")


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "causal"),
        ({"architectures": ["GPT2LMHeadModel"]}, "causal"),
        ({"model_type": "llama"}, "causal"),
        ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "encoder-decoder"),
        ({"architectures": ["Gemma3ForConditionalGeneration"]}, "causal"),
        ({"architectures": ["BertModel"], "model_type": "bert"}, "encoder"),
        ({"architectures": ["RobertaForMaskedLM"], "model_type": "roberta"}, "encoder"),
        ({"architectures": ["BertLMHeadModel"], "model_type": "bert", "is_decoder": True}, "causal"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "encoder"),
        ({"architectures": ["LlamaModel"]}, "encoder"),
    ],
)
def test_family_is_read_from_the_configuration(config: dict[str, Any], kind: str) -> None:
    assert family(config) == kind


def test_encoder_answers_nothing(copied: Path, opened: Opened) -> None:
    change(copied, "config.json", architectures=["BertModel"], model_type="bert")
    assert opened(copied).capabilities.kinds == frozenset() and opened(copied).capabilities.family == "encoder"


def test_capabilities(llama: Path, plain: Path, opened: Opened) -> None:
    able = opened(llama).capabilities
    assert (len(able.kinds), able.max_tokens, able.has_chat, able.can_tokenize) == (3, 48, True, True)
    assert not able.is_deterministic
    assert not opened(plain).capabilities.has_chat and opened(plain).capabilities.max_tokens == 48


@pytest.mark.parametrize(("stated", "length"), [(100, 100), (10**30, 2048), (None, 2048)])
def test_length_falls_back_to_the_tokenizers(copied: Path, opened: Opened, stated: int | None, length: int) -> None:
    change(copied, "config.json", max_position_embeddings=None)
    change(copied, "tokenizer_config.json", model_max_length=stated)
    assert opened(copied).capabilities.max_tokens == length


def test_precision_is_the_checkpoints_own(copied: Path, opened: Opened) -> None:
    change(copied, "config.json", dtype="bfloat16")
    assert opened(copied).fingerprint.precision == "bfloat16"
    change(copied, "config.json", dtype=None)
    assert opened(copied).fingerprint.precision == "float32"


def test_missing_folder_and_wrong_folder_are_reported(tmp_path: Path, copied: Path) -> None:
    for name, words in (
        (tmp_path / "absent", "no such folder"),
        (tmp_path, "no config.json"),
        (copied / "model.safetensors", "this is a file"),
    ):
        with pytest.raises(ModelError, match=words):
            open_causal({"pretrained": str(name)}, ModelSettings())
    with pytest.raises(ModelError, match="no folder"):
        open_causal({"pretrained": str(copied), "subfolder": "inner"}, ModelSettings())


def test_subfolder_is_used(llama: Path, tmp_path: Path, opened: Opened) -> None:
    shutil.copytree(llama, tmp_path / "outer" / "inner")
    model = opened(tmp_path / "outer", subfolder="inner")
    assert model.fingerprint.digest == opened(llama).fingerprint.digest


def test_broken_files_are_reported(copied: Path, opened: Opened) -> None:
    (copied / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json: cannot be read"):
        _ = opened(copied).capabilities


def test_folder_without_weights_is_reported(copied: Path, opened: Opened) -> None:
    (copied / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no weight files"):
        _ = opened(copied).fingerprint


def test_header_of_a_gguf_file_is_enough(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    writer.add_context_length(77)
    writer.add_chat_template("{{ messages }}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    able = open_causal({"pretrained": str(tmp_path), "gguf_file": "tiny.gguf"}, ModelSettings()).capabilities
    assert (able.family, able.max_tokens, able.has_chat) == ("causal", 77, True)
    with pytest.raises(ModelError, match=r'no file "other\.gguf"'):
        open_causal({"pretrained": str(tmp_path), "gguf_file": "other.gguf"}, ModelSettings())


HUB_CODE = """
import sys
from assay.core.specs import ModelSettings
from assay.core.errors import ModelError
from assay.models.hf.decoder.decoder_model import open_causal
model = open_causal({"pretrained": "owner/name"}, ModelSettings())
try:
    print(model.fingerprint.revision, model.fingerprint.digest)
except ModelError as error:
    print(error)
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""


def ask_hub(home: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    settings = {**clean, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", HUB_CODE], capture_output=True, text=True, env=settings, cwd=home, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_unreachable_hub_is_one_clear_error(tmp_path: Path) -> None:
    text = ask_hub(tmp_path, HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert text.startswith("owner/name: no such folder, and the Hub cannot be reached")


def test_hub_model_is_its_snapshot_folder(llama: Path, tmp_path: Path, opened: Opened) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--owner--name"
    shutil.copytree(llama, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    text = ask_hub(tmp_path, HF_HUB_OFFLINE="1")
    assert text.split() == [commit, opened(llama).fingerprint.digest]
