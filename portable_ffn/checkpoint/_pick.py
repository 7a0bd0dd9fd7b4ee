"""The one entry that a layer's number, its stack or its name means."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from portable_ffn._arrays.typing import Array
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._find import find

_LISTED = 40


def load(
    path: str | os.PathLike[str],
    layer: int = 0,
    *,
    stack: str | None = None,
    name: str | None = None,
    expert: int | None = None,
    like: Array | None = None,
    activation: Any = None,
    gate: str | Mapping[str, str] | None = None,
    layout: str | Mapping[str, str] | None = None,
) -> Any:
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
    expert : int, optional
        One of the experts of a mixture, by its number, rather than the whole of it.
    like : array, optional
        The library and device to load into, and the dtype if it is real floating; NumPy and the file's dtype where
        it is None.

    Returns
    -------
    Network, or for a mixture of experts the whole block
        Called on x of shape (..., d_model).

    Raises
    ------
    TypeError
        A layer's or an expert's number that is no int, or a stack or a name that is no str; as in `find`.
    ValueError
        No layer, or several, are meant; they are listed.
    Undecided
        The checkpoint can mean several things; `argument` names the fact that settles it.
    CheckpointError, FileNotFoundError
        As in `find`, and where the layer contradicts itself, its config or a fact.
    """
    check_kinds(layer, stack, name, expert)
    entry = pick(find(path, activation=activation, gate=gate, layout=layout), path, layer, stack, name, expert)
    refuse_unused(entry.experts[0] if entry.experts else entry, gate)
    return entry.load(like)


def pick(
    found: Sequence[Entry],
    path: str | os.PathLike[str],
    layer: int,
    stack: str | None,
    name: str | None,
    expert: int | None = None,
) -> Entry:
    """The entry that is meant; ValueError that lists the others where it is none, or several."""
    if not found:
        raise CheckpointError(
            f"{os.fspath(path)} must hold a feed-forward layer under names that are known; it holds none"
        )
    if name is None:
        chosen = [entry for entry in found if entry.layer == layer and stack in (None, entry.stack)]
        asked = f"layer {layer}" + ("" if stack is None else f" of stack {stack!r}")
    else:
        # A mixture's own networks are known by name too.
        every = [*found, *(part for e in found for part in (*e.experts, e.shared) if part is not None)]
        chosen = [e for e in every if e.name == name] or [e for e in every if name in (e.base, f"{e.base}#{e.mark}")]
        chosen = [entry for entry in chosen if stack in (None, entry.stack)]
        asked = f"name {name!r}"
    if expert is not None:
        chosen = [network for entry in chosen for network in entry.networks if network.expert == expert]
        asked = f"expert {expert} of {asked}"
    if len(chosen) != 1:
        many = f"there are {len(chosen)}" if chosen else "there is none"
        raise ValueError(
            f"{asked} must mean one feed-forward network, and {many}; pass name=, one of\n" + _listed(chosen or found)
        )
    return chosen[0]


def check_kinds(layer: object, stack: object, name: object, expert: object = None) -> None:
    """TypeError for a number that is no int, or a word that is no str: they would be equal to no layer's."""
    if isinstance(layer, bool) or not hasattr(layer, "__index__"):
        raise TypeError(f"layer must be an int, got {layer!r}; a layer's name is passed as name=")
    if expert is not None and (isinstance(expert, bool) or not hasattr(expert, "__index__")):
        raise TypeError(f"expert must be an int, got {expert!r}")
    for word, value in (("stack", stack), ("name", name)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{word} must be a str, got {value!r}")


def refuse_unused(entry: Entry, gate: str | Mapping[str, str] | None) -> None:
    """CheckpointError for a gate= where no matrix holds both branches: what was asked for would change nothing."""
    if isinstance(gate, str) and entry.decision is not None and entry.decision.recipe.W1.half is None:
        raise CheckpointError(
            f"gate={gate!r} must tell where the gate is in a matrix of both branches, and {entry.name or 'the layer'} "
            "has none; leave gate= out"
        )


def _listed(found: Sequence[Entry]) -> str:
    """Entries, a line each."""
    lines = [f"  {e.name!r} (stack {e.stack!r}, layer {e.layer}, {e.form})" for e in found[:_LISTED]]
    return "\n".join(lines + [f"  ... and {len(found) - _LISTED} more"] * (len(found) > _LISTED))
