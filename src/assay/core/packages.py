"""Optional packages that something imports late, asked for before any work is done.

Whatever needs one declares it: an attribute `package` (a module's name, or several) of a filter, a metric's value
function, an aggregation or a function of ours; or a `RequiredPackage` for a figure. `missing` names all that is not
there at once.
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
        module: the name that is imported.
        where: what needs it.
        extra: the extra of Assay that brings it; empty for a package of somebody's own code.
    """

    module: str
    where: str
    extra: str = ""


def is_installed(module: str) -> bool:
    """Whether a module can be imported, told without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # loaded, but without a record of where it came from
        return True
    except ModuleNotFoundError:  # the package above it
        return False


def declared_packages(thing: Any, where: str, extra: str = "metrics") -> list[RequiredPackage]:
    """What a filter, metric, aggregation or function says that it needs."""
    named = getattr(thing, "package", ())
    names = (named,) if isinstance(named, str) else named
    is_list = isinstance(names, (list, tuple))
    return [RequiredPackage(name, where, extra) for name in names if isinstance(name, str) and name] if is_list else []


def missing_packages(needs: Iterable[RequiredPackage]) -> list[Fault]:
    """A fault per package that is not installed, with all that needs it; the last one says how to install them all."""
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
    """Raises the error that names every missing package."""
    faults = missing_packages(needs)
    if faults:
        raise MissingExtra(*faults)


def require(module: str, where: str, extra: str = "metrics") -> None:
    """Raises the same for one package, where it is about to be imported."""
    check_packages([RequiredPackage(module, where, extra)])


def _locations(needs: list[RequiredPackage]) -> str:
    names = list(dict.fromkeys(need.where for need in needs))
    more = len(names) - _MAX_LOCATIONS
    return "; ".join(names[:_MAX_LOCATIONS]) + (f" and {more} more" if more > 0 else "")
