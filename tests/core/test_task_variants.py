"""A task variant prints as the name that tables and files show."""

import pytest

from assay.core.task_variants import TaskVariant, task_family


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        (TaskVariant("arc"), "arc"),
        (TaskVariant("arc", style="letters"), "arc@letters"),
        (TaskVariant("arc", prompt="short"), "arc@short"),
        (TaskVariant("arc", profile="olmes-mcf"), "arc@olmes-mcf"),
        (TaskVariant("arc", levels={"seed": -3}), "arc#seed=-3"),
        (TaskVariant("arc", style="letters", levels={"seed": 3, "order": 2}, draws=4), "arc@letters#seed=3#order=2"),
    ],
)
def test_a_variant_prints_as_the_name_of_its_task(variant: TaskVariant, name: str) -> None:
    assert str(variant) == name == variant.task + variant.suffix


def test_the_base_name_has_no_levels() -> None:
    assert TaskVariant("c#", style="letters", levels={"order": 2}).base == "c#@letters"


def test_the_first_order_is_the_documents_own() -> None:
    orders = [TaskVariant("arc", levels=levels).order for levels in ({}, {"order": 1}, {"order": 3, "seed": 1})]
    assert orders == [0, 0, 2]


def test_all_variants_are_of_one_family() -> None:
    names = ("t", "t@letters", "t@asked#seed=3", "t#seed=-1#order=2")
    assert {task_family(name) for name in names} == {"t"}
    assert task_family("c#") == "c#"
