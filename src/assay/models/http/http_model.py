"""What models behind HTTP share: the connection, the facts about the server, the record of what happened.

In: a provider and model arguments. Out: a base for `completions_model` and `chat_model`, which also satisfies
`ReportsNotices` and `ReportsExecution`. Opening a model sends nothing. The first look at what it can do asks the
server, since this is part of the model's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from assay.core.identity import Fingerprint
from assay.core.protocols import ExpectedSpending
from assay.core.requests import Demonstrated, Generation, Message, Request
from assay.core.responses import Failure, Output, Text
from assay.models.http.batches.batch_records import BatchRecords
from assay.models.http.connection import Connection
from assay.models.http.exchange import ChatSettings, Exchange, GenerationCall, Thinking
from assay.models.http.http_arguments import read_http_arguments
from assay.models.http.provider import Provider
from assay.models.http.servers.server_facts import ServerFacts, find_facts, find_named
from assay.models.http.spending.expected_spending import expected_spending, price_of
from assay.models.http.traffic.api_key import read_api_key
from assay.models.http.traffic.client import ClientSettings, require_aiohttp
from assay.models.tokens.tokenization import without_surrogates

Answer = tuple[int, "Output | Failure"]
_OPENAI_HOST = "https://api.openai.com/"
# The answer to a limit of 0 new tokens.
NOTHING = Text("", "length", notes=("stop_at_limit",))
VERSION = 1  # part of the fingerprint; raise it when an answer changes


class HttpModel:
    """What models of completions and of chat share: the client, its thread, the facts about the server.

    Args:
        provider: the provider or kind of server.
        args: the model arguments as the user wrote them.
    """

    def __init__(self, provider: Provider, args: Mapping[str, Any]) -> None:
        arguments = read_http_arguments(args, provider.base_url, provider.key_variable)
        require_aiohttp(f"model {arguments.model} at {arguments.base_url}")
        self.provider = provider
        self.arguments = arguments
        settings = ClientSettings(
            base_url=arguments.base_url,
            most=arguments.num_concurrent,
            max_retries=arguments.max_retries,
            timeout=arguments.timeout,
            patience=arguments.patience,
            backoff=arguments.backoff,
            verify_certificate=arguments.verify_certificate,
            ca_cert_path=arguments.ca_cert_path,
            headers=provider.headers,
            tokens_field=arguments.max_tokens_field,
        )
        read_key = partial(read_api_key, arguments.api_key_env, arguments.api_key_file, place=provider.key_header)
        self._connection = Connection(settings, read_key, price_of(arguments))
        self.keep_state(None)

    @cached_property
    def facts_of_server(self) -> ServerFacts:
        """What the server says of itself."""
        if self.provider.lists_all_models:
            return find_facts(self._connection, self.arguments.model)
        return find_named(self._connection, self.arguments.model, self.provider.name)

    def description(self) -> Mapping[str, Any]:
        """Execution report: requests, rejections by kind, and the names that the server gave in its answers."""
        client = self._connection.used
        if client is None:
            return {}
        names = {name: sorted(found) for name, found in client.names.items() if found}
        return {
            "engine": "http",
            "why": "the model is behind HTTP",
            "server": {"kind": self.facts_of_server.kind, "version": self.facts_of_server.version, **names},
            "requests": {"attempts": client.attempts, "answered": client.answered, "rejected": dict(client.counts)},
            **({"refused_parameters": dict(client.parameters.refused)} if client.parameters.refused else {}),
            "concurrency": {
                "most": client.pacing.most,
                "last": client.pacing.limit,
                "lowest": client.pacing.lowest,
                "pauses": client.pacing.pauses,
                "held": client.pacing.held,
            },
            "usage": client.spending.report(),
            "spent": client.spending.summary(),
        }

    def keep_state(self, folder: Path | None) -> None:
        """Sets the folder for records of batches; None for one in the user's cache."""
        self._connection.batches = BatchRecords(folder) if self.arguments.batch_api else None

    def limit_spending(self, dollars: float | None, tokens: int | None) -> None:
        """Sets the most that the following requests may cost."""
        self._connection.spending.limit(dollars, tokens, self.arguments.model)

    def expected_spending(self, requests: Sequence[Request]) -> ExpectedSpending:
        """What requests would cost, before any is sent."""
        return expected_spending(requests, self.arguments.max_gen_toks, self._connection.spending.price)

    def watch_waiting(self, listener: Callable[[str], None]) -> None:
        """Registers a listener for the reasons of waits."""
        self._connection.on_waiting = listener

    def notices(self) -> Iterator[str]:
        """Notices about what happened at the server."""
        client = self._connection.used
        if client is None:
            return
        for name, found in client.names.items():
            if len(found) > 1:
                yield f"the server gave several values of {name} during the run: {', '.join(sorted(found))}"

    def _facts(self) -> dict[str, str]:
        """Facts about the server, for people."""
        facts = self.facts_of_server
        length = "not stated" if facts.max_length is None else f"{facts.max_length:,} tokens"
        return {"kind": f"{facts.kind} {facts.version}".strip(), "context": length}

    def close(self) -> None:
        """Closes all connections; the next request opens new ones."""
        self._connection.close()

    def _written(
        self,
        calls: Iterable[tuple[int, GenerationCall | Text | Failure]],
        generate: Callable[[GenerationCall], Exchange[Text] | Failure],
    ) -> Iterator[Answer]:
        """Generated texts as they arrive, after the answers that need no server.

        Args:
            calls: index → a call, or its answer.
            generate: the exchange of a call, or why it cannot be sent.
        """
        exchanges: list[tuple[int, Exchange[Text]]] = []
        for index, call in calls:
            found = generate(call) if isinstance(call, GenerationCall) else call
            if isinstance(found, Exchange):
                exchanges.append((index, found))
            else:
                yield index, found
        if exchanges:
            assert self.facts_of_server  # raises now if the server cannot be reached
            yield from self._connection.stream(iter(exchanges))

    def _chat_settings(self, kind: str) -> ChatSettings:
        """What the chat dialect of a kind of server is made of."""
        wanted = self.arguments
        return ChatSettings(
            model=wanted.model,
            seed=wanted.seed,
            max_tokens_field=self._max_tokens_field,
            thinking=Thinking(wanted.thinking, wanted.reasoning_effort or ""),
            constrain=wanted.constrain,
            kind=kind,
        )

    @property
    def _max_tokens_field(self) -> str | None:
        is_openai = f"{self.arguments.base_url}/".startswith(_OPENAI_HOST)
        return self.arguments.max_tokens_field or ("max_completion_tokens" if is_openai else None)

    def _plain_call(self, request: Generation) -> GenerationCall | Text | Failure:
        """A generation in the form in which servers take texts and conversations themselves."""
        prompt = request.prompt
        if isinstance(prompt, Demonstrated):
            message = "the prompt must be cut by tokens, for which there is no tokenizer here"
            return Failure("unsupported", message, retryable=False)
        most = self.arguments.max_gen_toks if request.max_tokens is None else request.max_tokens
        if most == 0:
            return NOTHING
        return GenerationCall(plain_prompt(prompt), request, most)

    def _thinking_settings(self) -> dict[str, Any]:
        """The user's settings of reasoning, for the fingerprint; only those that are set."""
        wanted = {"thinking": self.arguments.thinking, "reasoning_effort": self.arguments.reasoning_effort}
        return {name: value for name, value in wanted.items() if value is not None}

    def _fingerprint(self, tokenizer: str | None, settings: Mapping[str, Any]) -> Fingerprint:
        wanted = self.arguments
        common = {"base_url": wanted.base_url, "max_gen_toks": wanted.max_gen_toks, "seed": wanted.seed}
        return Fingerprint(wanted.model, tokenizer=tokenizer, settings={**common, **settings, "version": VERSION})


def plain_prompt(prompt: str | tuple[Message, ...]) -> str | tuple[Message, ...]:
    """A prompt that can be sent: lone halves of surrogate pairs are replaced."""
    if isinstance(prompt, str):
        return without_surrogates(prompt)
    return tuple(Message(turn.role, without_surrogates(turn.text)) for turn in prompt)
