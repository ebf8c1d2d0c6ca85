"""Runs Assay on the parity cases and prints what it found as JSON; called by test_lm_eval.py in a separate process.

    python driver.py MODEL_FOLDER ARITHMETIC BATCH_SIZE CASES_JSON

A separate process, because the hub's address must be in the environment before `datasets` is imported.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from assay import evaluate
from assay.core.responses import Logprob
from assay.core.results import TaskResult
from assay.core.specs import ModelSettings
from assay.models.registry import open_model
from assay.report.lm_eval_results import results_data, sample_lines


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def described(task: TaskResult) -> list[dict[str, Any]]:
    """Every sample as the golden files have it."""
    lines, _ = sample_lines(task)
    answered = {item.document.id: item for item in task.answered}
    found = []
    for line in map(json.loads, lines):
        row = {key: line[key] for key in ("doc_id", "filter", "doc_hash", "prompt_hash", "target_hash")}
        outputs = answered[line["doc_id"]].outputs
        if isinstance(outputs[0], Logprob):
            row["loglikelihoods"] = [output.total for output in outputs]
            row["tokens"] = [output.token_count for output in outputs]
            row["is_greedy"] = [output.is_greedy for output in outputs]
        else:
            row |= {"text_sha256": sha(outputs[0].text), "text_length": len(outputs[0].text)}
            row["filtered_sha256"] = sha(line["filtered_resps"][0])
        found.append(row | {"metrics": {name: line[name] for name in line["metrics"]}})
    return found


def main() -> None:
    folder, arithmetic, batch_size, cases = sys.argv[1:]
    arguments = {"pretrained": folder, "dtype": "float32", "arithmetic": arithmetic}
    model = open_model("hf", arguments, ModelSettings(batch_size, "cpu"))
    here = Path(__file__).parent
    found = {}
    for case in json.loads(cases):
        result = evaluate(
            model,
            case["task"],
            store=":memory:",
            include_path=here / "tasks",
            limit=case["limit"],
            num_fewshot=case["num_fewshot"],
        )
        task = result.tasks[0]
        scores = results_data(result, {})["results"][task.name]
        found[case["case"]] = {"results": scores, "documents": described(task), "notices": result.notices}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
