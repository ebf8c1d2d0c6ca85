"""The boxed answer of a worked solution."""

from __future__ import annotations

import pytest

from assay.core.boxed import boxed_content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"so $\boxed{7}$.", "7"),
        (r"first \boxed{1}, then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"thus \fbox{12}", "12"),
        (r"the sum is $\boxed 5$ apples", "5"),
        (r"\boxed{never closed", None),
        ("no box", None),
        (r"\boxed", None),
        (r"\boxed{}", ""),
    ],
)
def test_last_box_with_its_own_braces(text: str, content: str | None) -> None:
    assert boxed_content(text) == content
