"""Generation settings: from the lm-eval dialect to the fields of a request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, TaskFileError
from assay.core.requests import Sampling

LENGTH_NAMES = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_OWN_NAMES = {"until", "temperature", "do_sample", *LENGTH_NAMES}


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Stops, length and sampling of every generation of a task."""

    stop: tuple[str, ...]
    max_tokens: int | None
    sampling: Sampling


def effective_settings(own: Mapping[str, Any] | None, overrides: Mapping[str, Any], delimiter: str) -> dict[str, Any]:
    """A task's settings with lm-eval's defaults and the run's overrides, still in lm-eval's names."""
    if own is None:
        merged: dict[str, Any] = {
            "until": [delimiter],
            "do_sample": False,
            "temperature": 0.0,
            "max_gen_toks": 256,
        }
    else:
        merged = {"until": [delimiter], **own}
        with suppress(TypeError, ValueError):  # `generation_settings` reports a value that is not a number
            merged |= {"temperature": float(own["temperature"])} if "temperature" in own else {}
    return {**merged, **overrides}


def generation_settings(merged: Mapping[str, Any], seed: int | None, where: str) -> GenerationSettings:
    """The settings as fields of a request.

    Sampling is on if `do_sample` is true, or, without that key, if the temperature is above 0.
    Without sampling the temperature is 0, whatever the file has.
    """
    until = merged.get("until") or []
    if not isinstance(until, (str, list, tuple)):
        raise TaskFileError(Fault(f"{where}.until", f"is {until!r}", "text or a list of texts"))
    stops = [until] if isinstance(until, str) else list(until)
    temperature = _temperature(merged, where)
    do_sample = merged.get("do_sample", temperature > 0)
    if isinstance(do_sample, str):  # any text would count as true, even "no"
        raise TaskFileError(Fault(f"{where}.do_sample", f"is {do_sample!r}", "true or false"))
    if do_sample and temperature == 0 and "temperature" in merged:
        raise TaskFileError(
            Fault(where, "do_sample is true and temperature is 0", "a temperature above 0, or do_sample: false")
        )
    options = tuple(sorted((str(key), _frozen(value)) for key, value in merged.items() if key not in _OWN_NAMES))
    sampling = Sampling(0.0, None, options)
    if do_sample:
        sampling = Sampling(temperature if "temperature" in merged else 1.0, seed, options)
    return GenerationSettings(tuple(str(stop) for stop in stops if stop != ""), _max_tokens(merged, where), sampling)


def _temperature(merged: Mapping[str, Any], where: str) -> float:
    given = merged.get("temperature", 0.0)
    temperature = _number(given, f"{where}.temperature")
    if not 0 <= temperature < math.inf:
        raise TaskFileError(Fault(f"{where}.temperature", f"is {given!r}", "0 (greedy) or more"))
    return temperature


def _max_tokens(merged: Mapping[str, Any], where: str) -> int | None:
    for name in LENGTH_NAMES:
        if merged.get(name) is not None:
            count = _number(merged[name], f"{where}.{name}")
            if not 1 <= count < math.inf:
                raise TaskFileError(Fault(f"{where}.{name}", f"is {merged[name]!r}", "a whole number, 1 or more"))
            return int(count)
    return None


def _number(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TaskFileError(Fault(where, f"is {value!r}", "a number")) from error


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
