"""Names of task variants."""

from __future__ import annotations

from assay.core.variance_axes import task_family


def test_variants_are_of_one_family() -> None:
    names = ("t", "t@letters", "t@asked#seed=3", "t#seed=-1#order=2")
    assert {task_family(name) for name in names} == {"t"}
    assert task_family("c#") == "c#"
