"""The engine compared with lm-eval's: the same requests of real tasks, interleaved, with the same model and machine.

    python -m bench.vs_lm_eval --lm-eval-python PYTHON --shared DIR [--workloads hellaswag piqa] [--repeats 5]

In: a Python with lm-eval, and the folder with data/ and tools/ (served as a hub on loopback). Out: a table of engine
seconds (encoded requests → answers), tokens forwarded, the prefix tree's minimum, the share of the machine's GEMM
limit, the ratio, the foreign load, and whether scores, choices and texts agree. Exit code 1 when a bar is missed.
"""

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assay.core.arguments import parse_arguments
from assay.core.errors import AssayError, Fault, UserError
from assay.models.download.named import NAMED_MODELS, locate, opener_arguments
from bench.engine.processes import Worker, started_worker
from bench.engine.rounds import Measured, Plan, measure
from bench.engine.shape import Shape, read_shape
from bench.engine.table import Row, as_json, make_row, table_lines
from bench.engine.workloads import WORKLOADS, build
from parity.hub import served_hub
from parity.installation import LmEval, find_lm_eval

# Workloads that need no model → the shape of bench.no_model, and the ratio it must reach.
NO_MODEL = {"no_model_0shot": ("hellaswag_0_shot", 15.0), "no_model_25shot": ("arc_25_shot", 80.0)}
MOST_NO_MODEL_MEGABYTES = 300


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval-python", required=True, help="a Python with lm-eval; its task files are used too")
    parser.add_argument("--shared", type=Path, required=True, help="the folder with data/ and tools/")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=[*WORKLOADS, *NO_MODEL])
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--documents", type=int, help="documents of every workload, for a trial")
    parser.add_argument("--only", choices=["ours"], help="run without lm-eval")
    parser.add_argument("--lm-batch", nargs="+", default=["1", "8", "auto"], help="lm-eval's batch sizes")
    parser.add_argument("--run-auto", action="store_true", help='run "auto" even if it cannot be the best')
    parser.add_argument("--lm-documents", type=int, help="documents that lm-eval answers; its time is extrapolated")
    parser.add_argument(
        "--budget-seconds", type=float, default=300, help="lm-eval's per workload (default: %(default)s)"
    )
    parser.add_argument("--model", default="smollm2", help="a named model, or a checkpoint folder")
    parser.add_argument("--model-args", default="", help="more arguments for our side: arithmetic=lm_eval,…")
    parser.add_argument("--batch-size", default="auto", help="our batch size (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    return parser.parse_args()


def model_arguments(name: str) -> dict[str, Any]:
    """Model arguments for both tools, which share these names."""
    if name in NAMED_MODELS:
        return {**opener_arguments(NAMED_MODELS[name], locate(NAMED_MODELS[name]), {}), "dtype": "float32"}
    if not (Path(name) / "config.json").is_file():
        raise UserError(Fault("--model", f'no model "{name}"', "a checkpoint folder, or " + ", ".join(NAMED_MODELS)))
    return {"pretrained": str(Path(name).resolve()), "dtype": "float32"}


class Bench:
    """Two workers, and what they measure."""

    def __init__(self, args: argparse.Namespace, lm_eval: LmEval, scratch: Path, stack: ExitStack) -> None:
        model = model_arguments(args.model)
        self.shape: Shape = read_shape(Path(model["pretrained"]))
        self._args, self._lm_eval, self._scratch = args, lm_eval, scratch
        own = {**model, **parse_arguments(args.model_args, "--model-args")}
        sizes = {"vocabulary": self.shape.vocabulary}
        settings = {"model": own, "batch": args.batch_size, "most": self.shape.most, **sizes}
        self.ours = self._start(stack, "ours", sys.executable, settings)
        self._reference: Worker | None = None
        if args.only is None:
            self._reference = self._start(stack, "reference", lm_eval.python, {"model": model, **sizes})
        batches = tuple(args.lm_batch)
        self._plan = Plan(args.repeats, batches, args.budget_seconds, args.lm_documents, args.run_auto)

    def _start(self, stack: ExitStack, side: str, python: str, settings: dict[str, Any]) -> Worker:
        log = self._scratch / f"{side}.log"
        module = f"bench.engine.{side}"
        return stack.enter_context(started_worker(side, python, module, settings, dict(os.environ), log))

    def rate(self) -> float:
        """The machine's best GFLOPS just now."""
        return float(self.ours.ask("rate", shapes=self.shape.products)["gflops"])

    def measure(self, name: str) -> Measured:
        built = build(WORKLOADS[name], self._lm_eval.tasks_folder, self._scratch, self._args.documents)
        print(f"{name}: {built.documents} documents, {built.requests} requests …", file=sys.stderr, flush=True)
        return measure(built, self._plan, self.shape, self.ours, self._reference)


def measure_engine(args: argparse.Namespace, names: list[str], lm_eval: LmEval, scratch: Path) -> list[Row]:
    """All workloads with a model; prints the table and gives its rows. Figures are written after every workload."""
    found: list[Measured] = []
    with ExitStack() as stack:
        bench = Bench(args, lm_eval, scratch, stack)
        rates = [bench.rate()]
        for name in names:
            found.append(bench.measure(name))
            rates.append(bench.rate())
            peak = bench.ours.peak_megabytes()
            rows = [make_row(one, bench.shape, max(rates)) for one in found]
            print(f"  {rows[-1].verdict}, ratio {rows[-1].ratio}", file=sys.stderr, flush=True)
            if args.json:
                figures = [as_json(row, one) for row, one in zip(rows, found, strict=True)]
                head = {"gflops": rates, "peak_megabytes": peak, "shape": asdict(bench.shape)}
                args.json.write_text(json.dumps({**head, "workloads": figures}, indent=2), encoding="utf-8")
    bars = {name: (WORKLOADS[name].at_least, WORKLOADS[name].aim) for name in names}
    shown = ", ".join(f"{rate:.0f}" for rate in rates)
    foot = f"GEMM rate before, between and after: {shown} GFLOPS, the best counts; peak memory of ours {peak:.0f} MB"
    print("\n".join([*table_lines(rows, bars), foot]))
    return rows


def measure_no_model(args: argparse.Namespace, names: list[str], lm_eval: LmEval) -> bool:
    """The workloads of `bench.no_model`; gives whether they reach their bars."""
    from bench import no_model

    shapes = tuple(NO_MODEL[name][0] for name in names)
    python = None if args.only else lm_eval.python
    sizes = {"documents": args.documents} if args.documents else {}
    rows = no_model.measure(no_model.NoModelOptions(python, repeats=args.repeats, shapes=shapes, **sizes))
    print(no_model.table(rows))
    is_reached = True
    for name, row in zip(names, rows, strict=True):
        bar = NO_MODEL[name][1]
        is_good = row.peak_megabytes <= MOST_NO_MODEL_MEGABYTES and (row.ratio is None or row.ratio >= bar)
        is_reached &= is_good
        print(f"{name}  at least {bar:g}, at most {MOST_NO_MODEL_MEGABYTES} MB: {'pass' if is_good else 'FAIL'}")
    return is_reached


def run(args: argparse.Namespace) -> int:
    lm_eval = find_lm_eval(args.lm_eval_python)
    engine = [name for name in args.workloads if name in WORKLOADS]
    rest = [name for name in args.workloads if name in NO_MODEL]
    is_good = True
    with tempfile.TemporaryDirectory() as folder, served_hub(args.shared.resolve()) as hub:
        for name in [name for name in os.environ if name.startswith("HF_")]:
            del os.environ[name]
        # Before anything of Hugging Face is imported, here and in the workers.
        os.environ |= {"HF_ENDPOINT": hub.address, "HF_HOME": f"{folder}/hf", "TOKENIZERS_PARALLELISM": "true"}
        if engine:
            rows = measure_engine(args, engine, lm_eval, Path(folder))
            is_good = not any("fail" in row.verdict.lower() for row in rows)
    if rest:
        is_good &= measure_no_model(args, rest, lm_eval)
    return 0 if is_good else 1


def main() -> None:
    try:
        sys.exit(run(arguments()))
    except AssayError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
