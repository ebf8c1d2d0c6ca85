"""Tables of names, and plugins of installed packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.errors import UnknownName, UserError
from assay.core.protocols import Model
from assay.core.registry import Registry

TABLE = {"loads": "json:loads", "dumps": "json:dumps"}

PLUGIN = """
import assay

def shout():
    return 'HEY'

def nothing(args, settings):
    return None

class Bare:
    fingerprint = assay.Fingerprint("bare")
    def __init__(self, args, settings): pass
    def respond(self, requests): return []

class Whole(Bare):
    capabilities = assay.Capabilities(frozenset({"generation"}))
    def close(self): pass
"""


@pytest.fixture
def plugin_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with an installed package `acme` that declares two plugins, one of them broken."""
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    points = "[assay.test_filters]\nshout = acme_assay_plugin:shout\nbroken = acme_assay_plugin_broken:it\n"
    points += "nothing = acme_assay_plugin:nothing\nbare = acme_assay_plugin:Bare\nwhole = acme_assay_plugin:Whole\n"
    (info / "entry_points.txt").write_text(points)
    (tmp_path / "acme_assay_plugin.py").write_text(PLUGIN)
    (tmp_path / "acme_assay_plugin_broken.py").write_text("raise RuntimeError('out of luck')\n")
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    sys.modules.pop("acme_assay_plugin", None)


def make() -> Registry:
    return Registry("filter", TABLE, "assay.test_filters")


def test_a_name_gives_its_thing() -> None:
    assert make().get("loads")("[1]") == [1]


def test_an_unknown_name_is_an_error_with_near_names() -> None:
    with pytest.raises(UnknownName, match=r't.yaml: unknown filter "load" \(did you mean "loads"\?\)'):
        make().get("load", "t.yaml")


def test_without_plugins_only_the_table_is_known() -> None:
    registry = make()
    assert registry.names() == ["dumps", "loads"]
    assert "loads" in registry
    assert "acme/shout" not in registry


def test_a_plugin_is_named_after_its_package(plugin_folder: Path) -> None:
    registry = make()
    assert registry.names()[:2] == ["dumps", "loads"]
    assert {"acme/broken", "acme/shout"} <= set(registry.names())
    assert "acme/shout" in registry
    assert registry.get("acme/shout")() == "HEY"


def test_a_plugin_is_unknown_under_its_bare_name(plugin_folder: Path) -> None:
    with pytest.raises(UnknownName, match='unknown filter "shout"'):
        make().get("shout")


def test_a_plugin_of_another_group_is_not_seen(plugin_folder: Path) -> None:
    assert Registry("metric", TABLE, "assay.test_metrics").names() == ["dumps", "loads"]


def test_a_broken_plugin_is_named_with_its_error(plugin_folder: Path) -> None:
    with pytest.raises(UserError, match='plugin "acme/broken" .*RuntimeError: out of luck.*assay.test_filters'):
        make().get("acme/broken")


def test_a_plugin_is_loaded_only_when_requested(plugin_folder: Path) -> None:
    assert make().names()
    assert "acme_assay_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("acme/nothing", 'plugin "acme/nothing" .*: gives None, which is not a model'),
        ("acme/bare", "gives a Bare, which lacks capabilities and close, which is not a model. See: help.assay.Model."),
        ("acme/shout", "cannot be called with 2 arguments: too many positional arguments"),
    ],
)
def test_a_plugin_that_makes_no_model_is_reported(plugin_folder: Path, name: str, message: str) -> None:
    registry = Registry("model", TABLE, "assay.test_filters")
    with pytest.raises(UserError, match=message):
        registry.create(name, Model, {}, None)
    assert registry.create("acme/whole", Model, {}, None).fingerprint.name == "bare"


def test_a_decorated_function_behind_an_entry_point_gives_what_was_made_of_it(plugin_folder: Path) -> None:
    registry = make()
    import acme_assay_plugin  # type: ignore[import-not-found]

    registry.add("shout", acme_assay_plugin.shout, "made of shout")
    assert registry.get("acme/shout") == "made of shout" == registry.get("shout")
    registry.remove("shout")
    assert "shout" not in registry and registry.get("acme/shout")() == "HEY"
