"""A store and result files of an earlier revision: read, resumed, rescored, compared, and written again alike.

`recorded/README.md` says what was recorded and how.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import main
from assay.store.run_records import RunRecord
from assay.store.store import Store

HERE = Path(__file__).parent / "recorded"
COMMANDS: dict[str, list[str]] = json.loads((HERE / "commands.json").read_text(encoding="utf-8"))
FINISHED = [name for name in COMMANDS if name != "interrupted"]
ANSWERED = 15  # responses that the interrupted run got, of 44

# What may differ between two runs of one command: times, versions, places, the machine, and the wording of notices.
UNLIKE = {
    "": {"date", "pretty_env_info", "transformers_version", "total_evaluation_time_seconds", "git_hash"},
    "assay": {"version", "run", "store", "notices", "requests", "manifest"},
}
# Of a manifest, what must be alike.
ALIKE = ("spec", "model", "tasks", "seeds")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as the runs left it, as the working folder."""
    with tarfile.open(HERE / "recorded.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same commands in a separate folder, by today's code and to their end."""
    folder = tmp_path_factory.mktemp("fresh")
    prepare(folder)
    with pytest.MonkeyPatch.context() as place:
        place.chdir(folder)
        assert [name for name in COMMANDS if run(name) != 0] == []
    return folder


def prepare(folder: Path) -> None:
    for name in ("tasks", "tiny"):
        shutil.copytree(HERE / name, folder / name)


def run(name: str, output: str = "results") -> int:
    files = ["--include_path", "tasks", "--store", "store.db", "--output_path", f"{output}/{name}", "--log_samples"]
    return main(["run", *COMMANDS[name], *files])


def records(folder: Path) -> dict[str, RunRecord]:
    """The records of the runs by the names of their commands; the newest one of a name."""
    with Store(folder / "store.db") as store:
        return dict(zip(COMMANDS, [item for item in reversed(store.runs.all()) if item.spec], strict=False))


def keys(folder: Path) -> set[bytes]:
    with closing(sqlite3.connect(folder / "store.db")) as database:
        return {key for (key,) in database.execute("SELECT key FROM responses")}


def results(folder: Path, name: str, output: str = "results") -> dict[str, Any]:
    (path,) = (folder / output / name).rglob("results_*.json")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def samples(folder: Path, name: str, output: str = "results") -> dict[str, list[Any]]:
    """The sample files of a run, by task."""
    found = {}
    for path in sorted((folder / output / name).rglob("samples_*.jsonl")):
        task = path.name.removeprefix("samples_").rsplit("_", 1)[0]
        found[task] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found


def comparable(whole: Mapping[str, Any]) -> dict[str, Any]:
    """A result file without what two runs of one command may differ in; durations by their names alone."""
    own = {key: value for key, value in whole["assay"].items() if key not in UNLIKE["assay"]}
    own |= {key: sorted(own[key]) for key in ("timings", "model_run") if own.get(key)}
    manifest = whole["assay"]["manifest"]
    own |= {"manifest": {key: manifest[key] for key in ALIKE}, "manifest keys": sorted(manifest)}
    return {**{key: value for key, value in whole.items() if key not in UNLIKE[""]}, "assay": own}


def differences(found: Any, expected: Any, tolerance: float = 1e-12, where: str = "") -> list[str]:
    """Every place where two JSON values differ; numbers by more than a share of them."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        return [text for key in found for text in differences(found[key], expected[key], tolerance, f"{where}.{key}")]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [text for place, (one, two) in pairs for text in differences(one, two, tolerance, f"{where}[{place}]")]
    if isinstance(found, float) and isinstance(expected, float):
        alike = math.isclose(found, expected, rel_tol=tolerance) or (math.isnan(found) and math.isnan(expected))
        return [] if alike else [f"{where}: {found} is not {expected}"]
    if is_number(found) and is_number(expected):  # sample files have log-likelihoods as texts, as lm-eval's
        return differences(float(found), float(expected), tolerance, where)
    return [] if found == expected else [f"{where}: {str(found)[:300]} is not {str(expected)[:300]}"]


def is_number(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", value) is not None


def tolerance_of(name: str) -> float:
    """Weights are multiplied in another order on another machine; all else is exact arithmetic."""
    return 1e-3 if name == "tiny" else 1e-12


def test_the_runs_are_listed(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "runs", "--store", "store.db"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " dummy " in line or " ngram " in line]
    assert len(lines) == len(COMMANDS) - 1
    assert [line.split()[1] for line in lines] == ["interrupted", *["finished"] * (len(lines) - 1)]


def test_the_store_is_sound(recorded: Path) -> None:
    assert main(["store", "check", "--store", "store.db"]) == 0


@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_run_requests_nothing_again(recorded: Path, name: str) -> None:
    before = keys(recorded)
    assert run(name, "again") == 0
    requests = results(recorded, name, "again")["assay"]["requests"]
    assert (requests["asked"], requests["known"]) == (0, requests["unique"])
    assert keys(recorded) == before


def test_an_interrupted_run_requests_only_the_rest(recorded: Path, fresh: Path) -> None:
    before = keys(recorded)
    assert run("interrupted") == 0
    requests = results(recorded, "interrupted")["assay"]["requests"]
    assert (requests["known"], requests["asked"]) == (ANSWERED, 44 - ANSWERED)
    assert len(keys(recorded) - before) == 44 - ANSWERED
    assert keys(recorded) == keys(fresh)
    assert differences(comparable(results(recorded, "interrupted")), comparable(results(fresh, "interrupted"))) == []


@pytest.mark.parametrize("name", FINISHED)
def test_a_run_rescored_has_the_numbers_it_had(recorded: Path, name: str) -> None:
    record = records(recorded)[name]
    assert main(["rescore", record.id, "--store", "store.db", "--output_path", "rescored/" + name]) == 0
    expected, found = results(recorded, name), results(recorded, name, "rescored")
    assert differences(found["results"], expected["results"]) == []
    assert differences(found["assay"]["tasks"], expected["assay"]["tasks"]) == []


def test_an_interrupted_run_is_rescored_in_part(recorded: Path) -> None:
    record = records(recorded)["interrupted"]
    assert main(["rescore", record.id, "--store", "store.db", "--output_path", "rescored/part"]) == 3
    tasks = results(recorded, "part", "rescored")["assay"]["tasks"]
    assert [tasks[name]["denominators"]["scored"] for name in ("capitals", "sums")] == [ANSWERED // 3, 0]


def test_other_metrics_of_a_recorded_run(recorded: Path) -> None:
    record = records(recorded)["letters"]
    settings = ["--metrics", "+acc_tokens", "--output_path", "rescored/more"]
    assert main(["rescore", record.id, "--store", "store.db", *settings]) == 0
    found = results(recorded, "more", "rescored")["results"]["capitals@letters"]
    expected = results(recorded, "letters")["results"]["capitals@letters"]
    assert "acc_tokens,none" in found
    assert differences({key: found[key] for key in expected}, expected) == []


def test_two_recorded_runs_are_compared_with_the_numbers_of_before(recorded: Path) -> None:
    found = recorded / "found.json"
    runs = [records(recorded)[name].id for name in ("kinds", "other_model")]
    settings = ["--metric", "all", "--predictions", "--flips", "2", "--format", "json", "--output_path", str(found)]
    assert main(["compare", *runs, "--store", "store.db", *settings]) == 0
    expected = json.loads((recorded / "comparison.json").read_text(encoding="utf-8"))
    assert differences(_without_prose(json.loads(found.read_text(encoding="utf-8"))), _without_prose(expected)) == []


def _without_prose(value: Any) -> Any:
    """A comparison without its sentences."""
    if isinstance(value, dict):
        prose = ("verdict", "differing", "remarks", "notices")
        return {key: _without_prose(item) for key, item in value.items() if key not in prose}
    return [_without_prose(item) for item in value] if isinstance(value, list) else value


def test_two_recorded_runs_are_explained(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [records(recorded)[name].id for name in ("kinds", "letters")]
    settings = ["--tasks", "capitals", "capitals@letters", "--store", "store.db"]
    assert main(["explain", *runs, *settings]) == 0
    assert "capitals@letters" in capsys.readouterr().out


def test_fresh_runs_write_the_same_files(recorded: Path, fresh: Path) -> None:
    found = {name: (comparable(results(fresh, name)), samples(fresh, name)) for name in FINISHED}
    expected = {name: (comparable(results(recorded, name)), samples(recorded, name)) for name in FINISHED}
    for name in FINISHED:
        assert differences(list(found[name]), list(expected[name]), tolerance_of(name), name) == []


def test_fresh_runs_write_the_same_records(recorded: Path, fresh: Path) -> None:
    before, now = records(recorded), records(fresh)
    for name in FINISHED:
        assert differences(now[name].spec, before[name].spec, where=name) == []
        assert differences(now[name].manifest["model"], before[name].manifest["model"], where=name) == []
        summaries = [dict(entry[name].summary or {})["tasks"] for entry in (now, before)]
        assert differences(*summaries, tolerance_of(name), name) == []


def test_fresh_runs_store_the_same_values_of_documents(recorded: Path, fresh: Path) -> None:
    before, now = records(recorded), records(fresh)
    for name in FINISHED:
        found, expected = values(fresh, now[name].id), values(recorded, before[name].id)
        kept = -1 if name == "tiny" else None  # the last column holds the values, see `tolerance_of`
        assert [row[:kept] for row in found] == [row[:kept] for row in expected]


def values(folder: Path, run_id: str) -> list[tuple[Any, ...]]:
    columns = 'task, metric, filter, aggregation, documents, clusters, "values"'
    with closing(sqlite3.connect(folder / "store.db")) as database:
        return database.execute(
            f"SELECT {columns} FROM document_values WHERE run = ? ORDER BY task, metric, filter", (run_id,)
        ).fetchall()


def test_fresh_responses_are_those_recorded(recorded: Path, fresh: Path) -> None:
    before, now = (responses(folder) for folder in (recorded, fresh))
    assert before.keys() <= now.keys()
    assert len(now.keys() - before.keys()) == 44 - ANSWERED
    assert [key.hex() for key in before if not alike(now[key], before[key])] == []


def responses(folder: Path) -> dict[bytes, tuple[Any, ...]]:
    columns = "key, fingerprint, total, is_greedy, token_count, prompt_tokens, truncated, extra"
    with closing(sqlite3.connect(folder / "store.db")) as database:
        rows = database.execute(f"SELECT {columns} FROM responses JOIN models ON models.id = responses.model")
        return {key: tuple(rest) for key, *rest in rows}


def alike(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    (model, total, *rest), (other_model, other_total, *other) = one, two
    same = total == other_total or math.isclose(total, other_total, rel_tol=1e-5)
    return model == other_model and same and rest == other
