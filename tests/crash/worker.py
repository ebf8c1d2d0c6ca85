"""One lap of the crash test: evaluates a slow scripted model on three toy tasks; is killed from outside.

python worker.py STORE LOG OUTPUT DELAY
"""

import sys
from pathlib import Path

from assay import Generation, Text, evaluate
from assay.core.identity import request_digest
from assay.core.requests import Request
from assay.core.responses import Logprob, Output
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task, toy_perplexity_task


def answer(request: Request) -> Output:
    """Deterministic answers with digits to spare, so that rounding in the store would show."""
    number = int.from_bytes(request_digest(request)[:6], "big")
    if isinstance(request, Generation):
        return Text(str(number % 97), "stop", 1)
    return Logprob(-number / 1e13, 1 + number % 5, number % 3 == 0)


def main() -> None:
    store, log, output, delay = sys.argv[1:]
    model = ScriptedModel(answer, delay=float(delay), log_path=Path(log))
    tasks = [toy_choice_task(20), toy_generation_task(20), toy_perplexity_task(5)]
    evaluate(model, tasks, store=store, output_path=output, log_samples=True)


if __name__ == "__main__":
    main()
