"""Notices about the tasks of a run: truncation, answers not found, a single predicted class, shared texts, parts.

In: the results of tasks. Out: one line per notice.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from assay.core.metric_names import uses_all_draws
from assay.core.plural import plural
from assay.core.responses import NOTE_TEXTS, Failure, LabelScores, Logprob
from assay.core.results import AnsweredDocument, GroupResult, TaskResult
from assay.core.scores import BYPASS, Estimate, MetricResult, MetricValues
from assay.core.specs import NULL_PROMPTS, WHOLE_PROMPT_METRICS, RunSpec
from assay.core.task_variants import ORDER, SEED
from assay.run.build import has_own_template, is_index, shown_value
from assay.scoring.registry import METRICS
from assay.scoring.scorers.multiple_choice import METHODS, ChoiceView, Scores, argmax, choice_view, raw, scores_view
from assay.studies.sampling.subsample_values import EarlyStop
from assay.tasks.clusters import group_value, shared_column
from assay.tasks.styles import OWN, find_style, is_style

# Start of the notice that names tasks evaluated on only part of their documents.
LIMITED = "evaluated only part of the documents (not a random sample): "
# With fewer documents, the same index may be right, or the same class predicted, everywhere by chance.
_FEW_DOCUMENTS = 10
# Sampled tasks that are named.
_MOST_SAMPLED = 12
# Means of documents, whose error clusters change.
_MEAN_METHODS = ("wilson", "wilson-t", "t")
# With some hundred clusters, smaller ratios occur by chance.
_CLEARLY_LARGER = 1.2
_NUMBER = re.compile(r"\b\d+\b")


def task_notices(results: Sequence[TaskResult], is_trained: bool = False) -> list[str]:
    """Notices on what the numbers do not show: truncation, peculiarities of prompts, answers not found, limits.

    Variants of one task with the same notice share one line.

    Args:
        results: the tasks of a run.
        is_trained: whether the model was trained here.
    """
    ways = Counter(result.card.family for result in results)
    reported: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for result in results:
        family = result.card.family
        for text in (*_texts(result), *_majority_class_texts(result, is_trained)):
            reported.setdefault((family, _NUMBER.sub("#", text)), []).append((result.name, text))
    lines = [_line(family, ways[family], own) for (family, _), own in reported.items()]
    return lines + _shared_text_notices(results) + _seed_notices(results)


def _seed_notices(results: Sequence[TaskResult]) -> list[str]:
    """Seeds that draw the same examples for every document: such levels add no information."""
    by_seed: dict[str, list[TaskResult]] = {}
    for result in results:
        variant = result.card.config.get("variant")
        if isinstance(variant, Mapping) and SEED in variant and variant.get(ORDER, 1) == 1:
            by_seed.setdefault(result.card.base, []).append(result)
    found = []
    for base, own in by_seed.items():
        asked = [{item.document.id: item.instance.requests for item in result.answered} for result in own]
        shared = [document for document in asked[0] if all(document in requests for requests in asked)]
        different = len({tuple(requests[document] for document in shared) for requests in asked})
        if different < len(own):
            sets = "one set" if different == 1 else f"{different} different sets"
            found.append(
                f"{base}: {len(own)} seeds draw {sets} of examples; seeds that draw the same set add no information"
            )
    return found


def _line(family: str, ways: int, reported: Sequence[tuple[str, str]]) -> str:
    """One notice for all variants that have it; numbers that differ become a range."""
    name, text = reported[0]
    if len(reported) == 1:
        return f"{name}: {text}"
    ranges = map(_range, zip(*(_NUMBER.findall(own) for _, own in reported), strict=True))
    many = f"{ways} variants" if len(reported) == ways else f"{len(reported)} of {ways} variants"
    return f"{family} ({many}): {_NUMBER.sub(lambda _: next(ranges), text)}"


def _range(numbers: Sequence[str]) -> str:
    low, high = min(numbers, key=int), max(numbers, key=int)
    return low if low == high else f"{low} to {high}"


def _texts(result: TaskResult) -> Iterator[str]:
    """The notices of a task, without its name."""
    counts = result.denominators
    if counts.failed:
        reported = f"{counts.failed} of {counts.total} documents failed and are excluded from the scores"
        yield f"{reported} ({counts.scored} scored)"
    yield from _undefined(result)
    if counts.truncated:
        yield f"{counts.truncated} of {counts.total} documents were cut to fit the model"
    index = _constant_place(result)
    if index is not None:
        reported = (
            f"the correct choice is at index {index} in all {counts.total} documents, so its position gives it away"
        )
        yield f"{reported}; evaluate all orders with --rotations"
    is_scored = any(metric.metric != BYPASS for metric in result.metrics)
    for note, count in counts.notes.items():
        if is_scored or note != "invalid_gold":
            yield f"{_NOTE_TEXTS.get(note, note)} ({count})"
    for pipeline, count in counts.unparsed.items():
        if count:
            yield f"no answer was found in {count} of {counts.scored} ({pipeline})"
    for pipeline, count in counts.misses_by_space.items():
        reported = (
            f"{count} of {counts.scored} answers are correct except for surrounding white space and count as wrong"
        )
        yield f"{reported} ({pipeline}); strip it with the filter remove_whitespace"
    yield from _index_target_texts(result)
    yield from _draw_notices(result)
    clusters = [metric.estimate.clusters for metric in result.metrics if metric.estimate.clusters is not None]
    if clusters:
        yield from _cluster_texts(min(clusters))


def _undefined(result: TaskResult) -> Iterator[str]:
    """Metrics without a value for some scored documents: they exclude these, or have no value themselves."""
    scored, of_some = result.denominators.scored, _of_some_documents(result)
    for metric in result.metrics:
        # Draws have notices of their own.
        is_other = metric.metric in of_some or uses_all_draws(metric.metric)
        is_whole = metric.estimate.n == scored and metric.estimate.value is not None
        if is_whole or is_other:
            continue
        own = (sample.values.get(metric.metric) for sample in result.samples if sample.filter == metric.filter)
        missing = sum(value is None or (isinstance(value, float) and value != value) for value in own)
        if missing:
            where = "" if metric.filter == "none" else f" ({metric.filter})"
            reported = f"{metric.metric}{where} has no value for {missing} of {scored} scored documents"
            yield (
                f"{reported} and leaves them out"
                if metric.estimate.n < scored
                else f"{reported}, so the task has none either"
            )


def _of_some_documents(result: TaskResult) -> set[str]:
    """Names that built-in metrics report for some documents by design: positions, categories, kinds of context."""
    return {
        name
        for sample in result.samples
        if isinstance(sample.values, MetricValues)
        for name, source in sample.values.sources.items()
        if source in METRICS
    }


def _cluster_texts(clusters: int) -> Iterator[str]:
    from assay.stats.clustered import FEW_CLUSTERS  # most runs do not need it

    if clusters < FEW_CLUSTERS:
        reported = f"its documents form {plural(clusters, 'cluster')}; with fewer than {FEW_CLUSTERS}"
        yield f"{reported}, standard error and interval are unreliable"


def _index_target_texts(result: TaskResult) -> Iterator[str]:
    """A notice on digit targets that are read as indices although each is also the text of a choice.

    If one of them is not, such as a 0 among the choices 1 to 5, indices are certainly meant.
    """
    if not has_own_template(result.card.config):
        return
    instances = [item.instance for item in result.answered if item.instance.choices]
    if not all(is_index(item.target) and str(item.target) in item.choices for item in instances):
        return
    moved = [item for item in instances if str(item.target) not in item.choices[item.target : item.target + 1]]
    if moved:
        first = moved[0]
        read = shown_value(first.choices[first.target]) if first.target < len(first.choices) else "no choice"
        message = f"the target is the text of a choice, but a template's digits are read as a place ({len(moved)} of"
        example = f"document {first.document_id}: {first.target} means {read}"
        yield f"{message} {len(instances)}; {example}); for the text, name the column alone in doc_to_target"


# Classifiers that predict a single class


def _majority_class_texts(result: TaskResult, is_trained: bool) -> Iterator[str]:
    """A notice if the predictions of a task are no better than the most frequent class.

    Args:
        result: the task's answers.
        is_trained: whether the model was trained here: it is expected to do better than the most frequent class.
    """
    if len(result.answered) < _FEW_DOCUMENTS:
        return
    names = result.answered[0].instance.choices
    if len(names) < 2 or any(item.instance.choices != names for item in result.answered):
        return
    predicted: dict[int, int] = {}
    for document, index in _predictions(result):
        predicted[document] = index
        if not is_trained and index != predicted[next(iter(predicted))]:
            return  # two classes: nothing more to check for a model that was not trained here
    rights = [item.instance.gold_indices for item in result.answered if item.document.id in predicted]
    if len(predicted) < _FEW_DOCUMENTS or not all(len(right) == 1 and isinstance(right[0], int) for right in rights):
        return
    n, frequent = len(predicted), Counter(right[0] for right in rights).most_common(1)[0]
    right = sum(prediction == right[0] for prediction, right in zip(predicted.values(), rights, strict=True))
    if len(set(predicted.values())) == 1 and right < n:
        only = names[next(iter(predicted.values()))]
        yield f'"{only}" is predicted in all {n} documents and correct in {right} of them'
    elif is_trained and right <= frequent[1]:
        message = f"the trained model is correct in {right} of {n} documents, no more than always"
        name = names[frequent[0]] if 0 <= frequent[0] < len(names) else "one class"
        yield f'{message} predicting "{name}", the most frequent class ({frequent[1]})'


def _predictions(result: TaskResult) -> Iterator[tuple[int, int]]:
    """Document → the index that the task's first metric predicts, for documents in one order without a failure."""
    scores = _choice_scores(result)
    for item in result.answered:
        view = None if item.instance.orders or scores is None else _view(item)
        if view is not None and scores is not None:
            yield item.document.id, argmax(scores(view, {}))


def _choice_scores(result: TaskResult) -> Scores | None:
    """The function that scores choices for the first metric; None if it needs further requests."""
    first = result.metrics[0].metric if result.metrics else ""
    if first in (*NULL_PROMPTS, *WHOLE_PROMPT_METRICS):
        return None
    return next((method.scores for method in METHODS.values() if method.metric == first), raw)


def _view(item: AnsweredDocument) -> ChoiceView | None:
    size = len(item.instance.choices)
    if any(isinstance(output, Failure) for output in item.outputs):
        return None
    if isinstance(item.outputs[0], LabelScores):
        return scores_view(item.instance, item.outputs)
    if len(item.outputs) < size or not all(isinstance(output, Logprob) for output in item.outputs[:size]):
        return None
    return choice_view(item.instance, item.outputs)


# Documents that share a text


def _shared_text_notices(results: Sequence[TaskResult]) -> list[str]:
    """One notice per task at most: variants of a task have the same documents."""
    reported: dict[str, str | None] = {}
    for result in results:
        family = result.card.family
        if reported.get(family) is None:
            reported[family] = _shared_text_notice(result)
    return [notice for notice in reported.values() if notice is not None]


def _shared_text_notice(result: TaskResult) -> str | None:
    if any(metric.estimate.clusters is not None for metric in result.metrics):
        return None
    metric = next((item for item in result.metrics if _has_error(item)), None)
    column = shared_column([item.document for item in result.answered]) if metric is not None else None
    if metric is None or column is None:
        return None
    found, own = _clustered_estimate(result, metric, column), metric.estimate.stderr or 0.0
    if found is None or found.stderr is None or found.stderr < _CLEARLY_LARGER * own:
        return None
    reported = f'{found.n:,} documents share {found.clusters:,} values of the column "{column}"'
    errors = f"the standard error of {metric.metric} is {found.stderr:.4f} clustered by it instead of {own:.4f}"
    if result.subsample is not None and result.subsample.stop is not None:  # its rules ignore clusters
        way_out = f"the anytime-valid interval ignores clusters, too; use --sample N with --cluster {column} instead"
        return f"{result.name}: {reported}; {errors}; {way_out}"
    return f"{result.name}: {reported}; {errors}: use --cluster {column}, or --cluster auto"


def _has_error(metric: MetricResult) -> bool:
    return metric.estimate.method in _MEAN_METHODS and bool(metric.estimate.stderr)


def _clustered_estimate(result: TaskResult, metric: MetricResult, column: str) -> Estimate | None:
    """The metric with the standard error clustered by the texts of a column; None unless values are plain numbers."""
    from assay.stats.clustered import clustered_mean  # most runs do not need it

    texts: dict[int, Hashable] = {}
    for document in (item.document for item in result.answered):
        value = group_value(document.fields.get(column))
        texts[document.id] = ("alone", document.id) if value is None else value
    own = [sample for sample in result.samples if sample.filter == metric.filter and metric.metric in sample.values]
    values = [sample.values[metric.metric] for sample in own]
    if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
        return None
    return clustered_mean(values, [texts[sample.document_id] for sample in own]).estimate


# Groups, and parts of the documents


def group_notices(groups: Sequence[GroupResult], results: Sequence[TaskResult]) -> list[str]:
    """A notice on groups whose mean excludes a task because none of its documents counts."""
    failed = [result.name for result in results if result.denominators.failed == result.denominators.total > 0]
    empty = [result.name for result in results if not result.denominators.total]
    found = []
    for group in groups:
        if group.problem is not None or not group.metrics:
            continue
        reasons = {"all documents failed in ": failed, "no document could be evaluated in ": empty}
        own = {reported: [leaf for leaf in group.leaves if leaf in names] for reported, names in reasons.items()}
        count = len(group.leaves) - sum(map(len, own.values()))
        if count < len(group.leaves):
            why = "; ".join(reported + ", ".join(names) for reported, names in own.items() if names)
            found.append(f"{group.spec.name}: its score is over {count} of {len(group.leaves)} tasks: {why}")
    return found


def part_notices(results: Sequence[TaskResult], spec: RunSpec) -> list[str]:
    """A notice on tasks evaluated on part of their documents, and how that part was chosen."""
    parts = [result for result in results if result.denominators.total < result.denominators.available]
    limited, shared, drawn = [], [], []
    for result in parts:
        # A run that may stop early samples at random from the documents within the limit.
        if result.subsample is None or spec.limit is not None:
            limited.append(result)
        elif result.subsample.stop is not None and result.subsample.stop.lacking:
            shared.append(result)
        else:
            drawn.append(result)
    notices = [LIMITED + _named(limited)] if limited else []
    if shared:
        notices.append(f"evaluated only documents that run {spec.subsampling.until_decided} has: {_named(shared)}")
    for seed in dict.fromkeys(_seed_of(result, spec) for result in drawn):
        own = [result for result in drawn if _seed_of(result, spec) == seed]
        notices.append(f"evaluated a random sample of the documents ({seed}): {_sample_counts(own, results)}")
    return notices + _stop_notices(results, spec)


def _seed_of(result: TaskResult, spec: RunSpec) -> str:
    """The seed of a sample; a file may state that of Python's generator, to draw what another tool draws."""
    stated = result.card.config.get("sample") if spec.subsampling.sample is None else None
    if isinstance(stated, Mapping):
        return f"Python's Random({stated['python_seed']})"
    return f"seed {spec.subsampling.seed}"


def _sample_counts(drawn: Sequence[TaskResult], results: Sequence[TaskResult]) -> str:
    """The documents of each task; of many tasks, such as subjects of a benchmark, the smaller samples together."""
    largest_first = sorted(drawn, key=lambda result: -result.denominators.total)
    bases = list(dict.fromkeys(result.card.base for result in largest_first))
    named, others = bases[:_MOST_SAMPLED], bases[_MOST_SAMPLED:]
    counts = [f"{base} {_document_counts(results, base)}" for base in named]
    if others:
        rest = {result.card.base: result.denominators for result in largest_first if result.card.base in others}
        total, available = (sum(getattr(own, name) for own in rest.values()) for name in ("total", "available"))
        counts.append(f"and {plural(len(others), 'more task')} {total:,} of {available:,}")
    return ", ".join(counts)


def _document_counts(results: Sequence[TaskResult], base: str) -> str:
    """`79 to 120 of 120`: combinations of seeds and orders may stop after different documents."""
    counts = [result.denominators for result in results if result.card.base == base]
    low, high = min(own.total for own in counts), max(own.total for own in counts)
    return f"{low:,}" + (f" to {high:,}" if low < high else "") + f" of {max(own.available for own in counts):,}"


def _named(results: Sequence[TaskResult]) -> str:
    return ", ".join(dict.fromkeys(result.card.base for result in results))


def _stop_notices(results: Sequence[TaskResult], spec: RunSpec) -> list[str]:
    # A task that was fully evaluated has the same numbers as without a stopping rule.
    early = [result for result in results if result.subsample is not None and _is_early(result.subsample.stop)]
    if not early:
        return []
    ways = Counter(map(_varied_task, results))
    is_varied = spec.options.axes.draws is not None or any(ways[_varied_task(result)] > 1 for result in early)
    also = " and the errors and intervals over prompts, seeds, orders and draws" if is_varied else ""
    reported = f"intervals in the table{also} are not valid after early stopping; the anytime-valid ones are"
    return [f"{', '.join(result.name for result in early)}: {reported}"]


def _is_early(stop: EarlyStop | None) -> bool:
    return stop is not None and stop.documents < stop.most


def _varied_task(result: TaskResult) -> str:
    """The task of which a result is a variant."""
    prompt = result.card.config.get("prompt")
    return str(prompt["task"]) if isinstance(prompt, Mapping) else result.card.base


def _constant_place(result: TaskResult) -> int | None:
    """The index that is correct in every document of a task whose style lists the choices in one order, or None.

    Some benchmarks leave the order of the choices to the user: the correct one always comes first.
    """
    style = str(result.card.config.get("style") or OWN)
    if style == OWN or len(result.answered) < _FEW_DOCUMENTS or not is_style(style):
        return None
    found = find_style(style)
    if found.rotates or not found.shows_options:
        return None
    instances = [item.instance for item in result.answered]
    found_places = {item.gold_indices for item in instances if item.choices}
    places = found_places.pop() if len(found_places) == 1 else ()
    return places[0] if len(places) == 1 and isinstance(places[0], int) and places[0] >= 0 else None


_NOTE_TEXTS = {
    **NOTE_TEXTS,
    "invalid_gold": "the right answer is not among the choices, so documents count as wrong",
    "equal_choices": "documents have equal choices, of which only the first can be predicted",
    "empty_choice": "documents have an empty choice, which no length-normalised score predicts",
    "single_choice": "documents have a single choice, so every prediction is the same",
}


def _draw_notices(result: TaskResult) -> list[str]:
    """Problems of metrics over draws: too few draws, or draws that are identical under greedy decoding."""
    names = {metric.metric: metric for metric in result.metrics if uses_all_draws(metric.metric)}
    if not names or not result.answered:
        return []
    notices = []
    lacking = [name for name, metric in names.items() if metric.estimate.value is None]
    most = max((len(sample.draws) for sample in result.samples), default=0)
    if lacking and most:
        message = f"{', '.join(lacking)} cannot be computed from {plural(most, 'draw')} per question"
        notices.append(f"{message}; request k or more: assay run --draws K, or repeats in the task file")
    instance = result.answered[0].instance
    if instance.draws > 1 and instance.requests[0] == instance.requests[1]:
        message = f"answers are generated greedily, so the {instance.draws} draws of a question are identical"
        notices.append(f"{message}; sample them, for example with --gen_kwargs do_sample=true,temperature=0.8")
    return notices
