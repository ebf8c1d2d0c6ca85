"""How long it takes from a command to the first request, for tasks of lm-eval's own tree: Assay compared with lm-eval.

    python -m bench.first_request --lm-eval-python PYTHON --shared DIR [--tasks arc_easy hellaswag] [--repeats 5]

In: a Python with lm-eval, and the folder with data/ and tools/ (served as a hub on loopback). Out: per task the median
wall seconds of both, and their ratio. Both run their whole command line with their dummy model, which here ends the
process when it is first asked. They take turns; the first round, which fills the caches of both, is not counted.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from parity.hub import served_hub

ASSAY = """
import os, sys
import assay.models.dummy as dummy
dummy.DummyModel.respond = lambda self, requests: os._exit(0)
from assay.cli.main import main
sys.exit(main(sys.argv[1:]) or 1)
"""
LM_EVAL = """
import os, sys
import lm_eval.models.dummy as dummy
for kind in ("loglikelihood", "generate_until", "loglikelihood_rolling"):
    setattr(dummy.DummyLM, kind, lambda self, requests, **settings: os._exit(0))
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
sys.exit(1)
"""


def timed(command: list[str], environment: dict[str, str]) -> float:
    """Wall seconds until the first request."""
    started = time.perf_counter()
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if finished.returncode:
        raise SystemExit(f"{' '.join(command)}\nasked nothing (exit {finished.returncode}):\n{finished.stderr[-2000:]}")
    return seconds


def tasks_folder(python: str) -> str:
    """lm-eval's task files."""
    code = "import lm_eval, pathlib; print(pathlib.Path(lm_eval.__file__).parent / 'tasks')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def commands_for(args: argparse.Namespace, task: str, store: Path) -> dict[str, list[str]]:
    common = ["run", "--model", "dummy", "--tasks", task, "--limit", str(args.limit)]
    own = ["--include_path", tasks_folder(args.lm_eval_python), "--allow_code", "--store", str(store)]
    return {
        "assay": [args.assay_python, "-c", ASSAY, *common, *own],
        "lm_eval": [args.lm_eval_python, "-c", LM_EVAL, *common],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay-python", default=sys.executable, help="a Python with assay (default: this one)")
    parser.add_argument("--lm-eval-python", required=True, help="a Python with lm-eval")
    parser.add_argument("--shared", type=Path, required=True, help="the folder with data/ and tools/")
    parser.add_argument("--tasks", nargs="+", default=["arc_easy", "hellaswag", "gsm8k", "mmlu_anatomy"])
    parser.add_argument("--limit", type=int, default=10, help="documents (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds (default: %(default)s)")
    args = parser.parse_args()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    with tempfile.TemporaryDirectory() as folder, served_hub(args.shared.resolve()) as hub:
        environment = kept | {"HF_ENDPOINT": hub.address, "HF_HOME": f"{folder}/hf", "ASSAY_CACHE": f"{folder}/cache"}
        print(f"{'task':<16}{'assay s':>10}{'lm_eval s':>12}{'ratio':>8}")
        for task in args.tasks:
            commands = commands_for(args, task, Path(folder) / "store.db")
            rounds = [
                {name: timed(command, environment) for name, command in commands.items()}
                for _ in range(args.repeats + 1)
            ]
            found = {name: median(one[name] for one in rounds[1:]) for name in commands}
            print(
                f"{task:<16}{found['assay']:>10.2f}{found['lm_eval']:>12.2f}{found['lm_eval'] / found['assay']:>8.1f}"
            )


if __name__ == "__main__":
    main()
