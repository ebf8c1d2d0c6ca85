"""`assay serve` under lm-eval's own client, compared with lm-eval's own `hf` backend: same requests, model and machine.

    python -m bench.serve --lm-eval-python PYTHON --shared DIR [--workloads hellaswag mmlu_biology] [--repeats 3]

In: a Python with lm-eval, and the folder with data/ and tools/ (served as a hub on loopback). Out: per workload the
seconds of both, interleaved in one run, their ratio, the load by other programs, and whether answers agree. Both times
are of lm-eval's whole call, from texts to answers. Exit code 1 when a ratio is below the bar or answers differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from assay.core.errors import AssayError, Fault, UserError
from bench.engine.agreement import compare
from bench.engine.processes import ForeignLoad, Worker, started_worker
from bench.engine.shape import read_shape
from bench.engine.workloads import WORKLOADS, BuiltWorkload, build
from bench.vs_lm_eval import model_arguments
from parity.hub import served_hub
from parity.installation import LmEval, find_lm_eval
from parity.served import served

BAR = 2.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval-python", required=True, help="a Python with lm-eval; its task files are used too")
    parser.add_argument("--shared", type=Path, required=True, help="the folder with data/ and tools/")
    parser.add_argument("--workloads", nargs="+", default=["hellaswag", "mmlu_biology"], choices=list(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--documents", type=int, help="documents of every workload, for a trial")
    parser.add_argument("--lm-batch", nargs="+", default=["1", "8"], help="batch sizes of lm-eval's hf backend")
    parser.add_argument("--batch", type=int, default=32, help="prompts per request (default: %(default)s)")
    parser.add_argument("--concurrent", type=int, default=8, help="requests in flight (default: %(default)s)")
    parser.add_argument("--only", choices=["ours"], help="run without lm-eval's hf backend")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    return parser.parse_args()


@dataclass(slots=True)
class Round:
    """Seconds of a workload: ours by round, lm-eval's by batch size and round; and what differs."""

    built: BuiltWorkload
    ours: list[float] = field(default_factory=list)
    theirs: dict[str, list[float]] = field(default_factory=dict)
    foreign: list[float] = field(default_factory=list)
    worst: float | None = None
    apart: int = 0

    @property
    def best(self) -> str:
        """lm-eval's fastest batch size in the first round."""
        return min(self.theirs, key=lambda batch: self.theirs[batch][0])

    @property
    def ratio(self) -> float:
        """The median over rounds of lm-eval's seconds by ours."""
        return median(their / our for our, their in zip(self.ours, self.theirs[self.best], strict=True))

    def line(self) -> str:
        """The workload as a line of text."""
        head = f"{self.built.workload.name:<24} {self.built.documents:>5} documents  {self.built.requests:>6} requests"
        ours = f"assay serve {median(self.ours):.1f} s"
        if not self.theirs:
            return f"{head}  {ours}"
        theirs = f"lm-eval hf {median(self.theirs[self.best]):.1f} s (batch {self.best})"
        worst = "texts" if self.worst is None else f"log-likelihoods within {self.worst:.1e}"
        apart = f"{worst}, {self.apart} choices, texts or greedy flags differ"
        return f"{head}  {ours}  {theirs}  ratio {self.ratio:.2f}  {apart}  other load {max(self.foreign):.1f} cores"


def timed(worker: Worker, **settings: Any) -> tuple[dict[str, Any], float]:
    """One run, and the load by other programs meanwhile (the server counts as one)."""
    load = ForeignLoad(worker)
    return worker.ask("run", **settings), load.read()


def measure(built: BuiltWorkload, args: argparse.Namespace, ours: Worker, reference: Worker | None) -> Round:
    """All rounds of a workload, interleaved."""
    found, file = Round(built), str(built.file)
    sizes = {"batch": args.batch, "concurrent": args.concurrent}
    ours.ask("run", file=file, documents=1, **sizes)  # warm-up
    batches: list[str] = list(args.lm_batch)
    if reference is not None:
        reference.ask("run", file=file, batch="1", documents=1)
    for number in range(args.repeats):
        own, _ = timed(ours, file=file, **sizes)
        found.ours.append(own["whole_seconds"])
        for batch in batches if reference is not None else []:
            assert reference is not None
            other, load = timed(reference, file=file, batch=batch)
            found.theirs.setdefault(batch, []).append(other["whole_seconds"])
            found.foreign.append(load)
            if number == 0:
                _compare(found, own, other)
        if reference is not None:
            batches = [found.best]
    return found


def _compare(found: Round, own: dict[str, Any], other: dict[str, Any]) -> None:
    """Keeps the largest differences between two sets of answers."""
    with found.built.file.open(encoding="utf-8") as lines:
        documents = [json.loads(line)["document"] for line in lines]
    # The client does not say how many tokens it scored: differences are per request.
    agreement = compare(documents, [{**answer, "tokens": 1} for answer in own["answers"]], other["answers"])
    if agreement.worst is not None:
        found.worst = max(agreement.worst, found.worst or 0.0)
    found.apart = max(found.apart, len(agreement.choices) + len(agreement.texts) + agreement.greedy)


def run(args: argparse.Namespace, lm_eval: LmEval, folder: Path) -> int:
    model = model_arguments("smollm2")
    vocabulary = read_shape(Path(model["pretrained"])).vocabulary
    environment = dict(os.environ)
    rounds: list[Round] = []
    with ExitStack() as stack:
        address = stack.enter_context(served("smollm2", folder))
        settings = {"base_url": address, "model": "smollm2", "tokenizer": model["pretrained"]}
        settings["custom_prefix_token_id"] = model["prefix_token_id"]
        log = folder / "client.log"
        ours = stack.enter_context(
            started_worker("client", lm_eval.python, "bench.engine.client", settings, environment, log)
        )
        reference = None
        if args.only is None:
            own = {"model": model, "vocabulary": vocabulary}
            log = folder / "reference.log"
            reference = stack.enter_context(
                started_worker("reference", lm_eval.python, "bench.engine.reference", own, environment, log)
            )
        for name in args.workloads:
            built = build(WORKLOADS[name], lm_eval.tasks_folder, folder, args.documents)
            rounds.append(measure(built, args, ours, reference))
            print(rounds[-1].line(), flush=True)
    if args.json:
        rows = [{"name": one.built.workload.name, "ours": one.ours, "theirs": one.theirs} for one in rounds]
        args.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    return int(any(one.theirs and (one.ratio < BAR or one.apart) for one in rounds))


def main() -> None:
    args = arguments()
    if not args.shared.is_dir():
        raise UserError(Fault("--shared", f"no folder {args.shared}", "the folder with data/ and tools/"))
    try:
        with tempfile.TemporaryDirectory() as folder, served_hub(args.shared.resolve()) as hub:
            for name in [name for name in os.environ if name.startswith("HF_")]:
                del os.environ[name]
            # Before anything of Hugging Face is imported, here and in the workers.
            os.environ |= {"HF_ENDPOINT": hub.address, "HF_HOME": f"{folder}/hf", "TOKENIZERS_PARALLELISM": "true"}
            sys.exit(run(args, find_lm_eval(args.lm_eval_python), Path(folder)))
    except AssayError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
