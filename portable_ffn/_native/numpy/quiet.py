"""NumPy without its floating-point warnings: the values carry the news."""

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

# NumPy keeps in a context variable what it does about overflows. A context of each thread in which it does nothing
# costs a quarter of what np.errstate costs, and no user's code runs in it.
_local = threading.local()


def silently(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments), in which no floating-point error warns or raises, whatever the user set."""
    quiet = getattr(_local, "quiet", None)
    if quiet is None:
        quiet = _local.quiet = Context()
        quiet.run(np.seterr, all="ignore")
    try:
        return quiet.run(function, *arguments)
    except RuntimeError:
        # Only where a signal handler or the garbage collector runs a network in the midst of this thread's own.
        with np.errstate(all="ignore"):
            return function(*arguments)
