"""The names that task code imports from lm-eval mean what they mean there."""

from __future__ import annotations

import importlib
import math

import pytest

from assay.lm_eval_shim import filter_classes as filters
from assay.lm_eval_shim import metric_functions as metrics
from assay.lm_eval_shim import samplers
from assay.lm_eval_shim import text_functions as texts
from assay.lm_eval_shim.filter_classes import FILTERS, register_filter
from assay.lm_eval_shim.module_table import SHIM
from assay.lm_eval_shim.task_classes import Instance

# What the Python files of lm-eval 0.4.13's task folder import, beside one another.
IMPORTED = (
    ("lm_eval.utils", "weighted_f1_score general_detokenize handle_non_serializable make_table logging"),
    ("lm_eval.filters.extraction", "RegexFilter Filter"),
    ("lm_eval.api.instance", "Instance"),
    ("lm_eval.api.task", "ConfigurableTask"),
    ("lm_eval.api.registry", "register_filter"),
    ("lm_eval.api.filter", "Filter"),
    ("lm_eval.api.metrics", "metric_max_over_ground_truths mean"),
)


@pytest.mark.parametrize(("module", "names"), IMPORTED)
def test_every_imported_name_is_there(module: str, names: str) -> None:
    own = importlib.import_module(SHIM.modules[module])
    assert [name for name in names.split() if not hasattr(own, name)] == []


def test_detokenised_text() -> None:
    assert texts.general_detokenize("do n't ( or ) say \" hi \" , he 's out .") == "don't (or) say\"hi\", he's out."


def test_f1_weighted_by_label() -> None:
    pytest.importorskip("sklearn")
    # Label 0: 2 of 3 right, F1 0.8 over 3 rows; label 1: F1 0.8 over 2 rows.
    assert texts.weighted_f1_score([(0, 0), (0, 0), (0, 1), (1, 1), (1, 1)]) == pytest.approx(0.8)


def test_small_helpers() -> None:
    assert texts.apply_template("{{a}}!", {"a": 1}) == "1!"
    assert list(texts.softmax([0.0, 0.0])) == [0.5, 0.5]
    assert texts.handle_non_serializable({3}) == [3]
    table = texts.make_table({"results": {"t": {"alias": "T", "acc,none": 0.5, "acc_stderr,none": "N/A"}}})
    assert table.splitlines()[2:] == ["|T|acc|0.5000|"]


def test_aggregations() -> None:
    assert metrics.mean([1, 2]) == 1.5
    assert metrics.nanmean([1.0, math.nan]) == 1.0 and math.isnan(metrics.nanmean([]))
    assert metrics.median([3, 1, 2, 4]) == 3
    assert metrics.perplexity([-1.0, -3.0]) == pytest.approx(math.exp(2))
    assert metrics.weighted_perplexity([(-4.0, 2), (-2.0, 1)]) == pytest.approx(math.exp(2))
    assert metrics.bits_per_byte([(-math.log(2) * 8, 8)]) == pytest.approx(1)
    assert metrics.mean_stderr([0, 1, 1, 0, 1]) == pytest.approx(0.24494897427831783)
    assert metrics.metric_max_over_ground_truths(lambda said, right: len(right), "x", ["a", "bcd"]) == 3
    rows = [{"idx": {"paragraph": 0, "question": q}, "label": label} for q, label in ((0, 1), (0, 0), (1, 1))]
    assert metrics.acc_all(zip([True, False, False], rows, strict=True)) == 0.5


def test_filters_map_every_question() -> None:
    documents = [{"choices": ["red", "blue"]}] * 2
    found = filters.RegexFilter(r"(\d+)", group_select=-1).apply([["1 2", "x"], ["3"]], documents)
    assert list(found) == [["2", "[invalid]"], ["3"]]
    choose = filters.MultiChoiceRegexFilter(r"(\([A-Z]\))", ignore_case=True)
    assert list(choose.apply([["it is Blue"], ["(A)"]], documents)) == [["(B)"], ["(A)"]]
    assert list(filters.TakeFirstFilter().apply([["a", "b"]], documents[:1])) == ["a"]
    assert list(filters.MapFilter({"a": 1}).apply([["a", "b"]], documents[:1])) == [[1, None]]
    assert filters.Filter().apply([1], []) == [1]


def test_a_registered_filter_is_known() -> None:
    @register_filter("shim_test")
    class Own(filters.Filter):
        pass

    try:
        assert SHIM.filters["shim_test"] is Own
    finally:
        del FILTERS["shim_test"]


def test_an_instance_unpacks_its_notes() -> None:
    made = Instance("loglikelihood", {}, ("a", "b"), 0, ("task", 3, 2))
    assert (made.args, made.task_name, made.doc_id, made.repeats) == (("a", "b"), "task", 3, 2)


def test_samplers_choose_from_the_pool() -> None:
    pool = [{"x": place} for place in range(5)]
    drawn = samplers.ContextSampler(pool).set_rnd(1234).sample(2, eval_doc=pool[0])
    assert len(drawn) == 2 and pool[0] not in drawn
    assert samplers.FirstNSampler(pool).sample(2, eval_doc=pool[0]) == pool[1:3]
