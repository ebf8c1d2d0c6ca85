"""Report of `assay compare`: terminal, Markdown, JSON, and JUnit XML for CI servers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any
from unicodedata import combining, east_asian_width
from xml.sax.saxutils import escape, quoteattr

from assay.core.plural import plural
from assay.core.scores import Estimate
from assay.report.result_files import ReportFormats, with_file_keys
from assay.report.safe_names import printable
from assay.report.tables import format_number, markdown_table
from assay.studies.compare.compare_values import RunComparison, Uncompared
from assay.studies.paired.paired_values import Agreement, PairedScore, RankTable
from assay.studies.paired.verdicts import level_text

# With more pairs, ranks are more useful to a reader; the JSON data lists all pairs.
_MOST_PAIRS = 60
_MOST_FAILURES = 10
# Blanks between columns.
_GAP = 2
# Rounding error of an end that is 0.
_TOLERANCE = 1e-12
_SUITE = "assay compare"
# Headings of the columns that identify a row.
_NAMES = ("Task, metric", "Systems", "Rank", "System")


def comparison_formats(gate: float | None = None, width: int | None = None) -> ReportFormats:
    """The formats of a comparison.

    Args:
        gate: the margin of `--fail_if_worse`, 0 for none; None without a gate.
        width: width of the terminal that the text is for; None for a file.
    """
    return ReportFormats(
        "comparison",
        {
            "text": (".txt", partial(comparison_text, width=width)),
            "markdown": (".md", comparison_markdown),
            "json": (".json", lambda found: json.dumps(comparison_data(found), indent=2, ensure_ascii=False)),
            "junit": (".xml", lambda found: comparison_junit(found, gate is not None, gate or None)),
        },
    )


# Keys of the file format that differ from the names of the fields.
_KEYS = {"options": "wish"}
_OPTION_KEYS = {"predictions": "picks"}
_PAIR_KEYS = {"prediction_agreement": "picks", "run_differences": "differing", "caveats": "remarks"}


def comparison_data(found: RunComparison) -> dict[str, Any]:
    """The comparison as JSON data; non-finite numbers are null."""
    data: dict[str, Any] = _plain(asdict(found))
    data["options"] = with_file_keys(data["options"], _OPTION_KEYS)
    data["pairs"] = [with_file_keys(pair, _PAIR_KEYS) for pair in data["pairs"]]
    return with_file_keys(data, _KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):  # questions are data, and real data has lone surrogates
        return printable(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def comparison_text(found: RunComparison, width: int | None = None) -> str:
    """The comparison for a terminal.

    Args:
        found: the comparison.
        width: width of the terminal: wider tables continue below, longer sentences are wrapped; None for no limit.
    """
    lines = _lines(found, partial(_aligned, width=width), "")
    return "\n".join(part for line in lines for part in _shown(line, width))


class _TableLine(str):
    """A line of a table, which is never wrapped."""

    __slots__ = ()


def _shown(line: str, width: int | None) -> list[str]:
    text = printable(line)
    return [text] if width is None or isinstance(line, _TableLine) else _wrapped(text, width)


def _wrapped(line: str, width: int) -> list[str]:
    """A sentence in lines of at most `width` cells; a longer word, such as a name, is not split."""
    if _cells(line) <= width:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()))
    first, *words = line.split()
    lines = [margin + first]
    for word in words:
        longer = f"{lines[-1]} {word}"
        lines = [*lines[:-1], longer] if _cells(longer) <= width else [*lines, margin + word]
    return lines


def comparison_markdown(found: RunComparison) -> str:
    """The comparison as a Markdown page."""
    return printable("\n".join(_lines(found, markdown_table, "## "))) + "\n"


def _lines(found: RunComparison, layout: Any, heading: str) -> Iterator[str]:
    is_pair = len(found.systems) == 2
    if heading:
        yield f"# {' and '.join(system.label for system in found.systems[:4])}{' …' if len(found.systems) > 4 else ''}"
        yield ""
    rows = [[system.label, system.run, system.model] for system in found.systems]
    yield from layout(["System", "Run", "Model"], rows)
    for table in found.tables:
        yield ""
        yield f"{heading}{_title(table)}: {_legend(table)}"
        yield ""
        yield from layout(*_places(table))
    shown = found.pairs[:_MOST_PAIRS]
    for rows_of in (_scores, _sizes, partial(_power_columns, detect=found.options.detect), _agreements):
        heads, rows = rows_of(shown, not is_pair)
        # A screen has room for one pair's agreement, which is a line below.
        if rows_of is not _agreements or (rows and heading):
            yield ""
            yield from layout(heads, rows)
    printed = ""
    for pair in shown:
        agreed = _agreed(pair) if not heading and (is_pair or found.options.predictions) else ()
        lines = list(_pair_lines(pair, "- " if heading else "  ", pair.verdict != found.verdict, agreed))
        if lines and _name(pair) != printed:
            printed = _name(pair)
            yield from ["", f"{heading}{printed}", *([""] if heading else [])]
        yield from lines
    if len(found.pairs) > len(shown):
        yield ""
        yield f"{plural(len(found.pairs) - len(shown), 'more pair')}: see --format json"
    yield ""
    yield from (f"{'- ' if heading else ''}note: {text}" for text in found.notices)
    # The last line may continue the verdict over all tasks.
    ends = found.verdict
    yield from (
        own.verdict for own in found.overall[:_MOST_PAIRS] if not ends.startswith(own.verdict.removesuffix("."))
    )
    yield f"{'**' if heading else ''}{found.verdict}{'**' if heading else ''}"


def _name(pair: PairedScore) -> str:
    return f"{pair.task}, {pair.metric}{'' if pair.filter == 'none' else f' ({pair.filter})'}"


def _title(table: RankTable) -> str:
    task = table.task if table.task is not None else "all tasks, each counted once"
    return f"{task}, {table.metric}{'' if table.filter == 'none' else f' ({table.filter})'}"


def _legend(table: RankTable) -> str:
    if any(place.letters for place in table.places):
        return "systems that share a letter cannot be told apart"
    return "systems with overlapping ranks cannot be told apart; letters are left out because too many would be needed"


def _places(table: RankTable) -> tuple[list[str], list[list[str]]]:
    rows = [
        [place.ranks.text, place.label, place.letters, *_score(place.estimate), f"{place.estimate.n:,}"]
        for place in table.places
    ]
    return ["Rank", "System", "Letters", "Score", "Interval", "n"], rows


def _score(estimate: Estimate) -> tuple[str, str]:
    return format_number(estimate.value), _interval(estimate)


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "–"
    return f"{format_number(estimate.low)} … {format_number(estimate.high)}"


def _difference_interval(estimate: Estimate) -> str:
    """The same for a difference; an end that is not 0 must not be displayed as 0."""
    if estimate.low is None or estimate.high is None:
        return "–"
    return " … ".join(map(_end, (estimate.low, estimate.high)))


def _end(value: float) -> str:
    text = format_number(value)
    return f"{value:.1g}" if value and abs(value) > _TOLERANCE and not float(text.replace(",", "")) else text


def _scores(pairs: Sequence[PairedScore], names_pairs: bool) -> tuple[list[str], list[list[str]]]:
    """Scores, difference, interval and test of each pair."""
    heads = ["n", "First", "Second", "Second − first", "Interval", "Level", "Test", "p", "Adjusted p"]
    rows = []
    for pair in pairs:
        values = [pair.scores[0].value, pair.scores[1].value, pair.difference.value]
        ends = [_difference_interval(pair.difference), level_text(pair.difference.level)]
        test = [pair.test, _p(pair.p), _p(pair.adjusted)]
        rows.append([f"{pair.n:,}", *map(format_number, values), *ends, *test])
    return _with_names(pairs, names_pairs, heads, rows)


def _sizes(pairs: Sequence[PairedScore], names_pairs: bool) -> tuple[list[str], list[list[str]]]:
    """Documents won and lost, effect size, paired and unpaired standard error."""
    heads = ["Higher", "Lower", "Equal", "Effect", "SE", "SE unpaired", "Correlation"]
    rows = []
    for pair in pairs:
        errors = [format_number(pair.difference.stderr), format_number(pair.unpaired)]
        link = "–" if pair.correlation is None else f"{pair.correlation:.2f}"
        rows.append([*map(_count, (pair.wins, pair.losses, pair.ties)), _effect(pair), *errors, link])
    return _with_names(pairs, names_pairs, heads, rows)


def _power_columns(
    pairs: Sequence[PairedScore], names_pairs: bool, detect: float | None
) -> tuple[list[str], list[list[str]]]:
    """Detectable difference and documents needed, at 80 % power."""
    heads = ["Detectable with n", "n, observed effect"]
    heads += [] if detect is None else [f"n to detect {detect:g}"]
    rows = []
    for pair in pairs:
        requested = [] if detect is None else [_count(pair.needed_to_detect)]
        rows.append([format_number(pair.detectable), _count(pair.needed), *requested])
    return _with_names(pairs, names_pairs, heads, rows)


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _agreements(pairs: Sequence[PairedScore], names_pairs: bool) -> tuple[list[str], list[list[str]]]:
    """Per-document agreement of the pairs for which it is known."""
    known = [pair for pair in pairs if pair.agreement is not None or pair.prediction_agreement is not None]
    has_predictions = any(pair.prediction_agreement is not None for pair in known)
    rows = [
        [*_agreement(pair.agreement), *(_agreement(pair.prediction_agreement) if has_predictions else ())]
        for pair in known
    ]
    heads = ["Same outcome", "κ", *(["Same prediction", "κ of predictions"] if has_predictions else [])]
    return _with_names(known, names_pairs, heads, rows)


def _agreement(found: Agreement | None) -> tuple[str, str]:
    return ("–", "–") if found is None else (f"{100 * found.equal:.1f} %", _kappa(found.kappa))


def _kappa(estimate: Estimate) -> str:
    if estimate.value is None:
        return "–"
    ends = f" ({estimate.low:.2f} … {estimate.high:.2f})" if None not in (estimate.low, estimate.high) else ""
    return f"{estimate.value:.2f}{ends}"


def _agreed(pair: PairedScore) -> Iterator[str]:
    """The agreement as lines; that of outcomes is omitted if all are the same, which the verdict says."""
    outcomes = None if pair.outcome == "same" else pair.agreement
    for what, found in (("outcome", outcomes), ("prediction", pair.prediction_agreement)):
        if found is not None:
            printed = f"the same {what} in {100 * found.equal:.1f} % of {plural(found.kappa.n, 'document')}"
            kappa = "" if found.kappa.value is None else f", Cohen's κ {_kappa(found.kappa)}"
            yield f"{printed}{kappa}"


def _with_names(
    pairs: Sequence[PairedScore], names_pairs: bool, heads: list[str], rows: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    first = [[_name(pair), *([f"{pair.second} − {pair.first}"] if names_pairs else [])] for pair in pairs]
    named = [[*head, *row] for head, row in zip(first, rows, strict=True)]
    return ["Task, metric", *(["Systems"] if names_pairs else []), *heads], named


def _p(value: float | None) -> str:
    return "–" if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _effect(pair: PairedScore) -> str:
    if pair.effect is None or pair.effect.value is None:
        return "–"
    ends = [pair.effect.low, pair.effect.high]
    shown = f" ({' … '.join(f'{end:.3g}' for end in ends if end is not None)})" if None not in ends else ""
    return f"{pair.effect.name} {pair.effect.value:.3g}{shown}"


def _pair_lines(pair: PairedScore, mark: str, with_verdict: bool, agreed: Iterable[str]) -> Iterator[str]:
    """A pair in words; its verdict only if the comparison does not end with it."""
    if with_verdict:
        yield mark + pair.verdict
    yield from (mark + text for text in agreed)
    if pair.margin is not None:
        low, high = pair.margin.low, pair.margin.high
        claims = [
            f"{'equivalent' if pair.margin.is_equivalent else 'not shown to be equivalent'}",
            "no direction"
            if pair.margin.is_not_worse is None
            else "non-inferior"
            if pair.margin.is_not_worse
            else "not shown to be non-inferior",
        ]
        yield f"{mark}margin {pair.margin.margin:g}: {format_number(low)} … {format_number(high)}: {', '.join(claims)}"
    # The first table names the models, the verdict several differences.
    others = [
        text for text in pair.run_differences if len(pair.run_differences) == 1 and not text.startswith("model: ")
    ]
    yield from (f"{mark}differs: {text}" for text in others)
    yield from (f"{mark}note: {text}" for text in pair.caveats)
    for flip in pair.flips:
        question = f": {flip.question}" if flip.question else ""
        yield f"{mark}document {flip.document}: {flip.first:g} → {flip.second:g}{question}"


def _aligned(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> Iterator[_TableLine]:
    """Aligned columns; those that do not fit the width follow in a further table, after the names.

    If the names leave no room for a column, they get lines of their own.
    """
    lines = [list(headings), *map(list, rows)]
    widths = [max(map(_cells, column)) for column in zip(*lines, strict=True)]
    names = [place for place, heading in enumerate(headings) if heading in _NAMES]
    rest = [place for place in range(len(widths)) if place not in names]
    taken = sum(widths[place] + _GAP for place in names)
    is_apart = width is not None and taken + max(widths[place] for place in rest) > width
    for number, columns in enumerate(_parts(rest, widths, width, _GAP if is_apart else taken)):
        if number:
            yield _TableLine("")
        for line in lines:
            if is_apart:
                yield from map(_TableLine, _apart([line[place] for place in names], width or 0))
            yield _TableLine(" " * _GAP * is_apart + _joined(line, widths, columns if is_apart else [*names, *columns]))


def _parts(places: Sequence[int], widths: Sequence[int], width: int | None, before: int) -> list[list[int]]:
    """The columns in groups that fit the width after the names."""
    found: list[list[int]] = []
    for place in places:
        taken = before + sum(widths[other] + _GAP for other in found[-1]) + widths[place] if found else 0
        if not found or (width is not None and taken > width):
            found.append([])
        found[-1].append(place)
    return found


def _apart(names: Sequence[str], width: int) -> list[str]:
    together = (" " * _GAP).join(names)
    return [together] if _cells(together) <= width else [part for name in names for part in _wrapped(name, width)]


def _joined(line: Sequence[str], widths: Sequence[int], shown: Sequence[int]) -> str:
    cells = [line[place] + " " * (widths[place] - _cells(line[place])) for place in shown]
    return (" " * _GAP).join(cells).rstrip()


def _cells(text: str) -> int:
    """Width of a text on a terminal, in cells."""
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def comparison_junit(found: RunComparison, is_gated: bool, margin: float | None = None) -> str:
    """JUnit XML: one test case per pair, task and metric; pairs that `--fail_if_worse` rejects have failed.

    Args:
        found: the comparison.
        is_gated: whether a worse system is a failure.
        margin: the margin, if any; a system that is not shown to stay within it fails too.
    """
    cases, failures = [], 0
    for pair in found.pairs:
        reason = found.failure(pair, margin) if is_gated else ""
        failures += bool(reason)
        said = " ".join([pair.verdict, *pair.caveats]) if pair.has_too_many_missing else pair.verdict
        printed = f"    <failure message={quoteattr(_clean(f'{reason}: {said}'))}/>" if reason else ""
        printed = printed or f"    <system-out>{escape(_clean(pair.verdict))}</system-out>"
        cases += _case(_name(pair), f"{pair.second} against {pair.first}", printed)
    kind = "failure" if is_gated else "skipped"
    for item in found.uncompared:
        cases += _case(_left_out(item), "not compared", f"    <{kind} message={quoteattr(_clean(item.reason))}/>")
    left = len(found.uncompared)
    failures, skipped = (failures + left, 0) if is_gated else (failures, left)
    counts = f'tests="{len(found.pairs) + left}" failures="{failures}" errors="0" skipped="{skipped}"'
    suite = f'<testsuite name="{_SUITE}" {counts}>'
    if found.notices:
        cases.append("  <system-out>{}</system-out>".format("\n".join(escape(_clean(text)) for text in found.notices)))
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', suite, *cases, "</testsuite>", ""])


def _case(about: str, name: str, printed: str) -> list[str]:
    return [
        f"  <testcase classname={quoteattr(_clean(about))} name={quoteattr(_clean(name))}>",
        printed,
        "  </testcase>",
    ]


def _left_out(item: Uncompared) -> str:
    return item.task if item.metric is None else f"{item.task}, {item.metric}"


def gate_lines(found: RunComparison, margin: float | None = None) -> list[str]:
    """Why a gate fails, a line for each reason; empty if it passes."""
    lines = [
        f"{_name(pair)}, {pair.second} against {pair.first}: {reason}"
        for pair in found.pairs
        if (reason := found.failure(pair, margin))
    ]
    lines += [f"{_left_out(item)}: not compared: {item.reason}" for item in found.uncompared]
    more = [f"{len(lines) - _MOST_FAILURES:,} more"] if len(lines) > _MOST_FAILURES else []
    return [f"gate failed: {printable(line)}" for line in (*lines[:_MOST_FAILURES], *more)]


def _clean(text: str) -> str:
    """XML has no control characters, not even escaped ones, and no lone surrogates."""
    return "".join(letter if letter.isprintable() or letter == " " else "\ufffd" for letter in printable(text))
