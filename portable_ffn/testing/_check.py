"""The check of a network, anybody's, on every backend, device, dtype and case."""

from collections.abc import Callable, Iterable, Mapping

from portable_ffn._arrays.typing import Activation, Array, DType
from portable_ffn.experts import Routing
from portable_ffn.testing._backends.select import select
from portable_ffn.testing._inputs.modules import as_network, is_module
from portable_ffn.testing._mixtures import check_mixture
from portable_ffn.testing._plan import Plan
from portable_ffn.testing._report.report import Report
from portable_ffn.testing._report.rows import Row
from portable_ffn.testing._report.run import run_of


def check(
    fn: Callable[..., Array],
    *,
    activation: Activation = "relu",
    gated: bool = False,
    bias: bool = True,
    backends: str | Iterable[str] | None = None,
    devices: str | Iterable[str] | None = None,
    dtypes: DType | Iterable[DType] | None = None,
    d_model: int = 8,
    d_ff: int = 32,
    seed: int = 0,
    cases: Iterable[str] | None = None,
    weights: Mapping[str, str] | None = None,
    strict: bool = False,
    progress: Callable[[Row], object] | None = None,
    experts: bool = False,
    routing: Routing | None = None,
    num_experts: int = 6,
    selection_bias: bool = False,
    shared: bool = False,
    shared_gate: bool = False,
) -> Report:
    """Check a feed-forward network on every array library that is found, against a float64 oracle.

    Parameters
    ----------
    fn : callable
        The network, called as fn(x, W1, b1, W2, b2), gated as fn(x, W1, b1, W2, b2, V, c), with real arrays of each
        library. A network that takes fewer of them is called with just those, and the report notes what it doesn't
        take: wrong biases can't be seen in it. Or a module of PyTorch that is called on x alone: the weights are put
        into a copy of it, as its linear layers hold them, and nothing of the module's is changed.
    activation : str, gate object or callable
        What the network is meant to compute: a name of `portable_ffn.ACTIVATIONS`, a gate such as `ClippedGate`, or
        a callable on one NumPy array.
    gated, bias : bool
        Whether it has the linear branch V, c, and biases: without, they are None.
    backends, devices, dtypes : str, or several, optional
        Names of `portable_ffn.testing.BACKENDS`, devices ("cuda", "cpu:0"), dtypes; all that are found where nothing
        is asked for, but rows that compile for long. What is asked for and missing is a row with status "error".
    d_model, d_ff : int
        The sizes of most cases: d_model 1 or more, d_ff zero or more.
    seed : int
        Equal seeds give equal inputs, on every library.
    weights : dict, optional
        Of a PyTorch module whose linear layers can't be told apart: the path of the layer that is "W1", "W2", "V".
    strict : bool
        Whether it is a failure that an array of the network is not taken, which is a note else.
    cases : several str, optional
        Names of cases, all where not given.
    progress : callable, optional
        Called with each row when it is there.
    experts : bool
        Whether fn is a mixture of experts, called as fn(x, router, experts) with a `portable_ffn.experts.Router` and
        a `Weights` whose arrays have a leading axis; then, where there are such, the Weights of the shared network
        and its gate (d_model, 1).
    routing : portable_ffn.experts.Routing, optional
        How the mixture is meant to route; needed with `experts`.
    num_experts, selection_bias, shared, shared_gate
        How many experts, and whether there is a bias that selects, a shared network, and a gate of it.

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        Where fn does not take the arrays of a network, or a size or the seed is no whole number.
    ValueError
        For an unknown backend, dtype, case or activation, or a size or seed that is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from portable_ffn.testing import check
    >>> def network(x, W1, b1, W2, b2):
    ...     return np.maximum(x @ W1 + b1, 0) @ W2 + b2
    >>> check(network, backends="numpy", dtypes="float64").passed
    True
    """
    if experts:
        has = {"gated": gated, "bias": bias, "selection_bias": selection_bias}
        has |= {"shared": shared, "shared_gate": shared_gate}
        selection, sizes = select(backends, devices, dtypes), (d_model, d_ff)
        return check_mixture(fn, selection, routing, activation, num_experts, sizes, seed, has, progress)
    subject = fn
    if is_module(fn):
        fn, backends = as_network(fn, gated, weights), "torch" if backends is None else backends
    elif weights is not None:
        raise TypeError(f"weights are those of a PyTorch module, got {type(fn).__name__}; leave them out")
    plan = Plan(fn, activation, gated, bias, d_model, d_ff, seed, cases)
    selection = select(backends, devices, dtypes)
    rows = [plan.missing(name, reason) for name, reason in selection.missing.items()]
    rows += plan.rows(selection.places, progress)
    versions = {place.backend.library: place.backend.version() for place in selection.places}
    network = plan.network({dtype for place in selection.places for dtype in place.dtypes})
    notes = (plan.note,) if plan.note else ()
    options = {"activation": network.name, "gated": gated, "bias": bias, "d_model": d_model, "d_ff": d_ff, "seed": seed}
    run = run_of(subject, **options)
    return Report(tuple(rows), versions, selection.absent, (network,), notes, run, tuple(plan.curves), strict)
