"""Slips in calls of the public functions: each is a readable error before the first request."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay
from assay import Choose, Complete, Message, Read, Sampling, Write
from assay.core.errors import ArgumentError, UserError
from assay.core.requests import Generation, Loglikelihood, Request
from assay.run.events import Noticed
from assay.store.store import Store
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task

ROWS = [{"question": "a", "choices": ["x", "y"], "answer": 0}, {"question": "b", "choices": ["x", "y"], "answer": 1}]


def answer(request: Request) -> str | float:
    return "7" if isinstance(request, Generation) else -1.0


class Counting(ScriptedModel):
    """Must not get any request."""

    def respond(self, requests: Any) -> Any:
        raise AssertionError("a call with a slip asked the model")


def run(**slips: Any) -> Any:
    return assay.evaluate(**{"model": Counting(answer), "tasks": toy_choice_task(4), "store": ":memory:", **slips})


def made(function: Any, **arguments: Any) -> Any:
    return run(tasks=assay.task("mine", **{"rows": ROWS, **arguments})(function))


def kept_nowhere() -> assay.RunResult:
    return assay.evaluate(ScriptedModel(answer), toy_choice_task(2), store=":memory:")


class Bare:
    """A model without all but one of its members."""

    capabilities = assay.Capabilities(frozenset({"loglikelihood"}))


class Whole(Bare):
    fingerprint = assay.Fingerprint("whole")

    def respond(self, requests: Any) -> Any:
        return []

    def close(self) -> None:
        pass


class Misnamed(Whole):
    fingerprint = "me"  # type: ignore[assignment]


class Unwrapped(Whole):
    def fingerprint(self) -> assay.Fingerprint:  # type: ignore[override]
        return assay.Fingerprint("unwrapped")


class Deaf(Whole):
    def respond(self) -> Any:  # type: ignore[override]
        return []


class Addressed(Whole):
    fingerprint = assay.Fingerprint("addressed", settings={"tool": object()})


class Empty:
    """A task of someone's own class."""

    card, scoring = toy_choice_task(2).card, toy_choice_task(2).scoring

    def documents(self) -> Any:
        return None

    def build(self, document: Any) -> Any:
        return None


class Untyped(Empty):
    def documents(self) -> Any:
        return [{"a": 1}]


class BuildsNothing(Empty):
    def documents(self) -> Any:
        return [assay.Document("toy_choice", 0, {})]


class Unable(BuildsNothing):
    def build(self) -> Any:  # type: ignore[override]
        return None


class Spelt(Whole):
    capabilities = assay.Capabilities("generation")  # type: ignore[arg-type]


class FakeNetwork:
    """Looks as a model of transformers does, from outside."""


FakeNetwork.__module__ = "transformers.models.gpt2"


# What is called → a part of what it says.
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "limits": (lambda: run(limits=3), 'evaluate(): unknown argument "limits" (did you mean "limit"?)'),
    "temprature": (lambda: run(temprature=0.8), "go into gen_kwargs, such as gen_kwargs={'temperature': …}"),
    "pretrained": (lambda: run(pretrained="gpt2"), "go into model_args, such as model_args={'pretrained': …}"),
    "random_seed": (lambda: run(random_seed=3), 'unknown argument "random_seed". Say seed=1234'),
    "epochs": (lambda: run(epochs=3), "or finetune={'epochs': …} of evaluate()"),
    "strange name": (lambda: run(zzz=3), "It takes: model, tasks, store, output_path, log_samples"),
    "too many": (lambda: assay.evaluate("a", "b", "c"), "3 positional arguments; expected 2 at most"),
    "twice": (lambda: assay.evaluate("ngram", "demo", model="b"), "model is given twice"),
    "no tasks": (lambda: assay.evaluate("ngram"), "tasks is missing; expected evaluate(model, tasks, store, …)"),
    # models
    "function": (lambda: run(model=answer), "model is a function (answer); expected a name such as"),
    "class": (lambda: run(model=ScriptedModel), "model is the class ScriptedModel; expected an object of that class"),
    "no model": (lambda: run(model=None), "model is None; expected a name such as"),
    "path": (lambda: run(model=Path("/models/a")), '"hf" as the model, and model_args={"pretrained": "/models/a"}'),
    "network": (lambda: run(model=FakeNetwork()), 'model.save_pretrained("DIR")'),
    "model dict": (lambda: run(model={"name": "hf"}), "model is {'name': 'hf'}, a dict; expected"),
    "bare": (lambda: run(model=Bare()), "model is a Bare, which lacks fingerprint and respond and close"),
    "misnamed": (lambda: run(model=Misnamed()), "whose fingerprint is 'me', a str and not a Fingerprint"),
    "unwrapped": (lambda: run(model=Unwrapped()), "is a function (fingerprint) and not a Fingerprint; write @property"),
    "spelt": (lambda: run(model=Spelt()), "whose capabilities.kinds is 'generation', a str and not a list of strings"),
    "deaf": (lambda: run(model=Deaf()), "whose respond cannot be called as respond(requests): too many positional"),
    "addressed": (lambda: run(model=Addressed()), "whose fingerprint.settings['tool'] is an object and not a string"),
    # tasks
    "dict task": (lambda: run(tasks={"task": "x"}), "tasks is {'task': 'x'}, a dict; expected a name such as"),
    "no task": (lambda: run(tasks=None), "tasks is None; expected a name such as"),
    "empty list": (lambda: run(tasks=[]), "names no task; expected a task, group or tag"),
    "empty name": (lambda: run(tasks=" "), "names no task"),
    "number task": (lambda: run(tasks=3), "tasks is 3, an int"),
    "nested": (lambda: run(tasks=[[toy_choice_task(2)]]), "expected one list of tasks, without lists in it"),
    "function task": (lambda: run(tasks=answer), "tasks is a function (answer); expected"),
    "class task": (lambda: run(tasks=type(toy_choice_task(2))), "expected an object of that class"),
    "second": (lambda: run(tasks=[toy_choice_task(2), 3]), "tasks[1] is 3, an int"),
    "documents": (lambda: run(tasks=Empty()), "documents() gives None; expected a list of Document objects"),
    "document rows": (lambda: run(tasks=Untyped()), "documents()[0] is {'a': 1}, a dict; expected a list of Document"),
    "pose": (lambda: run(tasks=BuildsNothing()), "build() gives None for document 0; expected an Instance"),
    "poseless": (lambda: run(tasks=Unable()), "whose build cannot be called as build(document): too many positional"),
    "no file": (lambda: run(tasks=Path("/nope/q.yaml")), 'no file "/nope/q.yaml"'),
    # settings
    "limit text": (lambda: run(limit="ten"), "limit is 'ten', a str; expected a number or None"),
    "limit flag": (lambda: run(limit=True), "limit is True, a bool; expected a number or None"),
    "limit none left": (lambda: run(limit=0), "--limit: is 0; expected a count of 1 or more"),
    "limit below": (lambda: run(limit=-1), "--limit: is -1; expected a count of 1 or more"),
    "limit half": (lambda: run(limit=2.5), "--limit: is 2.5; expected a count of 1 or more, without a fraction"),
    "shots": (lambda: run(num_fewshot="five"), "num_fewshot is 'five', a str; expected a whole number or None"),
    "half a shot": (lambda: run(num_fewshot=2.5), "num_fewshot is 2.5, a float"),
    "seed": (lambda: run(seed="x"), '--seed: is "x"; expected 1, 3 or 4 whole numbers'),
    "two seeds": (lambda: run(seed=[1, 2]), "--seed: has 2 values; expected 1, 3 or 4"),
    "seeds": (lambda: run(seeds=3), "For one seed say seed=1234; to vary the few-shot seed, fewshot_seeds"),
    "callable metric": (lambda: run(metrics=[len]), "metrics[0] is a function (len); expected a string. See: assay ls"),
    "metric": (lambda: run(metrics=len), "metrics is a function (len)"),
    "gen_kwargs": (lambda: run(gen_kwargs=3), "gen_kwargs is 3, an int; expected a string, a list of strings, a dict"),
    "gen_kwargs text": (lambda: run(gen_kwargs="temperature"), '"temperature" has no name; expected name=value'),
    "gen_kwargs list": (lambda: run(gen_kwargs=[1]), "gen_kwargs[0] is 1, an int; expected a string"),
    "model_args": (lambda: run(model="ngram", model_args={1: 2}), "model_args's key is 1, an int; expected a string"),
    "gen_kwargs value": (lambda: run(gen_kwargs={"stop": object()}), "gen_kwargs['stop'] is an object; expected a str"),
    "no documents": (lambda: run(samples={"toy_choice": []}), "--samples: names no documents"),
    "batch_size": (lambda: run(batch_size="big"), 'batch_size: found "big"; expected "auto", "auto:N"'),
    "no batch": (lambda: run(batch_size=0), 'batch_size: found "0"'),
    "store": (lambda: run(store=3), "store is 3, an int; expected a string, a path, a Store or None"),
    "output": (lambda: run(output_path=3), "output_path is 3, an int; expected a string, a path or None"),
    "empty output": (lambda: run(output_path=""), "--output_path: is empty; expected a folder"),
    "listener": (lambda: run(listener=3), "listener is 3, an int; expected a function"),
    "flag": (lambda: run(log_samples="yes"), "log_samples is 'yes', a str; expected True or False"),
    "include": (lambda: run(include_path=3), "include_path is 3, an int"),
    "samples": (lambda: run(samples=[1]), "samples is [1], a list; expected a dict or None"),
    "one sample": (lambda: run(samples={"a": 3}), "samples['a'] is 3, an int; expected a list of whole numbers"),
    "place": (lambda: run(samples={"a": ["b"]}), "samples['a'][0] is 'b', a str; expected a whole number"),
    "sample": (lambda: run(sample="many"), "sample is 'many', a str"),
    "style": (lambda: run(style=3), "style is 3, an int"),
    "like": (lambda: run(like=3), "like is 3, an int"),
    "engine": (lambda: run(engine=3), "engine is 3, an int"),
    "finetune": (lambda: run(finetune=3), 'Say finetune="full"'),
    "bootstrap": (lambda: run(bootstrap_iters="x"), "bootstrap_iters is 'x', a str"),
    "fewer": (lambda: run(bootstrap_iters=-1), "--bootstrap_iters: is -1; expected 0 or more"),
    "chat": (lambda: run(apply_chat_template=3), "apply_chat_template is 3, an int"),
    "scoring": (lambda: run(scoring=3), "scoring is 3, an int"),
    "orders": (lambda: run(orders="x"), "orders is 'x', a str"),
    "window": (lambda: run(window="x"), "window is 'x', a str"),
    "until": (lambda: run(until_se="x"), "until_se is 'x', a str"),
    "all at once": (lambda: run(limit="ten", style=3, limits=1), "style is 3, an int"),
    # questions
    "blue": (
        lambda: made(lambda row: Choose("q", ["red", "green"], "blue")),
        'task mine, document 0: the answer "blue" is not one of the choices; expected the index of the right choice, '
        'from 0, or one of "red", "green"',
    ),
    "twins": (lambda: made(lambda row: Choose("q", ["a", "a"], "a")), 'the answer "a" is more than one of the choices'),
    "letters": (lambda: made(lambda row: Choose("q", "AB", 0)), "choices is 'AB', a str; expected a list of strings"),
    "numbers": (lambda: made(lambda row: Choose("q", [1, 2], 0)), "choices[0] is 1, an int; expected a string"),
    "no choices": (lambda: made(lambda row: Choose("q", [], 0)), "has the answer 0 and 0 choices"),
    "beyond": (lambda: made(lambda row: Choose("q", ["a", "b"], 2)), "expected an index from 0 to 1"),
    "float": (lambda: made(lambda row: Choose("q", ["a", "b"], 1.0)), "answer is 1.0, a float"),
    "no answer": (lambda: made(lambda row: Choose("q", ["a", "b"], None)), "answer is None"),
    "no prompt": (lambda: made(lambda row: Choose(None, ["a"], 0)), "prompt is None; expected a string"),
    "turns": (
        lambda: made(lambda row: Choose([{"role": "user", "content": "x"}], ["a"], 0)),
        "prompt[0] is {'content': 'x', 'role': 'user'}, a dict; expected a Message",
    ),
    "answr": (lambda: made(lambda row: Choose("q", ["a"], answr=0)), 'unknown argument "answr" (did you mean "answer"'),
    "no text": (lambda: made(lambda row: Complete("q", None)), "continuation is None; expected a string"),
    "empty text": (lambda: made(lambda row: Complete("q", "")), "the continuation is empty"),
    "written": (lambda: made(lambda row: Write("q", 3)), "answer is 3, an int; expected a string or a list of strings"),
    "unwritten": (lambda: made(lambda row: Write("q", [])), "has no answer; expected a string"),
    "tokens": (lambda: made(lambda row: Write("q", "a", max_tokens="x")), "max_tokens is 'x', a str"),
    "sampling": (lambda: made(lambda row: Write("q", "a", sampling={"temperature": 1})), "expected a Sampling"),
    "hot": (
        lambda: made(lambda row: Write("q", "a", sampling=Sampling("hot"))),
        "sampling.temperature is 'hot', a str",
    ),
    "unread": (lambda: made(lambda row: Read(None)), "text is None; expected a string"),
    "returns nothing": (
        lambda: made(lambda row: None),
        "returned None; expected assay.Choose, Complete, Write or Read",
    ),
    "returns text": (lambda: made(lambda row: "q"), "its function returned 'q', a str"),
    "returns class": (lambda: made(lambda row: Choose), "its function returned the class Choose"),
    "raises": (
        lambda: made(lambda row: row["nope"]),
        "raised KeyError: 'nope'. The row has: question, choices, answer",
    ),
    # tasks in Python
    "rows of text": (lambda: made(answer, rows=["a"]), "task mine, row 0: is 'a', a str; expected a dict such as"),
    "one text": (lambda: made(answer, rows="abc"), "its rows are 'abc', a str; expected a list of dicts"),
    "a dict": (lambda: made(answer, rows={"a": 1}), "its rows are {'a': 1}, a dict; expected a list of dicts"),
    "rows nowhere": (lambda: made(answer, rows=None), "rows is None; expected a list of dicts or a function"),
    "no rows": (lambda: made(answer, rows=[]), "task mine: has no rows"),
    "loads nothing": (lambda: made(answer, rows=lambda: None), "its rows are None; expected a list of dicts"),
    "columns": (lambda: made(answer, rows=[{1: 2}]), "task mine, row 0: has the columns [1]"),
    "no brackets": (lambda: assay.task(answer), "rows is missing; expected task(name, rows, version, …)"),
    "no name": (lambda: assay.task("", rows=ROWS), "task(): name is empty"),
    "not a function": (lambda: assay.task("a", rows=ROWS)(3), "decorates 3, an int; expected a function"),
    "metric in task": (
        lambda: made(answer, metrics=[len]),
        "metrics[0] is a function (len); expected a string or a Met",
    ),
    "filter in task": (
        lambda: made(answer, filters=["take_first"]),
        "filters[0] is 'take_first', a str; expected a Pip",
    ),
    "keyword": (lambda: made(answer, metric="acc"), 'task(): unknown argument "metric" (did you mean "metrics"?)'),
    # the other functions
    "plan": (lambda: assay.plan_run("ngram", "demo", detct=0.1), 'unknown argument "detct" (did you mean "detect"?)'),
    "detect": (lambda: assay.plan_run("ngram", "demo", detect="x"), "detect is 'x', a str; expected a number"),
    "rescore": (lambda: assay.rescore("last", metric="acc"), 'rescore(): unknown argument "metric" (did you mean'),
    "rescored": (lambda: assay.rescore(3), "run is 3, an int; expected a string or a RunResult"),
    "names": (lambda: assay.rescore("last", tasks="demo", store=":memory:"), "tasks names demo; expected task objects"),
    "margins": (lambda: assay.compare("a", "b", margins=1), 'unknown argument "margins" (did you mean "margin"?)'),
    "margin": (lambda: assay.compare("a", "b", margin="x"), "margin is 'x', a str; expected a number or None"),
    "run": (lambda: assay.compare(1, 2), "compare(): runs is 1, an int; expected a string or a RunResult"),
    "across": (lambda: assay.compare("a", "b", across=3), "across is 3, an int; expected a list of strings"),
    "one run": (lambda: assay.explain("a"), "explain(): second is missing"),
    "three": (lambda: assay.explain("a", "b", tasks=["x"] * 3, store=":memory:"), "3 tasks; expected one for each run"),
    "metrics": (lambda: assay.explain("a", "b", metrics=[], store=":memory:"), "0 metrics; expected one for each run"),
    "spec": (lambda: assay.make_spec("a", ["b"], limits=3), 'make_spec(): unknown argument "limits"'),
    "spec model": (lambda: assay.make_spec(None, ["b"]), "model is None; expected a string"),
    "matrix": (lambda: assay.evaluate_matrix([answer], "demo"), "models[0] is a function (answer)"),
    "blank model": (lambda: assay.evaluate_matrix(" ", "demo"), "names no model"),
    "in memory": (lambda: assay.compare(kept_nowhere(), "last"), "was stored in memory only, by evaluate"),
    "no models": (lambda: assay.evaluate_matrix(None, "demo"), "models is None"),
    "matrix metric": (
        lambda: assay.evaluate_matrix("ngram", "demo", metric=3),
        "metric is 3, an int; expected a string",
    ),
    "methods": (
        lambda: assay.study_methods("ngram", "demo", styles=3),
        "styles is 3, an int; expected a list of strings",
    ),
    "fit": (lambda: assay.finetune("ngram", "demo", fit="full"), "fit is 'full', a str; expected a dict or None"),
    "fit name": (lambda: assay.finetune("ngram", "demo", epochs=3), "go into fit={'epochs': …} of finetune()"),
    "document": (lambda: assay.show_document(toy_choice_task(4), "first"), "index is 'first', a str; expected a whole"),
    "document keyword": (lambda: assay.show_document(toy_choice_task(4), docs=1), 'unknown argument "docs"'),
    "ratings": (lambda: assay.rater_agreement(3), "ratings is 3, an int; expected a dict"),
    "scale": (
        lambda: assay.rater_agreement({"a": [1], "b": [1]}, scale="x"),
        "expected 'nominal', 'ordinal' or 'inter",
    ),
    "Sampling": (lambda: Sampling(temprature=1), 'Sampling(): unknown argument "temprature" (did you mean "temperatur'),
    "Fingerprint": (lambda: assay.Fingerprint(), "name is missing; expected Fingerprint(name, revision, weights, …)"),
    "Capabilities": (lambda: assay.Capabilities(kind=1), 'unknown argument "kind" (did you mean "kinds"'),
    "Windows": (lambda: assay.Windows("x"), "Windows(): length is 'x', a str; expected a whole number or None"),
    "Message": (lambda: Message("user", content="x"), 'Message(): unknown argument "content"'),
    "MetricSpec": (lambda: assay.MetricSpec("a", fn=len), 'MetricSpec(): unknown argument "fn"'),
}


@pytest.mark.parametrize("slip", CALLS)
def test_a_slip_is_reported(slip: str) -> None:
    call, message = CALLS[slip]
    with pytest.raises(UserError, match=re.escape(message)):
        call()


VERBS = [name for name in assay.__all__ if inspect.isfunction(getattr(assay, name))]


def test_the_verbs_are_found() -> None:
    assert {"evaluate", "compare", "rescore", "task", "make_spec", "finetune", "show_document"} <= set(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_no_public_function_takes_an_unknown_keyword(name: str) -> None:
    with pytest.raises(ArgumentError, match='unknown argument "zzz_unknown"'):
        getattr(assay, name)(zzz_unknown=1)


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("value", [None, 3, object(), [object()], {"a": object()}, answer, ScriptedModel, b"x", ""])
def test_no_public_function_ends_in_a_raw_error(name: str, value: Any, tmp_path: Path) -> None:
    function = getattr(assay, name)
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind < 4]
    given = [value for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    store = {"store": tmp_path / "s.db"} if "store" in inspect.signature(function).parameters else {}
    try:
        function(*given, *([value, value] if name == "compare" else []), **store)
    except UserError as error:
        assert error.faults
    else:  # nothing is run, asked or recorded by what says nothing
        assert name in ("make_spec", "task", "rater_agreement"), f"{name} took {value!r}"


def test_an_argument_error_is_a_type_error_too() -> None:
    with pytest.raises(TypeError, match="limits"):
        run(limits=3)


def test_all_slips_of_a_call_are_reported_together() -> None:
    with pytest.raises(ArgumentError) as caught:
        run(limits=3, num_fewshot="five", style=3)
    assert len(caught.value.faults) == 3


def test_an_unknown_public_name_has_its_nearest() -> None:
    with pytest.raises(AttributeError, match='did you mean "evaluate"'):
        _ = assay.evalute  # type: ignore[attr-defined]


def advised(call: Callable[[], Any]) -> str:
    """The code that an error gives as an example."""
    with pytest.raises(UserError) as caught:
        call()
    return textwrap.dedent(str(caught.value).partition("For example:\n")[2])


def test_the_model_that_the_error_shows_works() -> None:
    def reply(prompt: str) -> str:
        return "7"

    scope: dict[str, Any] = {"assay": assay, "reply": reply}
    exec(advised(lambda: run(model=reply)), scope)
    result = assay.evaluate(scope["MyModel"](), toy_generation_task(4), store=":memory:")
    assert result.task("toy_generation").metric("exact_match").estimate.value == 0.25


def test_the_task_that_the_error_shows_works(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text("import assay\n" + advised(lambda: run(tasks=answer)), encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(code.read_text(encoding="utf-8"), str(code), "exec"), scope)
    assert assay.evaluate(ScriptedModel(answer), scope["my_task"], store=":memory:").counts.asked == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"limit": np.int64(2)},
        {"limit": np.float32(0.5)},
        {"limit": 2.0},
        {"num_fewshot": np.int32(0)},
        {"seed": 7},
        {"seed": "1,2,3"},
        {"seed": [1, 2, 3, None]},
        {"batch_size": None},
        {"batch_size": 4},
        {"gen_kwargs": {"temperature": np.float64(0.0)}},
        {"gen_kwargs": ["temperature=0", "max_gen_toks=4"]},
        {"metrics": ("acc",)},
        {"samples": {"toy_choice": np.array([0, 2])}},
        {"log_samples": np.True_},
        {"metadata": {"folder": Path("data"), "sizes": np.arange(3), "pairs": [(1, "a")]}},
    ],
)
def test_what_fits_is_taken(settings: dict[str, Any]) -> None:
    model = ScriptedModel(answer)
    assert assay.evaluate(model, toy_choice_task(4), store=":memory:", **settings).counts.built


def test_seeds_may_be_given_as_on_the_command_line() -> None:
    assert (
        assay.make_spec("ngram", "demo", seed="1,2,3").seeds == assay.make_spec("ngram", "demo", seed=[1, 2, 3]).seeds
    )
    with pytest.raises(UserError, match="is given twice, as seed and as seeds"):
        assay.make_spec("ngram", "demo", seed=1, seeds=assay.make_spec("ngram", "demo").seeds)


def test_numbers_of_numpy_are_recorded_as_plain_ones() -> None:
    spec = assay.make_spec("ngram", ["demo"], limit=np.int64(3), num_fewshot=np.int64(2))
    assert [type(spec.limit), type(spec.options.num_fewshot)] == [int, int]


def test_an_open_store_is_used_and_stays_open() -> None:
    with Store(":memory:") as store:
        first = assay.evaluate(ScriptedModel(answer), toy_choice_task(4), store=store)
        second = assay.evaluate(Counting(answer), toy_choice_task(4), store=store)
        assert (first.counts.asked, second.counts.asked) == (first.counts.unique, 0)


def test_a_store_that_is_not_open_is_opened(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    assert assay.evaluate(ScriptedModel(answer), toy_choice_task(2), store=store).counts.asked
    assert not store.is_open
    assert assay.evaluate(Counting(answer), toy_choice_task(2), store=store).counts.asked == 0


def test_the_answer_may_be_the_text_of_a_choice() -> None:
    def ask(row: Any) -> Choose:
        return Choose(row["question"], row["choices"], row["choices"][row["answer"]])

    def place(row: Any) -> Choose:
        return Choose(row["question"], row["choices"], row["answer"])

    with Store(":memory:") as store:
        for function, asked in ((place, 4), (ask, 0)):  # the same requests, and the same scores
            result = assay.evaluate(ScriptedModel(answer), assay.task("mine", rows=ROWS)(function), store=store)
            assert (result.counts.asked, result.tasks[0].metric("acc").estimate.value) == (asked, 0.5)


def test_one_stop_string_is_not_taken_apart() -> None:
    task = assay.task("mine", rows=ROWS)(lambda row: Write("q", "a", stop="END"))
    (request,) = task.build(task.documents()[0]).requests
    assert isinstance(request, Generation)
    assert request.stop == ("END",)


def test_rows_may_come_from_a_generator_and_messages_in_a_list() -> None:
    task = assay.task("mine", rows=({"n": n} for n in range(3)))(lambda row: Complete([Message("user", "x")], "y"))
    (request,) = task.build(task.documents()[2]).requests
    assert isinstance(request, Loglikelihood)
    assert request.prompt == (Message("user", "x"),)


def test_settings_without_effect_on_an_object_are_reported() -> None:
    message: list[Any] = []
    model = ScriptedModel(answer)
    assay.evaluate(
        model, toy_choice_task(2), store=":memory:", listener=message.append, model_args="a=1", device="cuda"
    )
    texts = [event.text for event in message if isinstance(event, Noticed)]
    assert any("model_args, device have no effect on a model that is given as an object" in text for text in texts)


def test_a_model_that_returns_a_list_is_taken() -> None:
    class Listing(ScriptedModel):
        def respond(self, requests: Any) -> Any:
            return list(super().respond(requests))

    assert assay.evaluate(Listing(answer), toy_choice_task(2), store=":memory:").counts.failed == 0


@pytest.mark.parametrize("slip", ["temprature", "do_smaple", "max_new_token", "num_beam"])
def test_a_slip_in_gen_kwargs_is_refused_before_the_first_request(slip: str) -> None:
    with pytest.raises(assay.UserError, match=f'--gen_kwargs: unknown setting "{slip}" .did you mean'):
        assay.evaluate("dummy", "demo_scramble_cycle", limit=1, store=":memory:", gen_kwargs={slip: 1})


def test_a_models_own_generation_setting_is_passed_on() -> None:
    result = assay.evaluate("dummy", "demo_scramble_cycle", limit=1, store=":memory:", gen_kwargs={"guidance": 1})
    assert not result.problems


@pytest.mark.parametrize("kwargs", ["temperature=nan", "temperature=-1", "temperature=inf", "do_sample=no"])
def test_generation_settings_without_a_meaning_are_refused(kwargs: str) -> None:
    with pytest.raises(assay.UserError, match="expected (0|true)"):
        assay.evaluate("dummy", "demo_scramble_cycle", limit=1, store=":memory:", gen_kwargs=kwargs)
