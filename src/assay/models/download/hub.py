"""A model folder on disk from a local path or a Hugging Face Hub id.

In: the value of `pretrained` or `tokenizer`. Out: a folder and, for a Hub model, its resolved commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import Fault, ModelError, missing_extra, plain_reason

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
SMALL_FILES = ["*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken"]

# huggingface_hub error name → (what was found, what to do next).
HUB_FAULTS = {
    "GatedRepoError": (
        "this model is gated: its owner requires you to accept the terms",
        "Accept the terms on its page and log in: hf auth login",
    ),
    "RepositoryNotFoundError": (
        "no such folder, and no such model on the Hub",
        "Check the spelling, or log in: hf auth login",
    ),
    "RevisionNotFoundError": ("the Hub model has no such revision", "Check the argument revision"),
    "HFValidationError": ("no such folder, and not a valid Hub id", "Check the path"),
}
UNREACHABLE = (
    "no such folder, and the Hub cannot be reached",
    "Check the path or the network; a local folder needs no network",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folder, and its commit if it came from the Hub."""

    folder: Path
    revision: str | None = None


def local_folder(name: str, subfolder: str | None = None) -> Path | None:
    """The local folder; None if the name can only be a Hub id.

    Raises:
        ModelError: if there is no such folder and the name is not a valid Hub id.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        inner = folder / subfolder if subfolder else folder
        if not inner.is_dir():
            raise ModelError(Fault(name, f'no folder "{subfolder}" in it', next="Check the argument subfolder"))
        return inner
    if folder.is_file():
        hint = f"Name the folder: pretrained={folder.parent}" + (
            f",gguf_file={folder.name}" if folder.suffix == ".gguf" else ""
        )
        raise ModelError(Fault(name, "this is a file", "a model folder", hint))
    if HUB_ID.fullmatch(name) is None:
        raise ModelError(Fault(name, "no such folder", "a model folder or a Hub id such as owner/name"))
    return None


def fetch(
    name: str, revision: str | None, weights: Sequence[str], code: Sequence[str], subfolder: str | None = None
) -> Snapshot:
    """Downloads a Hub model's files into a local folder; cached files are not downloaded again.

    Args:
        weights: patterns of weight files, tried in order until one matches, so that safetensors win over .bin.
        code: patterns of Python files to download, if the user trusts them.
    """
    try:
        import huggingface_hub
    except ImportError:
        raise missing_extra("huggingface_hub", "hf", f'fetching "{name}"') from None
    start = f"{subfolder}/" if subfolder else ""
    folder = Path()
    for pattern in weights or [""]:
        patterns = [start + entry for entry in [*SMALL_FILES, *code, pattern] if entry]
        ignored = None if subfolder else ["*/*"]
        try:
            folder = Path(
                huggingface_hub.snapshot_download(
                    name, revision=revision, allow_patterns=patterns, ignore_patterns=ignored
                )
            )
        except Exception as error:  # HTTP, offline, gated, not found, disk full: all become one kind of error
            raise _fault(name, error) from error
        if pattern and any((folder / start).glob(pattern)):
            break
    return Snapshot(folder / start, folder.name)


def _fault(name: str, error: Exception) -> ModelError:
    for kind in type(error).__mro__:
        if kind.__name__ in HUB_FAULTS:
            found, hint = HUB_FAULTS[kind.__name__]
            return ModelError(Fault(name, found, "a model folder or a Hub id", hint))
    found, hint = UNREACHABLE
    return ModelError(Fault(name, f"{found} ({plain_reason(error)})", "a model folder or a Hub id", hint))
