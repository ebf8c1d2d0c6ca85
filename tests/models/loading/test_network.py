"""Settings of configurations whose layers differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from assay.models.loading.network import config_number, config_value


class Uneven:
    """Like Gemma 4's: a setting that layers disagree about cannot be read from the whole."""

    hidden_size = 48

    @property
    def head_dim(self) -> int:
        raise RuntimeError("'head_dim' is a per-layer attribute")

    @property
    def per_layer_config(self) -> list[Any]:
        return [SimpleNamespace(head_dim=12), SimpleNamespace(head_dim=16), SimpleNamespace()]


def test_the_largest_of_the_layers_counts() -> None:
    assert config_value(Uneven(), "head_dim") == 16 and config_value(Uneven(), "hidden_size") == 48


def test_first_number_of_some_names() -> None:
    config = SimpleNamespace(n_embd=None, d_model=7)
    assert config_number(config, "n_embd", "hidden_size", "d_model") == 7.0 and config_number(config, "n_head") == 0.0
    assert config_value(config, "n_head") is None
