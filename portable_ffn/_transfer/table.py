"""How each library gives its arrays to others, takes theirs, and casts its own: one row a library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from portable_ffn._transfer import cast, frameworks, memory


@dataclass(frozen=True, slots=True)
class Row:
    """What moving an array has to know of its library.

    Attributes
    ----------
    cast : (array, name, device) -> array of the same library
    to_numpy : array -> ndarray
    from_numpy : (ndarray, like) -> array
    give : array -> what speaks DLPack; None where nothing does
    take : (what speaks DLPack, like) -> array on the same memory; None where the library doesn't
    frozen : array -> whether its memory must not be written
    copy : array -> array; None where the library keeps memory that must not be written from being written
    device : array -> where it lies; None where there is one place only
    """

    cast: Callable[[Any, str, Any], Any]
    to_numpy: Callable[[Any], Any]
    from_numpy: Callable[[Any, Any], Any]
    give: Callable[[Any], Any] | None = None
    take: Callable[[Any, Any], Any] | None = None
    frozen: Callable[[Any], bool] = lambda array: True
    copy: Callable[[Any], Any] | None = None
    device: Callable[[Any], Any] | None = None


TABLE: Mapping[str, Row] = {
    "numpy": Row(
        cast=cast.cast_numpy,
        to_numpy=memory.seen_by_numpy,
        from_numpy=lambda array, like: array,
        give=lambda array: array,
        frozen=lambda array: not array.flags.writeable,
    ),
    "torch": Row(
        cast=cast.cast_torch,
        to_numpy=memory.torch_to_numpy,
        from_numpy=memory.torch_from_numpy,
        give=lambda array: array.detach(),
        take=memory.torch_take,
        frozen=lambda array: False,
        copy=lambda array: array.clone(),
        device=lambda array: array.device,
    ),
    "jax": Row(
        cast=cast.cast_jax,
        to_numpy=memory.seen_by_numpy,
        from_numpy=memory.jax_from_numpy,
        give=lambda array: array,
        take=memory.jax_take,
        device=memory.jax_device,
    ),
    "cupy": Row(  # by CuPy's documentation: it has no CPU to be tried on
        cast=cast.cast_cupy,
        to_numpy=lambda array: array.get(),
        from_numpy=memory.cupy_from_numpy,
        give=lambda array: array,
        take=memory.cupy_take,
        frozen=lambda array: False,
        copy=lambda array: array.copy(),
        device=lambda array: array.device,
    ),
    "mlx": Row(
        cast=cast.cast_mlx,
        to_numpy=memory.mlx_to_numpy,
        from_numpy=memory.mlx_from_numpy,
        give=lambda array: array,
    ),
    "tensorflow": Row(
        cast=frameworks.cast_tensorflow,
        to_numpy=memory.seen_by_numpy,
        from_numpy=frameworks.tensorflow_from_numpy,
        give=frameworks.tensorflow_give,
        device=lambda array: array.device,
    ),
    "paddle": Row(
        cast=frameworks.cast_paddle,
        to_numpy=frameworks.paddle_to_numpy,
        from_numpy=frameworks.paddle_from_numpy,
        device=lambda array: getattr(array, "place", None),
    ),
    "tinygrad": Row(
        cast=frameworks.cast_tinygrad,
        to_numpy=frameworks.tinygrad_to_numpy,
        from_numpy=frameworks.tinygrad_from_numpy,
        device=lambda array: array.device,
    ),
    "dpnp": Row(
        cast=cast.cast_standard,
        to_numpy=frameworks.dpnp_to_numpy,
        from_numpy=frameworks.dpnp_from_numpy,
        device=lambda array: array.device,
    ),
    "dask": Row(
        cast=cast.cast_dask,
        to_numpy=lambda array: memory.seen_by_numpy(array.compute()),
        from_numpy=memory.dask_from_numpy,
    ),
    "ndonnx": Row(
        cast=cast.cast_standard,
        to_numpy=lambda array: array.unwrap_numpy(),
        from_numpy=memory.standard_from_numpy,
    ),
    "array_api_strict": Row(
        cast=cast.cast_standard,
        to_numpy=memory.strict_to_numpy,
        from_numpy=memory.standard_from_numpy,
        device=lambda array: array.device,
    ),
}
# A library that is known only by following the standard.
STANDARD = Row(
    cast=cast.cast_standard,
    to_numpy=memory.standard_to_numpy,
    from_numpy=memory.standard_from_numpy,
    device=lambda array: array.device,
)
