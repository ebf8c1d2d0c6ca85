"""GGUF in, transformers folder out, checked bit for bit."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from assay.core.errors import MissingExtra, ModelError
from assay.models.download.gguf import BarReader, bars_reported, check_same, convert, require_packages
from assay.models.download.wheels import no_report

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
numpy = pytest.importorskip("numpy")

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"


def byte_pieces() -> list[str]:
    """The 256 printable characters that byte-level BPE uses for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + place) for place, _ in enumerate(others)]


def write_tiny_llama(path: Path) -> Path:
    """A random Llama of one layer with quantised matrices and a byte-level tokenizer."""
    pieces = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_pieces(), "th", "the"]
    width, heads, size = 64, 4, len(pieces)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(96)
    writer.add_head_count(heads)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_types([3, 3, 3] + [1] * (size - 3))
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    add_tensors(writer, width, size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tensors(writer: object, width: int, size: int) -> None:
    random = numpy.random.default_rng(0)
    matrices = {
        "attn_q": width,
        "attn_k": 32,
        "attn_v": 32,
        "attn_output": width,
        "ffn_gate": 96,
        "ffn_up": 96,
    }
    shapes = {f"blk.0.{name}.weight": (rows, width) for name, rows in matrices.items()}
    shapes |= {
        "token_embd.weight": (size, width),
        "output.weight": (size, width),
        "blk.0.ffn_down.weight": (width, 96),
    }
    for name, shape in shapes.items():
        values = random.normal(0, 0.3, shape).astype(numpy.float32)
        quantised = gguf.quantize(values, gguf.GGMLQuantizationType.Q4_1)
        writer.add_tensor(name, quantised, raw_dtype=gguf.GGMLQuantizationType.Q4_1)  # type: ignore[attr-defined]
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        writer.add_tensor(name, numpy.ones(width, numpy.float32))  # type: ignore[attr-defined]


Converted = tuple[Path, Path, list[tuple[str, int, "int | None"]]]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    source = write_tiny_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    folder = tmp_path_factory.mktemp("folder")
    steps: list[tuple[str, int, int | None]] = []
    convert(source, folder, lambda *step: steps.append(step))
    return source, folder, steps


def test_the_folder_gives_the_logits_of_the_file(converted: Converted) -> None:
    source, folder, _ = converted
    load = transformers.AutoModelForCausalLM.from_pretrained
    ids = torch.arange(20).reshape(1, 20)
    with torch.inference_mode(), bars_reported(no_report):
        before = load(str(source.parent), gguf_file=source.name, dtype=torch.float32)(ids).logits
        after = load(str(folder))(ids).logits
    assert after.dtype == torch.float32
    assert torch.equal(before, after)


def test_the_tokenizer_keeps_template_special_tokens_and_text(converted: Converted) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(converted[1]))
    assert tokenizer.chat_template == TEMPLATE
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    text = "the tea, 12 times\n  thé 🍐"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_every_tensor_is_reported(converted: Converted) -> None:
    steps = [step for step in converted[2] if step[0].startswith("converting")]
    assert steps[-1][1:] == (12, 12)
    assert [step[0] for step in converted[2] if step[2] is None] == [
        "reading the GGUF header",
        "reading the tokenizer",
        "saving float32 weights",
        "checking the saved model",
    ]


def test_other_users_of_the_cache_may_read_the_weights(converted: Converted) -> None:
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in converted[1].iterdir())


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = write_tiny_llama(tmp_path / "tiny.gguf")
    (tmp_path / "folder").mkdir()
    convert(source, tmp_path / "folder", no_report)
    assert capfd.readouterr().out == ""


def test_a_changed_weight_is_noticed(converted: Converted) -> None:
    _, folder, _ = converted
    with bars_reported(no_report):
        model = transformers.AutoModelForCausalLM.from_pretrained(str(folder))
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
        with torch.no_grad():
            model.get_output_embeddings().weight[5, 5] += 0.5
        with pytest.raises(ModelError, match="differs in: logits"):
            check_same(model, tokenizer, folder)


def test_a_file_that_is_not_a_gguf_is_an_error_for_people(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"not a model at all")
    with pytest.raises(ModelError, match=r"bad\.gguf: transformers cannot read it"):
        convert(tmp_path / "bad.gguf", tmp_path, no_report)


def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtra, match=r'"no_such_package" is not installed.*assay-eval\[hf\]'):
        require_packages(("numpy", "no_such_package"))


def test_bars_become_reports_and_other_text_goes_through() -> None:
    seen: list[tuple[str, int, int | None]] = []
    stderr = io.StringIO()
    reader = BarReader(stderr, lambda *step: seen.append(step))
    reader.write("\rConverting GGUF tensors...:  34%|███▍      | 92/272 [00:00<00:01, 136.00it/s]")
    reader.write("\n")
    reader.write("a warning about 3/4 of it\n")
    assert seen == [("converting gguf tensors", 92, 272)]
    assert stderr.getvalue() == "a warning about 3/4 of it\n"


def test_tqdm_as_installed_is_understood() -> None:
    tqdm = pytest.importorskip("tqdm")
    seen: list[tuple[str, int, int | None]] = []
    with bars_reported(lambda *step: seen.append(step)):
        list(tqdm.tqdm(range(3), desc="Loading", mininterval=0))
    assert seen[-1] == ("loading", 3, 3)
    assert not isinstance(sys.stderr, BarReader)
