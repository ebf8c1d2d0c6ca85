"""The plan of a run: which requests the store cannot answer, in the order they were built.

`work` weighs a request by the text a model must read and write, so that progress and forecast are honest even
though models start with the longest requests. Models that count their own operations are more precise.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.core.identity import ResponseKeyBuilder
from assay.core.requests import Generation, Instance, Loglikelihood, Prompt, Request, untruncated_prompt

# Cost of a token of the limit, in characters read: in a batch a decoding step costs a row about as much as
# reading thirty characters, and most answers end well before their limit (measured on the demo, 135M, 2 cores).
_GENERATION_COST_FACTOR = 10
_USUAL_ANSWER_TOKENS = 256


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The work of a run.

    Attributes:
        missing: key → request, for everything that must be executed.
        works: cost of each missing request, see `work`.
        built: total number of requests.
        unique: distinct requests.
        known: distinct requests that the store can answer.
    """

    missing: Mapping[bytes, Request]
    works: Sequence[int]
    built: int
    unique: int
    known: int


@dataclass(frozen=True, slots=True)
class RequestKeys:
    """The requests of a task's instances.

    Attributes:
        instances: the instances.
        by_instance: per instance, the keys of its requests.
        prompts: digest of all requests, without the model: equal in two runs with the same requests.
    """

    instances: Sequence[Instance]
    by_instance: Sequence[tuple[bytes, ...]]
    prompts: str

    @property
    def requests(self) -> dict[bytes, Request]:
        """Distinct requests by key. Made on access: it is large, and a run needs it once."""
        found: dict[bytes, Request] = {}
        for instance, own in zip(self.instances, self.by_instance, strict=True):
            found.update(zip(own, instance.requests, strict=True))
        return found

    @property
    def built(self) -> int:
        """Total number of requests, equal ones counted each time."""
        return sum(map(len, self.by_instance))


def find_keys(instances: Iterable[Instance], fingerprint: str) -> RequestKeys:
    """The keys of every instance's requests."""
    built = list(instances)
    key = (ring := ResponseKeyBuilder(fingerprint)).key
    by_instance = [tuple(map(key, instance.requests)) for instance in built]
    return RequestKeys(built, by_instance, ring.asked.hexdigest())


def make_plan(built: int, requests: Mapping[bytes, Request], known: set[bytes]) -> RequestPlan:
    """The plan of the requests that the store cannot answer.

    Args:
        built: total number of requests, equal ones counted each time.
        requests: distinct requests by key.
        known: keys that the store can answer.
    """
    missing = {key: request for key, request in requests.items() if key not in known} if known else requests
    works = array("q", map(work, missing.values()))
    return RequestPlan(missing, works, built, len(requests), len(requests) - len(missing))


def work(request: Request) -> int:
    """Cost of a request, in characters read (writing counts more)."""
    if isinstance(request, Loglikelihood):
        return _length(request.prompt) + len(request.continuation)
    if isinstance(request, Generation):
        return _length(request.prompt) + _GENERATION_COST_FACTOR * (request.max_tokens or _USUAL_ANSWER_TOKENS)
    return len(request.text)


def _length(prompt: Prompt) -> int:
    whole = untruncated_prompt(prompt)
    return len(whole) if isinstance(whole, str) else sum(len(message.text) for message in whole)
