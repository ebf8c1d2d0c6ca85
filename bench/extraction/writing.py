"""Writes the outputs of the extraction bench: every prompt of `forms` is answered greedily by a small real model.

    python -m bench.extraction.writing outputs.jsonl [--model smollm2]

One JSON line per output, without labels: add `label` by reading the text, never by running an extractor. Takes three
minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from assay.core.requests import Generation, Message
from assay.core.responses import Text
from assay.core.specs import ModelSettings
from assay.models.registry import open_model
from bench.extraction.forms import STOPS, Prompt, prompts


def request(prompt: Prompt) -> Generation:
    """The request of a prompt."""
    if prompt.is_chat:
        return Generation((Message("user", prompt.text),), max_tokens=prompt.limit)
    return Generation(prompt.text, stop=STOPS, max_tokens=prompt.limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--model", default="smollm2")
    options = parser.parse_args()
    asked = list(prompts())
    model = open_model(options.model, {}, ModelSettings())
    answers = dict(model.respond([request(prompt) for prompt in asked]))
    with options.outputs.open("w", encoding="utf-8") as file:
        for place, prompt in enumerate(asked):
            answer = answers[place]
            assert isinstance(answer, Text), answer
            row = {**asdict(prompt), "output": answer.text, "finish_reason": answer.finish_reason}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
