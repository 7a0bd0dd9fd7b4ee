"""A library that follows the standard of 2022.12 or 2023.12, as one of 2024.12: `where` takes numbers."""

from typing import Any

from portable_ffn._arrays.typing import Array, Namespace


def latest(xp: Namespace) -> Namespace:
    """The functions of a library, as the standard of 2024.12 has them."""
    return Older(xp) if getattr(xp, "__array_api_version__", "2024.12") < "2024.12" else xp


class Older:
    """The functions of a library of an older version."""

    def __init__(self, xp: Namespace) -> None:
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_xp":  # what copying and pickling ask for is no function of the library
            raise AttributeError(name)
        return getattr(self._xp, name)

    def __reduce__(self) -> Any:
        return Older, (self._xp,)

    @property
    def __name__(self) -> str:
        return str(self._xp.__name__)

    @property
    def __array_namespace_info__(self) -> Any:
        """Since 2023.12."""
        return self._xp.__array_namespace_info__

    def where(self, condition: Array, x: Any, y: Any) -> Array:
        """x where the condition holds, y elsewhere; one of them may be a number."""
        like = x if hasattr(x, "dtype") else y
        x, y = (a if hasattr(a, "dtype") else self._xp.asarray(a, dtype=like.dtype, device=like.device) for a in (x, y))
        return self._xp.where(condition, x, y)
