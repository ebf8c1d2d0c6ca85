"""A study of methods as tables of text, Markdown and JSON data. Accuracies are in percent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from assay.core.scores import Estimate, MetricResult
from assay.report.result_files import with_file_keys
from assay.report.tables import Section, format_number, p_value, percent, section_markdown
from assay.stats.power import ALPHA
from assay.studies.methods.methods_values import (
    NO_PREDICTION,
    MethodsCell,
    MethodsStudy,
    PredictionChanges,
    RankChange,
    Spread,
)
from assay.studies.paired.paired_values import Comparison
from assay.studies.paired.verdicts import level_text

_CHANGES_SHOWN = 10


def sections(study: MethodsStudy, most_changes: int | None = _CHANGES_SHOWN) -> list[Section]:
    """All tables of a study; those that would be empty are left out.

    Args:
        study: the study.
        most_changes: documents to list per model, task and style; None for all.
    """
    found = [
        _scores(study),
        _spreads(study),
        _changes(study),
        _changed_documents(study, most_changes),
        _comparisons(study),
        _diagnostics(study),
        _lengths(study),
        _places(study),
        _requests(study),
    ]
    return [section for section in found if section.rows]


def summary(study: MethodsStudy) -> list[Section]:
    """The tables that fit on a screen, and one line about each of the others."""
    found = (_narrow_scores(study), _narrow_spreads(study), _changes(study), _ranking(study), _requests(study))
    return [section for section in found if section.rows or section.notes]


def _ranking(study: MethodsStudy) -> Section:
    """The conclusion of the comparison of models."""
    compared = _comparisons(study)
    return Section("Does the ranking of the models depend on the method?", (), (), compared.notes)


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return percent(estimate.value)
    return f"{percent(estimate.value)} [{percent(estimate.low)}, {percent(estimate.high)}]"


def _scores(study: MethodsStudy) -> Section:
    cells = {(cell.model, cell.task, cell.method, cell.style): cell for cell in study.cells}
    methods = list(dict.fromkeys(cell.method for cell in study.cells))
    rows = []
    for task in study.tasks:
        for model in study.models:
            for method in methods:
                own = [cells.get((model, task, method, style)) for style in study.styles]
                if any(own):
                    counts = sorted({cell.estimate.n for cell in own if cell is not None})
                    shown = [_interval(cell.estimate) if cell else "–" for cell in own]
                    rows.append((task, model, method, *shown, "–".join(map(str, counts[:1] + counts[1:][-1:]))))
    chances = ", ".join(f"{task} {percent(chance)}" for task, chance in study.chances.items())
    headings = ("Task", "Model", "Method", *study.styles, "n")
    notes = (f"Picking at random: {chances}",) if chances else ()
    return Section("Accuracy in %, with 95 % interval", headings, tuple(rows), notes)


def _narrow_scores(study: MethodsStudy) -> Section:
    """The same scores with task, model and n on a line of their own: columns are styles only."""
    whole = _scores(study)
    rows: list[tuple[str, ...]] = []
    above: tuple[str, ...] = ()
    for task, model, method, *values, n in whole.rows:
        if above != (task, model):
            above = (task, model)
            rows.append((f"{task}, {model} (n = {n})", *("" for _ in values)))
        rows.append((f"  {method}", *values))
    return Section(whole.title, ("Task, model and method", *study.styles), tuple(rows), whole.notes)


def _spreads(study: MethodsStudy) -> Section:
    rows = tuple(
        (
            item.task,
            item.model,
            item.style or "all",
            percent(item.delta),
            _by_chance(item),
            item.lowest,
            item.highest,
            p_value(item.p),
            str(item.n),
        )
        for item in study.spreads
    )
    headings = ("Task", "Model", "Style", "δ in points", "by chance", "Lowest", "Highest", "p (Cochran's Q)", "n")
    notes = (
        "By chance: δ of equally good methods on as many documents, its mean and, in parentheses, its 95th percentile "
        "(bootstrap over documents, each method's mean subtracted). Sampling explains a smaller δ.",
        *_within_chance(study),
    )
    return Section("Spread δ: highest minus lowest accuracy", headings, rows, notes)


def _narrow_spreads(study: MethodsStudy) -> Section:
    """The same with task, model and n on a line of their own, and without the style in the names of the two ends."""
    rows: list[tuple[str, ...]] = []
    above = ""
    for item in study.spreads:
        head = f"{item.task}, {item.model} (n = {item.n})"
        rows += [(head, *[""] * 4)] if head != above else []
        above = head
        ends = (item.lowest, item.highest)
        names = ends if item.style is None else [name.removesuffix(f"@{item.style}") for name in ends]
        style, shown = item.style or "all", (percent(item.delta), _by_chance(item), " → ".join(names), p_value(item.p))
        rows.append((f"  {style}", *shown))
    headings = ("Task, model and style", "δ in points", "by chance", "lowest → highest", "p (Cochran's Q)")
    whole = _spreads(study)
    return Section(whole.title, headings, tuple(rows), whole.notes)


def _by_chance(item: Spread) -> str:
    return "–" if item.chance is None else f"{percent(item.chance.expected)} (< {percent(item.chance.reach)})"


def _within_chance(study: MethodsStudy) -> Iterator[str]:
    """A note on how many spreads are significant."""
    known = [item for item in study.spreads if item.chance is not None]
    beyond = sum(item.delta > item.chance.reach for item in known if item.chance is not None)
    if known:
        yield f"{beyond} of {len(known)} spreads are beyond chance; 1 in 20 would be if all methods were equally good."


def _changes(study: MethodsStudy) -> Section:
    rows = tuple(
        (item.task, item.model, item.style, str(len(item.changes)), percent(_share(item)), _widest(item), str(item.n))
        for item in study.changes
    )
    headings = ("Task", "Model", "Style", "Documents", "in %", "Two methods furthest apart", "of n")
    return Section("Documents whose answer depends on the method", headings, rows)


def _share(item: PredictionChanges) -> float | None:
    return len(item.changes) / item.n if item.n else None


def _widest(item: PredictionChanges) -> str:
    if not item.changes:
        return "–"
    pair = max(item.pairs, key=item.pairs.__getitem__)
    return f"{pair[0]} and {pair[1]}: {item.pairs[pair]}"


def _changed_documents(study: MethodsStudy, most: int | None) -> Section:
    rows, notes = [], []
    methods = list(
        dict.fromkeys(method for item in study.changes for change in item.changes for method in change.predictions)
    )
    for item in study.changes:
        shown = item.changes if most is None else item.changes[:most]
        for change in shown:
            found = change.predictions
            texts = [_choice_text(found[method]) if method in found else "" for method in methods]
            rows.append((change.document, item.model, item.style, *texts, ", ".join(map(str, change.right))))
        if len(shown) < len(item.changes):
            notes.append(f"{item.task}, {item.model}, {item.style}: {len(item.changes) - len(shown)} more")
    title = "Choices picked, by place from 0, where methods disagree"
    return Section(title, ("Document", "Model", "Style", *methods, "right"), tuple(rows), tuple(notes))


def _choice_text(pick: int) -> str:
    return "none" if pick == NO_PREDICTION else str(pick)


def _comparisons(study: MethodsStudy) -> Section:
    rows = tuple(
        (item.task, item.cell, f"{item.first} − {item.second}", *_difference(item), p_value(item.adjusted), str(item.n))
        for item in study.comparisons
    )
    headings = ("Task", "Method@style", "Models", "Difference in points", "Interval", "Level", "p (Holm)", "n")
    notes = tuple(rank_sentence(item) for item in study.rank_changes)
    if rows and not notes:
        notes = ("No two models change places between methods or styles.",)
    if rows:
        separated = sum(item.adjusted < ALPHA for item in study.comparisons)
        notes += (f"{separated} of {len(rows)} comparisons are beyond chance (p < {ALPHA} after Holm's correction).",)
    return Section("Models compared on the same documents", headings, rows, notes)


def _difference(item: Comparison) -> tuple[str, str, str]:
    interval = "–" if item.low is None or item.high is None else f"[{percent(item.low)}, {percent(item.high)}]"
    return percent(item.difference), interval, level_text(item.level)


def rank_sentence(change: RankChange) -> str:
    """How the order of two models changes, in one sentence."""
    one, other = change.one, change.other
    sentence = (
        f"{change.task}: {one.first} scores {percent(one.difference)} points more than {one.second} under {one.cell} "
        f"(p {p_value(one.adjusted)}), but {percent(-(other.difference or 0.0))} less under {other.cell} "
        f"(p {p_value(other.adjusted)})."
    )
    proven = "The ranking depends on the method, beyond chance."
    return f"{sentence} {proven if change.is_proven else 'The data cannot tell whether the ranking changes.'}"


def _diagnostics(study: MethodsStudy) -> Section:
    names = list(dict.fromkeys(_named(metric) for found in study.diagnostics.values() for metric in found))
    rows = []
    for (model, task, style), metrics in study.diagnostics.items():
        values = {_named(metric): metric.estimate.value for metric in metrics}
        if values:
            rows.append((task, model, style, *(format_number(values.get(name)) for name in names)))
    rows.sort(key=lambda row: study.tasks.index(row[0]))
    return Section("Other diagnostics of the same answers", ("Task", "Model", "Style", *names), tuple(rows))


def _named(metric: MetricResult) -> str:
    return metric.metric if metric.filter == "none" else f"{metric.metric} ({metric.filter})"


def _lengths(study: MethodsStudy) -> Section:
    rows = tuple(
        (item.task, item.model, item.cell, _number(item.everywhere), _number(item.missed), str(item.missed.n))
        for item in study.length_biases
        if item.missed.n
    )
    headings = ("Task", "Model", "Method@style", "all", "where it errs, with 95 % interval", "errors")
    title = "Length of the right choice minus median of the wrong ones, in characters"
    note = (
        "Positive where the right choice is long: a method that errs more there than elsewhere favours short answers."
    )
    return Section(title, headings, rows, (note,))


def _number(estimate: Estimate) -> str:
    if estimate.value is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.1f}"
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"


def _places(study: MethodsStudy) -> Section:
    rows = tuple(
        (item.task, item.model, item.cell, _counts(item.picked), _counts(item.right), str(item.none))
        for item in study.places
    )
    headings = ("Task", "Model", "Method@style", "picked", "right", "none picked")
    return Section("How often each position is predicted, and how often it is right", headings, rows)


def _counts(counts: Sequence[int]) -> str:
    return " · ".join(map(str, counts))


def _requests(study: MethodsStudy) -> Section:
    base = study.requests.get("raw", 0)
    rows = [("raw, token, character, byte", f"{base:,}", "–")]
    for name, count in study.requests.items():
        if name != "raw":
            rows.append((name, f"{count:,}", f"+ {percent(count / base if base else None)} %"))
    title = "Distinct requests: shared by all methods, and needed by one alone"
    return Section(title, ("Methods", "Requests", "more"), tuple(rows) if base else ())


def markdown(study: MethodsStudy, most_changes: int | None = _CHANGES_SHOWN) -> str:
    """The whole study as Markdown."""
    return "\n\n".join(section_markdown(section) for section in sections(study, most_changes)) + "\n"


def study_data(study: MethodsStudy) -> dict[str, Any]:
    """The whole study as JSON data: every number, and every prediction of every document."""
    return {
        "models": list(study.models),
        "tasks": list(study.tasks),
        "styles": list(study.styles),
        "runs": {label: {"run": result.run_id, "store": result.store} for label, result in study.runs.items()},
        "cells": [_cell_data(cell) for cell in study.cells],
        "documents": {key: asdict(question) for key, question in study.questions.items()},
        "chances": dict(study.chances),
        "spreads": [asdict(item) for item in study.spreads],
        "changes": [dict(_changes_data(item)) for item in study.changes],
        "comparisons": [asdict(item) for item in study.comparisons],
        "rank_changes": [{**asdict(item), "sentence": rank_sentence(item)} for item in study.rank_changes],
        "length_biases": [asdict(item) for item in study.length_biases],
        "places": [asdict(item) for item in study.places],
        "diagnostics": [
            {"model": model, "task": task, "style": style, "metrics": [asdict(metric) for metric in metrics]}
            for (model, task, style), metrics in study.diagnostics.items()
        ],
        "requests": dict(study.requests),
        "notices": list(study.notices),
    }


def _cell_data(cell: MethodsCell) -> dict[str, Any]:
    return {
        "model": cell.model,
        "task": cell.task,
        "style": cell.style,
        "method": cell.method,
        "estimate": asdict(cell.estimate),
        "documents": list(cell.documents),
        "picks": list(cell.predictions),
        "hits": list(cell.hits),
    }


def _changes_data(item: PredictionChanges) -> Iterator[tuple[str, Any]]:
    yield from {"model": item.model, "task": item.task, "style": item.style, "n": item.n}.items()
    yield "documents", [with_file_keys(asdict(change), {"predictions": "picks"}) for change in item.changes]
    yield "pairs", [{"methods": list(pair), "documents": count} for pair, count in item.pairs.items()]
