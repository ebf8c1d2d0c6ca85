"""What makes a model itself."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from assay.core.fingerprints import Fingerprint

KNOWN = Fingerprint("a", "r", "w", "p", "t", "c", "l", "q", {"max_length": 8})
COUNTING = [field.name for field in fields(Fingerprint) if field.name not in ("name", "revision")]


@pytest.mark.parametrize("field", ["name", "revision"])
def test_the_same_weights_in_two_places_are_one_model(field: str) -> None:
    assert replace(KNOWN, **{field: "other"}).digest == KNOWN.digest


@pytest.mark.parametrize("field", COUNTING)
def test_everything_else_makes_another_model(field: str) -> None:
    other = {"max_length": 9} if field == "settings" else "other"
    assert replace(KNOWN, **{field: other}).digest != KNOWN.digest


@pytest.mark.parametrize("field", ["name", "revision", *COUNTING])
def test_without_known_weights_everything_counts(field: str) -> None:
    unknown = replace(KNOWN, weights=None)
    other = {"max_length": 9} if field == "settings" else "other"
    assert replace(unknown, **{field: other}).digest != unknown.digest


def test_a_new_setting_makes_another_model() -> None:
    assert replace(KNOWN, settings={"max_length": 8, "add_bos": True}).digest != KNOWN.digest


def test_the_manifest_has_all_fields_and_the_digest() -> None:
    data = KNOWN.to_json()
    assert data.pop("digest") == KNOWN.digest
    assert data == {field.name: getattr(KNOWN, field.name) for field in fields(Fingerprint)}


def test_a_fingerprint_comes_back_from_its_record() -> None:
    recorded = json.loads(json.dumps(KNOWN.to_json()))
    assert Fingerprint.from_json(recorded) == KNOWN
    assert Fingerprint.from_json(recorded).digest == KNOWN.digest


def test_differences_name_fields_and_settings() -> None:
    other = replace(KNOWN, name="b", precision="bfloat16", settings={"max_length": 9, "bos": True})
    assert KNOWN.differences(other) == {
        "precision": ("p", "bfloat16"),
        "settings.max_length": (8, 9),
        "settings.bos": (None, True),
    }
    assert KNOWN.differences(replace(KNOWN, name="b")) == {}
    assert Fingerprint("a").differences(Fingerprint("b")) == {"name": ("a", "b")}


def test_a_setting_that_has_been_through_a_file_is_the_same() -> None:
    live = Fingerprint("a", weights="w", settings={"stops": ("x",), "n": 1})
    recorded = Fingerprint.from_json(json.loads(json.dumps(live.to_json())))
    assert recorded.differences(Fingerprint("a", weights="w", settings={"stops": ("x",), "n": 2})) == {
        "settings.n": (1, 2)
    }
