"""Canaries: secrets are put wherever a user or a plugin can put one, and no byte that Assay writes or prints has them.

Every command runs in a separate process; those that are refused are forked from one that has imported Assay. What it
prints, every file below its folder (store and caches too), and the names of files and folders are then searched for
all canaries.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# A part of every canary. Each one also names the place it was put in.
MARK = "c4n4ry"
PLAIN = "pl41n-text-of-a-document"


def canary(place: str) -> str:
    return f"Zx-{place}-{MARK}-7Q"


PLUGIN = """
import json, os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from assay.core.errors import Fault, ModelError
from assay.core.identity import Fingerprint
from assay.core.protocols import Capabilities
from assay.core.training import FitReport
from assay.core.responses import Failure, Logprob, Text
from assay.testing import ScriptedModel

def canary(place):
    return f"Zx-{place}-c4n4ry-7Q"

def login(place):
    return f"https://me:{canary(place)}@host/v1?access_token={canary(place + 'Query')}"

def answer(request):
    if request.kind == "generation":
        options = dict(request.sampling.options)
        Path(os.environ["SEEN"]).write_text(options.get("api_key", ""))
        if "3" in str(request.prompt):
            return Failure("error", f"401: Bearer {canary('FailureBearer')} at {login('FailureLogin')}")
        return Text("7")
    return Logprob(-float(len(getattr(request, "continuation", "text"))), 1, False)

@dataclass(frozen=True)
class Leaky(ScriptedModel):
    arguments: dict = field(default_factory=dict)

    @property
    def fingerprint(self):
        key = self.arguments.get("api_key", "")
        settings = {"url": login("FingerprintLogin"), "headers": {"x-api-key": canary("FingerprintHeader")}, "k": key}
        name = f"server at {login('FingerprintName')} api_key={canary('FingerprintArgument')}"
        return Fingerprint(name, settings=settings)

    @property
    def capabilities(self):
        return Capabilities(frozenset(self.kinds), has_chat=True, learns=frozenset({"loglikelihood"}))

    def notices(self):
        return [f"asked {login('NoticeLogin')} with token={canary('NoticeToken')} and {self.arguments.get('api_key')}"]

    def description(self):
        return {"engine": "http", "api_key": canary("DescriptionKey"), "why": login("DescriptionLogin")}

    def fit(self, lessons, checks, settings, folder, listener):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))
        (folder / "model.safetensors").write_bytes(b"x")
        return FitReport(1, 1, settings.metric, 0.75, notices=(f"trained at {login('FitNotice')}",))

def open_leaky(args, settings):
    return Leaky(answer, arguments=dict(args))

def open_broken(args, settings):
    def fall_over(request):
        header = f"Authorization: Bearer {canary('BugBearer')}"
        raise RuntimeError(f"no route to {login('BugLogin')}: {header}, key was {args['api_key']}")

    print("connecting with", args["api_key"])
    return ScriptedModel(fall_over, name="broken")

def open_refusing(args, settings):
    found = f"refused {args['api_key']} at {login('RefusedLogin')}"
    raise ModelError(Fault("server", found, "another api_key=" + canary("RefusedKey")))
"""
POINTS = "[assay.models]\n" + "".join(f"{name} = acme_models:open_{name}\n" for name in ("leaky", "broken", "refusing"))
BASE = f"""
dataset_path: json
test_split: test
training_split: train
metadata: {{version: 1, api_key: {canary("TaskMetadata")}, login: "https://me:{canary("TaskLogin")}@host"}}
description: "Bearer of bad news. "
"""
CHOICE = """
task: colours
include: base.inc
dataset_kwargs: {data_files: {test: colours.jsonl, train: train.jsonl}}
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_target: label
doc_to_choice: [red, green, blue]
"""
GENERATION = f"""
task: sums
include: base.inc
dataset_kwargs: {{data_files: {{test: colours.jsonl, train: train.jsonl}}, token: {canary("TaskToken")}}}
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{label}}}}"
generation_kwargs: {{until: ["\\n"], api_key: {canary("TaskGeneration")}}}
metric_list: [{{metric: exact_match, password: {canary("TaskMetric")}}}]
"""
ARGUMENTS = (
    f"pretrained=https://me:{canary('ModelLogin')}@host/model,api_key={canary('ModelKey')},"
    f"headers={{'Authorization': 'Bearer {canary('ModelHeader')}'}},password='two {canary('ModelPassword')}'"
)


@dataclass
class World:
    """A folder in which commands run; the first run of `ran`, and what every command printed."""

    folder: Path
    environment: dict[str, str]
    server: Any
    first: str = ""
    printed: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, code: int = 0, **more: str) -> str:
        command = [sys.executable, "-m", "assay", *arguments]
        environment = {**self.environment, **more}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)
        return self._printed(arguments, done.stdout + "\n" + done.stderr, done.returncode, code)

    def refuse(self, *arguments: str, code: int = 2) -> str:
        """As `run`, for a command that fails before it does much: in a process that need not import what it needs."""
        forked = self.server.start(["-m", "assay", *arguments], self.folder, self.environment)
        text = "\n".join(forked.communicate())
        return self._printed(arguments, text, forked.returncode, code)

    def _printed(self, arguments: tuple[str, ...], text: str, found: int, code: int) -> str:
        self.printed[f"{len(self.printed)} {' '.join(arguments[:3])}"] = text
        assert found == code, text
        return text

    def found(self, mark: str) -> list[str]:
        """Where a mark is: outputs, files, names of files."""
        places = [f"output of {name}" for name, text in self.printed.items() if mark in text]
        for path in (self.folder / "made").rglob("*"):
            places += [f"name {path}"] if mark in str(path.relative_to(self.folder)) else []
            places += [f"file {path}"] if path.is_file() and mark.encode() in path.read_bytes() else []
        return places


@pytest.fixture(scope="module")
def hub() -> Iterator[tuple[str, list[str]]]:
    """A hub that has one file, refuses everything else and echoes its request; its address, and the logins it saw."""
    seen: list[str] = []

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            is_file = self.path.startswith("/rows.jsonl")
            content = b'{"q": "a", "label": "b"}\n' * 3 if is_file else b""
            self.send_response(200 if is_file else 401)
            self.send_header("X-Error-Message", f"no access for {seen[-1]}")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_POST = do_GET  # noqa: N815 - the server's names

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, light_server: Any) -> World:
    folder = tmp_path_factory.mktemp("world")
    (folder / "site" / "acme-1.0.dist-info").mkdir(parents=True)
    (folder / "site/acme-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (folder / "site/acme-1.0.dist-info/entry_points.txt").write_text(POINTS)
    (folder / "site/acme_models.py").write_text(PLUGIN)
    (folder / "tasks").mkdir()
    rows = [json.dumps({"q": f"{PLAIN} {place}?", "label": place % 3}) + "\n" for place in range(36)]
    (folder / "tasks/colours.jsonl").write_text("".join(rows[:12]))
    (folder / "tasks/train.jsonl").write_text("".join(rows[12:]))
    for name, text in {"base.inc": BASE, "colours.yaml": CHOICE, "sums.yaml": GENERATION}.items():
        (folder / "tasks" / name).write_text(text)
    path = os.pathsep.join(filter(None, (str(folder / "site"), os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "ASSAY_STORE": str(folder / "made/store/store.db"),
        "ASSAY_CACHE": str(folder / "made/cache"),
        "HF_HOME": str(folder / "made/hf"),
        "SEEN": str(folder / "seen.txt"),
        "COLUMNS": "100",
        "HF_TOKEN": canary("EnvironmentToken"),
        "ACME_API_KEY": canary("EnvironmentKey"),
        "ACME_URL": f"https://me:{canary('EnvironmentLogin')}@host",
    }
    return World(folder, environment, light_server)


TASKS = ("--include_path", "tasks")
MODEL = ("--model", "acme/leaky", "--model_args", ARGUMENTS)


@pytest.fixture(scope="module")
def ran(world: World) -> World:
    """Every command that writes something, with canaries in all its settings."""
    samples = ("--output_path", "made/out", "--log_samples")
    generation = ("--gen_kwargs", f"api_key={canary('GenerationKey')},top_p=0.9", "--metadata")
    world.run(
        "run", *MODEL, "--tasks", "sums,colours", *TASKS, *generation, f"token={canary('MetadataToken')}", *samples,
        "--write_out", "--audit", "all", "--reliability_figure", "made/reliability.svg", code=3,
    )  # fmt: skip
    assert (world.folder / "seen.txt").read_text() == canary("GenerationKey")
    world.first = json.loads(world.run("ls", "runs", "--json").partition("\n\n")[0])[0]["run"]  # the newest
    world.run("run", *MODEL, "--tasks", "colours", *TASKS, "--num_fewshot", "1", *samples)
    world.run("run", *MODEL, "--tasks", "colours", *TASKS, "--until_se", "0.3", *samples)
    world.run("rescore", "last~2", "--metrics", "+exact_match", *samples, code=3)
    world.run("compare", "last~3", "last~1", "--across", "shots,scoring,model", "--flips", "3", "--tasks", "colours")
    world.run("compare", "last~3", "last~1", "--across", "shots", "--tasks", "colours", "--format", "markdown",
              "--output_path", "made/compared.md", "--force")  # fmt: skip
    world.run("explain", "last~3", "last~1", "--tasks", "colours", "colours")
    rows = [f"acme/leaky:{ARGUMENTS},size={size}" for size in (1, 2)]
    world.run("matrix", "--models", *rows, "--tasks", "colours", *TASKS, "--output_path", "made/matrix")
    world.run("methods", "--models", *rows, "--tasks", "colours", *TASKS, "--output_path", "made/methods")
    trained = ("--model", "acme/leaky", "--model_args", ARGUMENTS.partition(",headers")[0])
    world.run("finetune", *trained, "--tasks", "colours", *TASKS, "--metadata", f"token={canary('FitToken')}")
    world.run("plan", *MODEL, "--tasks", "colours", *TASKS)
    world.run("show", "sums", *TASKS)
    world.run("ls", "runs")
    world.run("ls", "tasks", *TASKS)
    world.run("check", "tasks")
    return world


def test_no_canary_is_in_anything_that_was_written_or_printed(ran: World) -> None:
    assert len([path for path in (ran.folder / "made").rglob("*") if path.is_file()]) > 20
    assert ran.found(MARK) == []


def test_a_text_that_is_not_a_secret_would_be_found(ran: World) -> None:
    kinds = {re.sub(r"\d+", "", place.split()[0]) + Path(place).suffix for place in ran.found(PLAIN)}
    assert kinds >= {"output", "file.jsonl"}
    assert ran.found("Bearer of bad news") != []
    assert any("store.db" in place for place in ran.found("acme/leaky"))


def test_what_is_packed_in_the_store_has_no_canary_either(ran: World) -> None:
    with closing(sqlite3.connect(ran.environment["ASSAY_STORE"])) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        cells = [cell for table in tables for row in connection.execute(f"SELECT * FROM {table}") for cell in row]
    packed = [cell for cell in cells if isinstance(cell, bytes) and cell[:1] == b"x"]
    texts = [zlib.decompress(cell) for cell in packed if len(cell) != 32]
    assert texts and not any(MARK.encode() in text for text in texts)
    assert not any(MARK in cell for cell in cells if isinstance(cell, str))


def test_files_are_the_owners_alone(ran: World) -> None:
    made = ran.folder / "made"
    ours = [path for path in made.rglob("*") if path.is_file() and not path.is_relative_to(made / "hf")]
    trained = made / "store/models"
    opened = [path for path in ours if stat.S_IMODE(path.stat().st_mode) != 0o600 and not path.is_relative_to(trained)]
    assert opened == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made / "store", made / "cache")] == [0o700, 0o700]


def test_a_rescored_run_gets_its_secrets_from_the_user(ran: World) -> None:
    message = ran.run("rescore", ran.first, "--complete", code=2)
    assert "asked with api_key, which no record keeps; expected the value. Add --model_args api_key=…" in message
    given = f"{ARGUMENTS},api_key={canary('GivenKey')}"
    ran.run("rescore", ran.first, "--complete", "--model_args", given, code=3)
    assert (ran.folder / "seen.txt").read_text() == canary("GivenKey")
    assert ran.found(MARK) == []


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_bug_report_has_no_canary(world: World, debug: tuple[str, ...]) -> None:
    said = world.refuse("run", "--model", "acme/broken", *MODEL[2:], "--tasks", "colours", *TASKS, *debug, code=1)
    assert "no route to https://***@host" in said
    assert ("Traceback" in said) == bool(debug)
    assert MARK not in said


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--model", "acme/refusing", *MODEL[2:], "--tasks", "colours", *TASKS],
        ["run", "--model", "dummy", "--model_args", f"api_key='{canary('OpenQuote')},seed=1", "--tasks", "demo"],
        ["run", "--model", "dummy", "--model_args", f"https://me:{canary('NoName')}@host", "--tasks", "demo"],
        ["run", "--model", "dummy", "--model_args", f"seed=x,token={canary('Unknown')}", "--tasks", "demo"],
        ["run", "--model", "dummy", "--tasks", "demo", f"--api_key={canary('UnknownOption')}"],
        ["run", "--model", f"https://me:{canary('UnknownModel')}@host", "--tasks", "demo"],
        ["run", "--model", "hf", "--model_args", f"pretrained=https://me:{canary('Hub')}@host/x", "--tasks", "demo"],
        ["run", "--model", "dummy", "--tasks", f"https://me:{canary('UnknownTask')}@host"],
        [f"https://me:{canary('Command')}@host"],
    ],
)
def test_a_users_error_shows_no_canary(world: World, words: list[str]) -> None:
    said = world.refuse(*words)
    assert "error: " in said and MARK not in said


@pytest.mark.parametrize(
    "text",
    [
        f"task: x\ndataset_kwargs:\n  token: {canary('Syntax')}: {{\n",
        f"task: x\ndataset_path: json\ndataset_kwargs: [token: {canary('WrongKind')}]\ndoc_to_text: a\n",
        f"task: x\ndataset_path: json\ntest_split: {{password: {canary('WrongValue')}}}\ndoc_to_text: a\n",
        f"task: x\ndataset_path: json\nmetadata: {{api_key: {canary('Key')}}}\ndoc_to_text: '{canary('Key')}'\n",
    ],
)
def test_a_task_files_fault_shows_no_canary(world: World, text: str) -> None:
    (world.folder / "broken").mkdir(exist_ok=True)
    (world.folder / "broken/x.yaml").write_text(text)
    said = world.refuse("run", "--model", "dummy", "--tasks", "x", "--include_path", "broken")
    assert "error: " in said and MARK not in said


CONFIG = f"""
model: acme/leaky
model_args:
  pretrained: "https://me:{canary("ConfigLogin")}@host/m"
  api_key: {canary("ConfigKey")}
  headers: {{Authorization: "Bearer {canary("ConfigHeader")}"}}
gen_kwargs: {{api_key: {canary("ConfigGeneration")}}}
metadata: {{token: {canary("ConfigToken")}}}
system_instruction: "the key is {canary("ConfigKey")}"
tasks: [sums, colours]
include_path: tasks
apply_chat_template: true
output_path: made/configured
log_samples: true
write_out: true
"""


def test_the_secrets_of_a_config_file_are_used_and_written_nowhere(world: World) -> None:
    (world.folder / "config.yaml").write_text(CONFIG)
    said = world.run("run", "--config", "config.yaml", code=3)
    assert (world.folder / "seen.txt").read_text() == canary("ConfigGeneration")
    assert "the key is ***" in said and MARK not in said
    made = [path for path in (world.folder / "made").rglob("*") if path.is_file()]
    assert any(b"the key is ***" in path.read_bytes() for path in made if path.suffix == ".jsonl")
    assert [path for path in made if b"Zx-Config" in path.read_bytes()] == []


@pytest.mark.parametrize(
    "text",
    [
        f"model: dummy\napi_key: {canary('ConfigUnknown')}\n",
        f"model: dummy\ntasks: demo\nlimit: https://me:{canary('ConfigValue')}@host\n",
        f"model: dummy\nlog_samples: {{token: {canary('ConfigKind')}}}\n",
        f"model: dummy\ntasks: demo\nmodel_args: {{api_key: {canary('ConfigArgument')}, seed: x}}\n",
        f"model_args:\n  token: {canary('ConfigSyntax')}: {{\n",
        f"model_args:\n  seed: 1\n  token:{canary('ConfigGlued')}\n",
        f"model_args:\n  headers: {{api_key: {canary('ConfigOpen')}: x}}\n",
        f"api_key: {canary('ConfigTwice')}\napi_key: {canary('ConfigTwiceMore')}\n",
        f"model: dummy\ntasks: https://me:{canary('ConfigLone')}@host: x\n",
        f"{canary('ConfigRoot')}\n",
    ],
)
def test_a_config_files_fault_shows_no_canary(world: World, text: str) -> None:
    (world.folder / "broken.cfg").write_text(text)
    said = world.refuse("run", "--config", "broken.cfg")
    assert "error: " in said and MARK not in said


CODE = f"""
def score(document, results):
    login = "https://me:{canary("CodeLogin")}@host"
    raise RuntimeError(f"401 for Bearer {canary("CodeBearer")} at {{login}}")
"""


def test_an_error_of_task_code_leaves_no_canary_in_any_file(world: World) -> None:
    (world.folder / "coded").mkdir()
    (world.folder / "coded/code.py").write_text(CODE)
    (world.folder / "coded/rows.jsonl").write_text('{"q": "a", "label": "b"}\n' * 3)
    text = PRIVATE.format(name="coded", path="json", options="data_files: {test: rows.jsonl}")
    (world.folder / "coded/coded.yaml").write_text(text + "process_results: !function code.score\n")
    words = ("--tasks", "coded", "--include_path", "coded", "--allow_code", "-o", "made/coded", "-s")
    said = world.run("run", "--model", "dummy", *words, code=3)
    assert "401 for Bearer ***" in said and MARK not in said
    made = [path for path in (world.folder / "made").rglob("*") if path.is_file()]
    assert [path for path in made if b"Zx-Code" in path.read_bytes()] == []


PRIVATE = """
task: {name}
dataset_path: {path}
dataset_kwargs: {{{options}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{label}}}}"
"""


def test_the_token_of_a_dataset_reaches_the_hub_and_nothing_else(world: World, hub: tuple[str, list[str]]) -> None:
    address, seen = hub
    token = canary("HubToken")
    (world.folder / "private").mkdir(exist_ok=True)
    text = PRIVATE.format(name="y", path="acme/private", options=f"token: {token}")
    (world.folder / "private/y.yaml").write_text(text)
    words = ("run", "--model", "dummy", "--tasks", "y", "--include_path", "private")
    said = world.run(*words, code=2, HF_ENDPOINT=address)
    assert 'dataset "acme/private" could not be fetched' in said and MARK not in said
    assert f"Bearer {token}" in seen


def test_the_login_of_a_data_file_reaches_its_server_and_no_cache(world: World, hub: tuple[str, list[str]]) -> None:
    address, seen = hub
    login = f"me:{canary('FileLogin')}"
    place = f"{address.replace('//', f'//{login}@')}/rows.jsonl?access_token={canary('FileQuery')}"
    (world.folder / "private").mkdir(exist_ok=True)
    text = PRIVATE.format(name="z", path="json", options=f'data_files: {{test: "{place}"}}')
    (world.folder / "private/z.yaml").write_text(text)
    said = world.run("run", "--model", "dummy", "--tasks", "z", "--include_path", "private", "-o", "made/z", "-s")
    assert f"Basic {base64.b64encode(login.encode()).decode()}" in seen
    made = [path for path in (world.folder / "made").rglob("*") if path.is_file()]
    assert any("downloads" in str(path) for path in made)
    assert MARK not in said and not any(canary("File")[:7].encode() in path.read_bytes() for path in made)
