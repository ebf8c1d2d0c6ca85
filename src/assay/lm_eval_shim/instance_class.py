"""`lm_eval.api.instance`: a request as task code writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Instance:
    """One request of a document. Not frozen: task code may change what it made."""

    request_type: str
    doc: Any
    arguments: Any
    idx: int
    metadata: tuple[Any, ...] = (None, None, None)

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, always as a tuple."""
        return self.arguments if isinstance(self.arguments, tuple) else (self.arguments,)

    @property
    def task_name(self) -> Any:
        return self.metadata[0]

    @property
    def doc_id(self) -> Any:
        return self.metadata[1]

    @property
    def repeats(self) -> Any:
        return self.metadata[2]
