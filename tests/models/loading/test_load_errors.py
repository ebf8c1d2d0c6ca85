"""Errors of other libraries in our words: never their advice to run a stranger's code."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from assay.core.errors import ModelError, plain_reason
from assay.core.requests import Loglikelihood
from assay.core.specs import ModelSettings
from assay.models.loading.load_errors import LOAD_FAULTS, load_fault

SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[4] / "shared"))
MODEL = SHARED / "data" / "models" / "stories260k"
# As torch 2.13, safetensors 0.7 and transformers 5.22 say it.
SAID = {
    "posix.system": "Weights only load failed. In PyTorch 2.6, we changed the default value of the `weights_only` "
    "argument in `torch.load` from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed.\nPlease file an issue: WeightsUnpickler error: Unsupported global: GLOBAL posix.system was not",
    "git lfs pull": "Error while deserializing header: header too large",
    "pip install --upgrade transformers": "The checkpoint you are trying to load has model type `foobar9` but "
    "Transformers does not recognize this architecture. You can update it with `pip install git+https://x`",
    "trust_remote_code=true": "The repository bad/custom contains custom code which must be executed to correctly "
    "load the model. Please pass the argument `trust_remote_code=True` to allow custom code to be run.",
    "packages that are not installed: einops": "This modeling file requires the following packages that were not "
    "found in your environment: einops. Run `pip install einops`",
    "are quantised (GPTQ)": "Loading a GPTQ quantized model requires optimum (`pip install optimum`)",
    "attn_implementation=sdpa": "FlashAttention2 has been toggled on, but it cannot be used due to the following error",
    "tokenizer=FOLDER": "Couldn't instantiate the backend tokenizer from one of: ",
}


@pytest.mark.parametrize("expected", SAID)
def test_a_known_error_says_what_to_do_here(expected: str) -> None:
    message = str(load_fault("bad", "the model cannot be loaded", RuntimeError(SAID[expected])))
    assert expected in message
    for unsafe in ("weights_only", "trust_remote_code=True", "pip install optimum", "pip install einops", "git+"):
        assert unsafe not in message


def test_every_known_error_has_an_example() -> None:
    assert len(SAID) == len(LOAD_FAULTS)


def test_an_unknown_error_is_passed_on_without_its_advice() -> None:
    error = OSError("\x1b[1mIt broke.\x1b[0m Set `weights_only=False` to go on. The file is old.\nmore")
    assert plain_reason(error) == "It broke. The file is old."
    assert plain_reason(ValueError("")) == "ValueError"


@pytest.mark.skipif(not MODEL.is_dir(), reason="ASSAY_SHARED names no folder with the model stories260k")
def test_a_pickle_with_code_is_refused_and_not_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from assay.models.hf.families import open_hf

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path}/ran",)

    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    torch.save({"weight": torch.zeros(2), "more": Evil()}, folder / "pytorch_model.bin")
    model = open_hf({"pretrained": str(folder)}, ModelSettings())
    with pytest.raises(ModelError, match=r"a pickle with more than tensors.*safetensors/convert") as caught:
        list(model.respond([Loglikelihood("a", " b")]))
    assert "weights_only" not in str(caught.value) and not (tmp_path / "ran").exists()
