"""The models of a matrix over all its tasks, and their ranks: text tables that name the tasks they cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from assay.core.scores import Estimate, FailureBounds
from assay.report.tables import Section, bounds_text, format_number, percent
from assay.stats.power import ALPHA
from assay.stats.ranking import Average
from assay.studies.matrix.matrix_values import Matrix, Ranking, Standing

NONE = "–"
_MOST_LISTED = 12
_RANK_NOTE = (
    "from 1 + the number of significantly better models, to the number of models less the significantly worse ones "
    f"(paired tests on the same documents, p < {ALPHA} after Holm's correction). Models that share a letter cannot "
    "be told apart, and their ranks overlap."
)


def score_text(estimate: Estimate, is_share: bool) -> str:
    """A score with its standard error, in percent if it is a share."""
    shown: Callable[[float | None], str] = percent if is_share else format_number
    return shown(estimate.value) + (f" ± {shown(estimate.stderr)}" if estimate.stderr is not None else "")


# Averages


def standings(matrix: Matrix) -> Section:
    """Every average beside its number of tasks; notes name these tasks. The longer side goes downwards."""
    overall = next((ranking for ranking in matrix.rankings if ranking.task is None), None)
    columns = [("Model", [item.model for item in matrix.standings]), *_averages(matrix)]
    columns.append(("Rank", [rank_text(overall, item.model) for item in matrix.standings]))
    table = [(name, *texts) for name, texts in columns]
    if len(columns) <= len(matrix.models) + 1:
        table = list(zip(*table, strict=True))
    headings, *rows = table
    notes = [*_failed_means(matrix), *_over_which(matrix), *_left_out(matrix)]
    if any(item.win_rate.tasks for item in matrix.standings):
        note = "Win rate: the share of the other models that do worse, beyond chance or not"
        notes.append(f"{note}; the ranks show which differences are more than chance.")
    notes += _rank_notes(matrix, overall)
    return Section("Over all tasks, each counted once", headings, tuple(rows), tuple(notes))


def _averages(matrix: Matrix) -> Iterator[tuple[str, list[str]]]:
    """Heading and texts of every column; the mean over common tasks if models have different ones."""

    def counts(tasks: Callable[[Standing], Sequence[str]]) -> tuple[str, list[str]]:
        return "over tasks", [f"{len(tasks(item))} of {matrix.tasks}" for item in matrix.standings]

    yield "Mean score", [score_text(item.score, True) for item in matrix.standings]
    yield counts(lambda item: item.score_tasks)
    if not _are_alike(matrix) and matrix.common:
        yield "In common", [score_text(item.common, True) for item in matrix.standings]
        yield counts(lambda item: matrix.common if item.score_tasks else ())
    yield "Relative", [_two_digits(item.relative) for item in matrix.standings]
    if any(item.relative.tasks != item.bounded.tasks for item in matrix.standings):
        yield counts(lambda item: item.relative.tasks)
    yield "Bounded", [_two_digits(item.bounded) for item in matrix.standings]
    yield counts(lambda item: item.bounded.tasks)
    yield "Win rate", [_two_digits(item.win_rate) for item in matrix.standings]
    yield counts(lambda item: item.win_rate.tasks)


def _two_digits(average: Average) -> str:
    return NONE if average.value is None else f"{average.value:.2f}"


def _are_alike(matrix: Matrix) -> bool:
    """Whether the mean scores of all models that have one are over the same tasks."""
    return len({item.score_tasks for item in matrix.standings if item.score_tasks}) <= 1


def _over_which(matrix: Matrix) -> Iterator[str]:
    """The tasks that averages cover, if these are not all tasks; averages over the same tasks share a line."""
    kinds: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for kind, tasks in _KINDS.items():
        kinds.setdefault(tuple(tasks(item) for item in matrix.standings), []).append(kind)
    for every, names in kinds.items():
        models: dict[tuple[str, ...], list[str]] = {}
        for model, own in zip(matrix.models, every, strict=True):
            if own:
                models.setdefault(own, []).append(model)
        yield from _tasks_note(", ".join(names), models, matrix.tasks)
    if not _are_alike(matrix):
        note = f"In common: the mean over what all models have, which compares them: {_listed(matrix.common)}."
        yield note if matrix.common else "No mean compares all models: no task is common to all."


_KINDS: dict[str, Callable[[Standing], tuple[str, ...]]] = {
    "Mean score": lambda item: item.score_tasks,
    "relative": lambda item: item.relative.tasks,
    "bounded": lambda item: item.bounded.tasks,
    "win rate": lambda item: item.win_rate.tasks,
}


def _tasks_note(kinds: str, models: Mapping[tuple[str, ...], Sequence[str]], tasks: int) -> Iterator[str]:
    name = kinds[0].upper() + kinds[1:]
    if len(models) > 1:
        parts = [f"{', '.join(names)} over {_listed(own)}" for own, names in models.items()]
        yield f"{name}: {'; '.join(parts)}. Averages over different tasks do not rank models."
    elif any(len(own) < tasks for own in models):
        yield f"{name}: over {_listed(next(iter(models)))}."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_LISTED])
    return shown if len(names) <= _MOST_LISTED else f"{shown} and {len(names) - _MOST_LISTED} more (see the JSON)"


def _failed_means(matrix: Matrix) -> Iterator[str]:
    """A line per model with failed documents: its mean score with all of them wrong or right."""
    shares = {column.key for column in matrix.columns if column.is_share and column.is_main}
    for model in matrix.models:
        own = [cell for cell in matrix.cells if cell.model == model and cell.key in shares]
        failed = sum(cell.bounds.failed for cell in own if cell.bounds is not None)
        if not failed:
            continue
        bounds = [cell.bounds or FailureBounds(0, cell.estimate.value, cell.estimate.value) for cell in own]
        lows = [item.low for item in bounds if item.low is not None]
        highs = [item.high for item in bounds if item.high is not None]
        is_known = len(lows) == len(highs) == len(own)
        means = (sum(lows) / len(own), sum(highs) / len(own)) if is_known else (None, None)
        note = bounds_text(FailureBounds(failed, *means), percent)
        yield f"{model}: mean score with its {failed:,} failed documents all wrong … right: {note}"


def _left_out(matrix: Matrix) -> Iterator[str]:
    known = [column for column in matrix.columns if column.metric != NONE and column.is_main]
    others = [column.title for column in known if not column.is_share]
    if others:
        yield f"Mean score and rank leave out what is not a share: {', '.join(others)}."
    aimless = [column.title for column in known if column.higher_is_better is None]
    if aimless:
        yield f"Win rates leave out metrics without a direction: {', '.join(aimless)}."


# Ranks


def _rank_notes(matrix: Matrix, overall: Ranking | None) -> Iterator[str]:
    shares = [column.label for column in matrix.columns if column.is_share and column.is_main]
    if overall is not None:
        yield f"Rank, over {_listed(shares)}: {_RANK_NOTE}"
        if overall.random:
            yield f"The rank takes the {' and the '.join(overall.random)} as a random sample (random-effects t)."
        if overall.fixed:
            yield f"The rank holds for these {' and '.join(overall.fixed)} alone."
        without = [model for model in matrix.models if model not in overall.ranks]
        if without:
            yield f"Without a rank, because some of these tasks are lacking: {', '.join(without)}."
        yield from _letterless([overall])
    elif len(shares) > 1 and len(matrix.models) > 1:
        yield f"No ranks: no two models have means over the same documents of all of {_listed(shares)}."


def rank_text(ranking: Ranking | None, model: str) -> str:
    """`2–3 bc`: the rank range, and letters."""
    if ranking is None or model not in ranking.ranks:
        return NONE
    return f"{ranking.ranks[model].text} {ranking.letters[model]}".strip()


def _letterless(rankings: Sequence[Ranking]) -> Iterator[str]:
    if any(not any(ranking.letters.values()) for ranking in rankings):
        yield "Letters are left out because too many would be needed."


def ranks(matrix: Matrix) -> Section:
    """The ranks of each column, as far as its models can be compared."""
    own = [ranking for ranking in matrix.rankings if ranking.task is not None]
    if len(own) > len(matrix.models):
        headings = ("Task", *matrix.models)
        rows = [(str(ranking.task), *(rank_text(ranking, model) for model in matrix.models)) for ranking in own]
    else:
        headings = ("Model", *(str(ranking.task) for ranking in own))
        rows = [(model, *(rank_text(ranking, model) for ranking in own)) for model in matrix.models]
    untested = [column.label for column in matrix.columns if column.label not in {ranking.task for ranking in own}]
    notes = [_RANK_NOTE[0].upper() + _RANK_NOTE[1:], *_letterless(own)]
    if untested:
        why = "not a mean over the same documents, or too few models"
        notes.append(f"Without ranks ({why}): {', '.join(untested)}.")
    return Section("Ranks per task", headings, tuple(rows) if own else (), tuple(notes))
