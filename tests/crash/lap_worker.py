"""A run that may stop early, with a slow scripted model; is killed from outside.

python lap_worker.py STORE LOG OUTPUT DELAY
"""

import sys
from pathlib import Path

from assay import Generation, evaluate
from assay.core.identity import request_digest
from assay.core.requests import Request
from assay.testing import ScriptedModel, toy_generation_task


def answer(request: Request) -> str:
    """Right in nine of ten documents, as a digest has it."""
    assert isinstance(request, Generation)
    left = int(str(request.prompt).split(" + ")[0])
    return str(left + 7) if request_digest(request)[0] >= 26 else "no"


def main() -> None:
    store, log, output, delay = sys.argv[1:]
    model = ScriptedModel(answer, delay=float(delay), log_path=Path(log))
    evaluate(model, toy_generation_task(300), store=store, output_path=output, log_samples=True, until_se=0.05)


if __name__ == "__main__":
    main()
