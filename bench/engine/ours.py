"""Our worker: Assay's causal model, loaded once, answering the requests of a file.

    python -m bench.engine.ours '{"model": {"pretrained": …}, "batch": "auto", "vocabulary": 49152, "most": 8192}'

Commands: `run` gives answers and times, `alike` answers in lm-eval's arithmetic, `least` the tree's minimum,
`rate` the machine's GEMM rate.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any

from assay.core.requests import Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, Logprob, Output, Text
from assay.core.specs import ModelSettings
from assay.models.hf.decoder.model import open_causal
from bench.engine.channel import read_rows, serve
from bench.engine.counting import TokenCounter, gemm_rate
from bench.engine.reading import Reader
from bench.engine.tree import least_work


def as_request(row: dict[str, Any]) -> Request:
    """A request from its line in the file."""
    if row["kind"] == Loglikelihood.kind:
        return Loglikelihood(row["context"], row["continuation"])
    if row["kind"] == RollingLoglikelihood.kind:
        return RollingLoglikelihood(row["text"])
    return Generation(row["prompt"], tuple(row["stop"]), row["max_tokens"])


def as_answer(output: Output | Failure) -> dict[str, Any]:
    """An answer as plain data. A failure ends the bench: an unanswered request must not count as fast."""
    if isinstance(output, Logprob):
        return {"total": output.total, "tokens": output.token_count, "is_greedy": output.is_greedy}
    if isinstance(output, Failure):
        raise ValueError(f"a request failed ({output.kind}): {output.message}")
    if not isinstance(output, Text):
        raise TypeError(f"a request was answered with {type(output).__name__}")
    return {"text": output.text, "tokens": output.token_count}


class Ours:
    """The handlers of the commands."""

    def __init__(
        self, arguments: dict[str, Any], settings: ModelSettings, reader: Reader, counter: TokenCounter
    ) -> None:
        self._arguments, self._settings, self._reader, self._counter = arguments, settings, reader, counter
        self._model = open_causal(arguments, settings)

    def run(self, file: str, documents: int | None = None) -> dict[str, Any]:
        """Answers, total and engine seconds, tokens as counted by the model and by our hook."""
        requests = [as_request(row) for row in read_rows(file, documents)]
        before, started = self._counter.tokens, time.perf_counter()
        answers = dict(self._model.respond(requests))
        whole = time.perf_counter() - started
        meter = getattr(self._model, "account", None)
        counted = self._counter.tokens - before
        self._counter.attach()  # the first run has loaded the weights
        describe = getattr(self._model, "description", dict)
        return {
            "answers": [as_answer(answers[place]) for place in range(len(requests))],
            "whole_seconds": whole,
            # Without a count by the model, encoding is included, to our disadvantage.
            "seconds": getattr(meter, "seconds", whole),
            "tokens": getattr(meter, "tokens", None) or counted,
            "embedded": counted,
            "head_rows": getattr(meter, "head_rows", None),
            "pairs": getattr(meter, "attention_pairs", None),
            "notices": list(self._model.notices()),
            "description": {name: str(value) for name, value in describe().items()},
        }

    def alike(self, file: str, documents: int | None = None) -> dict[str, Any]:
        """The answers with lm-eval's own log-softmax in place of the exact one, untimed: its error is then in both."""
        requests = [as_request(row) for row in read_rows(file, documents)]
        model = open_causal({**self._arguments, "engine": "tree", "arithmetic": "lm_eval"}, self._settings)
        answers = dict(model.respond(requests))
        model.close()
        return {"answers": [as_answer(answers[place]) for place in range(len(requests))]}

    def least(self, file: str, documents: int | None = None) -> dict[str, Any]:
        """The minimum work; for generations, that of the prompts."""
        return asdict(least_work(read for row in read_rows(file, documents) for read in self._reader.reads(row)))

    @staticmethod
    def rate(shapes: list[list[int]]) -> dict[str, Any]:
        """Best GFLOPS over layer-shaped products."""
        return {"gflops": gemm_rate([(rows, width, out) for rows, width, out in shapes])}


def main() -> None:
    asked = json.loads(sys.argv[1])
    settings = ModelSettings(batch_size=asked["batch"], device="cpu")
    reader = Reader(asked["model"], asked["most"])
    ours = Ours(asked["model"], settings, reader, TokenCounter(asked["vocabulary"]))
    serve({"run": ours.run, "alike": ours.alike, "least": ours.least, "rate": ours.rate})


if __name__ == "__main__":
    main()
