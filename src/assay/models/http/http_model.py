"""Models behind HTTP: `openai` for completions, `openai-chat` for chat completions.

In: lm-eval's model arguments. Out: a `Model` that also satisfies `ReportsNotices` and `ReportsExecution`. Opening a
model sends nothing. The first look at its fingerprint or capabilities asks the server what it is and probes its
log-likelihoods, since both are part of the model's identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.identity import Fingerprint
from assay.core.protocols import Capabilities, ExpectedSpending
from assay.core.requests import REQUEST_KINDS, Demonstrated, Generation, Message, Request
from assay.core.responses import Failure, Logprob, Output, Text, unsupported
from assay.core.specs import ModelSettings
from assay.models.download import hub
from assay.models.http.api_key import read_api_key
from assay.models.http.batch_records import BatchRecords
from assay.models.http.client import ClientSettings, require_aiohttp
from assay.models.http.connection import Connection
from assay.models.http.dialects.chat_completions import Chat
from assay.models.http.dialects.completions import Completions
from assay.models.http.dialects.llamacpp import LlamaCpp
from assay.models.http.dialects.vllm import Vllm
from assay.models.http.exchange import Dialect, Exchange, GenerationCall, TokenScore
from assay.models.http.expected_spending import expected_spending, price_of
from assay.models.http.http_arguments import AUTO, LLAMACPP, LOCAL, NONE, OPENAI, REMOTE, VLLM, HttpArguments
from assay.models.http.http_arguments import read_http_arguments as read_arguments
from assay.models.http.local_tokenizer import LocalTokenizer
from assay.models.http.replies import Rejection
from assay.models.http.server_facts import ServerFacts, find_facts
from assay.models.http.server_probe import TEXT, Probe
from assay.models.http.server_tokenizer import ServerTokenizer
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.tokenizer import token_rules
from assay.models.tokens.chat import ChatRenderer
from assay.models.tokens.encoding import Encoder
from assay.models.tokens.tokenization import EncodedText, encode_texts, without_surrogates

Answer = tuple[int, Output | Failure]
AnyTokenizer = LocalTokenizer | ServerTokenizer

# lm-eval's default for servers that do not state their limit.
_USUAL_LENGTH = 2048
# A server must have room for the last token of a scored text, which other models only predict, and for one token after.
_RESERVED = 2
_PROBE_RETRIES = 2
_WORKS = "what works: vLLM, llama.cpp, or a server with echo and logprobs, see docs/http-models.md"
_OPENAI_HOST = "https://api.openai.com/"
# The answer to a limit of 0 new tokens.
_NOTHING = Text("", "length", notes=("stop_at_limit",))
VERSION = 1  # part of the fingerprint; raise it when an answer changes


def open_openai(args: Mapping[str, Any], settings: ModelSettings) -> CompletionsModel:
    """Opens `openai`: a server with `/v1/completions`. Sends nothing yet."""
    return CompletionsModel(read_arguments(args))


def open_openai_chat(args: Mapping[str, Any], settings: ModelSettings) -> ChatModel:
    """Opens `openai-chat`: a server with `/v1/chat/completions`. Sends nothing yet."""
    return ChatModel(read_arguments(args))


class HttpModel:
    """What models of completions and of chat share: the client, its thread, the facts about the server.

    Args:
        arguments: the model arguments.
    """

    def __init__(self, arguments: HttpArguments) -> None:
        require_aiohttp(f"model {arguments.model} at {arguments.base_url}")
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
            tokens_field=arguments.max_tokens_field,
        )
        read_key = partial(read_api_key, arguments.api_key_env, arguments.api_key_file)
        self._connection = Connection(settings, read_key, price_of(arguments))
        self.keep_state(None)

    @cached_property
    def facts_of_server(self) -> ServerFacts:
        """What the server says of itself."""
        return find_facts(self._connection, self.arguments.model)

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

    def _fingerprint(self, tokenizer: str | None, settings: Mapping[str, Any]) -> Fingerprint:
        wanted = self.arguments
        common = {"base_url": wanted.base_url, "max_gen_toks": wanted.max_gen_toks, "seed": wanted.seed}
        return Fingerprint(wanted.model, tokenizer=tokenizer, settings={**common, **settings, "version": VERSION})


@dataclass(frozen=True, slots=True)
class Scoring:
    """How log-likelihoods are obtained.

    Attributes:
        dialect: the dialect that passed the probe; None if none did.
        reasons: why others did not.
    """

    dialect: Dialect | None
    reasons: tuple[str, ...] = ()


class CompletionsModel(HttpModel):
    """A model behind `/v1/completions`: generation, and log-likelihoods where the server's are proved right."""

    @cached_property
    def fingerprint(self) -> Fingerprint:
        scoring, wanted = self._scoring, self.arguments
        settings: dict[str, Any] = {
            "model": "openai",
            "likelihood": "refused" if scoring.dialect is None else scoring.dialect.name,
            "sends": "ids" if self._sends_ids else "text",
            "max_length": self._length,
            "add_bos_token": wanted.add_bos_token,
            "prefix_token_id": wanted.prefix_token_id,
            "probe_tolerance": wanted.probe_tolerance,
        }
        tokenizer = None if self._tokenizer is None else self._tokenizer.identity
        return self._fingerprint(tokenizer, settings)

    @cached_property
    def capabilities(self) -> Capabilities:
        scoring = self._scoring
        kinds = frozenset(REQUEST_KINDS) if scoring.dialect is not None else frozenset({Generation.kind})
        family = "completions server"
        if scoring.dialect is None:
            family = f"completions server whose log-likelihoods are refused: {'; '.join(scoring.reasons)}; {_WORKS}"
        return Capabilities(kinds, max_tokens=self._scored_length, is_deterministic=False, family=family)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Scores continuations and whole texts, then generates, many requests at a time."""
        scored = [(index, entry) for index, entry in enumerate(requests) if not isinstance(entry, Generation)]
        if scored:
            yield from self._score([index for index, _ in scored], [entry for _, entry in scored])
        yield from self._generate([(i, entry) for i, entry in enumerate(requests) if isinstance(entry, Generation)])

    def notices(self) -> Iterator[str]:
        """Notices about the server, and about limits that it does not state."""
        yield from super().notices()
        if self.arguments.max_length is None and self.facts_of_server.max_length is None:
            yield (
                f"the server does not state its context length; texts are cut to {_USUAL_LENGTH} tokens as in lm-eval "
                "(max_length in --model_args)"
            )

    def description(self) -> Mapping[str, Any]:
        """Execution report, with the outcome of the probe."""
        report = super().description()
        scoring = self._scoring if report else None
        if scoring is None:
            return report
        found = "refused" if scoring.dialect is None else scoring.dialect.name
        return {**report, "likelihood": {"dialect": found, "against": list(scoring.reasons)}}

    def _score(self, places: Sequence[int], requests: Sequence[Request]) -> Iterator[Answer]:
        """Answers to log-likelihood requests; `places` are their indices in the run's list."""
        encoder, dialect = self._encoder, self._scoring.dialect
        if encoder is None or dialect is None:
            reason = "; ".join(self._scoring.reasons)
            failure = Failure("unsupported", f"log-likelihoods are refused: {reason}", retryable=False)
            yield from ((place, failure) for place in places)
            return
        job = encoder.encode(requests)
        yield from ((places[index], answer) for index, answer in job.answered)
        texts = [text for group in job.groups(shares_prefixes=False) for text in group]
        tasks = ((number, dialect.score(text.ids, text.scored)) for number, text in enumerate(texts))
        answers = (
            (texts[number].index, _logprob(texts[number], found)) for number, found in self._connection.stream(tasks)
        )
        yield from ((places[index], answer) for index, answer in job.collect(answers))

    def _generate(self, requests: Sequence[tuple[int, Generation]]) -> Iterator[Answer]:
        """Answers to generations."""
        yield from self._written(self._calls(requests), lambda call: self._writer.generate(call))

    def _calls(
        self, requests: Sequence[tuple[int, Generation]]
    ) -> Iterator[tuple[int, GenerationCall | Text | Failure]]:
        """Generations in the form that is sent: token ids, or text for servers without a tokenizer."""
        encoder = self._encoder
        if encoder is None or not self._sends_ids:
            for index, request in requests:
                yield index, self._text_call(request)
            return
        # A prompt may fill the context but for the new tokens, and no token need be reserved.
        writer = replace(encoder, rules=replace(encoder.rules, max_length=self._length))
        job = writer.encode([request for _, request in requests])
        for number, answer in job.answered:
            yield requests[number][0], answer
        for prompt in job.prompts:
            index, request = requests[prompt.index]
            yield index, GenerationCall(prompt.ids, request, prompt.max_tokens, prompt.truncated, prompt.notes)

    def _text_call(self, request: Generation) -> GenerationCall | Text | Failure:
        if not isinstance(request.prompt, str):
            message = "without a tokenizer only plain texts can be sent; set tokenizer=FOLDER in --model_args"
            return Failure("unsupported", message, retryable=False)
        most = self.arguments.max_gen_toks if request.max_tokens is None else request.max_tokens
        return GenerationCall(without_surrogates(request.prompt), request, most) if most else _NOTHING

    @cached_property
    def _length(self) -> int:
        """Tokens of a sequence: the user's limit, at most the server's."""
        known = self.facts_of_server.max_length
        wanted = self.arguments.max_length
        if known is not None and wanted is not None and wanted > known:
            found = f"is {wanted}, but the server takes {known} tokens"
            raise ModelError(Fault("model_args.max_length", found, f"at most {known}"))
        return wanted or known or _USUAL_LENGTH

    @cached_property
    def _scored_length(self) -> int:
        """Tokens of a scored sequence, as in-process models count them."""
        known = self.facts_of_server.max_length
        return self._length if known is None else max(1, min(self._length, known - _RESERVED))

    @property
    def _sends_ids(self) -> bool:
        return self._encoder is not None and self.arguments.tokenized_requests is not False

    @cached_property
    def _tokenizer(self) -> AnyTokenizer | None:
        """The tokenizer of the folder that the user names, else the server's if it has one."""
        wanted = self.arguments
        backend = wanted.tokenizer_backend
        if backend == AUTO and wanted.tokenizer is not None:
            backend = LOCAL
        if backend == LOCAL:
            return LocalTokenizer(_tokenizer_folder(wanted.tokenizer))
        if backend == NONE:
            return None
        facts = self.facts_of_server
        is_llamacpp = facts.kind == LLAMACPP
        body = {"content": TEXT} if is_llamacpp else {"model": wanted.model, "prompt": TEXT}
        found = self._connection.look("/tokenize", body)
        if isinstance(found, Rejection):
            if backend == REMOTE:
                advice = "Set tokenizer=FOLDER with the model's tokenizer.json instead"
                raise ModelError(Fault("model_args.tokenizer_backend", f"/tokenize {found.message}", next=advice))
            return None
        return ServerTokenizer(self._connection.ask_all, wanted.model, is_llamacpp, facts.special or {})

    @cached_property
    def _encoder(self) -> Encoder | None:
        """Encodes requests as for in-process models; None without a tokenizer."""
        tokenizer, wanted = self._tokenizer, self.arguments
        if tokenizer is None:
            return None
        rules = token_rules(
            tokenizer,
            self._scored_length,
            CausalArguments(wanted.model, add_bos_token=wanted.add_bos_token, prefix_token_id=wanted.prefix_token_id),
        )
        return Encoder(rules, ChatRenderer(tokenizer), wanted.max_gen_toks)

    @cached_property
    def _writer(self) -> Dialect:
        """The dialect of generations."""
        return self._dialect(self.facts_of_server.kind if self.arguments.dialect == AUTO else self.arguments.dialect)

    def _dialect(self, name: str) -> Dialect:
        kinds: Mapping[str, Callable[..., Dialect]] = {OPENAI: Completions, VLLM: Vllm, LLAMACPP: LlamaCpp}
        return kinds[name](self.arguments.model, seed=self.arguments.seed)

    @cached_property
    def _scoring(self) -> Scoring:
        """The first dialect that passes the probe."""
        encoder = self._encoder
        if encoder is None:
            return Scoring(None, ("there is no tokenizer: set tokenizer=FOLDER with the model's tokenizer.json",))
        names = [self.arguments.dialect]
        if names == [AUTO]:
            names = list(dict.fromkeys([self.facts_of_server.kind, OPENAI]))
            if LLAMACPP in names:
                names = [LLAMACPP]  # it ignores echo
        probe = Probe(
            ask=partial(self._connection.ask, max_retries=_PROBE_RETRIES),
            ids=encode_texts(encoder.rules, [TEXT])[TEXT],
            find_id=self._only_id,
            tolerance=self.arguments.probe_tolerance,
        )
        against: list[str] = self._faults_of_tokenizer(encoder)
        for name in [] if against else names:
            dialect = self._dialect(name)
            found = probe.reasons_against(dialect)
            if not found:
                return Scoring(dialect, tuple(against))
            against += [f"{name}: {reason}" for reason in found]
        return Scoring(None, tuple(against))

    def _faults_of_tokenizer(self, encoder: Encoder) -> list[str]:
        """Whether a local tokenizer is another one than the server's, if the server tells."""
        tokenizer, facts = self._tokenizer, self.facts_of_server
        if not isinstance(tokenizer, LocalTokenizer) or facts.kind not in (VLLM, LLAMACPP):
            return []
        theirs = ServerTokenizer(self._connection.ask_all, self.arguments.model, facts.kind == LLAMACPP, {"": ""})
        own = encode_texts(encoder.rules, [TEXT], special=False)[TEXT]
        (found,) = theirs([TEXT], add_special_tokens=False)["input_ids"]
        return [] if own == found else ["the tokenizer of the folder is not that of the server"]

    def _only_id(self, text: str) -> int | None:
        """The id of a token's text; None unless it is the text of exactly one token."""
        assert self._encoder is not None
        if not text:
            return None
        ids = encode_texts(self._encoder.rules, [text], special=False)[text]
        return ids[0] if len(ids) == 1 else None


class ChatModel(HttpModel):
    """A model behind `/v1/chat/completions`: generation only, from conversations that the server renders."""

    @cached_property
    def fingerprint(self) -> Fingerprint:
        settings = {"model": "openai-chat", "max_tokens_field": self._dialect.max_tokens_field}
        return self._fingerprint(None, settings)

    @property
    def capabilities(self) -> Capabilities:
        family = "chat server, which has no log-likelihoods of given texts"
        return Capabilities(frozenset({Generation.kind}), has_chat=True, is_deterministic=False, family=family)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Generates, many requests at a time."""
        calls = ((index, self._call(request)) for index, request in enumerate(requests))
        yield from self._written(calls, self._dialect.generate)

    @cached_property
    def _dialect(self) -> Chat:
        wanted = self.arguments
        is_openai = f"{wanted.base_url}/".startswith(_OPENAI_HOST)
        usual = "max_completion_tokens" if is_openai else "max_tokens"
        return Chat(wanted.model, wanted.max_tokens_field or usual, wanted.seed)

    def _call(self, request: Request) -> GenerationCall | Text | Failure:
        if not isinstance(request, Generation):
            return unsupported(request.kind)
        prompt = request.prompt
        if isinstance(prompt, Demonstrated):
            message = "the prompt must be cut by tokens, which a chat server does not count"
            return Failure("unsupported", message, retryable=False)
        most = self.arguments.max_gen_toks if request.max_tokens is None else request.max_tokens
        if most == 0:
            return _NOTHING
        if isinstance(prompt, str):
            return GenerationCall(without_surrogates(prompt), request, most)
        turns = tuple(Message(turn.role, without_surrogates(turn.text)) for turn in prompt)
        return GenerationCall(turns, request, most)


def _tokenizer_folder(name: str | None) -> Any:
    if name is None:
        found = "tokenizer_backend=huggingface needs a tokenizer"
        raise ModelError(Fault("model_args", found, next="Add: tokenizer=FOLDER"))
    folder = hub.local_folder(name)
    return hub.fetch(name, None, [], []).folder if folder is None else folder


def _logprob(text: EncodedText, found: list[TokenScore] | Failure) -> Logprob | Failure:
    """The log-likelihood of a continuation or window from the scores of its tokens."""
    if isinstance(found, Failure):
        return found
    return Logprob(
        total=math.fsum(score.logprob for score in found),
        token_count=len(found),
        is_greedy=all(score.is_greedy for score in found),
        prompt_tokens=text.context_length,
        truncated=text.truncated,
        notes=text.notes,
    )
