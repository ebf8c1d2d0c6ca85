"""Functions and classes that a decorator (`@assay.metric`, `@assay.filter`, `@assay.model`) makes into plugins.

In: the decorated function or class. Out: its settings (the keyword-only parameters), its description and a digest of
its code, after checking that it can be called as such a plugin is called.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, get_type_hints

from assay.core.annotations import TypeMismatch, reader, shown
from assay.core.errors import ArgumentError, Fault, UserError, did_you_mean

_DIGEST_LETTERS = 16


@dataclass(frozen=True, slots=True)
class PluginFunction:
    """A decorated function or class.

    Attributes:
        noun: `metric`, `filter` or `model`.
        name: the plugin's name.
        call: the function, or the class.
        settings: name → default of every keyword-only parameter.
    """

    noun: str
    name: str
    call: Callable[..., Any]
    settings: Mapping[str, Any]

    @property
    def where(self) -> str:
        """The plugin with the place of its code, for errors."""
        code = getattr(self.call, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        return f'{self.noun} "{self.name}"{place}'

    @property
    def description(self) -> str:
        """The first line of the docstring; the function's name without one."""
        text = inspect.getdoc(self.call) or ""
        return text.split("\n")[0].strip() or getattr(self.call, "__qualname__", self.name)

    @property
    def digest(self) -> str:
        """Hash of the code itself. Code that it calls and data that it reads are not included."""
        return hashlib.sha256(_source(self.call)).hexdigest()[:_DIGEST_LETTERS]

    def with_settings(self, given: Mapping[str, Any]) -> Callable[..., Any]:
        """The function with settings; an unknown or ill-typed one is an error."""
        unknown = [name for name in given if name not in self.settings]
        faults = [
            Fault(self.where, f'unknown setting "{name}"{did_you_mean(name, self.settings)}', self._expected())
            for name in unknown
        ]
        values = dict(given)
        hints = type_hints(self.call)
        for name in given.keys() - set(unknown):
            try:
                values[name] = reader(hints.get(name, Any))(given[name])
            except TypeMismatch as mismatch:
                faults.append(mismatch.fault(self.where, name))
        if faults:
            raise UserError(*faults)
        return functools.partial(self.call, **values) if values else self.call

    def _expected(self) -> str:
        return "one of: " + ", ".join(self.settings) if self.settings else "no settings"

    def raised(self, error: BaseException, value: Any) -> UserError:
        """The error for code of the plugin that raised something."""
        if isinstance(error, UserError):
            return error
        found = f"raised {type(error).__name__}: {error}; it was given {shown(value)}"
        return UserError(Fault(self.where, found, next="Correct the function"))

    def returned(self, value: Any, expected: str, advice: str) -> UserError:
        """The error for a return value of another type than expected."""
        return UserError(Fault(self.where, f"returned {shown(value)}", expected, advice))


def plugin_function(noun: str, name: str, decorated: Any, parameters: Sequence[str]) -> PluginFunction:
    """The decorated function or class, after checking its signature.

    Args:
        noun: `metric`, `filter` or `model`.
        name: the plugin's name.
        decorated: a function or class.
        parameters: names of the positional arguments that it is called with.
    """
    where = f'@assay.{noun}("{name}")'
    if not callable(decorated):
        found, advice = f"is written above {shown(decorated)}", "Write it directly above the function"
        raise ArgumentError(Fault(where, found, "a function", advice))
    own = list(inspect.signature(decorated).parameters.values())
    settings = {item.name: item.default for item in own if item.kind is item.KEYWORD_ONLY}
    positional = [item for item in own if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    variable = [item for item in own if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    lacking = [key for key, default in settings.items() if default is inspect.Parameter.empty]
    if len(positional) != len(parameters) or variable or lacking:
        title = getattr(decorated, "__name__", name)
        found = f"{title}{inspect.signature(decorated)} cannot be called as a {noun}"
        expected = f"{title}({', '.join((*parameters, '*', 'setting=default', '…'))})"
        advice = "Settings are keyword-only parameters with defaults"
        raise ArgumentError(Fault(where, found, expected, advice))
    return PluginFunction(noun, name, decorated, settings)


def type_hints(decorated: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function or of a class's constructor; none if they cannot be evaluated."""
    try:
        return get_type_hints(vars(decorated).get("__init__") if isinstance(decorated, type) else decorated)
    except Exception:  # an annotation may name anything, also what exists for type checkers only
        return {}


def _source(decorated: Callable[..., Any]) -> bytes:
    """The source text; the compiled code where there is no file, as on an interactive prompt."""
    try:
        return inspect.getsource(decorated).encode("utf-8", "surrogatepass")
    except (OSError, TypeError):
        return b"\x00".join(_compiled(decorated))


def _compiled(decorated: Any) -> Iterator[bytes]:
    if isinstance(decorated, type):
        for name, member in sorted(vars(decorated).items()):
            yield name.encode()
            yield from _compiled(member)
    elif isinstance(decorated, CodeType):
        yield decorated.co_code
        yield repr(decorated.co_names).encode()
        for constant in decorated.co_consts:
            yield from _compiled(constant)
    elif hasattr(decorated, "__code__"):
        yield from _compiled(decorated.__code__)
    else:
        yield repr(decorated).encode() if isinstance(decorated, (str, bytes, int, float, tuple, type(None))) else b""
