"""What is recognised and refused by name: files of other formats, and adapters."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from portable_ffn.checkpoint._errors import CheckpointError

_PICKLE: Final = "pickles can run code and are never loaded"

# What files of other formats are called.
_NAMES: Final = (
    (
        r"\.metadata|.*\.distcp|mp_rank_\d+.*|iter_\d+|latest_checkpointed_iteration\.txt",
        "a distributed PyTorch checkpoint",
        _PICKLE,
    ),
    (r".*\.(bin|pt|pth|ckpt|pkl|pickle)", "a PyTorch file", _PICKLE),
    (r".*\.(keras|h5|hdf5)", "a Keras or HDF5 file", "it is not read"),
    (r".*\.msgpack", "a Flax msgpack file", "it is not read"),
    (
        r"_CHECKPOINT_METADATA|_METADATA|_sharding|manifest\.ocdbt|ocdbt\.process_.*",
        "an Orbax checkpoint",
        "it is not read",
    ),
    (r".*\.onnx(_data|\.data)?", "an ONNX model", "it is not read"),
    (r"checkpoint|.*\.(pb|tflite|index|data-\d+-of-\d+)", "a TensorFlow file", "it is not read"),
    (r".*\.(npz|npy)", "a NumPy archive", "it is not read"),
    (
        r".*\.(llamafile|ggml|mlmodel|mlpackage|nemo|tar|zip|gz|7z)",
        "an archive or a model of another tool",
        "it is not read",
    ),
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
