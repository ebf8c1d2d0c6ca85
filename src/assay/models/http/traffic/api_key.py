"""The key of a server: read from the environment or a file, printed as `***`.

In: the name of an environment variable, or the path of a file. Out: an `ApiKey`, whose value only the client reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import Fault, ModelError
from assay.core.secrets import HIDDEN, remember


class KeyHeader(NamedTuple):
    """The header that carries a key, and what precedes the key in it."""

    name: str
    prefix: str = ""


BEARER = KeyHeader("Authorization", "Bearer ")


class ApiKey:
    """A secret that prints as `***`. Its value is redacted from everything that Assay writes from now on."""

    __slots__ = ("_place", "_value")

    def __init__(self, value: str, place: KeyHeader = BEARER) -> None:
        remember({"api_key": value})
        self._value = value
        self._place = place

    def header(self) -> dict[str, str]:
        """The header that carries the key."""
        return {self._place.name: f"{self._place.prefix}{self._value}"}

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __reduce__(self) -> tuple[type, tuple[str]]:
        raise TypeError("a key is never written to a file")


def read_api_key(
    variable: str, file: str | None, environment: Mapping[str, str] = os.environ, place: KeyHeader = BEARER
) -> ApiKey | None:
    """The key of a file, or of an environment variable; None if there is neither.

    Raises:
        ModelError: for a file that cannot be read, and for a value that cannot be sent in a header.
    """
    where = f"environment variable {variable}" if file is None else file
    if file is None:
        value = environment.get(variable, "").strip()
        if not value:
            return None
    else:
        try:
            value = Path(file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            found = f"cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}"
            raise ModelError(Fault(where, found, "a file that holds one key")) from None
    remember({"api_key": value})
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ModelError(Fault(where, "does not hold a key", "one line of printable ASCII characters"))
    return ApiKey(value, place)
