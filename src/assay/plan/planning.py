"""Makes the plan of a run: which requests are missing, in the order they were posed.

`work` weighs a request by the text a model must read and write, so that progress and forecast are honest
even though models start with the longest requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.core.identity import Keyring
from assay.core.requests import Generation, Instance, Loglikelihood, Prompt, Request

# What a token of the limit is worth, in characters read: in a batch a decoding step costs a row about as much as
# reading thirty characters, and most answers end well before their limit (measured on the demo, 135M, 2 cores).
_WRITING_WORTH = 10
_USUAL_ANSWER_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of a run.

    Attributes:
        missing: key → request, for everything that must be asked.
        works: how much each missing request costs, see `work`.
        posed: requests in all.
        unique: distinct requests.
        known: distinct requests that the store can answer.
    """

    missing: Mapping[bytes, Request]
    works: Sequence[int]
    posed: int
    unique: int
    known: int


@dataclass(frozen=True, slots=True)
class Keys:
    """What the instances of a task ask.

    Attributes:
        by_instance: per instance, the keys of its requests.
        requests: distinct requests by key.
        prompts: digest of everything asked, free of the model: equal in two runs that ask the same.
    """

    by_instance: Sequence[tuple[bytes, ...]]
    requests: Mapping[bytes, Request]
    prompts: str

    @property
    def posed(self) -> int:
        """Requests in all, equal ones counted each time."""
        return sum(map(len, self.by_instance))


def find_keys(instances: Iterable[Instance], fingerprint: str) -> Keys:
    """The keys of every instance's requests."""
    by_instance: list[tuple[bytes, ...]] = []
    requests: dict[bytes, Request] = {}
    ring = Keyring(fingerprint)
    for instance in instances:
        own = tuple([ring.key(request) for request in instance.requests])
        by_instance.append(own)
        requests.update(zip(own, instance.requests, strict=True))
    return Keys(by_instance, requests, ring.asked.hexdigest())


def make_plan(posed: int, requests: Mapping[bytes, Request], known: set[bytes]) -> Plan:
    """Subtracts what is known.

    Args:
        posed: requests in all, equal ones counted each time.
        requests: distinct requests by key.
        known: keys that the store can answer.
    """
    missing = {key: request for key, request in requests.items() if key not in known}
    works = [work(request) for request in missing.values()]
    return Plan(missing, works, posed, len(requests), len(requests) - len(missing))


def work(request: Request) -> int:
    """How much a request costs, in characters read (writing counts more)."""
    if isinstance(request, Loglikelihood):
        return _length(request.prompt) + len(request.continuation)
    if isinstance(request, Generation):
        return _length(request.prompt) + _WRITING_WORTH * (request.max_tokens or _USUAL_ANSWER_TOKENS)
    return len(request.text)


def _length(prompt: Prompt) -> int:
    return len(prompt) if isinstance(prompt, str) else sum(len(message.text) for message in prompt)
