"""Contexts that a library computes in, so that its world does not disturb the formulas."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

NOTHING: AbstractContextManager[Any] = nullcontext()


def numpy_in_silence() -> AbstractContextManager[Any]:
    """NumPy keeps its floating-point warnings to itself: the values carry the news."""
    import numpy as np

    return np.errstate(all="ignore")


def numbers_to_jax() -> AbstractContextManager[Any]:
    """The numbers of a formula reach the device past a guard, which is there to catch arrays that move."""
    import jax

    config: Any = jax.config
    if {config.jax_transfer_guard, config.jax_transfer_guard_host_to_device} <= {None, "allow"}:
        return NOTHING
    allowed: AbstractContextManager[Any] = jax.transfer_guard_host_to_device("allow")
    return allowed
