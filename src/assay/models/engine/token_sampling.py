"""Token sampling: greedy, or from a random stream per request.

In: a request and the model's generation settings. Out: a sampler, or None for settings that only transformers'
`generate` supports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.models.inference.generation import generate_options, stream_seed
from assay.models.tokens.tokenization import EncodedPrompt

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# transformers' defaults.
SAMPLING = {
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "min_p": None,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
}
HISTORY = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
# Settings of generation_config.json that do not affect sampling, or are handled elsewhere.
SETTINGS_WITHOUT_EFFECT = frozenset(
    {
        *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "transformers_version"),
        *("max_length", "max_new_tokens", "do_sample", "use_cache", "cache_implementation", "cache_config"),
        *("early_stopping", "length_penalty", "_from_model_config", "return_dict_in_generate", "trust_remote_code"),
        *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "chat_format"),
    }
)


@dataclass(slots=True)
class TokenSampler:
    """Samples the tokens of one answer.

    Attributes:
        processors: transformers' logits processors; none for plain greedy decoding.
        generator: the random stream; None for greedy decoding.
    """

    processors: Sequence[Any] = ()
    generator: torch.Generator | None = field(default=None)

    @property
    def is_plain(self) -> bool:
        return self.generator is None and not self.processors

    def sample(self, ids: Sequence[int], logits: Tensor) -> int:
        """The next token after `ids`."""
        import torch

        scores = logits[None].float()
        before = torch.tensor([list(ids)], device=scores.device)
        for process in self.processors:
            scores = process(before, scores)
        if self.generator is None:
            return int(scores.argmax(dim=-1))
        shares = scores.softmax(dim=-1)
        return int(torch.multinomial(shares, 1, generator=self.generator))


def make_sampler(prompt: EncodedPrompt, settings: Any, device: torch.device) -> TokenSampler | None:
    """A sampler for one prompt; None if the settings are not supported.

    Args:
        prompt: the prompt and its request.
        settings: the model's generation settings.
        device: device of the logits.
    """
    options = generate_options(prompt.request)
    do_sample = options.pop("do_sample")
    if options.get("num_beams") == 1:
        del options["num_beams"]
    stated = {name: value for name, value in settings.to_dict().items() if value is not None}
    known = {*SAMPLING, *HISTORY}
    if set(options) - known or not _is_plain(stated, known):
        return None
    found = {**HISTORY, **SAMPLING, **{name: stated[name] for name in known & set(stated)}, **options}
    processors = _history(found)
    if not do_sample:
        return TokenSampler(processors)
    return TokenSampler([*processors, *_warpers(found, device)], _stream(prompt, device))


def _is_plain(stated: Mapping[str, Any], known: set[str]) -> bool:
    """Whether the model's generation settings are all supported or neutral."""
    for name, value in stated.items():
        if name in known or name in SETTINGS_WITHOUT_EFFECT or not value:
            continue
        if (
            name in ("num_beams", "num_beam_groups", "num_return_sequences", "encoder_repetition_penalty")
            and value == 1
        ):
            continue
        if name.startswith(("num_assistant", "assistant_", "target_", "prompt_lookup", "max_matching")):
            continue
        return False
    return True


def _history(found: Mapping[str, Any]) -> list[Any]:
    from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

    steps: list[Any] = []
    if found["repetition_penalty"] not in (None, 1.0):
        steps.append(RepetitionPenaltyLogitsProcessor(penalty=float(found["repetition_penalty"])))
    if found["no_repeat_ngram_size"]:
        steps.append(NoRepeatNGramLogitsProcessor(found["no_repeat_ngram_size"]))
    return steps


def _warpers(found: Mapping[str, Any], device: torch.device) -> list[Any]:
    """In transformers' order."""
    import transformers as given

    steps: list[Any] = []
    if found["temperature"] not in (None, 1.0):
        steps.append(given.TemperatureLogitsWarper(float(found["temperature"])))
    if found["top_k"]:
        steps.append(given.TopKLogitsWarper(top_k=int(found["top_k"])))
    if found["top_p"] is not None and found["top_p"] < 1.0:
        steps.append(given.TopPLogitsWarper(top_p=float(found["top_p"])))
    if found["min_p"] is not None:
        steps.append(given.MinPLogitsWarper(min_p=float(found["min_p"])))
    if found["typical_p"] is not None and found["typical_p"] < 1.0:
        steps.append(given.TypicalLogitsWarper(mass=float(found["typical_p"])))
    if found["epsilon_cutoff"]:
        steps.append(given.EpsilonLogitsWarper(epsilon=float(found["epsilon_cutoff"])))
    if found["eta_cutoff"]:
        steps.append(given.EtaLogitsWarper(epsilon=float(found["eta_cutoff"]), device=str(device)))
    return steps


def _stream(prompt: EncodedPrompt, device: torch.device) -> torch.Generator:
    import torch

    return torch.Generator(device=device).manual_seed(stream_seed(prompt))
