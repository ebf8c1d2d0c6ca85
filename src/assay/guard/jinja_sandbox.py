"""Jinja sandbox with resource limits: no template of a task file or model can exhaust time or memory.

Provides an environment to which a dialect adds filters and globals. The result size of an operation, string method or
filter is computed in advance (`size_limit`); slow or steadily growing work is interrupted (`time_limit`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from functools import update_wrapper, wraps
from typing import Any

from jinja2 import Template, nodes, pass_environment, pass_eval_context
from jinja2.compiler import CodeGenerator, Frame, optimizeconst
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter, sync_do_join, sync_do_sum
from jinja2.nodes import EvalContext
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup

from assay.guard import size_limit
from assay.guard.time_limit import ResourceLimit

# Arguments that Jinja adds to calls within loops and blocks, for functions that take a context.
_JINJA_CALL_VARIABLES = ("_loop_vars", "_block_vars")
_MEASURED = frozenset({"join", *size_limit.METHODS})
_FORMATS = ("format", "format_map")
_CONTAINERS = frozenset({list, tuple, dict})
# Types of values in data files, whose methods a template may call.
_PLAIN = (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, range, date, time, timedelta, Decimal)
_JINJAS_TYPES = (BlockReference, Cycler, Joiner, LoopContext, Macro, Namespace, TemplateReference, Undefined)
# Methods of arrays and tensors that return plain values.
_PLAIN_NAMES = frozenset({"item", "tolist"})


class _Generator(CodeGenerator):
    """Generates the code of templates: also size-checks texts and lists built without an operator or call."""

    @optimizeconst
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802  (Jinja's name)
        may_escape = frame.eval_ctx.volatile or frame.eval_ctx.autoescape
        self.write("environment.concatenated((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("), markup_join if context.eval_ctx.autoescape else None)" if may_escape else "))")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        self._with_size_check(super().visit_List, node, node.items, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        self._with_size_check(super().visit_Tuple, node, node.items if node.ctx == "load" else (), frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self._with_size_check(super().visit_Dict, node, [pair.value for pair in node.items], frame)

    def _with_size_check(
        self, visit: Callable[..., None], node: nodes.Node, items: Iterable[nodes.Node], frame: Frame
    ) -> None:
        is_written_out = all(isinstance(item, nodes.Const) for item in items)
        self.write("" if is_written_out else "environment.size_checked(")
        visit(node, frame)
        self.write("" if is_written_out else ")")


class GuardedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja sandbox that limits the size of everything a template creates."""

    code_generator_class = _Generator
    intercepted_binops = frozenset({"*", "**", "%", "+"})
    concat = staticmethod(size_limit.joined)
    size_checked = staticmethod(size_limit.size_checked)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.globals["namespace"] = _Namespace
        self.filters |= {name: guarded_filter(self.filters[name], check) for name, check in size_limit.FILTERS.items()}
        self.filters |= {"join": _join, "sum": _sum}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may read an attribute; not a method of images or arrays, some of which write files."""
        return super().is_safe_attribute(obj, attr, value) and (not callable(value) or _is_safe_method(obj, attr))

    def from_string(self, *arguments: Any, **settings: Any) -> Template:
        """Compiles a template; constants are folded here."""
        with ResourceLimit():
            return super().from_string(*arguments, **settings)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operation, if its result is not too large."""
        size_limit.check_operation(operator, left, right)
        found = super().call_binop(context, operator, left, right)
        return size_limit.size_checked(found) if isinstance(found, (list, tuple)) else found

    @staticmethod
    def concatenated(parts: tuple[Any, ...], join: Callable[[Iterable[Any]], str] | None = None) -> str:
        """`a ~ b ~ c`; with autoescaping, `join` escapes."""
        texts = list(map(str, parts))
        size_limit.check_size(sum(map(len, texts)))
        return "".join(texts) if join is None else join(parts)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  (as in Jinja)
        """A call; methods of strings and numbers are checked for the size of their result first."""
        if getattr(__obj, "__name__", None) in _MEASURED:
            owner = getattr(__obj, "__self__", None)
            if isinstance(owner, (str, bytes, int)):
                args = _measured(owner, __obj.__name__, args, kwargs)
        if not __self.is_safe_callable(__obj):
            raise SecurityError(f"{__obj!r} is not safely callable")
        found = __context.call(__obj, *args, **kwargs)
        return size_limit.size_checked(found) if type(found) in _CONTAINERS else found

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format` and `str.format_map` as in Jinja's sandbox, with a limit on their output."""
        is_method = isinstance(value, (types.MethodType, types.BuiltinMethodType))
        if not is_method or value.__name__ not in _FORMATS or not isinstance(value.__self__, str):
            return None
        text = value.__self__
        is_map = value.__name__ == "format_map"

        def written(*args: Any, **kwargs: Any) -> str:
            if is_map and (kwargs or len(args) != 1):
                raise TypeError(f"format_map() takes exactly one argument ({len(args) + len(kwargs)} given)")
            formatter = _EscapeFormatter(self, escape=text.escape) if isinstance(text, Markup) else _Formatter(self)
            found = formatter.vformat(text, (), args[0]) if is_map else formatter.vformat(text, args, kwargs)
            return Markup(found) if isinstance(text, Markup) else found

        return update_wrapper(written, value)


def _is_safe_method(obj: Any, name: str) -> bool:
    """Whether a method belongs to plain values or Jinja; a subclass such as numpy.float64 has others, too."""
    if isinstance(obj, _PLAIN):
        return type(obj) in _PLAIN or any(hasattr(kind, name) for kind in _PLAIN if isinstance(obj, kind))
    return isinstance(obj, _JINJAS_TYPES) or name in _PLAIN_NAMES


class _Formatter(SandboxedFormatter):
    _size = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        size_limit.check_specification(format_spec)
        text = super().format_field(value, format_spec)
        self._size += len(text)
        size_limit.check_size(self._size)
        return text


class _EscapeFormatter(_Formatter, SandboxedEscapeFormatter):
    pass


class _Namespace(Namespace):
    """Jinja's namespace object, which a loop can write to, so that values can grow in it."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        Namespace.__init__(*args, **kwargs)
        size_limit.size_checked(args[0])

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, size_limit.size_checked(value))


def guarded_filter(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    """A filter that runs after a check of its arguments."""
    takes_context = hasattr(function, "jinja_pass_arg")

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check(*(args[1:] if takes_context else args), **kwargs)
        return function(*args, **kwargs)

    return checked


def _measured(owner: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of a method, after a check that its result is not too large."""
    if name == "join":
        return (_listed(owner, args[0]), *args[1:]) if args else args
    given = {key: value for key, value in kwargs.items() if key not in _JINJA_CALL_VARIABLES}
    size_limit.METHODS[name](owner, *args, **given)
    return args


def _listed(separator: Any, items: Iterable[Any]) -> list[Any]:
    """The items of a join, size-checked."""
    listed = list(items)
    sizes = sum(len(item) if isinstance(item, (str, bytes)) else len(str(item)) for item in listed)
    size_limit.check_size(sizes + len(separator) * len(listed))
    return listed


@pass_eval_context
def _join(eval_ctx: EvalContext, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(eval_ctx.environment, attribute), value)
    return sync_do_join(eval_ctx, _listed(str(d), value), d)


@pass_environment
def _sum(environment: Any, iterable: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
    if not isinstance(start, (list, tuple)):
        return sync_do_sum(environment, iterable, attribute, start)
    if attribute is not None:
        iterable = map(make_attrgetter(environment, attribute), iterable)
    for item in iterable:
        start = size_limit.size_checked(start + item)
    return start
