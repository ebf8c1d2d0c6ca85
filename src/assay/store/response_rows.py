"""A response as a row of the table: its columns, its checksum, and what is wrong with a row that cannot be read.

Rows of stores from before checksums (schema 3) have none; of these, types and ranges are checked.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from assay.core.errors import AssayError
from assay.core.output_checks import OUTPUT_CLASSES, is_valid_output, matches_request
from assay.core.requests import Request
from assay.core.responses import FlatOutput, Logprob, Output, Text, flatten, unflatten

COLUMNS = (
    "key",
    "model",
    "created",
    "total",
    "is_greedy",
    "token_count",
    "prompt_tokens",
    "truncated",
    "checksum",
    "extra",
)
SELECTED = "key, total, is_greedy, token_count, prompt_tokens, truncated, extra, checksum"

WRONG_CHECKSUM = "checksum differs: the row has changed since it was written"
WRONG_VALUES = "values of the wrong type or out of range"
WRONG_KIND = "not the kind of answer that its request asks for"

_pack_likelihood = struct.Struct("<32sdqqqq").pack
_pack_other = struct.Struct("<32sqqq").pack
# What packing and encoding say of values of another type.
_NOT_PACKED = (struct.error, TypeError, ValueError, AttributeError)
# `+ 0.0` below, because SQLite writes whole numbers as integers, which have no -0.0.
# A checksum from -2³¹ on takes four bytes in the file; from 0 on, half of them would take six.
_MIDDLE = 2**31


def checksum(key: bytes, flat: FlatOutput) -> int:
    """CRC-32 of a response's key and values. It finds every single flipped bit, in the key too."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = flat
    if total is None:
        found = crc32(_pack_other(key, token_count, prompt_tokens, truncated))
    else:
        found = crc32(_pack_likelihood(key, total + 0.0, is_greedy, token_count, prompt_tokens, truncated))
    return (found if extra is None else crc32(extra.encode("ascii"), found)) - _MIDDLE


def plain_row(key: bytes, model: int, now: float, output: Logprob) -> tuple[Any, ...]:
    """The row of a log-probability without extras, as `flatten` and `checksum` have it, in half the time."""
    total, greedy = output.total, 1 if output.is_greedy else 0
    counts = output.token_count, output.prompt_tokens, output.truncated
    found = crc32(_pack_likelihood(key, total + 0.0, greedy, *counts)) - _MIDDLE
    # A bytearray, because sqlite3 asks every other type, bytes too, how it wants to be adapted.
    return bytearray(key), model, now, total, greedy, *counts, found


def full_row(key: bytes, model: int, now: float, output: Output) -> tuple[Any, ...]:
    """The row of any output."""
    *numbers, extra = flat = flatten(output)
    return bytearray(key), model, now, *numbers, checksum(key, flat), extra


def row_fault(row: Sequence[Any], request: Request | None = None) -> str:
    """Why a row, as `SELECTED` reads it, cannot be used for its request; nothing for a sound one."""
    key, total, is_greedy, token_count, prompt_tokens, truncated, extra, stored = row
    try:
        if extra is None and stored is not None:  # nearly every row
            found = crc32(_pack_likelihood(key, total, is_greedy, token_count, prompt_tokens, truncated)) - _MIDDLE
        else:
            found = checksum(key, row[1:7])  # type: ignore[arg-type]
    except _NOT_PACKED:
        return WRONG_VALUES
    if stored != found:
        if stored is not None:
            return WRONG_CHECKSUM
        if not _is_sound(row[1:7]):  # type: ignore[arg-type]
            return WRONG_VALUES
    return "" if request is None or _row_matches_request(row, request) else WRONG_KIND


def _row_matches_request(row: Sequence[Any], request: Request) -> bool:
    wanted = OUTPUT_CLASSES[request.kind]
    if row[1] is not None:
        return wanted is Logprob
    if wanted is Text and row[6] is not None and row[6].startswith('{"text"'):
        return True
    return matches_request(read_output(row[1:7]), request)


def read_output(flat: Sequence[Any]) -> Output:
    """The output of a sound row."""
    return unflatten(flat)  # type: ignore[arg-type]


def _is_sound(flat: FlatOutput) -> bool:
    """Whether values without a checksum make an output with everything in its range."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = flat
    if total is not None and is_greedy not in (0, 1):
        return False
    if total is not None and extra is None:
        return token_count >= 0 and prompt_tokens >= 0 and truncated >= 0
    try:
        return is_valid_output(unflatten(flat))
    except (AssayError, ValueError, TypeError, KeyError, AttributeError):
        return False
