"""Models behind `/v1/completions`: generation, and log-likelihoods where the server's are proved right.

In: a provider and lm-eval's model arguments. Out: a `Model`. The first look at its fingerprint or capabilities asks the
server what it is and probes its log-likelihoods, since both are part of the model's identity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.identity import Fingerprint, digest
from assay.core.protocols import Capabilities
from assay.core.requests import REQUEST_KINDS, Generation, Message, Prompt, Request
from assay.core.responses import GREEDY_UNKNOWN, Failure, Logprob, Text
from assay.core.server_report import GENERATION, LOGLIKELIHOODS, ProbedForm, ServerReport
from assay.models.http.dialects.chat_completions import Chat
from assay.models.http.dialects.completions import Completions
from assay.models.http.dialects.kinds import KINDS, OLLAMA, OPENAI, TGI, ServerKind, chat_of_kind
from assay.models.http.dialects.tgi import Tgi
from assay.models.http.dialects.vllm import Vllm
from assay.models.http.exchange import Dialect, Exchange, GenerationCall, TokenScore
from assay.models.http.http_arguments import AUTO
from assay.models.http.http_model import Answer, HttpModel
from assay.models.http.joint_scoring import JointScoring
from assay.models.http.provider import Provider
from assay.models.http.servers.find_tokenizer import AnyTokenizer, find_tokenizer, tokenizer_faults
from assay.models.http.servers.local_tokenizer import LocalTokenizer
from assay.models.http.servers.probed_forms import (
    counted_tokens,
    generation_form,
    largest_difference,
    letters_form,
    likelihood_forms,
)
from assay.models.http.servers.server_probe import TEXT, Probe
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.tokenizer import token_rules
from assay.models.tokens.chat import ChatRenderer
from assay.models.tokens.encoding import Encoder
from assay.models.tokens.tokenization import EncodedText, encode_texts

# lm-eval's default for servers that do not state their limit.
_USUAL_LENGTH = 2048
# A server must have room for the last token of a scored text, which other models only predict, and for one token after.
_RESERVED = 2
_PROBE_RETRIES = 2
_WORKS = "what works: vLLM, SGLang, llama.cpp, or a server with echo and logprobs, see docs/http-models.md"
_NO_TEMPLATE = Failure(
    "unsupported",
    "log-likelihoods of conversations need the model's chat template here: set tokenizer=FOLDER in --model_args",
    retryable=False,
)
# Arguments of chat models alone.
_OF_CHAT = ("choices", "constrain")


@dataclass(frozen=True, slots=True)
class Scoring:
    """How log-likelihoods are obtained.

    Attributes:
        dialect: the dialect that passed the probe; None if none did.
        reasons: why others did not.
        joins: whether choices of one token may be scored together.
    """

    dialect: Dialect | None
    reasons: tuple[str, ...] = ()
    joins: bool = False


class CompletionsModel(HttpModel):
    """A model behind `/v1/completions`: generation, and log-likelihoods where the server's are proved right.

    Conversations are rendered by the chat template of a local tokenizer; without one they go to the chat endpoint of
    servers of a known kind, which can only answer them.

    Args:
        provider: the kind of server.
        args: the model arguments as the user wrote them.
    """

    def __init__(self, provider: Provider, args: Mapping[str, Any]) -> None:
        super().__init__(provider, args)
        faults = [
            Fault(f"model_args.{name}", "is of chat models", next="Use: --model openai-chat")
            for name in _OF_CHAT
            if getattr(self.arguments, name)
        ]
        if faults:
            raise ModelError(*faults)

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
            **self._thinking_settings(),
        }
        tokenizer = None if self._tokenizer is None else self._tokenizer.identity
        found = self._fingerprint(tokenizer, settings)
        return replace(found, template=digest(self._template)) if self._template else found

    @cached_property
    def capabilities(self) -> Capabilities:
        self._check_thinking()
        scoring = self._scoring
        kinds = frozenset(REQUEST_KINDS) if scoring.dialect is not None else frozenset({Generation.kind})
        refusal = ""
        if scoring.dialect is None:
            refusal = f"its log-likelihoods are refused: {'; '.join(scoring.reasons)}; {_WORKS}"
        return Capabilities(
            kinds,
            max_tokens=self._scored_length,
            has_chat=bool(self._template) or self._chat is not None,
            is_deterministic=False,
            family="completions server",
            refusal=refusal,
        )

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Scores continuations and whole texts, then generates, many requests at a time."""
        scored = [(index, entry) for index, entry in enumerate(requests) if not isinstance(entry, Generation)]
        if scored:
            yield from self._score([index for index, _ in scored], [entry for _, entry in scored])
        yield from self._generate([(i, entry) for i, entry in enumerate(requests) if isinstance(entry, Generation)])

    def render(self, prompt: Prompt) -> str | None:
        """The prompt as the server reads it; None for conversations that the server renders."""
        if isinstance(prompt, str):
            return prompt
        encoder = self._encoder if self._template or not is_conversation(prompt) else None
        return None if encoder is None else encoder.render(prompt)

    def notices(self) -> Iterator[str]:
        """Notices about the server, and about limits that it does not state."""
        yield from super().notices()
        if self._kind_name == OLLAMA:
            yield "Ollama puts texts into the model's chat template: use --model ollama, which sends them as messages"
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

    def probe(self) -> ServerReport:
        """What the server can do, with every form tried that it may have."""
        connection, encoder = self._connection, self._encoder
        writer = self._writer
        facts = {**self._facts(), "tokenizer": self._described_tokenizer(counted_tokens(connection, writer))}
        if encoder is None:
            forms = [ProbedForm(LOGLIKELIHOODS, "of given texts", self._scoring.reasons)]
        else:
            forms, scores = likelihood_forms(connection, self._all_dialects, self._probe(encoder))
            faults = self._faults_of_tokenizer
            forms = [replace(form, reasons=(*faults, *form.reasons)) for form in forms]
            difference = largest_difference(scores)
            if difference is not None:
                facts["agreement"] = f"forms that work differ by at most {difference:.2g} nats per token"
        forms.append(generation_form(connection, "texts after a text", writer, is_chat=False))
        chat = self._chat or chat_of_kind(self._chat_settings(self._kind_name))
        forms.append(generation_form(connection, "answers to conversations (openai-chat)", chat, is_chat=True))
        forms.append(letters_form(connection, chat))
        promised = (LOGLIKELIHOODS, GENERATION)
        works = any(form.works for form in forms if form.purpose == LOGLIKELIHOODS)
        advice = () if works else (f"Log-likelihoods: {_WORKS}",)
        wanted = self.arguments
        return ServerReport(wanted.model, wanted.base_url, facts, tuple(forms), promised, advice)

    def _described_tokenizer(self, counted: int | None) -> str:
        """The tokenizer, and whether the server puts a token before texts itself."""
        tokenizer, encoder = self._tokenizer, self._encoder
        if tokenizer is None or encoder is None:
            return "none: set tokenizer=FOLDER in --model_args"
        place = f"folder {tokenizer.folder}" if isinstance(tokenizer, LocalTokenizer) else "the server's"
        bare = len(encode_texts(encoder.rules, [TEXT], special=False)[TEXT])
        if counted is None:
            return f"{place}; the server does not count the tokens of texts"
        added = counted - bare
        found = "adds nothing to texts" if added == 0 else f"adds {added} token to texts (BOS)"
        return f"{place}; the server {found if added in (0, 1) else f'counts {added:+} tokens of texts'}"

    def _check_thinking(self) -> None:
        """Raises for settings of reasoning that would have no effect."""
        given = list(self._thinking_settings())
        if not given or (self._chat is not None and not self._template):
            return
        found = "has no effect: conversations are neither rendered here nor sent to a chat endpoint"
        if self._template:
            if (self.arguments.thinking or 0) <= 0:
                return
            found = "is a number of tokens, which needs the server's chat endpoint; conversations are rendered here"
        raise ModelError(Fault(f"model_args.{given[0]}", found, next="Use: --model openai-chat"))

    def _score(self, places: Sequence[int], requests: Sequence[Request]) -> Iterator[Answer]:
        """Answers to log-likelihood requests; `places` are their indices in the run's list."""
        encoder, dialect = self._encoder, self._scoring.dialect
        if encoder is None or dialect is None:
            reason = "; ".join(self._scoring.reasons)
            failure = Failure("unsupported", f"log-likelihoods are refused: {reason}", retryable=False)
            yield from ((place, failure) for place in places)
            return
        if not self._template:
            bare = [is_conversation(getattr(entry, "prompt", "")) for entry in requests]
            yield from ((place, _NO_TEMPLATE) for place, is_bare in zip(places, bare, strict=True) if is_bare)
            places = [place for place, is_bare in zip(places, bare, strict=True) if not is_bare]
            requests = [entry for entry, is_bare in zip(requests, bare, strict=True) if not is_bare]
        job = encoder.encode(requests)
        yield from ((places[index], answer) for index, answer in job.answered)
        texts = [text for group in job.groups(shares_prefixes=False) for text in group]
        scoring = JointScoring(texts, dialect, self._scoring.joins)
        answers = (
            (text.index, _logprob(text, scores))
            for number, found in self._connection.stream(scoring.exchanges())
            for text, scores in scoring.scores(number, found)
        )
        yield from ((places[index], answer) for index, answer in job.collect(answers))

    def _generate(self, requests: Sequence[tuple[int, Generation]]) -> Iterator[Answer]:
        """Answers to generations."""
        yield from self._written(self._calls(requests), self._exchange)

    def _exchange(self, call: GenerationCall) -> Exchange[Text] | Failure:
        if self._chat is not None and is_conversation(call.sent):
            return self._chat.generate(call)
        return self._writer.generate(call)

    def _calls(
        self, requests: Sequence[tuple[int, Generation]]
    ) -> Iterator[tuple[int, GenerationCall | Text | Failure]]:
        """Generations in the form that is sent: token ids, text, or conversations for the server's chat endpoint."""
        encoder = self._encoder
        encoded: list[tuple[int, Generation]] = []
        for index, request in requests:
            if self._chat is not None and not self._template and is_conversation(request.prompt):
                yield index, self._plain_call(request)
            elif encoder is None or not self._sends_ids:
                yield index, self._text_call(request)
            else:
                encoded.append((index, request))
        if encoder is None or not encoded:
            return
        # A prompt may fill the context but for the new tokens, and no token need be reserved.
        writer = replace(encoder, rules=replace(encoder.rules, max_length=self._length))
        job = writer.encode([request for _, request in encoded])
        for number, answer in job.answered:
            yield encoded[number][0], answer
        for prompt in job.prompts:
            index, request = encoded[prompt.index]
            yield index, GenerationCall(prompt.ids, request, prompt.max_tokens, prompt.truncated, prompt.notes)

    def _text_call(self, request: Generation) -> GenerationCall | Text | Failure:
        """A generation whose prompt is sent as text."""
        if isinstance(request.prompt, str):
            return self._plain_call(request)
        if self._encoder is None:
            message = "without a tokenizer only plain texts can be sent; set tokenizer=FOLDER in --model_args"
            return Failure("unsupported", message, retryable=False)
        rendered = self._encoder.renderer.render(request.prompt)
        if isinstance(rendered, Failure):
            return rendered
        call = self._plain_call(replace(request, prompt=rendered.text))
        return replace(call, notes=rendered.notes) if isinstance(call, GenerationCall) else call

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
        is_wanted = self.arguments.tokenized_requests is not False and self._kind_name != TGI  # it takes texts only
        return self._encoder is not None and is_wanted

    @cached_property
    def _tokenizer(self) -> AnyTokenizer | None:
        return find_tokenizer(self._connection, self.arguments, self.facts_of_server)

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
        return Encoder(rules, ChatRenderer(tokenizer, self._template_options), wanted.max_gen_toks)

    @property
    def _template_options(self) -> dict[str, Any]:
        """The settings of reasoning as variables of a chat template that is rendered here."""
        budget, effort = self.arguments.thinking, self.arguments.reasoning_effort
        switch = {} if budget is None else {"enable_thinking": budget != 0}
        return switch | ({} if effort is None else {"reasoning_effort": effort})

    @property
    def _template(self) -> str:
        """The chat template of a local tokenizer."""
        found = None if self._tokenizer is None else self._tokenizer.chat_template
        return str(found or "")

    @property
    def _kind_name(self) -> str:
        return self.provider.kind or self.facts_of_server.kind

    @property
    def _kind(self) -> ServerKind:
        return KINDS.get(self._kind_name, KINDS[OPENAI])

    @cached_property
    def _chat(self) -> Chat | None:
        """The server's chat endpoint, if it is of a kind whose chats are known."""
        return chat_of_kind(self._chat_settings(self._kind_name)) if self._kind.has_own_chat else None

    @cached_property
    def _dialects(self) -> list[Dialect]:
        """The dialects to try for log-likelihoods."""
        wanted = self.arguments.dialect
        makers = self._kind.dialects if wanted == AUTO else KINDS[wanted].dialects[:1]
        made = [make(self.arguments.model, seed=self.arguments.seed) for make in makers]
        return [replace(dialect, decode=self._text_of) if isinstance(dialect, Tgi) else dialect for dialect in made]

    @property
    def _all_dialects(self) -> list[Dialect]:
        """Every dialect that a server of this kind may have: those to try, and what is asked by the same endpoint."""
        has_completions = self._kind_name != TGI
        others: list[Dialect] = [Completions(self.arguments.model), Vllm(self.arguments.model)]
        known = {dialect.name for dialect in self._dialects}
        return [*self._dialects, *(entry for entry in others if has_completions and entry.name not in known)]

    @property
    def _writer(self) -> Dialect:
        """The dialect of generations."""
        return next(iter(self._dialects), Completions(self.arguments.model, seed=self.arguments.seed))

    def _text_of(self, ids: Sequence[int]) -> str:
        """The text of token ids, without the BOS token that a server adds itself."""
        assert self._tokenizer is not None
        first = self._tokenizer.bos_token_id
        return self._tokenizer.decode(ids[1:] if len(ids) > 0 and ids[0] == first else ids)

    @cached_property
    def _scoring(self) -> Scoring:
        """The first dialect that passes the probe."""
        encoder = self._encoder
        if encoder is None:
            return Scoring(None, ("there is no tokenizer: set tokenizer=FOLDER with the model's tokenizer.json",))
        probe = self._probe(encoder)
        against: list[str] = self._faults_of_tokenizer
        for dialect in [] if against else self._dialects:
            found = probe.reasons_against(dialect)
            if not found:
                apart = probe.reasons_against_joining(dialect)
                against += [f"{dialect.name}, choices of one token together: {reason}" for reason in apart]
                return Scoring(dialect, tuple(against), joins=not apart)
            against += [f"{dialect.name}: {reason}" for reason in found]
        return Scoring(None, tuple(against))

    def _probe(self, encoder: Encoder) -> Probe:
        return Probe(
            ask=partial(self._connection.ask, max_retries=_PROBE_RETRIES),
            ids=encode_texts(encoder.rules, [TEXT])[TEXT],
            find_id=self._only_id,
            tolerance=self.arguments.probe_tolerance,
        )

    @property
    def _faults_of_tokenizer(self) -> list[str]:
        return tokenizer_faults(self._connection, self._tokenizer, self.arguments.model, self.facts_of_server)

    def _only_id(self, text: str) -> int | None:
        """The id of a token's text; None unless it is the text of exactly one token."""
        assert self._encoder is not None
        if not text:
            return None
        ids = encode_texts(self._encoder.rules, [text], special=False)[text]
        return ids[0] if len(ids) == 1 else None


def is_conversation(prompt: Any) -> bool:
    """Whether a prompt is a list of messages."""
    return isinstance(prompt, tuple) and bool(prompt) and isinstance(prompt[0], Message)


def _logprob(text: EncodedText, found: list[TokenScore] | Failure) -> Logprob | Failure:
    """The log-likelihood of a continuation or window from the scores of its tokens."""
    if isinstance(found, Failure):
        return found
    return Logprob(
        total=math.fsum(score.logprob for score in found),
        token_count=len(found),
        is_greedy=all(score.is_greedy is True for score in found),
        prompt_tokens=text.context_length,
        truncated=text.truncated,
        notes=text.notes if None not in {score.is_greedy for score in found} else (*text.notes, GREEDY_UNKNOWN),
    )
