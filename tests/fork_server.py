"""Runs commands in forks of a process that has imported packages already: `python fork_server.py PACKAGE …`.

A line of standard input is a command as JSON: `argv` (a script, or `-m` and a module), `cwd`, `env`, files `out` and
`err` for what it prints, and `state`, to which its process id and then its exit code are written.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import sys
from typing import Any


def become(job: dict[str, Any]) -> None:
    """Runs the command as a new interpreter would, in this process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, (path, mode) in enumerate((("/dev/null", "r"), (job["out"], "w"), (job["err"], "w"))):
        with open(path, mode) as file:
            os.dup2(file.fileno(), number)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    paths = [path for path in job["env"].get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    sys.path[:0] = [job["cwd"], *paths]
    script, *rest = job["argv"]
    sys.argv = [script, *rest] if script != "-m" else rest
    if script == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(script, run_name="__main__")


def main() -> None:
    gc.disable()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy every page
    gc.enable()
    print("ready", flush=True)
    watchers: list[int] = []
    while line := sys.stdin.readline():
        job = json.loads(line)
        if watcher := os.fork():
            watchers.append(watcher)
            continue
        if not (child := os.fork()):
            become(job)
            return
        with open(job["state"], "w") as state:
            print(child, file=state, flush=True)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(code, file=state, flush=True)
        os._exit(0)
    for watcher in watchers:
        os.waitpid(watcher, 0)


if __name__ == "__main__":
    main()
