"""A file of tensors of any kind: what its headers say, and whoever gives the values."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.mapped import Source
from portable_ffn.checkpoint._files.tensor import TensorInfo

# The most that deflate can shrink: values that take more of a file's bytes than this aren't in it.
_DENSEST: Final = 1100


class Container(NamedTuple):
    """The tensors under the names that dotted paths have, each knowing its own name in the file; and who reads them.

    `config` is what the file says of the network itself, `notes` what a user should know of how it is read.
    """

    tensors: dict[str, TensorInfo]
    source: Source
    config: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()


def needs(path: Path, package: str, extra: str, what: str) -> CheckpointError:
    """The error for a package that is missing."""
    return CheckpointError(f"{path}: is {what}, and reading it needs {package}; pip install portable-ffn[{extra}]")


def dotted(name: str) -> str:
    """A path of JAX, Keras or TensorFlow as a dotted one: layers.0.mlp.wi.kernel."""
    # transformers' TensorFlow classes number a list's members with _._ between.
    name = re.sub(r"_\._(\d+)", r".\1", re.sub(r":\d+$", "", name)).replace("/", ".").strip(".")
    # flax.nnx wraps each array once more.
    return re.sub(r"\.(value|raw_value)$", "", name)


def named(path: Path, infos: list[TensorInfo]) -> dict[str, TensorInfo]:
    """Tensors by their dotted names, each of which must be one's own."""
    found: dict[str, TensorInfo] = {}
    for info in infos:
        name = dotted(info.name)
        if name in found:
            raise CheckpointError(
                f"{path}: {found[name].name[:200]!r} and {info.name[:200]!r} have the same name, {name!r}"
            )
        found[name] = info
    return found


def check_size(path: Path, name: str, nbytes: int, held: int) -> None:
    """CheckpointError where an array would take more memory than its bytes in the file can amount to."""
    if nbytes > max(held, 1) * _DENSEST:
        raise CheckpointError(f"{path}: {name[:200]!r} would have {nbytes} bytes, and the file holds {held} of it")
