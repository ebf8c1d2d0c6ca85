"""Python code that task files name with `!function`: permission to run it, and its import.

Takes references and the user's consent, gives the functions and classes they refer to. A module of task code is
imported under a unique name, and what it imports from `lm_eval` comes from our replacements for that package and from
the task folder, never from an installed lm-eval.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.core.errors import Fault, TaskFileError, install_line
from assay.core.protocols import Task
from assay.core.specs import TaskOptions
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, KeyPath, TaskFile

_PACKAGE = "lm_eval"
# The extra of this package that installs lm-eval.
LM_EVAL_EXTRA = "lm-eval-tasks"
INSTALL_LM_EVAL = f"pip install 'assay-eval[{LM_EVAL_EXTRA}]'"
_TASKS = f"{_PACKAGE}.tasks"


@dataclass(frozen=True, slots=True)
class Shim:
    """Replacements for `lm_eval` in task code; passed in, because they depend on packages above this one.

    Attributes:
        modules: module of lm-eval → module of ours with the names that task code uses.
        filters: filters that task code has registered by name.
        aggregations: function of ours that task code may name as an aggregation → its name in the aggregation table.
        make_task: (class of task code, its file, the run's options) → task.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    filters: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    aggregations: Mapping[Callable[..., Any], str] = field(default_factory=dict)
    make_task: Callable[[Any, TaskFile, TaskOptions], Task] | None = None


@dataclass(frozen=True, slots=True)
class Consent:
    """Folders whose code the user allows to run; by default, no code runs."""

    folders: tuple[Path, ...] = ()

    def covers(self, path: Path) -> bool:
        resolved = path.resolve()
        return any(resolved.is_relative_to(folder) for folder in self.folders)


def consent(allowed: bool | Sequence[str], include_path: Sequence[Path]) -> Consent:
    """Consent by `--allow_code` and `--trust_package`: all of the user's folders, or those of named packages."""
    if isinstance(allowed, bool):
        return Consent(tuple(folder.resolve() for folder in include_path) if allowed else ())
    return Consent(tuple(_package_folder(name) for name in allowed))


def _package_folder(name: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        is_lm_eval = name.replace("-", "_").lower() == _PACKAGE
        if is_lm_eval and name != _PACKAGE and importlib.util.find_spec(_PACKAGE) is not None:
            advice = f"Say: --trust_package {_PACKAGE}"
        else:
            advice = f"Run: {INSTALL_LM_EVAL}" if is_lm_eval else "See: pip list"
        found = f'no installed package "{name}"'
        raise TaskFileError(Fault("--trust_package", found, "a package of this Python", advice))
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def source_of(reference: FunctionReference) -> Path | None:
    """The file beside the task file that a reference names; None if it names an importable module."""
    module = reference.text.rpartition(".")[0]
    path = reference.folder / (module.replace(".", "/") + ".py")
    return path if module and path.is_file() else None


_NAME_AND_ALLOW = "name its folder in --include_path and add --allow_code"


def _flags(folder: Path, named: Consent) -> str:
    """The flags that allow the code of a folder."""
    if named.covers(folder):
        return "add --allow_code"
    spec = importlib.util.find_spec(_PACKAGE)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    is_package = consent(True, list(map(Path, places))).covers(folder)
    return f"add --trust_package {_PACKAGE}" if is_package else _NAME_AND_ALLOW


def refusals(
    wanted: Sequence[tuple[TaskFile, KeyPath, FunctionReference]], include_path: Sequence[Path]
) -> list[Fault]:
    """One fault per Python file that task files need, with the names that they use."""
    by_source: dict[str, dict[str, str]] = {}
    advice: dict[str, str] = {}
    named = consent(True, include_path)
    for file, keys, reference in wanted:
        source = source_of(reference)
        name = str(source) if source is not None else f"the module {reference.text.rpartition('.')[0]}"
        by_source.setdefault(name, {}).setdefault(reference.text.rpartition(".")[2], file.where(*keys))
        advice[name] = f"Read it; if you trust it, {_flags(reference.folder, named)}"
    return [
        Fault(
            source,
            "is Python code that task files want to run: "
            + ", ".join(f"{name} ({where})" for name, where in list(names.items())[:3])
            + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
            next=advice[source],
        )
        for source, names in by_source.items()
    ]


def bind(file: TaskFile, loader: CodeLoader) -> dict[str, Any]:
    """The mapping of a task file with every reference replaced by its object; all faults are raised at once."""
    faults: dict[str, Fault] = {}  # by message: a module that cannot be imported may be named by many keys

    def bound(value: Any, keys: KeyPath) -> Any:
        if isinstance(value, FunctionReference):
            try:
                return loader.load(value, file.where(*keys))
            except TaskFileError as error:
                faults.update({fault.found: fault for fault in error.faults if fault.found not in faults})
                return None
        if isinstance(value, dict):
            return {key: bound(item, (*keys, key)) for key, item in value.items()}
        return [bound(item, (*keys, place)) for place, item in enumerate(value)] if isinstance(value, list) else value

    data: dict[str, Any] = bound(file.data, ())
    if faults:
        raise TaskFileError(*faults.values())
    return data


# Words that occur in any code that draws random numbers.
_RANDOM_CALLS = re.compile(rb"rand|shuffle|sampl|secrets|uuid", re.IGNORECASE)


class CodeLoader:
    """Imports task code for one run.

    Two task files that name one module share it, and its state, as in lm-eval. A module is never reused from an
    earlier run, so that repeating a run gives the same tasks.
    """

    def __init__(self, consent: Consent, shim: Shim) -> None:
        self.consent = consent
        self.shim = shim
        self._files: dict[Path, ModuleType] = {}
        self._folders: dict[str, ModuleType] = {}
        self._failed: dict[Path, Exception] = {}
        self._sources: dict[Path, bool] = {}

    def may_draw(self) -> bool:
        """Whether any code imported so far may draw random numbers, judging by its text."""
        for path in self._files:
            if path not in self._sources:
                self._sources[path] = _RANDOM_CALLS.search(path.read_bytes()) is not None
        return any(self._sources.values())

    def load(self, reference: FunctionReference, where: str) -> Any:
        """Imports the object that a reference names."""
        module_name, _, name = reference.text.rpartition(".")
        if not module_name:
            raise TaskFileError(
                Fault(where, f'"{reference}" names no module', "!function module.name, such as utils.process_docs")
            )
        source = source_of(reference)
        try:
            module = self._from_file(source) if source is not None else self._from_name(module_name, reference)
        except Exception as error:
            raise TaskFileError(_import_fault(reference, where, source, error)) from error
        if not hasattr(module, name):
            found = f"{source or module_name} has no {name}"
            raise TaskFileError(Fault(where, found, f"a function or class of that name for {reference}"))
        return getattr(module, name)

    def _from_name(self, name: str, reference: FunctionReference) -> ModuleType:
        if name.partition(".")[0] == _PACKAGE:
            return self._lm_eval(name, reference.folder)
        return importlib.import_module(name)

    def _from_file(self, path: Path) -> ModuleType:
        resolved = path.resolve()
        if not self.consent.covers(resolved):
            raise ImportError(f"{resolved} lies outside the folders whose code may run")
        known = self._files.get(resolved)
        if known is not None:
            return known
        if resolved in self._failed:
            raise self._failed[resolved]
        try:
            return self._executed(resolved)
        except SystemExit as error:
            self._failed[resolved] = ImportError(f"it ends the program ({error})")
        except Exception as error:  # third-party code may raise anything on import
            self._failed[resolved] = error
        raise self._failed[resolved]

    def _executed(self, resolved: Path) -> ModuleType:
        # The name distinguishes versions of a file: `datasets` caches results under the name of a function.
        digest = sha256(bytes(str(resolved), "utf-8", "surrogateescape") + resolved.read_bytes()).hexdigest()[:16]
        name = f"assay_task_code_{digest}_{resolved.stem}"
        spec = importlib.util.spec_from_file_location(name, resolved)
        if spec is None or spec.loader is None:
            raise ImportError(f"{resolved} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        # Import statements of a module and its functions use the `__import__` of its builtins.
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._importer(resolved)}
        self._files[resolved] = module
        sys.modules[name] = module  # where `dataclasses` and `inspect` look for it
        try:
            with redirect_stdout(sys.stderr):  # output of task code is not part of the result
                spec.loader.exec_module(module)
        except BaseException:
            del self._files[resolved]
            sys.modules.pop(name, None)
            raise
        return module

    # What `import` means inside task code

    def _importer(self, path: Path) -> Callable[..., Any]:
        def import_(
            name: str, names: Any = None, local: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
        ) -> Any:
            if level:
                folder = path.parents[level - 1]
                return self._with_names(self._inside(folder, name, f".{name}"), fromlist or ())
            if name.partition(".")[0] != _PACKAGE:
                return builtins.__import__(name, names, local, fromlist or (), level)
            module = self._lm_eval(name, path.parent)
            return self._with_names(module, fromlist) if fromlist else self._lm_eval(_PACKAGE, path.parent)

        return import_

    def _with_names(self, module: ModuleType, names: Sequence[str]) -> ModuleType:
        """The module, after importing those of the names that are its submodules."""
        for name in names:
            if name != "*" and not hasattr(module, name):
                self._child(module, name)
        return module

    def _child(self, module: ModuleType, name: str) -> ModuleType | None:
        folder = module.__dict__.get("_assay_folder")
        if folder is None:
            return None
        path = folder / name
        if not path.with_suffix(".py").is_file() and not path.is_dir():
            return None
        child = self._inside(folder, name, f"{module.__name__}.{name}")
        setattr(module, name, child)
        return child

    def _inside(self, folder: Path, dotted: str, shown: str) -> ModuleType:
        """The module at a dotted path below a folder: a file, or a folder of them."""
        if not dotted:
            return self._folder_module(folder, shown)
        path = folder.joinpath(*dotted.split("."))
        if path.with_suffix(".py").is_file():
            return self._from_file(path.with_suffix(".py"))
        if path.is_dir():
            return self._folder_module(path, shown)
        raise ModuleNotFoundError(f"No module named '{shown}' below {folder}", name=shown)

    def _folder_module(self, folder: Path, shown: str) -> ModuleType:
        key = str(folder.resolve())
        if key not in self._folders:
            init = folder / "__init__.py"
            is_root = _is_tasks_root(folder) or folder.resolve() in self.consent.folders
            is_package = init.is_file() and not is_root  # the code of a root is lm-eval itself
            module = self._from_file(init) if is_package else ModuleType(shown)
            module.__dict__["_assay_folder"] = folder
            self._folders[key] = module
        return self._folders[key]

    def _lm_eval(self, name: str, asker: Path) -> ModuleType:
        """A module of lm-eval: our own for the package's names, the task folder's for `lm_eval.tasks.…`."""
        root = self._folders.setdefault(_PACKAGE, ModuleType(_PACKAGE))
        parent = root
        for end in range(2, name.count(".") + 2):
            part = ".".join(name.split(".")[:end])
            parent = self._lm_eval_part(part, asker, parent)
        return parent

    def _lm_eval_part(self, name: str, asker: Path, parent: ModuleType) -> ModuleType:
        if name == _TASKS or name.startswith(f"{_TASKS}."):
            module = self._task_module(name.removeprefix(_TASKS).lstrip("."), asker, name)
        elif name in self.shim.modules:
            module = importlib.import_module(self.shim.modules[name])
        elif any(known.startswith(f"{name}.") for known in self.shim.modules):
            module = self._folders.setdefault(name, ModuleType(name))
        else:
            raise ModuleNotFoundError(f"Assay does not provide '{name}' to task code", name=name)
        setattr(parent, name.rpartition(".")[2], module)
        return module

    def _task_module(self, dotted: str, asker: Path, shown: str) -> ModuleType:
        roots = [folder for folder in (asker, *asker.parents) if _is_tasks_root(folder)]
        missing: ModuleNotFoundError | None = None
        for root in (*roots, *self.consent.folders):
            try:
                return self._inside(root, dotted, shown)
            except ModuleNotFoundError as error:
                missing = missing or error
        raise missing or ModuleNotFoundError(f"No module named '{shown}'", name=shown)


def _is_tasks_root(folder: Path) -> bool:
    return folder.name == "tasks" and folder.parent.name == _PACKAGE


def _import_fault(reference: FunctionReference, where: str, source: Path | None, error: BaseException) -> Fault:
    found = f"{source or reference.text.rpartition('.')[0]} cannot be imported: {type(error).__name__}: {error}"
    missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else None
    if missing is None or missing.startswith((_PACKAGE, ".")):
        return Fault(where, found)
    package = missing.partition(".")[0]
    if package in sys.modules or importlib.util.find_spec(package) is not None:
        return Fault(where, found, next=f"The installed version of {package} is not the one that this code needs")
    return Fault(where, found, next=install_line(package))
