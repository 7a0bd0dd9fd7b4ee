"""Each library's own row takes what it is there for, and the small calls remember what was checked."""

import numpy as np
import pytest

from portable_ffn import ClippedGate, Weights, feed_forward, init_weights
from portable_ffn._native import table
from tests.conftest import demand


def arrays(library, rows=3, dtype="float32"):
    """x and the weights of a gated network."""
    demand(library)
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    like = module.zeros(1)
    x = np.random.default_rng(0).normal(size=(rows, 4))
    return [
        Weights(a, None, None, None).to(like=like, dtype=dtype).W1 for a in (x, *init_weights(4, 6, gated=True, seed=1))
    ]


@pytest.mark.parametrize("rows", [3, 400])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_a_clipped_gate_takes_the_native_row(library, rows, monkeypatch):
    given = arrays(library, rows)
    found, answers = table.row(library), []

    def counted(call):
        answers.append(found.network(call))
        return answers[-1]

    monkeypatch.setitem(table._loaded, library, found._replace(network=counted))
    feed_forward(*given, activation=ClippedGate(7.0, 1.702, 1.0))
    assert len(answers) == 1
    assert answers[0] is not None

    class Another(ClippedGate):
        """A subclass may mean something else: it goes the generic way."""

    feed_forward(*given, activation=Another(7.0, 1.702, 1.0))
    assert answers[1] is None


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_no_more_than_so_many_small_calls_are_remembered(library, monkeypatch):
    import importlib

    small = importlib.import_module(f"portable_ffn._native.{library}.small")
    monkeypatch.setattr(small, "MOST", 3)
    small._checked.clear()
    given = arrays(library)
    for rows in (1, 2, 3, 1, 2, 3):
        for activation in ("relu", "silu"):
            feed_forward(given[0][:rows], *given[1:], activation=activation)
            assert 1 <= len(small._checked) <= 3


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_what_a_remembered_call_depends_on(library):
    given = arrays(library, rows=2)
    feed_forward(*given, activation="silu")
    feed_forward(*given, activation="silu")
    with pytest.raises(ValueError, match="b1 must have shape"):
        feed_forward(*given[:2], given[2][:1], *given[3:], activation="silu")
    with pytest.raises(ValueError, match="x must have shape"):
        feed_forward(given[0][:, :3], *given[1:], activation="silu")
    with pytest.raises(TypeError, match="W1 must be an array"):
        feed_forward(given[0], None, *given[2:], activation="silu")
    with pytest.raises(TypeError, match="V must be an array"):
        feed_forward(*given[:5], [[1.0]], given[6], activation="silu")
    with pytest.raises(ValueError, match="activation must be one of"):
        feed_forward(*given, activation="silus")
