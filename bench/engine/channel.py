"""Protocol between the bench and a worker: one JSON object per line, commands on stdin, answers on a copy of stdout.

The worker's own stdout is redirected to stderr, because lm-eval prints there. A waiting worker is blocked in a read,
so it takes no CPU time from the other.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[..., dict[str, Any]]


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answers commands until stdin ends. `{"do": name, …}` calls a handler with the other keys."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = handlers[command.pop("do")](**command)
        except Exception:  # the bench shows any error and ends
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def read_rows(file: str, documents: int | None) -> list[dict[str, Any]]:
    """The requests of the first documents, as `workloads.write_rows` left them."""
    with open(file, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    if documents is None:
        return rows
    kept = set(list(dict.fromkeys(row["document"] for row in rows))[:documents])
    return [row for row in rows if row["document"] in kept]
