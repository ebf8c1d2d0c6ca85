"""The command that serves a model."""

from __future__ import annotations

from assay.options.commands import FAMILY, ONE_MODEL, SERVER, STORE, Command
from assay.options.option import Option
from assay.options.table import setting_options


def _serve() -> Command:
    rows = setting_options()
    own = {
        "model": ONE_MODEL,
        **{name: rows[name] for name in ("model_args", "batch_size", "device", "engine")},
        "family": FAMILY,
        "host": Option("address to listen on; others than loopback need a key", SERVER, "ADDRESS", initial="127.0.0.1"),
        "port": Option("port; 0 for a free one", SERVER, "N", type=int, initial=8000),
        "name": Option("the model's id for clients", SERVER, "NAME", "as given by --model, or pretrained"),
        "store": STORE,
    }
    about = (
        "Serves a model with OpenAI's HTTP interface, on loopback. Standard output has one line, the address; Ctrl-C "
        "ends it."
    )
    return Command(about, own)


MAKERS = {"serve": _serve}
