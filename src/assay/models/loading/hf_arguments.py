"""Model arguments of `hf`, with lm-eval's names: parsed, validated and typed.

In: the mapping a user wrote. Out: `CausalArguments`, or one error that lists every fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.core.errors import Fault, ModelError, did_you_mean
from assay.core.label_mapping import normalized_label
from assay.models.loading.argument_hints import UNSUPPORTED_ARGUMENTS, unsupported_argument_fault

DTYPES = ("auto", "float32", "bfloat16", "float16")
# Other names for the same formats.
DTYPE_NAMES = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "float": "float32", "fp32": "float32"}
ARITHMETICS = ("exact", "lm_eval")
DECODER, ENCODER_DECODER, ENCODER = FAMILIES = ("decoder", "encoder-decoder", "encoder")
# lm-eval's argument `backend`, which maps to `family`.
BACKEND = "backend"
BACKENDS = {"default": None, "causal": DECODER, "seq2seq": ENCODER_DECODER}
# Pseudo-log-likelihood of masked language models: mask each token alone, or with the later tokens of its word.
ORIGINAL, WITHIN_WORD = PLLS = ("original", "within_word_l2r")
# 8-bit linear layers: weights and activations, or weights only.
INT8_DYNAMIC, INT8_WEIGHTS = QUANTIZATIONS = ("int8_dynamic", "int8_weights")
AUTO, TREE, PADDED = ENGINES = ("auto", "tree", "padded")


@dataclass(frozen=True, slots=True)
class CausalArguments:
    """Typed model arguments.

    Attributes:
        pretrained: a folder, or an id on the Hugging Face Hub.
        revision: branch, tag or commit of a Hub model.
        subfolder: subfolder of the model folder that contains its files.
        tokenizer: folder or Hub id of another tokenizer.
        dtype: data type of the weights; `auto` for the checkpoint's own.
        max_length: maximum sequence length in tokens; None for the model's own.
        max_gen_toks: maximum number of new tokens if a request sets none.
        add_bos_token: whether texts begin with BOS; None for the tokenizer's default.
        prefix_token_id: the token used as an empty context; None for BOS, else EOS.
        trust_remote_code: whether Python code in the model's folder may run.
        attn_implementation: transformers' name of the attention implementation.
        gguf_file: name of a GGUF file in the folder to load the weights from.
        enable_thinking: passed on to the chat template.
        think_end_token: text or id that ends the thinking part of an answer, which is then removed.
        chat_template_args: further arguments for the chat template.
        arithmetic: `exact` sums in float64; `lm_eval` in the data type of the logits.
        family: `decoder`, `encoder-decoder` or `encoder`; None for the configuration's.
        labels: names of a classification head's outputs, in order; None for the configuration's.
        pll: pseudo-log-likelihood variant of a masked language model; None for `original`.
        max_span: maximum answer span in tokens; None for 30.
        quantize: `int8_dynamic` or `int8_weights` to quantise linear layers after loading; None for none.
        device: device to run on; overrides the run's setting.
        batch_size: overrides the run's setting.
        engine: overrides the run's setting.
    """

    pretrained: str
    revision: str | None = None
    subfolder: str | None = None
    tokenizer: str | None = None
    dtype: str = "auto"
    max_length: int | None = None
    max_gen_toks: int = 256
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    trust_remote_code: bool = False
    attn_implementation: str | None = None
    gguf_file: str | None = None
    enable_thinking: bool | None = None
    think_end_token: str | int | None = None
    chat_template_args: Mapping[str, Any] = field(default_factory=dict)
    arithmetic: str = "exact"
    family: str | None = None
    labels: tuple[str, ...] | None = None
    pll: str | None = None
    max_span: int | None = None
    quantize: str | None = None
    device: str | None = None
    batch_size: str | None = None
    engine: str | None = None

    @property
    def template_options(self) -> dict[str, Any]:
        """Arguments for the chat template."""
        thinking = {} if self.enable_thinking is None else {"enable_thinking": self.enable_thinking}
        return {**self.chat_template_args, **thinking}


def read_causal_arguments(args: Mapping[str, Any]) -> CausalArguments:
    """Parses model arguments.

    Raises:
        ModelError: lists every unknown name and every invalid value.
    """
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for name, value in args.items():
        if name == BACKEND:
            _read_backend(value, args, values, faults)
        elif name in UNSUPPORTED_ARGUMENTS:
            fault = unsupported_argument_fault(name, value, args)
            faults += [] if fault is None else [fault]
        elif name not in READERS:
            found = f'unknown argument "{name}"{did_you_mean(name, READERS)}'
            faults.append(Fault("model_args", found, "one of: " + ", ".join(READERS)))
        elif value is not None and not (name == "subfolder" and value == ""):  # lm-eval's default
            _read(name, value, values, faults)
    if "pretrained" not in values and not any(fault.where == "model_args.pretrained" for fault in faults):
        missing = Fault("model_args", 'no "pretrained"', "a model folder or Hub id", "Add: pretrained=FOLDER")
        faults.append(missing)
    if faults:
        raise ModelError(*faults)
    return CausalArguments(**values)


def _read(name: str, value: Any, values: dict[str, Any], faults: list[Fault]) -> None:
    try:
        values[name] = READERS[name](value)
    except ValueError as error:
        faults.append(Fault(f"model_args.{name}", f"found {value!r}", str(error)))


def _read_backend(value: Any, args: Mapping[str, Any], values: dict[str, Any], faults: list[Fault]) -> None:
    if value not in BACKENDS:
        faults.append(Fault(f"model_args.{BACKEND}", f"found {value!r}", "one of: " + ", ".join(BACKENDS)))
    elif args.get("family") is not None:
        faults.append(Fault(f"model_args.{BACKEND}", "family is also given", next="Leave one of the two out"))
    else:
        values["family"] = BACKENDS[value]


def _text(value: Any) -> str:
    # A folder may be called 2024, which the command-line parser turns into a number.
    if isinstance(value, bool) or not str(value).strip():
        raise ValueError("a string")
    return str(value)


def _flag(value: Any) -> bool:
    known = {"true": True, "false": False, "1": True, "0": False}
    if str(value).lower() not in known:
        raise ValueError("true or false")
    return known[str(value).lower()]


def _number_from(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        try:
            if isinstance(value, (bool, float)) or int(value) < least:
                raise ValueError
        except (TypeError, ValueError):
            raise ValueError(f"a whole number, at least {least}") from None
        return int(value)

    return read


def _choice(known: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        # torch.float32 prints as "torch.float32"; lm-eval's users write both.
        text = str(value).removeprefix("torch.")
        if text not in known:
            raise ValueError("one of: " + ", ".join(known) + did_you_mean(text, known))
        return text

    return read


def _dtype(value: Any) -> str:
    text = str(value).removeprefix("torch.")
    return _choice(DTYPES)(DTYPE_NAMES.get(text, text))


def _mapping(value: Any) -> Mapping[str, Any]:
    try:
        data = json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        data = None
    if not isinstance(data, Mapping):
        raise ValueError('a mapping, such as {"name": "value"}')
    return dict(data)


def _text_or_id(value: Any) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = _text(value)
    return int(text) if text.isdecimal() else text


def _labels(value: Any) -> tuple[str, ...]:
    names = value.split("|") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)):
        raise ValueError("names separated by |, such as labels=negative|positive")
    found = tuple(str(name).strip() for name in names)
    if len({normalized_label(name) for name in found}) < len(found) or not all(found) or len(found) < 2:
        raise ValueError("two or more distinct names separated by |")
    return found


READERS: Mapping[str, Callable[[Any], Any]] = {
    "pretrained": _text,
    "revision": _text,
    "subfolder": _text,
    "tokenizer": _text,
    "dtype": _dtype,
    "max_length": _number_from(1),
    "max_gen_toks": _number_from(1),
    "add_bos_token": _flag,
    "prefix_token_id": _number_from(0),
    "trust_remote_code": _flag,
    "attn_implementation": _text,
    "gguf_file": _text,
    "enable_thinking": _flag,
    "think_end_token": _text_or_id,
    "chat_template_args": _mapping,
    "arithmetic": _choice(ARITHMETICS),
    "family": _choice(FAMILIES),
    "labels": _labels,
    "pll": _choice(PLLS),
    "max_span": _number_from(1),
    "quantize": _choice(QUANTIZATIONS),
    "device": _text,
    "batch_size": _text,
    "engine": _choice(ENGINES),
}
