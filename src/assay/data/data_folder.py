"""The folder of datasets that a command or the environment names."""

from __future__ import annotations

import os
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.core.specs import DATA_VARIABLE


def data_folder(given: str | Path | None) -> str | None:
    """The absolute path of the folder of datasets: the setting, else the variable ASSAY_DATA; None if neither is."""
    named, where = (given, "--data") if given is not None else (os.environ.get(DATA_VARIABLE), DATA_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UserError(Fault(where, f'"{named}" is a file', "a folder of datasets", "Name the folder that holds it"))
    if not folder.is_dir():
        advice = f"Make it on a machine with network: assay data get --tasks … --to {named}"
        raise UserError(Fault(where, f'there is no folder "{named}"', "a folder of datasets", advice))
    return str(folder)
