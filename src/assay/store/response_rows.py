"""A response as a table row: its columns, its checksum, and the validation of stored rows.

Rows of stores without checksums (schema 3 and earlier) are validated by types and ranges.
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
WRONG_KIND = "not the kind of answer that its request needs"

_pack_likelihood = struct.Struct("<32sdqqqq").pack
_pack_other = struct.Struct("<32sqqq").pack
# Errors of packing and encoding values of another type.
_NOT_PACKED = (struct.error, TypeError, ValueError, AttributeError)
# `+ 0.0` below, because SQLite stores whole numbers as integers, which have no -0.0.
# A signed checksum takes four bytes in the file; of unsigned ones, half would take six.
_MIDDLE = 2**31


def checksum(key: bytes, flat: FlatOutput) -> int:
    """CRC-32 of a response's key and values. It detects every single flipped bit, including in the key."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = flat
    if total is None:
        found = crc32(_pack_other(key, token_count, prompt_tokens, truncated))
    else:
        found = crc32(_pack_likelihood(key, total + 0.0, is_greedy, token_count, prompt_tokens, truncated))
    return (found if extra is None else crc32(extra.encode("ascii"), found)) - _MIDDLE


def plain_row(key: bytes, model: int, now: float, output: Logprob) -> tuple[Any, ...]:
    """The row of a log-probability without extras: the same as by `flatten` and `checksum`, in half the time."""
    total, greedy = output.total, 1 if output.is_greedy else 0
    counts = output.token_count, output.prompt_tokens, output.truncated
    found = crc32(_pack_likelihood(key, total + 0.0, greedy, *counts)) - _MIDDLE
    # A bytearray, because sqlite3 looks up an adapter for every other type, including bytes.
    return bytearray(key), model, now, total, greedy, *counts, found


def full_row(key: bytes, model: int, now: float, output: Output) -> tuple[Any, ...]:
    """The row of any output."""
    *numbers, extra = flat = flatten(output)
    return bytearray(key), model, now, *numbers, checksum(key, flat), extra


def row_fault(row: Sequence[Any], request: Request | None = None) -> str:
    """Why a row, as read by `SELECTED`, cannot be used for its request; empty for a valid row."""
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
    """The output of a valid row."""
    return unflatten(flat)  # type: ignore[arg-type]


def _is_sound(flat: FlatOutput) -> bool:
    """Whether values without a checksum form an output with everything in its range."""
    total, is_greedy, token_count, prompt_tokens, truncated, extra = flat
    if total is not None and is_greedy not in (0, 1):
        return False
    if total is not None and extra is None:
        return token_count >= 0 and prompt_tokens >= 0 and truncated >= 0
    try:
        return is_valid_output(unflatten(flat))
    except (AssayError, ValueError, TypeError, KeyError, AttributeError):
        return False
