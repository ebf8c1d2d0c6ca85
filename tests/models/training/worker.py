"""Trains in separate processes that are killed at chosen moments. Run by `test_resuming.py`.

Arguments: the parent's folder, the method, and pairs of a folder and a moment; each pair is one process. A moment is
`end`, `step:N`, or an audit event of Python and a part of its first argument (`open:checkpoint-4/trainer_state.json`).
"""

import gc
import os
import signal
import sys
from pathlib import Path

import peft  # noqa: F401  imported once, before the processes part
import torch
import transformers.models.llama.modeling_llama
import transformers.trainer  # noqa: F401

from assay.core.requests import Loglikelihood
from assay.core.specs import ModelSettings
from assay.core.training import FitProgress, FitSettings, TrainingExample
from assay.models.hf.decoder.decoder_model import open_causal

TRAINING_EXAMPLES = [
    TrainingExample((Loglikelihood(f"Question {number}: the dog is", f" {number * 7 % 10}"),)) for number in range(20)
]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def train(parent: str, method: str, folder: str, moment: str) -> None:
    kind, _, where = moment.partition(":")
    if kind not in ("end", "step"):
        sys.addaudithook(lambda event, args: die() if event == kind and where in str(args[:2]) else None)

    def listen(progress: FitProgress) -> None:
        if kind == "step" and progress.step >= int(where):
            die()

    torch.set_num_threads(1)
    # Accumulation with an odd last step, dropout, checks in the middle of an epoch: all that must go on as it was.
    settings = FitSettings(
        method,
        epochs=4,
        batch_size=3,
        accumulation=2,
        check_every=3,
        learning_rate=1e-2,
        lora_dropout=0.1,
        metric="loss",
    )
    model = open_causal({"pretrained": parent}, ModelSettings("auto", "cpu"))
    model.fit(TRAINING_EXAMPLES, TRAINING_EXAMPLES[:5], settings, Path(folder), listen)


def main() -> None:
    parent, method, *pairs = sys.argv[1:]
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page
    for folder, moment in zip(pairs[::2], pairs[1::2], strict=True):
        child = os.fork()
        if child == 0:
            try:
                train(parent, method, folder, moment)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        is_model = (Path(folder) / "config.json").exists() or "report" in (Path(folder) / "fit.json").read_text()
        checkpoints = sorted(path.name for path in Path(folder).rglob("checkpoint-*"))
        print(os.waitstatus_to_exitcode(status), is_model, checkpoints)


if __name__ == "__main__":
    main()
