"""lm-eval's worker: its transformers model, loaded once, answering the requests of a file. Nothing of Assay is in it.

    python -m bench.engine.reference '{"model": {"pretrained": FOLDER, …}, "vocabulary": 49152}'

Scoring is timed around `_loglikelihood_tokens` (ids → log-likelihoods); generation around `generate_until`, less
the time for encoding. What "auto" spends on finding its batch size is included, as in a run, and also
reported separately.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from bench.engine.channel import read_rows, serve
from bench.engine.counting import TokenCounter
from bench.engine.tree import Read, least_work, scored_read

# The bench's word for a request → the method that answers it.
METHODS = {
    "loglikelihood": "loglikelihood",
    "rolling_loglikelihood": "loglikelihood_rolling",
    "generation": "generate_until",
}


def as_instance(row: dict[str, Any]) -> Instance:
    """A request from its line in the file. Settings that the row leaves out are lm-eval's own."""
    arguments: tuple[Any, ...]
    if row["kind"] == "loglikelihood":
        arguments = (row["context"], row["continuation"])
    elif row["kind"] == "rolling_loglikelihood":
        arguments = (row["text"],)
    else:
        given = {"until": row["stop"], "do_sample": False, "temperature": 0.0}
        most = {} if row["max_tokens"] is None else {"max_gen_toks": row["max_tokens"]}
        arguments = (row["prompt"], {**given, **most})
    return Instance(request_type=METHODS[row["kind"]], doc={}, arguments=arguments, idx=0)


def as_answer(answer: Any) -> dict[str, Any]:
    if isinstance(answer, str):
        return {"text": answer}
    if isinstance(answer, tuple):
        return {"total": answer[0], "is_greedy": answer[1]}
    return {"total": answer}


class TimedModel(HFLM):
    """lm-eval's model with clocks."""

    def __init__(self, vocabulary: int, **settings: Any) -> None:
        self.clocks = dict.fromkeys(("scoring", "detecting", "encoding"), 0.0)
        self.detection_tokens = 0
        self.reads: list[Read] = []
        super().__init__(**settings)
        self.counter = TokenCounter(vocabulary)
        self.counter.attach()

    def _timed(self, clock: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        try:
            return call()
        finally:
            self.clocks[clock] += time.perf_counter() - started

    def _loglikelihood_tokens(self, requests: Any, *args: Any, **kwargs: Any) -> Any:
        most = self.max_length
        self.reads += [scored_read(context, scored, most) for _, context, scored in requests]
        return self._timed("scoring", lambda: super(TimedModel, self)._loglikelihood_tokens(requests, *args, **kwargs))

    def _detect_batch_size(self, *args: Any, **kwargs: Any) -> Any:
        before = self.counter.tokens
        found = self._timed("detecting", lambda: super(TimedModel, self)._detect_batch_size(*args, **kwargs))
        self.detection_tokens += self.counter.tokens - before
        return found

    def tok_encode(self, *args: Any, **kwargs: Any) -> Any:
        return self._timed("encoding", lambda: super(TimedModel, self).tok_encode(*args, **kwargs))

    def tok_batch_encode(self, *args: Any, **kwargs: Any) -> Any:
        return self._timed("encoding", lambda: super(TimedModel, self).tok_batch_encode(*args, **kwargs))


class Reference:
    """The handlers of the commands."""

    def __init__(self, model: TimedModel) -> None:
        self._model = model

    def run(self, file: str, batch: str, documents: int | None = None) -> dict[str, Any]:
        """Answers, seconds and tokens at one batch size, and the least work for the ids that lm-eval made."""
        model = self._model
        model.clocks = dict.fromkeys(model.clocks, 0.0)
        model.reads, model.detection_tokens, model.counter.tokens = [], 0, 0
        model.batch_size_per_gpu = "auto" if batch == "auto" else int(batch)
        instances = [as_instance(row) for row in read_rows(file, documents)]
        kind = instances[0].request_type
        started = time.perf_counter()
        answers = getattr(model, kind)(instances, disable_tqdm=True)
        whole = time.perf_counter() - started
        return {
            "answers": [as_answer(answer) for answer in answers],
            "whole_seconds": whole,
            "seconds": self._engine_seconds(kind, whole),
            "detection_seconds": model.clocks["detecting"],
            "tokens": model.counter.tokens - model.detection_tokens,
            "detection_tokens": model.detection_tokens,
            "least": asdict(least_work(model.reads)) if model.reads else None,
        }

    def _engine_seconds(self, kind: str, whole: float) -> float:
        clocks = self._model.clocks
        if kind == "generate_until":
            return whole - clocks["encoding"]
        # For rolling requests the search for a batch size comes before scoring, for others within it.
        return clocks["scoring"] + (clocks["detecting"] if kind == "loglikelihood_rolling" else 0.0)


def main() -> None:
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    asked = json.loads(sys.argv[1])
    model = TimedModel(asked["vocabulary"], device="cpu", batch_size=1, **asked["model"])
    serve({"run": Reference(model).run})


if __name__ == "__main__":
    main()
