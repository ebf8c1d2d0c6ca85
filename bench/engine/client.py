"""lm-eval's client worker: `local-completions` against a server, answering the requests of a file.

    python -m bench.engine.client '{"base_url": "http://127.0.0.1:8000", "tokenizer": FOLDER, "model": "smollm2"}'

The time is that of the whole call, from texts to log-likelihoods: encoding, requests and reading are the client's work.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from lm_eval.models.openai_completions import LocalCompletionsAPI

from bench.engine.channel import read_rows, serve
from bench.engine.reference import as_answer, as_instance


class Client:
    """The handlers of the commands."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def run(self, file: str, batch: int, concurrent: int, documents: int | None = None) -> dict[str, Any]:
        """Answers and seconds, with so many prompts per request and requests in flight."""
        model = LocalCompletionsAPI(
            **{**self._settings, "base_url": f"{self._settings['base_url']}/v1/completions"},
            tokenizer_backend="huggingface",
            batch_size=batch,
            num_concurrent=concurrent,
            timeout=3600,
        )
        instances = [as_instance(row) for row in read_rows(file, documents)]
        started = time.perf_counter()
        answers = getattr(model, instances[0].request_type)(instances, disable_tqdm=True)
        whole = time.perf_counter() - started
        return {
            "answers": [as_answer(answer) for answer in answers],
            "whole_seconds": whole,
            "seconds": whole,
            "tokens": 0,
        }


def main() -> None:
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    serve({"run": Client(json.loads(sys.argv[1])).run})


if __name__ == "__main__":
    main()
