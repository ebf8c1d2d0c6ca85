"""The commands by name."""

from __future__ import annotations

from functools import cache

from assay.options import evaluation_commands, record_commands
from assay.options.command_rows import Command

_MAKERS = {**evaluation_commands.MAKERS, **record_commands.MAKERS}
NAMES = tuple(_MAKERS)


@cache
def command(name: str) -> Command:
    """A command by name."""
    return _MAKERS[name]()
