"""`@assay.model`: a function that answers one request, or a class that answers many, becomes a model with a name.

@assay.model("echo")
def echo(request: assay.Generation) -> str:
    return str(request.prompt).split()[-1]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from assay.core.annotations import TypeMismatch, reader, shown
from assay.core.call_checks import checked
from assay.core.errors import ArgumentError, Fault, ModelError
from assay.core.identity import Fingerprint
from assay.core.plugin_functions import PluginFunction, plugin_function, type_hints
from assay.core.protocols import Capabilities, Model
from assay.core.requests import HEAD_KINDS, REQUEST_KINDS, Generation, Request
from assay.core.responses import Failure, Output, Text
from assay.core.specs import ModelSettings
from assay.models.download.named import NAMED_MODELS
from assay.models.model_registry import ALIASES, MODELS

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@checked()
def model(
    name: str, *, kinds: str | Sequence[str] | None = None, version: int | str = 1, has_chat: bool = False
) -> Callable[[Decorated], Decorated]:
    """Makes a function that answers one request into a model, for `model=` and `--model`.

    The function is called as `f(request)` and returns a string for a `Generation` request (cut at its stop strings), a
    `Logprob` for a `Loglikelihood` or `RollingLoglikelihood` request, or a `Failure`. Keyword-only parameters are
    settings that come from `model_args`. A model with state is a class that satisfies the `Model` protocol, made from
    `model_args` as keywords.

    Stored answers are reused while the model stays the same: its name, settings, `version` and source text. Raise
    `version` when something outside the function changes its answers. A class states its own fingerprint.

    Args:
        name: the model's name.
        kinds: request kinds that the function answers; those of the annotation of its parameter when None, or
            `generation`.
        version: counts in the fingerprint.
        has_chat: whether the function takes prompts that are lists of messages.
    """
    MODELS.check_name(name)
    if name in ALIASES or name in NAMED_MODELS:
        found, advice = f'the name "{name}" is taken by a built-in', "Choose another name; see: assay ls models"
        raise ArgumentError(Fault("@assay.model", found, "a new name", advice))

    def wrap(decorated: Decorated) -> Decorated:
        if isinstance(decorated, type):
            MODELS.add(name, decorated, _class_opener(plugin_function("model", name, decorated, ())))
            return decorated
        plugin = plugin_function("model", name, decorated, ("request",))
        able = Capabilities(_kinds(plugin, kinds), has_chat=has_chat, family="function")

        def open_function(args: Mapping[str, Any], settings: ModelSettings) -> Model:
            """Opens the model of a function."""
            call = plugin.with_settings(args)
            identity = {**plugin.settings, **args, "function_version": version, "function_code": plugin.digest}
            return FunctionModel(plugin, call, Fingerprint(name, settings=identity), able)

        open_function.__doc__ = plugin.description
        MODELS.add(name, decorated, open_function)
        return decorated

    return wrap


def _kinds(plugin: PluginFunction, given: str | Sequence[str] | None) -> frozenset[str]:
    """The request kinds of a function: those given, or those of its parameter's annotation."""
    if given is None:
        parameter = next(iter(inspect.signature(plugin.call).parameters))
        annotation = type_hints(plugin.call).get(parameter)
        classes = get_args(annotation) or (annotation,)
        found = [kind for kind in (getattr(item, "kind", None) for item in classes) if isinstance(kind, str)]
        return frozenset(found or [Generation.kind])
    named = frozenset([given] if isinstance(given, str) else given)
    known = (*REQUEST_KINDS, *HEAD_KINDS)
    if not named or not named.issubset(known):
        strange = ", ".join(sorted(named.difference(known))) or "empty"
        raise ArgumentError(
            Fault(f'@assay.model("{plugin.name}")', f"kinds is {strange}", "some of " + ", ".join(known))
        )
    return named


def _class_opener(plugin: PluginFunction) -> Callable[[Mapping[str, Any], ModelSettings], Model]:
    def open_class(args: Mapping[str, Any], settings: ModelSettings) -> Model:
        made = plugin.with_settings(args)()
        try:
            found: Model = reader(Model)(made)
        except TypeMismatch as mismatch:
            text = f"gives {shown(mismatch.value)}{mismatch.detail}, which is not a model"
            expected = "fingerprint, capabilities, respond(requests) and close()"
            raise ModelError(Fault(plugin.where, text, expected, "See: help(assay.Model)")) from None
        return found

    open_class.__doc__ = plugin.description
    return open_class


class FunctionModel:
    """A model that calls a function for each request in turn. Satisfies the `Model` protocol.

    An exception of the function fails only its own request.
    """

    def __init__(
        self, plugin: PluginFunction, call: Callable[[Request], Any], fingerprint: Fingerprint, able: Capabilities
    ) -> None:
        self.fingerprint = fingerprint
        self.capabilities = able
        self._plugin = plugin
        self._function = call

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        for place, request in enumerate(requests):
            try:
                answer = self._function(request)
            except Exception as error:  # a function of the user may raise anything
                answer = Failure("exception", f"{self._plugin.where} raised {type(error).__name__}: {error}")
            yield place, _as_output(answer, request)

    def close(self) -> None:
        pass


def _as_output(answer: Any, request: Request) -> Any:
    """A text as an output, cut at the request's stop strings; anything else goes to the run, which checks it."""
    if not isinstance(answer, str) or not isinstance(request, Generation):
        return answer
    if request.max_tokens == 0:
        return Text("", "length")
    ends = [answer.find(stop) for stop in request.stop if stop and stop in answer]
    return Text(answer[: min(ends)], "stop") if ends else Text(answer, "eos")
