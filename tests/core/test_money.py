"""Dollars as text."""

from __future__ import annotations

import pytest

from assay.core.money import format_dollars


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0, "$0.00"),
        (12.5, "$12.50"),
        (1234.5, "$1,234.50"),
        (0.1, "$0.10"),
        (0.012345, "$0.0123"),
        (4.2e-7, "$0.00000042"),
    ],
)
def test_dollars(dollars: float, text: str) -> None:
    assert format_dollars(dollars) == text
