"""Several models in one text."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import UserError
from assay.options.model_rows import ModelVariant, model_rows, model_variants, natural_sort_key, step_numbers
from assay.run.many import CheckpointStep


def test_a_plain_name_has_no_settings_of_its_own() -> None:
    assert model_variants("smollm2") == [ModelVariant("smollm2")]


def test_a_bar_makes_several_models() -> None:
    found = model_variants("hf:pretrained=DIR,revision=a|b|c")
    assert [(item.arguments, item.marks) for item in found] == [
        ({"pretrained": "DIR", "revision": name}, (name,)) for name in "abc"
    ]


def test_labels_of_a_head_are_one_setting() -> None:
    (found,) = model_variants("hf:pretrained=DIR,labels=no|yes")
    assert found.arguments == {"pretrained": "DIR", "labels": "no|yes"}


def test_values_keep_their_kind() -> None:
    assert [item.arguments for item in model_variants("ngram:order=2|3")] == [{"order": 2}, {"order": 3}]


def test_a_pattern_of_folders_is_in_natural_order(tmp_path: Path) -> None:
    for step in (100, 20, 3):
        (tmp_path / f"step-{step}").mkdir()
    (tmp_path / "other").mkdir()
    found = model_rows(f"hf:pretrained={tmp_path}/step-*,dtype=float32", {})
    assert [row.label for row in found] == ["step-3", "step-20", "step-100"]
    assert found[0].settings["model_args"] == {"pretrained": str(tmp_path / "step-3"), "dtype": "float32"}


def test_a_pattern_without_folders_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pretrained=.*step-\*: no folder matches"):
        model_variants(f"hf:pretrained={tmp_path}/step-*")


def test_a_folder_whose_name_looks_like_a_pattern_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "step[1]").mkdir()
    assert [item.arguments for item in model_variants(f"hf:pretrained={tmp_path}/step[1]")] == [
        {"pretrained": f"{tmp_path}/step[1]"}
    ]


def test_examples_per_prompt_may_differ_from_row_to_row() -> None:
    rows = model_rows(["dummy:seed=1,num_fewshot=0|4", "dummy"], {"num_fewshot": 2})
    assert [(row.label, row.settings["num_fewshot"]) for row in rows] == [
        ("dummy@0-shot", 0),
        ("dummy@4-shot", 4),
        ("dummy", 2),
    ]
    assert rows[0].settings["model_args"] == {"seed": 1}


def test_a_text_about_examples_alone_leaves_the_settings_of_all() -> None:
    (row,) = model_rows("dummy:num_fewshot=4", {"model_args": "seed=3"})
    assert (row.settings["model_args"], row.settings["num_fewshot"]) == ("seed=3", 4)


def test_a_negative_number_of_examples_is_an_error() -> None:
    with pytest.raises(UserError, match="num_fewshot"):
        model_variants("dummy:num_fewshot=-1")


def test_equal_labels_get_arguments_or_numbers() -> None:
    written = ["dummy", "dummy:seed=1", "dummy:seed=2", "dummy", "dummy:seed=2"]
    expected = ["dummy", "dummy@seed=1", "dummy@seed=2", "dummy (2)", "dummy@seed=2 (2)"]
    assert [row.label for row in model_rows(written, {})] == expected


def test_numbers_in_names_are_read_as_numbers() -> None:
    assert sorted(["s10b", "s9", "s10a", "t1"], key=natural_sort_key) == ["s9", "s10a", "s10b", "t1"]


def test_checkpoints_have_steps() -> None:
    found = model_variants("hf:pretrained=org/model-70m,revision=step1000|step2000|main")
    assert [item.step for item in found] == [
        CheckpointStep("model-70m", 1000.0),
        CheckpointStep("model-70m", 2000.0),
        None,
    ]


def test_other_settings_are_not_steps() -> None:
    assert [item.step for item in model_variants("ngram:order=2|3")] == [None, None]
    assert [item.step for item in model_variants("hf:pretrained=x,revision=r1|r2,dtype=a|b")] == [None] * 4


def test_the_number_in_which_names_differ_is_the_step() -> None:
    assert step_numbers(["run7/step-10", "run7/step-200"]) == {"run7/step-10": 10.0, "run7/step-200": 200.0}
    assert step_numbers(["v1-10", "v2-20"]) == {}
    assert step_numbers(["a", "b"]) == {}


def test_settings_of_training_are_no_settings_of_the_model() -> None:
    (found,) = model_variants("hf:pretrained=DIR,finetune=head,epochs=3,dtype=float32")
    assert found.arguments == {"pretrained": "DIR", "dtype": "float32"}
    assert (found.fit, found.marks) == ({"finetune": "head", "epochs": 3}, ("head",))


def test_rows_may_differ_in_how_they_are_trained() -> None:
    found = model_variants("minilm:finetune=head|full,learning_rate=0.001|0.0001")
    assert [item.marks for item in found] == [
        ("head", "learning_rate=0.001"),
        ("head", "learning_rate=0.0001"),
        ("full", "learning_rate=0.001"),
        ("full", "learning_rate=0.0001"),
    ]
    assert [item.arguments for item in found] == [None] * 4


def test_a_row_has_its_own_settings_of_training_over_those_of_all() -> None:
    common = {"finetune": "full", "epochs": "5"}
    rows = model_rows(["dummy", "dummy:finetune=head"], {"finetune": common})
    assert [row.settings["finetune"] for row in rows] == [common, {"finetune": "head", "epochs": "5"}]
    fits = [row.fit for row in rows]
    assert [(fit.settings.method, fit.settings.epochs) for fit in fits if fit is not None] == [("full", 5), ("head", 5)]
    assert model_rows("dummy", {})[0].fit is None


def test_settings_of_all_are_for_the_rows_that_are_trained() -> None:
    plain, trained = model_rows(["dummy", "dummy:finetune=head"], {"finetune": {"epochs": 5}})
    assert plain.fit is None
    assert trained.fit is not None and trained.fit.settings.epochs == 5
    with pytest.raises(UserError, match="--epochs: has no meaning without training"):
        model_rows("dummy", {"finetune": {"epochs": 5}})


def test_a_wrong_setting_of_training_names_the_model() -> None:
    with pytest.raises(UserError, match=r'model dummy, finetune: is "most"; expected one of full, lora, head'):
        model_rows("dummy:finetune=most", {})
    with pytest.raises(UserError, match=r"model dummy: epochs is set, but the model is not trained"):
        model_rows("dummy:epochs=3", {})
