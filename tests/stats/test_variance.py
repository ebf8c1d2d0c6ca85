"""Components of variance: closed forms, statsmodels, and tables made with known components."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.core.errors import DataError
from assay.stats.clustered import clustered_mean
from assay.stats.means import mean_estimate, standard_error
from assay.stats.variance import decompose

Floats = NDArray[np.float64]


def made(generator: np.random.Generator, sizes: dict[str, int], components: dict[tuple[str, ...], float]) -> Floats:
    """A table whose effects are normal with these variances."""
    table = np.zeros(list(sizes.values()))
    for effect, variance in components.items():
        shape = [size if name in effect else 1 for name, size in sizes.items()]
        table = table + generator.normal(scale=math.sqrt(variance), size=shape)
    return table


def test_one_factor_is_the_plain_standard_error() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.0]
    found = decompose(np.array(values), ["document"])
    assert (found.mean, found.stderr) == pytest.approx((0.5, standard_error(values)))
    assert found.component("document").share == 1.0
    assert found.forecasts[0].doubled == pytest.approx(found.stderr / math.sqrt(2))
    assert found.forecasts[0].halved == pytest.approx(found.stderr * math.sqrt(2))


def test_two_factors_by_hand() -> None:
    """Rows 1 2 / 3 6: mean squares 9, 4 and 1 of one degree each; (9−1)/2, (4−1)/2 and 1."""
    found = decompose(np.array([[1.0, 2.0], [3.0, 6.0]]), ["document", "prompt"])
    parts = [found.component("document"), found.component("prompt"), found.component("prompt", "document")]
    assert [part.variance for part in parts] == pytest.approx([4.0, 1.5, 1.0])
    assert [part.share for part in parts] == pytest.approx([4 / 6.5, 1.5 / 6.5, 1 / 6.5])
    assert found.stderr == pytest.approx(math.sqrt(4 / 2 + 1.5 / 2 + 1 / 4))
    assert [part.share_of_mean for part in parts] == pytest.approx([2 / 3, 0.75 / 3, 0.25 / 3])
    assert [item.factor for item in found.forecasts] == ["document", "prompt"]
    assert found.forecasts[0].doubled == pytest.approx(math.sqrt(4 / 4 + 1.5 / 2 + 1 / 8))


def test_nested_draws_by_hand() -> None:
    """Cells 0 2 | 4 6: within 2; between means 1 and 5: mean square 16, (16−2)/2 = 7."""
    found = decompose(np.array([[0.0, 2.0], [4.0, 6.0]]), ["document", "draw"], nested="draw")
    assert found.component("document").variance == pytest.approx(7.0)
    assert found.component("document", "draw").variance == pytest.approx(2.0)
    assert len(found.components) == 2
    assert found.stderr == pytest.approx(math.sqrt(7 / 2 + 2 / 4))


def test_a_component_below_zero_is_set_to_zero_and_flagged() -> None:
    """Rows with equal means: mean squares 0 of documents and 2 of the rest, (0−2)/2 = −1."""
    found = decompose(np.array([[1.0, -1.0], [-1.0, 1.0]]), ["document", "prompt"])
    part = found.component("document")
    assert (part.variance, part.is_negative) == (0.0, True)
    assert found.component("document", "prompt").is_negative is False
    assert found.stderr == pytest.approx(math.sqrt(4 / 1 / 4))


def test_equal_scores_have_no_shares() -> None:
    found = decompose(np.ones((3, 2)), ["document", "prompt"])
    assert (found.mean, found.stderr, found.forecasts) == (1.0, None, ())
    assert (found.low, found.high, found.degrees) == (None, None, None)
    assert {part.share for part in found.components} == {None}


def test_rounding_is_not_a_source_of_variance() -> None:
    found = decompose(np.full((7, 3), 0.1), ["document", "prompt"])
    assert {part.variance for part in found.components} == {0.0} and found.stderr is None
    found = decompose(np.array([[0.1] * 3, [0.7] * 3, [0.9] * 3]), ["document", "prompt"])
    assert [part.variance for part in found.components if part.effect != ("document",)] == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore")
def test_components_are_those_of_statsmodels() -> None:
    """Restricted maximum likelihood equals the moments in balanced designs where no component is below 0."""
    api = pytest.importorskip("statsmodels.api")
    sizes = {"document": 25, "prompt": 6}
    table = made(np.random.default_rng(0), sizes, {("document",): 1.0, ("prompt",): 0.5, ("document", "prompt"): 0.3})
    document, prompt = (axis.reshape(-1) for axis in np.indices(table.shape))
    import pandas

    frame = pandas.DataFrame({"score": table.reshape(-1), "document": document, "prompt": prompt, "one": 1})
    formula = {"document": "0 + C(document)", "prompt": "0 + C(prompt)"}
    fit = api.MixedLM.from_formula("score ~ 1", groups="one", vc_formula=formula, data=frame).fit(reml=True)
    found = decompose(table, list(sizes))
    expected = dict(zip(fit.model.exog_vc.names, fit.vcomp, strict=True))
    assert found.component("document").variance == pytest.approx(expected["document"], rel=1e-3)
    assert found.component("prompt").variance == pytest.approx(expected["prompt"], rel=1e-3)
    assert found.component("document", "prompt").variance == pytest.approx(fit.scale, rel=1e-3)


def test_mean_squares_are_those_of_an_analysis_of_variance() -> None:
    """Three crossed factors: components by solving the textbook's expected mean squares one by one."""
    api = pytest.importorskip("statsmodels.api")
    formulas = pytest.importorskip("statsmodels.formula.api")
    import pandas

    table = np.random.default_rng(1).normal(size=(5, 4, 3, 2))
    names = ["document", "prompt", "seed", "draw"]
    columns = {name: axis.reshape(-1) for name, axis in zip(names, np.indices(table.shape), strict=True)}
    frame = pandas.DataFrame({"score": table.reshape(-1), **columns})
    fit = formulas.ols("score ~ C(document) * C(prompt) * C(seed)", frame).fit()
    squares = api.stats.anova_lm(fit)["mean_sq"]
    d, p, s = "C(document)", "C(prompt)", "C(seed)"
    found = decompose(table, names, nested="draw")
    raw = {
        ("document", "prompt", "seed"): (squares[f"{d}:{p}:{s}"] - squares["Residual"]) / 2,
        ("document", "prompt"): (squares[f"{d}:{p}"] - squares[f"{d}:{p}:{s}"]) / (3 * 2),
        ("seed",): (squares[s] - squares[f"{d}:{s}"] - squares[f"{p}:{s}"] + squares[f"{d}:{p}:{s}"]) / (5 * 4 * 2),
    }
    for effect, value in raw.items():
        part = found.component(*effect)
        assert (part.variance, part.is_negative) == (pytest.approx(max(0.0, value)), value < 0)
    assert found.component(*names).variance == pytest.approx(squares["Residual"])
    assert found.component("document", "seed").degrees == 8


def test_known_components_come_out_on_average() -> None:
    sizes = {"document": 30, "prompt": 6, "seed": 5, "draw": 2}
    truth = {
        ("document",): 1.0, ("prompt",): 0.4, ("seed",): 0.2, ("document", "prompt"): 0.5,
        ("prompt", "seed"): 0.3, tuple(sizes): 0.6,
    }  # fmt: skip
    generator = np.random.default_rng(2)
    found = [decompose(made(generator, sizes, truth), list(sizes), nested="draw") for _ in range(200)]
    for effect, variance in truth.items():
        values = [item.component(*effect).variance for item in found]
        assert np.mean(values) == pytest.approx(variance, abs=4 * np.std(values) / math.sqrt(200) + 0.01)
    errors = np.mean([item.stderr**2 for item in found])
    # Negative estimates set to 0 make it a little too large.
    assert errors == pytest.approx(np.var([item.mean for item in found]), rel=0.35)


def test_one_factor_has_the_interval_of_a_mean() -> None:
    found = decompose(np.array([3.0, 1.0, 4.0, 1.0, 5.0]), ["document"])
    expected = mean_estimate([3.0, 1.0, 4.0, 1.0, 5.0])
    assert (found.low, found.high, found.degrees) == pytest.approx((expected.low, expected.high, 4))


def test_degrees_of_freedom_by_hand() -> None:
    """Rows 1 2 / 3 6: the squared error is (9 + 4 − 1)/4, so 12² over (9² + 4² + 1²) of one degree each."""
    found = decompose(np.array([[1.0, 2.0], [3.0, 6.0]]), ["document", "prompt"])
    assert found.degrees == pytest.approx(144 / 98)


@pytest.mark.parametrize(("prompts", "least"), [(3, 0.9), (5, 0.93), (10, 0.93)])
def test_intervals_cover_new_prompts_and_documents(prompts: int, least: float) -> None:
    """± 1.96 standard errors would cover 85 % with three prompts that differ as these do; this covers 92 %."""
    sizes, generator = {"document": 100, "prompt": prompts}, np.random.default_rng(prompts)
    truth = {("document",): 0.1, ("prompt",): 0.02, ("document", "prompt"): 0.1}
    found = [decompose(made(generator, sizes, truth) * 4, list(sizes)) for _ in range(1000)]
    covered = [item.low is not None and item.high is not None and item.low <= 0 <= item.high for item in found]
    assert least <= np.mean(covered) <= 0.97


def test_clusters_of_documents_widen_the_error() -> None:
    """Every document twice, as two in a cluster: the error is that of half as many documents."""
    once = np.random.default_rng(6).normal(size=(30, 4))
    twice = np.concatenate([once, once])
    clusters = [f"c{place % 30}" for place in range(60)]
    found, half = (
        decompose(table, ["document", "prompt"], clusters=own) for table, own in ((twice, clusters), (once, None))
    )
    by_hand = clustered_mean(twice.mean(axis=1).tolist(), clusters).estimate.stderr
    of_prompts = found.component("prompt").variance / 4
    assert by_hand is not None and found.stderr == pytest.approx(math.sqrt(by_hand**2 + of_prompts))
    assert found.stderr == pytest.approx(half.stderr, rel=0.1) and found.degrees < 60
    with pytest.raises(DataError, match="one cluster"):
        decompose(once, ["document", "prompt"], clusters=["all"] * 30)


def test_clusters_that_are_alike_leave_the_error_of_documents() -> None:
    """Two documents a cluster, one right and one wrong: clusters show no error, which is not to say there is none."""
    table = np.array([[1.0, 0.8], [0.0, 0.2]] * 5)
    found = decompose(table, ["document", "prompt"], clusters=[f"c{place // 2}" for place in range(10)])
    assert found.stderr == pytest.approx(decompose(table, ["document", "prompt"]).stderr)


def test_levels_that_were_all_evaluated_add_no_error() -> None:
    table = made(np.random.default_rng(7), {"document": 20, "order": 6}, {("document",): 0.2, ("order",): 1.0})
    found = decompose(table, ["document", "order"], totals={"order": 6})
    assert (found.exhausted, [item.factor for item in found.forecasts]) == (("order",), ["document"])
    expected = mean_estimate(table.mean(axis=1).tolist())
    assert (found.stderr, found.degrees) == pytest.approx((expected.stderr, 19))
    assert found.component("order").share_of_mean == 0.0


def test_some_of_finitely_many_levels_have_the_error_that_they_have() -> None:
    """Three of six orders, drawn repeatedly, with new documents: as far from the mean of all six as reported."""
    generator, means, squares, plain = np.random.default_rng(8), [], [], []
    orders = generator.normal(scale=0.7, size=6)
    orders -= orders.mean()
    for _ in range(600):
        own = generator.permutation(6)[:3]
        sizes = {"document": 30, "order": 6}
        whole = made(generator, sizes, {("document",): 0.5, ("document", "order"): 0.5}) + orders
        found = decompose(whole[:, own], list(sizes), totals={"order": 6})
        assert found.stderr is not None
        means.append(found.mean)
        squares.append(found.stderr**2)
        plain.append(decompose(whole[:, own], list(sizes)).stderr)
    truth = float(np.mean(np.square(means)))
    assert np.mean(squares) == pytest.approx(truth, rel=0.1)
    assert np.mean(np.square(plain)) > 1.5 * truth


def test_forecasts_are_what_a_larger_table_brings() -> None:
    """The error foretold for twice the prompts is that which the components give for such a table."""
    components = {("document",): 0.5, ("prompt",): 1.0, ("document", "prompt"): 0.2}
    table = made(np.random.default_rng(3), {"document": 60, "prompt": 30}, components)
    found = decompose(table, ["document", "prompt"])
    foretold = next(item for item in found.forecasts if item.factor == "prompt")
    kept = [found.component(*effect).variance for effect in components]
    assert foretold.doubled == pytest.approx(math.sqrt(kept[0] / 60 + kept[1] / 60 + kept[2] / 3600))
    assert foretold.halved == pytest.approx(math.sqrt(kept[0] / 60 + kept[1] / 15 + kept[2] / 900))
    assert found.forecasts[0] == foretold


def test_a_factor_of_one_level_is_named_and_set_aside() -> None:
    found = decompose(np.array([[[1.0], [2.0]], [[3.0], [6.0]]]), ["document", "prompt", "seed"], nested="seed")
    assert found.unvaried == ("seed",)
    assert found.component("document").variance == pytest.approx(4.0)


def test_documents_with_missing_scores_are_left_out_and_counted() -> None:
    whole = np.random.default_rng(4).normal(size=(6, 3))
    holed = whole.copy()
    holed[[1, 4], [0, 2]] = np.nan
    found, expected = decompose(holed, ["document", "prompt"]), decompose(whole[[0, 2, 3, 5]], ["document", "prompt"])
    assert (found.left_out, found.levels) == (2, {"document": 4, "prompt": 3})
    assert found.components == expected.components


@pytest.mark.parametrize(
    ("table", "factors", "message"),
    [
        ([[1.0, np.nan], [1.0, 2.0]], ["seed", "prompt"], "1 missing scores"),
        ([[1.0, np.nan], [np.nan, 2.0]], ["document", "prompt"], "0 documents with all scores"),
        ([[1.0, np.inf]], ["document", "prompt"], "infinite"),
        ([1.0, 2.0], ["document", "prompt"], "one name per axis"),
        ([[1.0]], ["document", "prompt"], "one level of every factor"),
        ([], ["document"], "none at all"),
    ],
)
def test_tables_that_say_nothing_are_refused(table: list[float], factors: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        decompose(np.array(table), factors)
