"""Layers that jax.lax.scan keeps in one array each: an axis that counts layers, told by shapes.

MaxText puts it second (param_scan_axis = 1), flax.linen.scan first by default. Sources: MaxText (layers/decoders.py,
configs/base.yml), flax/core/lift.py.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from portable_ffn.checkpoint._files.container import Container
from portable_ffn.checkpoint._files.mapped import Source
from portable_ffn.checkpoint._files.tensor import TensorInfo

# A path's component that has all layers of a stack in it.
_STACK: Final = re.compile(r"(.*\.)?(layers|blocks|layer|block|scanned_layers|h)\.(?!\d)(.+)")
# The axis that a stack has, in the order in which frameworks put it.
_AXES: Final = (1, 0)
Array = np.ndarray[Any, Any]
Part = Callable[[str, tuple[Any, ...]], Array]


class Scanned:
    """A source that gives one layer out of a stack of them."""

    def __init__(self, source: Source, part: Part, places: Mapping[str, tuple[str, int, int]]) -> None:
        self.source = source
        self.part = part
        self.places = dict(places)

    def array(self, info: TensorInfo) -> Array:
        """The array, or the slice that the name means."""
        place = self.places.get(info.name)
        if place is None:
            return self.source.array(info)
        name, axis, number = place
        return self.part(name, (*[slice(None)] * axis, number))


def unstacked(container: Container, part: Part) -> Container:
    """The container with every layer of its stacks on its own."""
    homes: dict[tuple[str, str, str], dict[str, TensorInfo]] = defaultdict(dict)
    for name, info in container.tensors.items():
        match = _STACK.fullmatch(name)
        if match and match[3].endswith((".kernel", ".bias")):
            inner, _, leaf = match[3].rpartition(".")
            parent, _, matrix = inner.rpartition(".")
            homes[match[1] or "", match[2], parent][f"{matrix}.{leaf}"] = info
    tensors, places = dict(container.tensors), {}
    for (outer, stack, parent), leaves in homes.items():
        kernels = [info.shape for leaf, info in leaves.items() if leaf.endswith(".kernel") and len(info.shape) == 3]
        axis = _axis(kernels)
        if axis is None:
            continue
        count = kernels[0][axis]
        for leaf, info in leaves.items():
            # A bias has one axis less: its stack is counted by the axis that is left.
            own = axis if len(info.shape) == 3 else min(axis, len(info.shape) - 1)
            if len(info.shape) not in (2, 3) or info.shape[own] != count or count > 100_000:
                continue
            tensors.pop(f"{outer}{stack}.{parent}.{leaf}" if parent else f"{outer}{stack}.{leaf}", None)
            shape = tuple(n for place, n in enumerate(info.shape) if place != own)
            for number in range(count):
                inside = f"{parent}." if parent else ""
                disk = f"{info.name}[{', '.join([':'] * own + [str(number)])}]"
                places[disk] = (info.name, own, number)
                one = info._replace(name=disk, shape=shape, nbytes=info.nbytes // max(count, 1))
                tensors[f"{outer}{stack}.{number}.{inside}{leaf}"] = one
    if not places:
        return container
    return container._replace(tensors=tensors, source=Scanned(container.source, part, places))


def _axis(kernels: Sequence[tuple[int, ...]]) -> int | None:
    """The axis that counts layers: without it, the last matrix maps back what the others map."""
    if len(kernels) < 2:
        return None
    for axis in _AXES:
        if len({shape[axis] for shape in kernels}) != 1:
            continue
        rest = {tuple(n for place, n in enumerate(shape) if place != axis) for shape in kernels}
        if any(shape[::-1] in rest for shape in rest):
            return axis
    return None
