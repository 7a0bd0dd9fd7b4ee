"""The feed-forward layers of any checkpoint, into any array library, refusing what is not known.

    for entry in checkpoint.find(path):      # headers only
        print(entry.name, entry.form, entry.activation)
    ffn = checkpoint.load(path, layer=0)     # computes what the model's own module returns
    y = ffn(x)

Facts that a checkpoint leaves open are arguments: activation= (a name of `ACTIVATIONS`, other libraries' spellings of
it, a gate object or a callable), gate= ("first", "second" or "interleaved": where a fused matrix has the gate), layout=
("out_in" as torch.nn.Linear stores a matrix, or "in_out").
"""

import os
from typing import Any

from portable_ffn._arrays.typing import Array
from portable_ffn.checkpoint._config.spellings import fact
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._facts.decide import Facts
from portable_ffn.checkpoint._find import entries
from portable_ffn.checkpoint._loaded.network import Network
from portable_ffn.checkpoint._own_file import save
from portable_ffn.checkpoint._pick import check_kinds, pick, refuse_unused
from portable_ffn.checkpoint._tensors.store import open_store

__all__ = ["CheckpointError", "Undecided", "find", "load", "save"]


def find(
    path: str | os.PathLike[str],
    *,
    activation: Any = None,
    gate: str | None = None,
    layout: str | None = None,
) -> list[Entry]:
    """The feed-forward layers of a checkpoint, in their order; only headers are read.

    Parameters
    ----------
    path : str or os.PathLike
        A directory, an index of shards, a .safetensors or a .gguf file.
    activation : str, gate object or callable, optional
        What all layers have, whatever the checkpoint says.
    gate : {"first", "second", "interleaved"}, optional
        Where a matrix of both branches has the gate.
    layout : {"out_in", "in_out"}, optional
        Whether matrices are stored (outputs, inputs), as torch.nn.Linear does, or (inputs, outputs).

    Returns
    -------
    list of Entry
        Layers that can't be loaded as they stand are among them, with their `problem`.

    Raises
    ------
    FileNotFoundError
        The path is missing.
    CheckpointError
        It can't be read.
    ValueError
        A fact that is none of the words above.
    TypeError
        A path or an activation of another kind.
    """
    for name, value, allowed in (
        ("gate", gate, ("first", "second", "interleaved")),
        ("layout", layout, ("out_in", "in_out")),
    ):
        if value is not None and value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    if activation is not None:
        activation = fact(activation)
    return entries(open_store(path), Facts(activation, gate, layout))


def load(
    path: str | os.PathLike[str],
    layer: int = 0,
    *,
    stack: str | None = None,
    name: str | None = None,
    like: Array | None = None,
    activation: Any = None,
    gate: str | None = None,
    layout: str | None = None,
) -> Network:
    """One feed-forward layer of a checkpoint, computing what the model's own module returns.

    Parameters
    ----------
    path, activation, gate, layout
        As in `find`.
    layer : int
        Its number in its stack; not looked at where `name` is given.
    stack : str, optional
        Its stack, such as "main" or "vision+encoder".
    name : str, optional
        The entry's name.
    like : array, optional
        The library and device to load into, and the dtype if it is real floating; NumPy and the file's dtype where
        it is None.

    Returns
    -------
    Network
        Called on x of shape (..., d_model).

    Raises
    ------
    TypeError
        A layer's number that is no int, or a stack or a name that is no str; as in `find`.
    ValueError
        No layer, or several, are meant; they are listed.
    Undecided
        The checkpoint can mean several things; `argument` names the fact that settles it.
    CheckpointError, FileNotFoundError
        As in `find`, and where the layer contradicts itself, its config or a fact.
    """
    check_kinds(layer, stack, name)
    entry = pick(find(path, activation=activation, gate=gate, layout=layout), path, layer, stack, name)
    refuse_unused(entry, gate)
    return entry.load(like)
