"""Optional packages that are imported late, checked before any work starts.

Code that needs a package declares it: an attribute `package` (a module name, or several), and perhaps `extra` (the
extra of Assay that installs it), of a filter, a metric's value function, an aggregation or a function; or a
`RequiredPackage` for a figure. `missing_packages` lists everything that is not installed at once.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, MissingExtra, install_name

_MAX_LOCATIONS = 3


@dataclass(frozen=True, slots=True)
class RequiredPackage:
    """A package that will be imported.

    Attributes:
        module: the import name.
        where: what needs it.
        extra: the extra of Assay that installs it; empty for a package that only third-party code needs.
    """

    module: str
    where: str
    extra: str = ""


def is_installed(module: str) -> bool:
    """Whether a module can be imported, checked without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # loaded, but without a module spec
        return True
    except ModuleNotFoundError:  # a parent package is missing
        return False


def declared_packages(thing: Any, where: str, extra: str = "metrics") -> list[RequiredPackage]:
    """The packages that a filter, metric, aggregation or function declares, perhaps with another extra."""
    named = getattr(thing, "package", ())
    names = (named,) if isinstance(named, str) else named
    extra = str(getattr(thing, "extra", extra))
    is_list = isinstance(names, (list, tuple))
    return [RequiredPackage(name, where, extra) for name in names if isinstance(name, str) and name] if is_list else []


def missing_packages(needs: Iterable[RequiredPackage]) -> list[Fault]:
    """A fault per missing package, with everything that needs it; the last fault says how to install them all."""
    by_module: dict[str, list[RequiredPackage]] = {}
    for need in needs:
        by_module.setdefault(need.module, []).append(need)
    not_installed = [own for module, own in by_module.items() if not is_installed(module)]
    extras = sorted({need.extra for own in not_installed for need in own if need.extra})
    packages = sorted({install_name(need.module) for own in not_installed for need in own if not need.extra})
    wanted = ([f"'assay-eval[{','.join(extras)}]'"] if extras else []) + packages
    advice = f"Run: pip install {' '.join(wanted)}"
    return [
        Fault(
            _locations(own),
            f'the package "{install_name(own[0].module)}" is not installed',
            next="" if remaining else advice,
        )
        for remaining, own in zip(range(len(not_installed) - 1, -1, -1), not_installed, strict=True)
    ]


def check_packages(needs: Iterable[RequiredPackage]) -> None:
    """Raises an error that lists every missing package."""
    faults = missing_packages(needs)
    if faults:
        raise MissingExtra(*faults)


def require(module: str, where: str, extra: str = "metrics") -> None:
    """Raises the same error for one package that is about to be imported."""
    check_packages([RequiredPackage(module, where, extra)])


def _locations(needs: list[RequiredPackage]) -> str:
    names = list(dict.fromkeys(need.where for need in needs))
    more = len(names) - _MAX_LOCATIONS
    return "; ".join(names[:_MAX_LOCATIONS]) + (f" and {more} more" if more > 0 else "")
