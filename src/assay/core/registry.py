"""Registries of built-in names, one literal table per package, plus plugins from entry points, loaded on demand.

A table maps a name to `module:attribute`. Plugins of a package `acme` are named `acme/name`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from typing import Any

from assay.core.annotations import TypeMismatch, fits, reader, shown
from assay.core.errors import Fault, UserError, unknown_name


class Registry:
    """Names of one kind of object and where to import each from."""

    def __init__(self, noun: str, table: Mapping[str, str], group: str) -> None:
        self.noun = noun
        self.table = table
        self.group = group

    @cached_property
    def plugins(self) -> dict[str, metadata.EntryPoint]:
        """Entry points of other packages, by qualified name."""
        found = {}
        for point in metadata.entry_points(group=self.group):
            package = point.dist.name if point.dist is not None else "unknown"
            found[f"{package}/{point.name}"] = point
        return found

    def names(self) -> list[str]:
        """All names, built-in ones first."""
        return [*sorted(self.table), *sorted(self.plugins)]

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self.plugins

    def get(self, name: str, where: str = "") -> Any:
        """The object registered under a name; an error with the closest names if there is none."""
        if name in self.table:
            module, _, attribute = self.table[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        if name in self.plugins:
            return self._load_plugin(name)
        raise unknown_name(self.noun, name, self.names(), where)

    def _load_plugin(self, name: str) -> Any:
        try:
            return self.plugins[name].load()
        except Exception as error:  # a plugin may raise anything while it is imported
            raise self._broken(name, f"could not be loaded: {type(error).__name__}: {error}") from error

    def create(self, name: str, protocol: type, *arguments: Any) -> Any:
        """Calls the factory registered under a name. A plugin's result must fit the protocol."""
        make = self.get(name)
        if name not in self.plugins:
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
        mend = f"Mend or uninstall the package that declares it in the entry-point group {self.group}"
        return UserError(Fault(f'plugin "{name}" ({self.plugins[name].value})', found, next=advice or mend))
