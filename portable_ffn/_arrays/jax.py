"""JAX as a namespace of the standard, with products that say how their result is sharded, and sums along the last axis.

On a mesh with Explicit axes JAX refuses a product whose summed axis is sharded on both sides unless it is told the
result's sharding. Here that is: rows as those of x, columns as those of W, which asks for a sum over the shards (one
all-reduce) and moves no weight. Where jax_numpy_rank_promotion is "raise" it wants arrays of as many axes to be added
or multiplied: a bias gets the leading ones. Everything else is JAX's own.
"""

from typing import Any

import jax.numpy as jnp


def __getattr__(name: str) -> Any:
    return getattr(jnp, name)


def add(x: Any, y: Any) -> Any:
    """x + y, with y along the last axes."""
    return x + _along(y, x)


def multiply(x: Any, y: Any) -> Any:
    """x y, with y along the last axes."""
    return x * _along(y, x)


def _along(y: Any, x: Any) -> Any:
    """y with as many axes as x."""
    return jnp.reshape(y, (1,) * (x.ndim - y.ndim) + y.shape) if 0 < y.ndim < x.ndim else y


def matmul(x: Any, W: Any) -> Any:
    """x W, with the rows sharded as those of x and the columns as those of W where the mesh is Explicit."""
    out = _out_sharding(x, W)
    return jnp.matmul(x, W) if out is None else jnp.matmul(x, W, out_sharding=out)


def _out_sharding(x: Any, W: Any) -> Any:
    """The sharding of X W, None where JAX finds it alone: on one device, on Auto and Manual axes."""
    # Versions without Explicit axes have no sharding in their types.
    rows, columns = (getattr(getattr(array, "aval", None), "sharding", None) for array in (x, W))
    if rows is None or columns is None or W.ndim != 2 or not _explicit(rows.mesh):
        return None
    from jax.sharding import NamedSharding, PartitionSpec

    taken = {axis for entry in rows.spec[:-1] for axis in _axes(entry)}
    last = columns.spec[-1] if taken.isdisjoint(_axes(columns.spec[-1])) else None
    return NamedSharding(rows.mesh, PartitionSpec(*rows.spec[:-1], last))  # type: ignore[no-untyped-call]


def _explicit(mesh: Any) -> bool:
    """Whether any axis of the mesh is Explicit."""
    return any(kind.name == "Explicit" for kind in getattr(mesh, "axis_types", None) or ())


def _axes(entry: Any) -> tuple[str, ...]:
    """The axes of the mesh that one axis of an array is sharded over."""
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)
