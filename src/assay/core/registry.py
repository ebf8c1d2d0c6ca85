"""Registries: names of built-in models, metrics and filters, of plugins, and names added by a decorator.

A table maps a built-in name to `module:attribute`, which is imported on first use. Plugins of a package `acme` come
from its entry points and are named `acme/name`. A decorator such as `@assay.metric` adds a name for this process.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cached_property
from importlib import metadata
from typing import Any

from assay.core.annotations import TypeMismatch, fits, reader, shown
from assay.core.errors import ArgumentError, Fault, UserError, unknown_name

# A comma separates names, `@` a setting or a variant, `/` the package of a plugin, `:` the settings of a model.
_NAME = re.compile(r"[A-Za-z_][\w.+-]*")
# Whether a module is being imported for an entry point: from outside, its names are then `package/name`.
_loads_plugin: ContextVar[bool] = ContextVar("loads_plugin", default=False)


class Registry:
    """Names of one kind of object and where to find each.

    Attributes:
        noun: the kind: `metric`, `filter`, `model`, ….
        table: built-in name → `module:attribute`.
        group: the entry-point group of plugins.
        added: name → the object that a decorator created in this process.
    """

    def __init__(self, noun: str, table: Mapping[str, str], group: str) -> None:
        self.noun = noun
        self.table = table
        self.group = group
        self.added: dict[str, Any] = {}
        self._decorated: dict[str, Callable[..., Any]] = {}
        self._made_of: dict[Any, Any] = {}
        self._of_plugins: set[str] = set()
        self._shared: set[str] = set()

    def add(self, name: str, decorated: Callable[..., Any], value: Any) -> None:
        """Adds a name for this process.

        Repeating the definition (a notebook cell that runs again) replaces it; a name of other code is an error.

        Args:
            name: the new name.
            decorated: the function or class as the program defines it; an entry point may name it too.
            value: the object that `get` returns for the name.
        """
        self.check_name(name)
        self._made_of[decorated] = value
        if _loads_plugin.get():
            self._add_of_plugin(name, decorated, value)
            return
        earlier = self._decorated.get(name)
        is_other = earlier is not None and _origin(earlier) != _origin(decorated) and name not in self._of_plugins
        if name in self.table or is_other:
            owner = f"the {self.noun} of {_shown_origin(earlier)}" if earlier is not None else "a built-in"
            advice = f"Choose another name; those in use: assay ls {self.noun}s"
            raise ArgumentError(
                Fault(f"@assay.{self.noun}", f'the name "{name}" is taken by {owner}', "a new name", advice)
            )
        self._of_plugins.discard(name)
        self.added[name], self._decorated[name] = value, decorated

    def _add_of_plugin(self, name: str, decorated: Callable[..., Any], value: Any) -> None:
        """Adds the bare name of a plugin, for other code of its package; a name that two packages use is removed."""
        earlier = self._decorated.get(name)
        is_other = earlier is not None and _origin(earlier) != _origin(decorated)
        if is_other and name in self._of_plugins:
            self._shared.add(name)
            self.remove(name)
        elif not is_other and name not in self.table and name not in self._shared:
            self._of_plugins.add(name)
            self.added[name], self._decorated[name] = value, decorated

    def check_name(self, name: str) -> None:
        """Rejects an invalid plugin name."""
        if not _NAME.fullmatch(name):
            expected, advice = "letters, digits and _ . + -, with a letter first", f'Say @assay.{self.noun}("my_name")'
            raise ArgumentError(Fault(f"@assay.{self.noun}", f"the name is {name!r}", expected, advice))

    def remove(self, name: str) -> None:
        """Removes a name that was added in this process."""
        self._of_plugins.discard(name)
        self._made_of.pop(self._decorated.pop(name, None), None)
        self.added.pop(name, None)

    @cached_property
    def plugins(self) -> dict[str, metadata.EntryPoint]:
        """Entry points of other packages, by qualified name."""
        found = {}
        for point in metadata.entry_points(group=self.group):
            package = point.dist.name if point.dist is not None else "unknown"
            found[f"{package}/{point.name}"] = point
        return found

    def names(self) -> list[str]:
        """All names: built-in ones, those of this process, plugins."""
        return [*sorted(self.table), *self.own_names(), *sorted(self.plugins)]

    def own_names(self) -> list[str]:
        """Names that this program added; plugins are listed as `package/name` only."""
        return sorted(self.added.keys() - self._of_plugins)

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self.added or name in self.plugins

    def get(self, name: str, where: str = "") -> Any:
        """The object of a name; an unknown name is an error that lists similar ones."""
        if name in self.table:
            module, _, attribute = self.table[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        if name in self.added:
            return self.added[name]
        if name in self.plugins:
            return self._load_plugin(name)
        raise unknown_name(self.noun, name, self.names(), where)

    def _load_plugin(self, name: str) -> Any:
        token = _loads_plugin.set(True)
        try:
            found = self.plugins[name].load()
        except Exception as error:  # a plugin may raise anything while it is imported
            raise self._broken(name, f"could not be loaded: {type(error).__name__}: {error}") from error
        finally:
            _loads_plugin.reset(token)
        return self._made_of.get(found, found) if callable(found) and _is_hashable(found) else found

    def create(self, name: str, protocol: type, *arguments: Any) -> Any:
        """Calls the object of a name and returns the result; the result of a plugin must satisfy the protocol."""
        make = self.get(name)
        if name not in self.plugins:  # a decorated object checks its own result
            return make(*arguments)
        if fits(make, protocol):
            return make
        try:
            inspect.signature(make).bind(*arguments)
        except (TypeError, ValueError) as error:
            raise self._broken(name, f"cannot be called with {len(arguments)} arguments: {error}") from None
        found = make(*arguments)
        try:
            return reader(protocol)(found)
        except TypeMismatch as mismatch:
            message = f"gives {shown(mismatch.value)}{mismatch.detail}, which is not a {self.noun}"
            raise self._broken(name, message, f"See: help(assay.{protocol.__name__})") from None

    def _broken(self, name: str, found: str, advice: str = "") -> UserError:
        mend = f"Fix or uninstall the package that declares it in the entry-point group {self.group}"
        return UserError(Fault(f'plugin "{name}" ({self.plugins[name].value})', found, next=advice or mend))


def _origin(decorated: Callable[..., Any]) -> tuple[str, str]:
    return decorated.__module__, decorated.__qualname__


def _shown_origin(decorated: Callable[..., Any]) -> str:
    return ".".join(part for part in _origin(decorated) if part)


def _is_hashable(value: Any) -> bool:
    return getattr(type(value), "__hash__", None) is not None
