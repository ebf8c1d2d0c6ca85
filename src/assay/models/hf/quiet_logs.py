"""Log lines and warnings of packages that are imported on the way."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unlogged() -> Iterator[None]:
    """None below errors while packages are imported that tell what they lack on this machine, as torchao does."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
