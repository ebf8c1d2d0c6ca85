"""Write docs/results.md: the scores of one run on the library, with a table for each family.

Takes the result file of the run, or its folder, whose newest result file counts; gives the page:

    python scripts/make_results_page.py RESULTS.json [PAGE]

Chance, majority and rows are those that the run recorded; published numbers are those of today's cards. If the store
that the result file names is there, the run is reopened, with its data, to see which tasks get one answer throughout.
"""

from __future__ import annotations

import json
import math
import re
import runpy
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.core.identity import Fingerprint
from assay.core.plural import plural
from assay.core.scores import Estimate, MetricResult
from assay.models.download.named import NAMED_MODELS
from assay.stats.pooled import group_estimate
from assay.store.store import Store
from assay.studies.paired.predictions import gold_choices_of, predictions_of
from assay.studies.paired.recorded_tasks import ReopenedTask, reopen_tasks
from assay.studies.references.model_names import ModelName, matching_name, model_names
from assay.studies.references.published import PublishedScore, compared_score
from assay.tasks.cards import cards
from assay.tasks.catalog import Catalog
from assay.tasks.catalog_entries import TaskEntry

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
FAMILIES: Mapping[str, str] = runpy.run_path(str(Path(__file__).with_name("make_benchmark_page.py")))["FAMILIES"]
# A benchmark with more configurations is one row with their mean.
MOST_ROWS = 3
# A longer list of tasks is not shown in the command.
MOST_TASKS = 20
PACKAGES = ("torch", "transformers", "tokenizers", "datasets")
ABOVE, BELOW, EQUAL, ONE = "above", "below", "not told apart", "one answer"
HEADINGS = ("Task", "Metric", "Score", "95 % interval", "Chance", "Against chance", "Documents", "Beside it")
CONSTANT = re.compile(r'(?P<task>[^:]+): (?P<text>".*" is predicted in all \d+ documents and correct in \d+ of them)')
# An answer to so large a share of the documents is worth saying.
MOSTLY = 0.8
# With so large a share the score says how often that answer is right, and nothing about the model.
ALWAYS = 0.95
WHY = """
Intervals of so few documents are wide: a number inside agrees within that width and no closer. Numbers outside may
differ by the weights (fewer bits than the published model has), the tool's own prompts and few-shot examples, and the
rows of a partial copy; `assay explain TASK --reference MODEL` lists what a source states.
"""
# What was found where a score is below chance, by task or benchmark; shown only for those that are.
THAT = (
    "the model prefers *that*, the commoner word, with a gap or without one: the sets without a gap, where *that* is "
    "right, are nearly always right. People agree with these labels in 75 to 77 % (BLiMP's own check)"
)
PERSON = (
    "ten of the twelve choices mean *unknown*, so a guess is right in five of six rows that do not decide; the model "
    "nearly always names a person"
)
FINDINGS: Mapping[str, str] = {
    "mmlu_generative": "an answer ends at its first line break, and the model begins with one: nine of ten answers are "
    "empty",
    "truthfulqa_gen": "the questions were selected so that a common misconception is the likelier answer",
    "bbq": PERSON,
    "bbq_categories": PERSON,
    "raft": "most tasks get one class in 70 to 100 % of the documents, and macro F1 is then below that of guessing",
    "blimp_wh_vs_that_with_gap": THAT,
    "blimp_wh_vs_that_with_gap_long_distance": THAT,
    "blimp_only_npi_scope": "both sentences have the same words, and the place of *only* that is wrong is the likelier "
    "one. People agree with these labels in 72 % (BLiMP's own check)",
    "blimp_sentential_subject_island": "people agree with these labels in 61 %, and GPT-2 is right in 36 % (BLiMP's "
    "own check)",
}

CUT_GROUPS = "the sample cuts the groups, and smaller groups are easier, so there is no level of chance"

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A task of the run, or a benchmark with the mean of its configurations.

    Attributes:
        benchmark: the group over all configurations of the task's file, else the task.
        score: the metric to quote; None if the task has no score.
        chance: score of guessing; None if it is undefined.
        majority: score of always choosing the commonest class; None if the card does not state it.
        shots: few-shot examples; None for a benchmark.
        documents: evaluated documents, and all of the copy.
        remarks: what a reader needs beside the score.
        constant: share of the documents that get the commonest answer, if that is large; of a benchmark, of its tasks.
        parts: the configurations of a benchmark.
    """

    name: str
    family: str
    benchmark: str
    score: MetricResult | None
    chance: float | None
    majority: float | None
    shots: int | None
    documents: tuple[int, int]
    remarks: tuple[str, ...] = ()
    constant: float = 0.0
    parts: tuple[Row, ...] = ()

    @property
    def estimate(self) -> Estimate:
        return Estimate(None, None, None, None, 0, "none") if self.score is None else self.score.estimate

    @property
    def verdict(self) -> str:
        """Where the interval lies; empty without a level of chance to compare with."""
        low, high = self.estimate.low, self.estimate.high
        if not self.chance or low is None or high is None:
            return ""
        if self.constant >= (0.5 if self.parts else ALWAYS):
            return ONE
        return ABOVE if low > self.chance else BELOW if high < self.chance else EQUAL


# The rows of a run


def rows_of(result: Facts) -> list[Row]:
    """The tasks of a result file, in the order of families and benchmarks."""
    entries = Catalog().entries
    said = [found for text in result["notices"] if (found := CONSTANT.fullmatch(text))]
    constant = {found["task"]: (found["text"], 1.0) for found in said} | _frequent_answers(result)
    recorded = result["manifest"]["tasks"]
    found = [_row(name, own, recorded[name], entries, constant) for name, own in result["tasks"].items()]
    return sorted(found, key=lambda row: (row.family == "demo", row.family, row.benchmark))


def _row(
    name: str, own: Facts, entry: Facts, entries: Mapping[str, TaskEntry], constant: Mapping[str, tuple[str, float]]
) -> Row:
    card, known = entry.get("card", {}), entries.get(name.partition("@")[0])
    score = _primary(own.get("metrics", ()), card.get("primary", ""))
    counts = own["denominators"]
    text, share = constant.get(name, ("", 0.0))
    is_cut = score is not None and score.metric.startswith("group_") and counts["total"] < counts["available"]
    return Row(
        name=name,
        family=known.family if known is not None else "",
        benchmark=(known.whole if known is not None else "") or name,
        score=score,
        chance=None if is_cut else card.get("chance"),
        majority=None if is_cut else card.get("majority"),
        shots=entry["num_fewshot"],
        documents=(counts["total"], counts["available"]),
        remarks=(*_remarks(counts, entry, score, text), *([CUT_GROUPS] if is_cut else [])),
        constant=share,
    )


def _frequent_answers(result: Facts) -> dict[str, tuple[str, float]]:
    """Task → the label that most documents get, and their share; empty if the store of the run is not there."""
    if not Path(result["store"]).is_file():
        return {}
    found = {}
    with Store(result["store"], may_be_read_only=True) as store:
        record = store.runs.get(result["run"])
        for name, task in reopen_tasks(store, record, list(record.tasks), lambda event: None).items():
            answer = _frequent_answer(task)
            if answer is not None:
                found[name] = answer
    return found


def _frequent_answer(task: ReopenedTask) -> tuple[str, float] | None:
    if task.built is None or task.result is None or not task.result.answered:
        return None
    labels, total = task.result.answered[0].instance.choices, len(task.result.answered)
    if len(labels) < 2 or any(item.instance.choices != labels for item in task.result.answered):
        return None
    score = task.scores()[0]
    predictions = predictions_of(task.built.task, task.result, score.metric, score.filter)
    chosen = {document: index for own in predictions[:1] for document, index in own.items() if index is not None}
    counted = Counter(chosen.values()).most_common(1)
    if not counted or counted[0][1] < MOSTLY * total:
        return None
    golds = gold_choices_of(task.built.task, task.result)
    label, count = counted[0]
    right = sum(index == label and golds[document][1] == (label,) for document, index in chosen.items())
    return (
        f'"{labels[label]}" is predicted in {count} of {total} documents and correct in {right} of them',
        count / total,
    )


def _primary(metrics: Sequence[Facts], primary: str) -> MetricResult | None:
    """The metric to quote, as the card names it, else the first."""
    name, _, pipeline = primary.partition(",")
    fitting = [item for item in metrics if item["metric"] == name and pipeline in ("", item["filter"])]
    if not metrics:
        return None
    item = (fitting or metrics)[0]
    return MetricResult(item["metric"], item["filter"], Estimate(**item["estimate"]), item["higher_is_better"])


def _remarks(counts: Facts, entry: Facts, score: MetricResult | None, constant: str) -> Iterator[str]:
    total, pipeline = counts["total"] or 1, "" if score is None else score.filter
    config, card = entry.get("config", {}), entry.get("card", {})
    split = config.get("test_split") or config.get("validation_split") or ""
    rows, official = entry.get("data", {}).get("rows", {}).get(split), card.get("rows", {}).get(split)
    if rows is not None and official is not None and rows < official:
        yield f"partial copy: {rows:,} of {official:,} rows"
    if constant:
        yield constant
    for count, text in (
        (counts["cut_off"], "of the answers cut off"),
        (counts["unparsed"].get(pipeline, 0), "without an answer that the filter finds"),
        (counts["misses_by_space"].get(pipeline, 0), "wrong by white space alone"),
        (counts["truncated"], "of the prompts cut"),
    ):
        if count:
            yield f"{count / total:.0%} {text}"
    if counts["failed"]:
        yield f"{plural(counts['failed'], 'document')} failed"


def collapsed(rows: Sequence[Row]) -> list[Row]:
    """The rows, with one for a benchmark of many configurations."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.benchmark, []).append(row)
    found, entries = [], Catalog().entries
    for own in parts.values():
        metrics = {(row.score.metric, row.score.filter) for row in own if row.score is not None}
        is_one = len(own) > MOST_ROWS and len(metrics) == 1 and all(row.score is not None for row in own)
        languages = {entries[row.name].languages for row in own if row.name in entries}
        found += [_mean(own, is_translated=len(languages) > 1)] if is_one else own
    return found


def _mean(parts: Sequence[Row], is_translated: bool) -> Row:
    """The mean of all configurations of a benchmark, each counted once.

    Args:
        parts: the configurations.
        is_translated: whether they are languages: the same documents in each, so that their errors add up.
    """
    first = parts[0]
    assert first.score is not None, "the configurations of a mean have scores"
    estimates = [part.estimate for part in parts]
    chances = [part.chance for part in parts]
    verdicts = [part.verdict for part in parts]
    counted = [f"{verdicts.count(word)} {word}" for word in (ABOVE, BELOW) if word in verdicts]
    constant = verdicts.count(ONE)
    families = [0] * len(parts) if is_translated else None
    mean = group_estimate(estimates, [item.n for item in estimates], False, families)
    remarks = [f"mean of {len(parts)} tasks" + (f": {', '.join(counted)} chance" if counted else "")]
    remarks += [f"one answer throughout in {constant} of them"] if constant else []
    remarks += ["the languages share their documents"] if is_translated else []
    return replace(
        first,
        name=first.benchmark,
        score=replace(first.score, estimate=mean),
        chance=None if None in chances else math.fsum(filter(None, chances)) / len(chances),
        majority=None,
        shots=first.shots if len({part.shots for part in parts}) == 1 else None,
        documents=(sum(part.documents[0] for part in parts), sum(part.documents[1] for part in parts)),
        remarks=tuple(remarks),
        constant=constant / len(parts),
        parts=tuple(parts),
    )


# The page


def page(result: Facts) -> str:
    """The page for the part `assay` of a result file."""
    tasks = rows_of(result)
    shown = collapsed(tasks)
    names = _names(result)
    parts = [_head(result, tasks, names), _summary(tasks, shown), _published(result, tasks, shown, names)]
    parts += [_checks(result, tasks, shown), *(_family(name, own) for name, own in _by_family(shown).items())]
    return "\n".join(parts)


def _head(result: Facts, tasks: Sequence[Row], names: Sequence[ModelName]) -> str:
    manifest, spec = result["manifest"], result["manifest"]["spec"]
    named = NAMED_MODELS.get(spec["model"])
    model = names[0].text if names else str(manifest["model"]["name"])
    weights = "" if named is None else f", {named.form_text}"
    packages = ", ".join(f"{name} {manifest['packages'][name]}" for name in PACKAGES if name in manifest["packages"])
    revision = (manifest.get("assay_git") or {}).get("revision", "")[:12]
    version = f"Assay {result['version']}" + (f" (commit {revision})" if revision else "")
    asked, sample = result["requests"], spec["sparing"]["sample"]
    drawn = "" if sample is None else f" {sample:g} random documents of each task."
    limit = spec.get("options", {}).get("generation", {}).get("max_gen_toks")
    drawn += "" if limit is None else f" Generated answers end after {plural(limit, 'token')}."
    weights += f", computed in {manifest['model']['precision']}"
    known = asked["known"]
    resumed = f" Earlier commands, which were stopped, had stored {known:,} of the responses." if known else ""
    return f"""\
# Results of {model.rpartition("/")[2]}

<!-- Made by scripts/make_results_page.py from the result file of the run. -->

One run of {model}{weights}, on every task of [the library](library.md) whose data was in one folder:
{plural(len(tasks), "task")} of {plural(len({row.benchmark for row in tasks}), "benchmark")}.{drawn}

```sh
{_command(manifest)}
```

{time.strftime("%d %B %Y", time.gmtime(manifest["date"]))}; {version}; Python {manifest["python"]}, {packages};
{plural(manifest["cores"], "core")} of {manifest["processor"]}; {asked["unique"]:,} requests, {asked["failed"]:,} of
them failed.{resumed} The same command resumes a run that was stopped.

*Score* is the metric that the [benchmark's card](benchmarks.md) names, with its 95 % interval. *Chance* is the score of
guessing, with that of always choosing the commonest class in brackets. A score is *above* chance if its interval is,
unless nearly every document gets *one answer*.
"""


def _command(manifest: Facts) -> str:
    """The command of the run, without a long list of tasks and the folders of one machine."""
    words = ["assay", *shlex.split(manifest["command"])[1:]]
    for place, word in enumerate(words):
        if word in ("--tasks", "-t") and words[place + 1].count(",") >= MOST_TASKS:
            words[place + 1] = '"$(assay ls tasks --data datasets --format names)"'
        elif word == "--data":
            words[place + 1] = "datasets"
        elif word in ("--store", "--output_path"):
            words[place + 1] = Path(words[place + 1]).name
    return " ".join(words)


def _summary(tasks: Sequence[Row], shown: Sequence[Row]) -> str:
    lines = [
        "## Summary\n\n",
        _line(("Family", "Tasks", "Documents", "Above chance", "Not told apart", "Below", "One answer")),
    ]
    lines.append(_line(["---"] * 7))
    for family, own in _by_family(tasks).items():
        verdicts = [row.verdict for row in own]
        cells = [str(verdicts.count(word)) if any(verdicts) else "–" for word in (ABOVE, EQUAL, BELOW, ONE)]
        lines.append(_line((_title(family), len(own), f"{sum(row.documents[0] for row in own):,}", *cells)))
    levels = [row.verdict for row in tasks if row.verdict]
    whole = [row.verdict for row in shown if row.verdict]
    written = [row for row in tasks if row.chance == 0 and row.estimate.value is not None]
    right = sum((row.estimate.value or 0) > 0 for row in written)
    above, below = (plural(levels.count(word), "is", "are") for word in (ABOVE, BELOW))
    one, compared = plural(levels.count(ONE), "gets", "get"), len(levels) - levels.count(ONE)
    lines.append(
        f"\nOf {plural(len(levels), 'task')} with a level of chance above 0, {one} one answer in at least {ALWAYS:.0%} "
        f"of the documents, so that the score is the share of that answer. Of the other {compared}, **{above} "
        f"significantly above chance**, {levels.count(EQUAL)} cannot be told apart from it and {below} below; by luck "
        f"alone about {compared / 40:.1f} would be above, and as many below. With the configurations of a benchmark "
        f"together, {whole.count(ABOVE)} of {plural(len(whole), 'row')} are above.\n"
    )
    if written:
        lines.append(f"\nOf {plural(len(written), 'task')} with chance 0, {right} have a score above 0.\n")
    return "".join(lines)


def _family(name: str, rows: Sequence[Row]) -> str:
    lines = [f"## {_title(name)}\n\n", _line(HEADINGS), _line(["---"] * len(HEADINGS))]
    lines += [_line(_cells(row)) for row in rows]
    for row in rows:
        if row.parts:
            listed = ", ".join(f"{_short(part, row)} {_number(part.estimate.value)}" for part in row.parts)
            lines.append(f"\n`{row.name}`: {listed}.\n")
    return "".join(lines)


def _cells(row: Row) -> list[str]:
    score, (done, available) = row.score, row.documents
    metric = "" if score is None else score.metric + ("" if score.filter == "none" else f" ({score.filter})")
    level = "–" if row.chance is None else f"{row.chance:.3g}"
    level += "" if row.majority is None else f" ({row.majority:.3g})"
    counted = f"{done:,}" if done == available else f"{done:,} of {available:,}"
    return [
        f"`{row.name}`" + (f", {plural(row.shots, 'shot')}" if row.shots else ""),
        metric,
        _number(row.estimate.value),
        _interval(row.estimate),
        level,
        row.verdict,
        counted,
        "; ".join(row.remarks),
    ]


def _by_family(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.family, []).append(row)
    return found


def _title(family: str) -> str:
    return FAMILIES.get(family, family.replace("_", " ").capitalize()) or "Others"


def _short(part: Row, whole: Row) -> str:
    return part.name.removeprefix(f"{whole.name}_") or part.name


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "–"
    return f"{_number(estimate.low)} … {_number(estimate.high)}"


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(" ".join(str(cell).replace("|", "\\|").split()) for cell in cells) + " |\n"


# Published numbers


def _names(result: Facts) -> list[ModelName]:
    spec = result["manifest"]["spec"]
    return model_names(spec["model"], spec["model_args"], Fingerprint.from_json(result["manifest"]["model"]))


def _published(result: Facts, tasks: Sequence[Row], shown: Sequence[Row], names: Sequence[ModelName]) -> str:
    """The scores beside the published numbers of this model."""
    catalog, named = Catalog(), {row.name: row for row in [*tasks, *shown]}
    known = {name: row for name, row in named.items() if name in catalog.entries}
    facts = dict(zip(known, cards(list(known), catalog), strict=True))
    found: list[tuple[Row, Facts, PublishedScore]] = []
    others: list[str] = []
    for name, row in known.items():
        own = [entry for entry in facts[name].get("references", ()) if matching_name(str(entry["model"]), list(names))]
        for entry in own:
            scores = _scores(result, row)
            score = compared_score(name, entry, scores, row.shots, list(names))
            if score is not None:
                found.append((row, entry, score))
            else:
                reported = ", ".join(dict.fromkeys(item.metric for item in scores))
                others.append(
                    f"- `{name}`: {entry['metric']} {entry['value']:g}{_how(entry)}. Here it reports {reported}.\n"
                )
    lines = ["## Beside published figures\n\n"]
    if not found and not others:
        return lines[0] + "No card has published numbers of this model.\n"
    inside = sum(score.place == "inside" for _, _, score in found)
    sources = ", ".join(dict.fromkeys(score.source for _, _, score in found))
    lines.append(
        f"{inside} of {plural(len(found), 'published number')} are inside the interval of the score here; source: "
        f"{sources}. A published value counts as exact: its own sampling error is not stated.\n\n"
    )
    lines.append(_line(("Task", "Metric", "Published", "Here", "95 % interval", "Inside", "What differs")))
    lines.append(_line(["---"] * 7))
    lines += [_line(_published_cells(result, *item)) for item in found]
    lines.append(WHY)
    return "".join(lines + (["\nPublished, and not measured in this run:\n\n", *others] if others else []))


def _scores(result: Facts, row: Row) -> list[MetricResult]:
    """All scores of a task; the mean alone for a benchmark."""
    if row.parts:
        return [row.score] if row.score is not None else []
    listed = result["tasks"][row.name].get("metrics", ())
    return [MetricResult(x["metric"], x["filter"], Estimate(**x["estimate"]), x["higher_is_better"]) for x in listed]


def _how(entry: Facts) -> str:
    stated = [f"{entry[key]}" for key in ("style", "note") if entry.get(key)]
    return f" ({', '.join(stated)})" if stated else ""


def _published_cells(result: Facts, row: Row, entry: Facts, score: PublishedScore) -> list[str]:
    named = NAMED_MODELS.get(result["manifest"]["spec"]["model"])
    differs = ["" if named is None else named.form_text, str(entry.get("tool", "")).partition(" (")[0]]
    differs += [str(entry.get("note", "")), *(text for text in row.remarks if text.startswith(("partial", "mean of")))]
    if score.shots is not None and row.shots is not None and score.shots != row.shots:
        differs.append(f"{plural(score.shots, 'shot')}, here {row.shots}")
    estimate = Estimate(score.value, None, score.low, score.high, row.documents[0], "")
    side = "yes" if score.place == "inside" else f"no, {score.distance:.3f} {score.place}" if score.distance else "–"
    return [
        f"`{row.name}`",
        score.metric,
        f"{score.published:.3f}",
        _number(score.value),
        _interval(estimate),
        side,
        "; ".join(filter(None, [*differs, f"{row.documents[0]:,} documents"])),
    ]


# Checks of the numbers themselves


def _checks(result: Facts, tasks: Sequence[Row], shown: Sequence[Row]) -> str:
    """What is wrong with the numbers, or looks wrong: impossible values, missing scores, scores below chance."""
    faults = [f"- `{row.name}`: {text}.\n" for row in tasks for text in _faults(result, row)]
    wholes = {row.name for row in shown if row.parts and row.verdict == BELOW}
    below = [row for row in shown if row.verdict == BELOW]
    below += [row for row in tasks if row.verdict == BELOW and row.benchmark not in wholes and row not in shown]
    lines = ["## Checks\n\n"]
    lines += faults or ["No score is missing or impossible, and every interval holds its score.\n"]
    one: dict[str, list[Row]] = {}
    for row in tasks:
        if row.verdict == ONE:
            one.setdefault(row.benchmark, []).append(row)
    if one:
        listed = [f"`{name}`" + (f" ({plural(len(own), 'task')})" if len(own) > 1 else "") for name, own in one.items()]
        lines.append(f"\nOne answer throughout: {', '.join(listed)}.\n")
    if below:
        lines.append("\nBelow chance, and why:\n\n")
        lines += [
            f"- `{row.name}` {_number(row.estimate.value)} ({_interval(row.estimate)}), chance {row.chance:.3g}: "
            f"{_reason(row)}.\n"
            for row in below
        ]
    return "".join(lines)


def _faults(result: Facts, row: Row) -> Iterator[str]:
    value, low, high = row.estimate.value, row.estimate.low, row.estimate.high
    problem = result["tasks"][row.name].get("problem")
    if value is None or not math.isfinite(value):
        yield f"has no score: {problem['text']}" if problem else "has no score"
        return
    if low is not None and high is not None and not low - 1e-9 <= value <= high + 1e-9:
        yield f"has the score {value:g} outside of its interval {low:g} … {high:g}"
    if row.chance is not None and not -1 <= value <= 1:
        yield f"has the score {value:g}, although chance is {row.chance:g}"


def _reason(row: Row) -> str:
    """Why a score is below chance, as far as it is known."""
    told = next((text for key in (row.name, row.benchmark) if (text := FINDINGS.get(key))), "")
    others = [text for text in row.remarks if not text.startswith("partial")]
    return "; ".join(filter(None, [told, *others])) or "not known"


def newest(path: Path) -> Path:
    """A result file; of a folder the newest one."""
    if path.is_file():
        return path
    found = sorted(path.rglob("results_*.json"), key=lambda file: file.stat().st_mtime)
    if not found:
        raise SystemExit(f"{path}: no file results_*.json; expected the folder of assay run --output_path")
    return found[-1]


def main(words: Sequence[str]) -> None:
    """Writes the page for the result file that is named."""
    if not 1 <= len(words) <= 2:
        raise SystemExit("usage: python scripts/make_results_page.py RESULTS.json [PAGE]")
    result = json.loads(newest(Path(words[0])).read_text(encoding="utf-8"))["assay"]
    target = Path(words[1]) if len(words) == 2 else PAGE
    target.write_text(page(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
