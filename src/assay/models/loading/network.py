"""A loaded transformers model: weights on a device, and logits for rows of token ids.

In: a checkpoint. Out: a `Network`. Log lines, warnings and progress bars of transformers are suppressed during each
call and restored afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from assay.core.errors import Fault, ModelError, missing_extra
from assay.core.plural import plural
from assay.models.loading.checkpoint import Checkpoint, precision
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.load_errors import load_fault
from assay.models.loading.quantization import quantize
from assay.models.runtime import quiet, unlogged, wait_briefly

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Network:
    """A causal model on its device.

    Attributes:
        module: the transformers model, in eval mode.
        device: its device.
        forward_options: keyword arguments of every forward pass.
        keeps_logits: whether it supports `logits_to_keep`: logits at chosen positions only.
    """

    module: Any
    device: torch.device
    forward_options: dict[str, Any]
    keeps_logits: bool

    def logits(self, rows: Sequence[Sequence[int]], positions: Sequence[int]) -> Tensor:
        """Logits of shape (rows, positions, vocabulary); short rows are padded on the right.

        Like lm-eval, passes no attention mask: a causal model never attends to later positions.
        """
        import torch

        longest = max(len(row) for row in rows)
        padded = [[*row, *[0] * (longest - len(row))] for row in rows]
        wanted = torch.tensor(list(positions), device=self.device)
        options = {**self.forward_options, **({"logits_to_keep": wanted} if self.keeps_logits else {})}
        with quiet(), torch.inference_mode():
            output = self.module(input_ids=torch.tensor(padded, device=self.device), **options)
        return cast("Tensor", output.logits if self.keeps_logits else output.logits[:, wanted])


def require_transformers(purpose: str) -> None:
    """Raises an error with the install command if torch or transformers is not installed."""
    wait_briefly()
    for package in ("torch", "transformers"):
        try:
            __import__(package)
        except ImportError:
            raise missing_extra(package, "hf", purpose) from None


def choose_device(requested: str | None) -> tuple[torch.device, str | None]:
    """The device to run on, and a notice if it is not the requested one."""
    import torch

    has_metal = torch.backends.mps.is_available()
    if requested is None or requested == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_metal else "cpu"), None
    try:
        device = torch.device(requested)
    except RuntimeError:
        raise ModelError(Fault("device", f'found "{requested}"', "cpu, cuda, cuda:1, mps, …")) from None
    # Many lm-eval scripts contain "cuda:0", its former default; they should work on a laptop too.
    absent = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if absent or (device.type == "mps" and not has_metal):
        return torch.device("cpu"), f'device "{requested}" is not available; running on the CPU instead'
    return device, None


@contextmanager
def loading(where: str, found: str) -> Iterator[None]:
    """Turns any loading error (bad JSON, truncated weights, unknown types) into a readable one."""
    try:
        with unlogged():
            yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(load_fault(where, found, error)) from error


def load_network(checkpoint: Checkpoint, args: CausalArguments, device: torch.device) -> Network:
    """Loads the weights of a causal model onto a device."""
    module = load_module(checkpoint, args, device, ("AutoModelForCausalLM", "a complete causal language model"))
    return wrap(module, device)


def load_module(checkpoint: Checkpoint, args: CausalArguments, device: torch.device, kind: tuple[str, str]) -> Any:
    """Loads a transformers model onto a device.

    Args:
        kind: name of the transformers auto class, and a description of the expected model.
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
        # transformers would initialise them at random and continue.
        found = f"{plural(len(missing), 'weight')} missing from its files, such as {missing[0]}"
        raise ModelError(Fault(folder, found, expected))
    with loading("model_args.quantize", f"{args.quantize} is not available"):
        quantize(module, args.quantize)
    return module


def wrap(module: Any, device: torch.device) -> Network:
    """Wraps a transformers model that is already on its device."""
    known = inspect.signature(module.forward).parameters
    takes_cache = "use_cache" in known or any(entry.kind is entry.VAR_KEYWORD for entry in known.values())
    return Network(module, device, {"use_cache": False} if takes_cache else {}, "logits_to_keep" in known)


def config_value(config: Any, name: str) -> Any:
    """A configuration value; None if absent, the largest if layers differ.

    Models such as Gemma 4 raise an error when a setting that differs between layers is read from the configuration.
    """
    try:
        return getattr(config, name, None)
    except Exception:  # the error class of transformers, a RuntimeError, is not public
        layers = [getattr(layer, name, None) for layer in getattr(config, "per_layer_config", ())]
    return max((value for value in layers if isinstance(value, (int, float))), default=None)


def config_number(config: Any, *names: str) -> float:
    """The first of several configuration values that is a number; 0 if none is."""
    values = (config_value(config, name) for name in names)
    return next((float(value) for value in values if isinstance(value, (int, float))), 0.0)
