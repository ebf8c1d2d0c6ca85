"""What a server can do, found by asking it: a value for `assay probe`, and the protocol of models that give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

LOGLIKELIHOODS, GENERATION, LETTERS = "log-likelihoods", "generation", "letters of multiple choice"


@dataclass(frozen=True, slots=True)
class ProbedForm:
    """One form of request, and what came of it.

    Attributes:
        purpose: what it is for: `log-likelihoods`, `generation` or `letters of multiple choice`.
        name: the form in a few words.
        reasons: why it is refused; empty if it works.
        remark: what to know of a form that works.
    """

    purpose: str
    name: str
    reasons: tuple[str, ...] = ()
    remark: str = ""

    @property
    def works(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a server can do.

    Attributes:
        model: the model's name there.
        base_url: its address.
        facts: what it says of itself and what was found, by name.
        forms: the forms of request that were tried.
        promised: what a model of this kind is opened for; all of it must work.
        advice: what would work instead.
    """

    model: str
    base_url: str
    facts: Mapping[str, str]
    forms: tuple[ProbedForm, ...]
    promised: tuple[str, ...]
    advice: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """What is promised and does not work."""
        working = {form.purpose for form in self.forms if form.works}
        return [purpose for purpose in self.promised if purpose not in working]

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON data."""
        forms = [{**asdict(form), "reasons": list(form.reasons), "works": form.works} for form in self.forms]
        own = {"model": self.model, "base_url": self.base_url, "facts": dict(self.facts), "forms": forms}
        return {**own, "promised": list(self.promised), "missing": self.missing, "advice": list(self.advice)}


@runtime_checkable
class ReportsServer(Protocol):
    """A model that asks its server what it can do."""

    def probe(self) -> ServerReport: ...
