"""The loaded model: weights on a device, and logits for rows of ids.

Takes a checkpoint; gives a `Network` and a tokenizer. This and `generation.py` are the only places that
call transformers; what it writes to logs, warnings and progress bars is silenced while it works, no longer.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from assay.core.errors import Fault, ModelError, missing_extra
from assay.models.hf.arguments import CausalArguments
from assay.models.hf.batching import CPU_GENERATION_TOKENS, CPU_TOKENS, BatchLimit
from assay.models.hf.checkpoint import Checkpoint, precision
from assay.models.hf.config_values import config_number
from assay.models.hf.load_errors import load_fault
from assay.models.hf.quantization import quantize
from assay.models.hf.quiet_logs import unlogged
from assay.models.hf.threads import wait_briefly
from assay.models.hf.tokenization import Tokenizer, TokenRules

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PROBE_TEXT = "A"
# Share of a GPU's free memory that a batch may fill by our rough reckoning.
MEMORY_SHARE = 0.5
MOST_TOKENS = 1 << 17


@dataclass(frozen=True, slots=True)
class Network:
    """A causal model on its device.

    Attributes:
        module: the transformers model, in eval mode.
        device: where it is.
        forward_options: settings for each call of the model.
        keeps_logits: whether it can compute logits at chosen positions only.
    """

    module: Any
    device: torch.device
    forward_options: dict[str, Any]
    keeps_logits: bool

    def logits(self, rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Tensor:
        """Logits of shape (rows, positions, vocabulary); short rows are padded on the right.

        No attention mask is passed, as lm-eval does: a causal model never looks at what comes after.
        """
        import torch

        longest = max(len(row) for row in rows)
        padded = [[*row, *[0] * (longest - len(row))] for row in rows]
        wanted = torch.tensor(list(positions), device=self.device)
        options = {**self.forward_options, **({"logits_to_keep": wanted} if self.keeps_logits else {})}
        with quiet(), torch.inference_mode():
            output = self.module(input_ids=torch.tensor(padded, device=self.device), **options)
        return cast("Tensor", output.logits if self.keeps_logits else output.logits[:, wanted])


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines, warnings or progress bars of transformers while this lasts; then all is as before."""
    from transformers.utils import logging as untyped_lines

    lines = cast(Any, untyped_lines)
    verbosity, had_bars = lines.get_verbosity(), lines.is_progress_bar_enabled()
    lines.set_verbosity_error()
    if had_bars:
        lines.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        lines.set_verbosity(verbosity)
        if had_bars:
            lines.enable_progress_bar()


def require_transformers(purpose: str) -> None:
    """Fails with the line that installs them when torch or transformers are not there."""
    wait_briefly()
    for package in ("torch", "transformers"):
        try:
            __import__(package)
        except ImportError:
            raise missing_extra(package, "hf", purpose) from None


def choose_device(requested: str | None) -> tuple[torch.device, str | None]:
    """The device to run on, and a notice when it is not the one asked for."""
    import torch

    has_metal = torch.backends.mps.is_available()
    if requested is None or requested == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_metal else "cpu"), None
    try:
        device = torch.device(requested)
    except RuntimeError:
        raise ModelError(Fault("device", f'found "{requested}"', "cpu, cuda, cuda:1, mps, …")) from None
    # "cuda:0" stands in many lm-eval scripts, as that was its default; it must not break a laptop.
    absent = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if absent or (device.type == "mps" and not has_metal):
        return torch.device("cpu"), f'device "{requested}" is not there; running on the CPU instead'
    return device, None


def load_tokenizer(checkpoint: Checkpoint, args: CausalArguments) -> Tokenizer:
    """The tokenizer of a checkpoint; needs no weights."""
    require_transformers(f'reading the tokenizer of "{checkpoint.name}"')
    from transformers import AutoTokenizer

    options: dict[str, Any] = {"trust_remote_code": args.trust_remote_code, "local_files_only": True}
    if args.gguf_file and args.tokenizer is None:
        options["gguf_file"] = args.gguf_file
    if args.add_bos_token is not None:
        options["add_bos_token"] = args.add_bos_token
    folder = str(checkpoint.tokenizer_folder)
    with loading(folder, "the tokenizer cannot be loaded"), quiet():
        return cast(Tokenizer, AutoTokenizer.from_pretrained(folder, **options))


@contextmanager
def loading(where: str, found: str) -> Iterator[None]:
    """Turns whatever loading runs into (bad JSON, torn weights, unknown types) into one error."""
    try:
        with unlogged():
            yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(load_fault(where, found, error)) from error


def token_rules(tokenizer: Tokenizer, max_length: int, args: CausalArguments) -> TokenRules:
    """The model's tokenisation rules, with its prefix token found."""
    prefix = args.prefix_token_id
    if prefix is None:
        prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    text = "" if prefix is None else tokenizer.decode([prefix])
    prepended: tuple[int, ...] = ()
    if args.add_bos_token and tokenizer.bos_token_id is not None and not adds_bos(tokenizer):
        # Not every tokenizer heeds add_bos_token; what the user asked for happens all the same.
        prepended = (tokenizer.bos_token_id,)
    return TokenRules(tokenizer, max_length, args.add_bos_token, prefix, text, prepended)


def adds_bos(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer puts its BOS before a text."""
    return tokenizer([PROBE_TEXT])["input_ids"][0][:1] == [tokenizer.bos_token_id]


def load_network(checkpoint: Checkpoint, args: CausalArguments, device: torch.device) -> Network:
    """Loads the weights of a causal model onto a device."""
    module = load_module(checkpoint, args, device, ("AutoModelForCausalLM", "a complete causal language model"))
    return wrap(module, device)


def load_module(checkpoint: Checkpoint, args: CausalArguments, device: torch.device, kind: tuple[str, str]) -> Any:
    """Loads weights onto a device.

    Args:
        kind: transformers' class that loads them, and what it should find, in words.
    """
    require_transformers(f'loading "{checkpoint.name}"')
    import torch
    import transformers

    loader, expected = kind

    options: dict[str, Any] = {
        "dtype": getattr(torch, precision(checkpoint, args)),
        "trust_remote_code": args.trust_remote_code,
        "local_files_only": True,
        "output_loading_info": True,
        "weights_only": True,
    }
    for name in ("attn_implementation", "gguf_file"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
    folder = str(checkpoint.folder)
    with loading(folder, "the model cannot be loaded"), quiet():
        module, info = getattr(transformers, loader).from_pretrained(folder, **options)
        module = module.to(device).eval()
    missing = sorted(info["missing_keys"])
    if missing:
        # transformers would fill them with random numbers and go on.
        found = f"{len(missing)} weights are missing from its files, the first is {missing[0]}"
        raise ModelError(Fault(folder, found, expected))
    with loading("model_args.quantize", f"{args.quantize} cannot be had"):
        quantize(module, args.quantize)
    return module


def wrap(module: Any, device: torch.device) -> Network:
    """A network around a transformers model that is already on its device."""
    known = inspect.signature(module.forward).parameters
    takes_cache = "use_cache" in known or any(entry.kind is entry.VAR_KEYWORD for entry in known.values())
    return Network(module, device, {"use_cache": False} if takes_cache else {}, "logits_to_keep" in known)


def automatic_limit(network: Network, for_generation: bool) -> BatchLimit:
    """A token budget for the device the model is on."""
    import torch

    if network.device.type != "cuda":
        return BatchLimit(tokens=CPU_GENERATION_TOKENS if for_generation else CPU_TOKENS)
    free, _ = torch.cuda.mem_get_info(network.device)
    return BatchLimit(tokens=_tokens_for(free, network.module, for_generation))


def _tokens_for(free: int, module: Any, for_generation: bool) -> int:
    """Tokens that fit into some bytes: states, caches and logits. Rough; the back-off mends the rest."""
    config = module.config.get_text_config()
    names = ("hidden_size", "num_hidden_layers", "vocab_size")
    width, layers, vocabulary = (int(config_number(config, name)) for name in names)
    per_token = 4 * (2 * width * layers if for_generation else 16 * width + 3 * vocabulary)
    return max(min(int(free * MEMORY_SHARE) // max(per_token, 1), MOST_TOKENS), CPU_TOKENS)
