"""What is recognised and refused by name: files of other formats, and adapters."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from portable_ffn.checkpoint._errors import CheckpointError

_NOT_READ: Final = "it is not read"
_PICKLE: Final = "no pickle is executed"

# What files of other formats are called, what they are, and why they are not read.
_NAMES: Final = (
    (
        r"mp_rank_\d+.*|iter_\d+|latest_checkpointed_iteration\.txt",
        "part of a Megatron checkpoint, a distributed one",
        "its layers are split over ranks; convert it with the tool that wrote it",
    ),
    (
        r"\.metadata|.*\.distcp",
        "part of a distributed PyTorch checkpoint (DCP)",
        f"its .metadata is a pickle, and {_PICKLE}; join it with torch.distributed.checkpoint.format_utils",
    ),
    (
        r"_CHECKPOINT_METADATA|_METADATA|_sharding|manifest\.ocdbt|ocdbt\.process_.*",
        "part of an Orbax checkpoint",
        "give the directory that holds _METADATA or manifest.ocdbt",
    ),
    (r".*\.(pkl|pickle|joblib)", "a Python pickle", _PICKLE),
    (r".*\.eqx", "leaves of Equinox", "only the code that built the tree knows which is which"),
    (r".*\.tensors", "a tensorizer file", _NOT_READ),
    (r".*\.nemo", "a NeMo archive", "convert it with NeMo"),
    (r".*\.onnx(_data|\.data)?", "an ONNX model", _NOT_READ),
    (r"(openvino_.*|.*)\.xml", "a model of OpenVINO", _NOT_READ),
    (r"checkpoint|.*\.(pb|tflite|index|data-\d+-of-\d+)", "a TensorFlow file", _NOT_READ),
    (r".*\.npy", "a NumPy file of one array", "it has no names"),
    (r".*\.(engine|plan)", "an engine of TensorRT", _NOT_READ),
    (r".*\.(mlmodel|mlpackage|mlmodelc)", "a model of Core ML", _NOT_READ),
    (r".*\.(llamafile|ggml)", "an archive or a model of another tool", _NOT_READ),
    (r".*\.(tar|zip|gz|7z)", "an archive", "unpack it first"),
)

# What files of other formats begin with.
_MAGIC: Final = (
    (b"PK\x03\x04", "a zip archive (torch.save writes such, and Keras)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"GGUF", "a GGUF file (name it .gguf)"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"|TZR|", "a tensorizer file"),
    (b"lmgg", "a GGML file of before GGUF"),
    (b"tjgg", "a GGML file of before GGUF"),
    (b"version https:/", "a Git LFS pointer, not the file itself (git lfs pull fetches it)"),
    (b"<!DOCTYPE", "an HTML page"),
    (b"<html", "an HTML page"),
)

# PEFT's tensors: LoRA and DoRA, IA3, LoHa, LoKr, OFT, BOFT, VeRA.
_ADAPTER: Final = re.compile(
    r"(^|\.)(lora_(A|B|embedding_A|embedding_B|magnitude_vector)|ia3_l|hada_(w[12]_[ab]|t[12])"
    r"|lokr_(w[12](_[ab])?|t2)|oft_[rR]|boft_[Rs]|vera_(A|B|lambda_[bd]))(\.|$)"
)
_MERGE: Final = "merge it (peft: merge_and_unload) and save the result"


def refuse_names(where: Path, names: Iterable[str]) -> None:
    """Raise for the first name that belongs to another format."""
    for name in names:
        for pattern, what, reason in _NAMES:
            if re.fullmatch(pattern, name):
                raise CheckpointError(f"{where}: {name} is {what}; {reason}. Save the model as safetensors")


def refuse_magic(path: Path, start: bytes) -> None:
    """Raise if the first 16 bytes are those of another format."""
    # The length of a safetensors header may look like a magic number, but its brace stands after eight bytes.
    if start[8:9] == b"{":
        return
    for magic, what in _MAGIC:
        if start.startswith(magic):
            raise CheckpointError(f"{path}: is {what}, not a safetensors file; save the model as safetensors")


def told_of_binary(path: Path, start: bytes) -> str:
    """What a file is that is called as torch's are, and is none of them."""
    if path.with_suffix(".xml").exists():
        what = "the weights of an OpenVINO model, not a PyTorch file; it is not read"
    elif 0 < int.from_bytes(start[:4], "little") < 100 and b"Spec" in start[4:] + _head(path):
        what = "a CTranslate2 model, not a PyTorch file; it is not read"
    else:
        known = next((what for magic, what in _MAGIC if start.startswith(magic)), "no PyTorch file and no pickle")
        what = f"{known}; {_PICKLE}" if "pickle" in known else known
    return f"{path}: is {what}. Save the model as safetensors"


def _head(path: Path) -> bytes:
    """The first bytes of a file, where CTranslate2 names its specification."""
    with path.open("rb") as file:
        return file.read(64)


def refuse_adapter_files(where: Path, names: Iterable[str]) -> None:
    """An adapter changes the layers of its base: neither may be read as if the other weren't there."""
    for name in names:
        if name == "adapter_config.json" or re.fullmatch(r"adapter_model[-.].*", name):
            raise CheckpointError(
                f"{where}: {name} belongs to a PEFT (LoRA) adapter, which changes its base; {_MERGE}, "
                "or open a directory that holds the base alone"
            )


def refuse_adapter_tensors(where: Path, names: Iterable[str]) -> None:
    """The same for the tensors of an adapter that was saved into the base's file."""
    for name in names:
        if _ADAPTER.search(name):
            raise CheckpointError(
                f"{where}: tensor {name!r} belongs to a PEFT (LoRA) adapter, which changes its base; {_MERGE}"
            )
