# ruff: noqa: E501
"""Networks with a fault each, in plain NumPy: what they are meant to be, and what has to be said of them.

`says` is part of the cause that is right; None where the table of faults can't have it, so that nothing may be named.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from portable_ffn import ClippedGate


class Planted(NamedTuple):
    name: str
    network: Callable[..., Any]
    meant: dict[str, Any]
    says: str | None
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")


def erf(h):
    """Winitzki's is too coarse; the series and the continued fraction of math, a number at a time."""
    flat = [math.erf(v) if not math.isnan(v) else v for v in np.asarray(h, dtype=np.float64).ravel().tolist()]
    return np.asarray(flat).reshape(np.shape(h)).astype(np.asarray(h).dtype)


def sigmoid(h):
    with np.errstate(all="ignore"):
        return 1 / (1 + np.exp(-h))


def relu(h):
    return np.maximum(h, 0)


def gelu(h):
    return 0.5 * h * (1 + erf(h / math.sqrt(2)))


ROOT = math.sqrt(2 / math.pi)


def tanh_gelu(h, root=ROOT, cube=0.044715):
    return 0.5 * h * (1 + np.tanh(root * (h + cube * h * h * h)))


def silu(h):
    return h * sigmoid(h)


def quick(h, a=1.702):
    return h * sigmoid(a * h)


def elu(h, a=1.0):
    return np.where(h > 0, h, a * np.expm1(np.minimum(h, 0)))


def leaky(h, slope=0.01):
    return np.where(h > 0, h, slope * h)


def layer(x, eps=1e-5):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps)


def rms(x, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def plain(x, W1, b1, W2, b2, act=relu):
    return act(x @ W1 + b1) @ W2 + b2


def gated(x, W1, b1, W2, b2, V, c, act=silu):
    return (act(x @ W1 + b1) * (x @ V + c)) @ W2 + b2


def wide(network):
    """Half precision by way of float32, rounded once."""

    def called(*arrays):
        dtype = arrays[0].dtype
        if dtype.itemsize > 2:
            return network(*arrays).astype(dtype)
        with np.errstate(over="ignore"):
            return network(*(a.astype(np.float32) for a in arrays)).astype(dtype)

    return called


def five(network):
    """With the signature of a plain network."""
    network = wide(network)
    return lambda x, W1, b1, W2, b2: network(x, W1, b1, W2, b2)


def seven(network):
    """With the signature of a gated one."""
    network = wide(network)
    return lambda x, W1, b1, W2, b2, V, c: network(x, W1, b1, W2, b2, V, c)


RELU, GELU, TANH, SILU = ({"activation": name} for name in ("relu", "gelu", "gelu_tanh", "silu"))
SWIGLU = {"activation": "silu", "gated": True}
GEGLU = {"activation": "gelu", "gated": True}
GATE = ClippedGate(1.0, 1.702, 1.0)
CLIPPED = {"activation": GATE, "gated": True}
WIDE = ("float64", "float32")


def clipped(limit=1.0, alpha=1.702, offset=1.0):
    def network(x, W1, b1, W2, b2, V, c):
        g, u = x @ W1 + b1, x @ V + c
        if limit is not None:
            g, u = np.minimum(g, limit), np.clip(u, -limit, limit)
        return (g * sigmoid(alpha * g) * (u + offset)) @ W2 + b2

    return network


def p(name, network, meant, says, *dtypes):
    made = seven(network) if meant.get("gated") else five(network)
    return Planted(name, made, meant, says, dtypes or Planted._field_defaults["dtypes"])


def acts(name, meant, act, says, *dtypes):
    base = gated if meant.get("gated") else plain
    return p(name, partial(base, act=act), meant, says, *dtypes)


def fused(x, W1, b1, W2, b2, V, c, order, act=silu):
    n = W1.shape[1]
    taken = order(n)
    if taken is None:
        return gated(x, W1, b1, W2, b2, V, c)
    W, b = np.concatenate([W1, V], 1)[:, taken], np.concatenate([b1, c])[taken]
    return gated(x, W[:, :n], b[:n], W2, b2, W[:, n:], b[n:], act)


def blocks(size):
    return lambda n: None if n % size else np.arange(2 * n).reshape(n // size, 2, size).swapaxes(0, 1).ravel()


def unblocks(size):
    return lambda n: None if n % size else np.arange(2 * n).reshape(2, n // size, size).swapaxes(0, 1).ravel()


def int8(W, axis=None):
    scale = np.abs(W).max(axis=axis, keepdims=True) / 127
    with np.errstate(all="ignore"):
        return np.where(scale > 0, np.rint(W / scale) * scale, W).astype(W.dtype)


def turned(W):
    return W.T if W.shape[0] == W.shape[1] else W


def rows_lost(tile):
    def network(x, *w):
        y = plain(x, *w).copy()
        flat = y.reshape(-1, y.shape[-1])
        flat[len(flat) // tile * tile :] = 0
        return flat.reshape(y.shape)

    return network


def cut_hidden(keep):
    def network(x, W1, b1, W2, b2):
        n = keep(W1.shape[1])
        return plain(x, W1[:, :n], b1[:n], W2[:n], b2)

    return network


def cut_features(tile):
    def network(x, W1, b1, W2, b2):
        n = x.shape[-1] // tile * tile
        return plain(x[..., :n], W1[:n], b1, W2, b2)

    return network


def cut_outputs(tile):
    def network(x, W1, b1, W2, b2):
        y = plain(x, W1, b1, W2, b2).copy()
        y[..., y.shape[-1] // tile * tile :] = 0
        return y

    return network


def scaled_bias(**by):
    def network(x, W1, b1, W2, b2):
        return plain(x, W1, by.get("b1", 1) * b1, W2, by.get("b2", 1) * b2)

    return network


def of_x(change):
    return lambda x, *w: plain(change(x), *w)


def averaged(x):
    return np.broadcast_to(x.mean(tuple(range(x.ndim - 1)), keepdims=True), x.shape) if x.ndim > 1 and x.size else x


def swap12(x, *w):
    return plain(np.reshape(np.swapaxes(x, 1, 2), x.shape) if x.ndim >= 4 else x, *w)


RANDOM = np.random.default_rng(0)


def dropped(x, W1, b1, W2, b2):
    h = relu(x @ W1 + b1)
    return (h * (RANDOM.random(h.shape) > 0.1) / 0.9).astype(h.dtype) @ W2 + b2


def in_place(x, W1, b1, W2, b2):
    y = plain(x, W1, b1, W2, b2)
    x[...] = 0
    return y


def one_buffer():
    kept = {}

    def network(x, W1, b1, W2, b2):
        y = plain(x, W1, b1, W2, b2)
        out = kept.setdefault((y.shape, y.dtype), np.empty_like(y))
        out[...] = y
        return out

    return lambda x, W1, b1, W2, b2: network(x, W1, b1, W2, b2)


def naive_silu(h):
    with np.errstate(all="ignore"):
        e = np.exp(h)
        return h * (e / (1 + e))


def rounded(bits):
    def kept(a):
        mantissa, exponent = np.frexp(a)
        return np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits).astype(a.dtype)

    return kept


def coarse(bits):
    kept = rounded(bits)
    return lambda x, W1, b1, W2, b2: kept(relu(kept(x) @ kept(W1) + b1)) @ kept(W2) + b2


def narrow(dtype):
    return lambda *arrays: plain(*(a.astype(dtype) for a in arrays)).astype(arrays[0].dtype)


def sums(dtype):
    def product(x, W, b):
        total = np.zeros((*x.shape[:-1], W.shape[1]), dtype=dtype)
        for k in range(W.shape[0]):
            total = (total + x[..., k : k + 1] * W[k]).astype(dtype)
        return (total + b).astype(dtype)

    return lambda x, W1, b1, W2, b2: product(relu(product(x, W1, b1)).astype(x.dtype), W2, b2).astype(x.dtype)


def nan_hidden(x, W1, b1, W2, b2):
    h = x @ W1 + b1
    return np.where(h > 0, h, 0) @ W2 + b2


def approximate_erf(h):
    """Abramowitz and Stegun 7.1.26, good to 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(h) / math.sqrt(2))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return 0.5 * h * (1 + np.sign(h) * (1 - poly * np.exp(-h * h / 2)))


PLANTED: tuple[Planted, ...] = (
    # Activations.
    acts("tanh for exact GELU", GELU, tanh_gelu, "gelu_tanh where gelu is meant"),
    acts("exact for tanh GELU", TANH, gelu, "gelu where gelu_tanh is meant"),
    acts("quick for exact GELU", GELU, quick, "quick_gelu where gelu is meant"),
    acts("silu for GELU", GELU, silu, "silu where gelu is meant"),
    acts("relu for GELU", GELU, relu, "relu where gelu is meant"),
    acts("gelu for relu", RELU, gelu, "gelu where relu is meant"),
    acts("gelu for silu", SILU, gelu, "gelu where silu is meant"),
    acts("no activation", RELU, lambda h: h, "no activation"),
    acts("relu2 for relu", RELU, lambda h: relu(h) ** 2, "relu2 where relu is meant"),
    acts("relu for relu2", {"activation": "relu2"}, relu, "relu where relu2 is meant"),
    acts("relu6 for relu", RELU, lambda h: np.clip(h, 0, 6), "relu6 where relu is meant"),
    acts("tanh for sigmoid", {"activation": "sigmoid"}, np.tanh, "tanh where sigmoid is meant"),
    acts("mish for silu", SILU, lambda h: h * np.tanh(np.logaddexp(0, h)), "mish where silu is meant"),
    acts("hard_swish for silu", SILU, lambda h: h * np.clip(h / 6 + 0.5, 0, 1), "hard_swish where silu is meant"),
    acts("leaky_relu for relu", RELU, leaky, "leaky_relu where relu is meant"),
    acts("elu for relu", RELU, elu, "elu where relu is meant"),
    acts("softplus for relu", RELU, lambda h: np.logaddexp(0, h), "softplus where relu is meant"),
    acts("leaky slope 0.2", {"activation": "leaky_relu"}, partial(leaky, slope=0.2), "leaky_relu with slope 0.2"),
    acts("leaky slope 0.015", {"activation": "leaky_relu"}, partial(leaky, slope=0.015), "leaky_relu with slope 0.015", *WIDE),
    acts("elu alpha 0.5", {"activation": "elu"}, partial(elu, a=0.5), "elu with alpha 0.5"),
    acts("elu alpha 1.3", {"activation": "elu"}, partial(elu, a=1.3), "elu with alpha 1.3"),
    acts("quick with 1.7", {"activation": "quick_gelu"}, partial(quick, a=1.7), "h sigmoid(a h) with a = 1.7", *WIDE),
    acts("quick with 1.5", {"activation": "quick_gelu"}, partial(quick, a=1.5), "h sigmoid(a h) with a = 1.5"),
    acts("swish with beta 2", SILU, partial(quick, a=2.0), "h sigmoid(a h) with a = 2"),
    acts("tanh GELU, no root", TANH, partial(tanh_gelu, root=2 / math.pi), "2/pi without its root"),
    acts("tanh GELU, 0.04715", TANH, partial(tanh_gelu, cube=0.04715), "0.04715 for 0.044715", *WIDE),
    acts("tanh GELU, 0.44715", TANH, partial(tanh_gelu, cube=0.44715), "0.44715 for 0.044715"),
    acts("tanh GELU, no cube", TANH, partial(tanh_gelu, cube=0.0), "without its cube"),
    acts("tanh GELU, 0.05", TANH, partial(tanh_gelu, cube=0.05), "a cube's factor of 0.05", *WIDE),
    acts("tanh GELU, root 0.79", TANH, partial(tanh_gelu, root=0.79), "a root of 0.79", *WIDE),
    acts("GELU without half", GELU, lambda h: 2 * gelu(h), "the GELU without its factor 1/2"),
    acts("GELU without sqrt 2", GELU, lambda h: 0.5 * h * (1 + erf(h)), "erf(h) for erf(h / sqrt 2)"),
    acts("hard sigmoid 0.2", {"activation": "hard_sigmoid"}, lambda h: np.clip(0.2 * h + 0.5, 0, 1), "0.2 h + 0.5"),
    acts("hard swish 0.2", {"activation": "hard_swish"}, lambda h: h * np.clip(0.2 * h + 0.5, 0, 1), "0.2 h + 0.5"),
    acts("relu cut at 4", RELU, lambda h: np.clip(h, 0, 4), "relu cut at 4"),
    acts("relu cut at 2.5", RELU, lambda h: np.clip(h, 0, 2.5), "relu cut at 2.5"),
    acts("relu cubed", {"activation": "relu2"}, lambda h: relu(h) ** 3, "the cube for the square"),
    acts("square without relu", {"activation": "relu2"}, lambda h: h * h, "the square without relu"),
    acts("absolute value", RELU, np.abs, "|h| for relu(h)"),
    acts("selu without scale", {"activation": "selu"}, lambda h: elu(h, 1.6732632423543772), "selu without its scale"),
    acts("sigmoid for silu", SILU, sigmoid, "sigmoid where silu is meant"),
    acts("naive silu", SILU, naive_silu, "exp(h) overflows", "float64", "float32"),
    acts("activation twice", GELU, lambda h: gelu(gelu(h)), "activation twice"),
    p("activation at the end", lambda x, W1, b1, W2, b2: relu((x @ W1 + b1) @ W2 + b2), RELU, "after W2 instead"),
    p("activation at the end too", lambda *a: relu(plain(*a)), RELU, "activation after W2 as well"),
    acts("sin", SILU, np.sin, None),
    acts("a polynomial", GELU, lambda h: h * (0.5 + 0.2 * h - 0.01 * h**3), None),
    acts("softsign squashed", RELU, lambda h: relu(h) / (1 + relu(h)), None),
    acts("erf good to 1.5e-7", GELU, approximate_erf, None, "float64"),
    # Biases.
    p("b1 missing", lambda x, W1, b1, W2, b2: relu(x @ W1) @ W2 + b2, RELU, "b1 missing"),
    p("b2 missing", lambda x, W1, b1, W2, b2: relu(x @ W1 + b1) @ W2, RELU, "b2 missing"),
    p("both missing", lambda x, W1, b1, W2, b2: relu(x @ W1) @ W2, RELU, "all biases missing"),
    p("b1 twice", scaled_bias(b1=2), RELU, "b1 added twice"),
    p("b2 twice", scaled_bias(b2=2), RELU, "b2 added twice"),
    p("b2 on 4 ranks", scaled_bias(b2=4), RELU, "b2 times 4"),
    p("b2 on 8 ranks", scaled_bias(b2=8), RELU, "b2 times 8"),
    p("b2 on 3 ranks", scaled_bias(b2=3), RELU, "b2 times 3"),
    p("half of b2", scaled_bias(b2=0.5), RELU, "b2 times 0.5"),
    p("half of b1", scaled_bias(b1=0.5), RELU, "b1 times 0.5"),
    p("b1 subtracted", scaled_bias(b1=-1), RELU, "b1 subtracted"),
    p("b2 times 1.75", scaled_bias(b2=1.75), RELU, "b2 times 1.75"),
    p("b1 after", lambda x, W1, b1, W2, b2: (gelu(x @ W1) + b1) @ W2 + b2, GELU, "b1 added after the activation"),
    p("c missing", lambda x, W1, b1, W2, b2, V, c: gated(x, W1, b1, W2, b2, V, 0 * c), SWIGLU, "c missing"),
    p("c for b1", lambda x, W1, b1, W2, b2, V, c: gated(x, W1, c, W2, b2, V, b1), SWIGLU, "b1 and c swapped"),
    p("c twice", lambda x, W1, b1, W2, b2, V, c: gated(x, W1, b1, W2, b2, V, 2 * c), SWIGLU, "c added twice"),
    # Branches.
    p("swapped", lambda x, W1, b1, W2, b2, V, c: gated(x, V, c, W2, b2, W1, b1), SWIGLU, "linear branch swapped"),
    p("W1 twice", lambda x, W1, b1, W2, b2, V, c: gated(x, W1, b1, W2, b2, W1, b1), SWIGLU, "W1 for V as well"),
    p("no linear branch", lambda x, W1, b1, W2, b2, V, c: plain(x, W1, b1, W2, b2, silu), SWIGLU, "the linear branch missing"),
    acts("GEGLU without GELU", GEGLU, lambda h: h, "no activation"),
    acts("tanh in GEGLU", GEGLU, tanh_gelu, "gelu_tanh where gelu is meant"),
    acts("silu in GEGLU", GEGLU, silu, "silu where gelu is meant"),
    p("added", lambda x, W1, b1, W2, b2, V, c: (silu(x @ W1 + b1) + x @ V + c) @ W2 + b2, SWIGLU, "added instead"),
    p("both activated", lambda x, W1, b1, W2, b2, V, c: (silu(x @ W1 + b1) * silu(x @ V + c)) @ W2 + b2, SWIGLU, "linear branch activated"),
    p("product activated", lambda x, W1, b1, W2, b2, V, c: silu((x @ W1 + b1) * (x @ V + c)) @ W2 + b2, SWIGLU, "the product of the branches activated"),
    p("up + 1", lambda x, W1, b1, W2, b2, V, c: gated(x, W1, b1, W2, b2, V, c + 1), SWIGLU, "the linear branch shifted by 1"),
    p("gate times 1.25", lambda x, W1, b1, W2, b2, V, c: gated(x, 1.25 * W1, 1.25 * b1, W2, b2, V, c), SWIGLU, "enters the activation scaled by 1.25"),
    p("up times 1.25", lambda x, W1, b1, W2, b2, V, c: gated(x, W1, b1, W2, b2, 1.25 * V, 1.25 * c), SWIGLU, "scaled by 1.25"),
    *(p(f"interleaved by {n}", partial(fused, order=blocks(n)), SWIGLU, f"blocks of {n}" if n > 1 else "halves read as interleaved") for n in (1, 2, 16, 32)),
    *(p(f"halves by {n}", partial(fused, order=unblocks(n)), SWIGLU, f"blocks of {n}" if n > 1 else "columns read as halves") for n in (1, 2, 8, 16)),
    # Clamped gates.
    p("no clamp", clipped(None), CLIPPED, "no clamp"),
    p("limit 2", clipped(2.0), CLIPPED, "limit 2 where 1 is meant"),
    p("alpha 1.5", clipped(1.0, 1.5), CLIPPED, "alpha 1.5 where 1.702"),
    p("alpha 1", clipped(1.0, 1.0), CLIPPED, "alpha ignored"),
    p("no offset", clipped(1.0, 1.702, 0.0), CLIPPED, "the offset ignored"),
    p("offset 0.5", clipped(1.0, 1.702, 0.5), CLIPPED, "offset 0.5 where 1"),
    # Layouts and scales of weights.
    p("W1 transposed", lambda x, W1, b1, W2, b2: plain(x, turned(W1), b1, W2, b2), RELU, "W1 transposed"),
    p("W2 transposed", lambda x, W1, b1, W2, b2: plain(x, W1, b1, turned(W2), b2), RELU, "W2 transposed"),
    p("both transposed", lambda x, W1, b1, W2, b2: plain(x, turned(W1), b1, turned(W2), b2), RELU, "W1 and W2 transposed"),
    p("W1 in memory", lambda x, W1, b1, W2, b2: plain(x, W1.T.reshape(W1.shape), b1, W2, b2), RELU, "W1 transposed in memory"),
    p("W1 over sqrt", lambda x, W1, b1, W2, b2: plain(x, W1 / math.sqrt(W1.shape[0]), b1, W2, b2), RELU, "W1 scaled by 1/sqrt(d_model)"),
    p("W2 over sqrt", lambda x, W1, b1, W2, b2: plain(x, W1, b1, W2 / math.sqrt(max(W2.shape[0], 1)), b2), RELU, "W2 scaled by 1/sqrt(d_ff)"),
    p("W1 times 1.1", lambda x, W1, b1, W2, b2: plain(x, 1.1 * W1, b1, W2, b2, gelu), GELU, "W1 scaled by 1.1"),
    p("W2 times 0.9", lambda x, W1, b1, W2, b2: plain(x, W1, b1, 0.9 * W2, b2), RELU, "W2 scaled by 0.9"),
    p("int8", lambda x, W1, b1, W2, b2: plain(x, int8(W1), b1, int8(W2), b2), RELU, "weights in int8, one scale a matrix", *WIDE),
    p("int8 a column", lambda x, W1, b1, W2, b2: plain(x, int8(W1, 0), b1, int8(W2, 0), b2), RELU, "weights in int8, one scale a column", *WIDE),
    p("weights in float16", lambda x, *w: plain(x, *(a.astype("float16").astype(x.dtype) for a in w)), RELU, "weights rounded to float16", *WIDE),
    # Around the network.
    p("residual", lambda x, *w: x + plain(x, *w), RELU, "the residual x added"),
    p("residual taken", lambda x, *w: plain(x, *w) - x, RELU, "the residual x missing"),
    p("half step", lambda x, *w: 0.5 * plain(x, *w), RELU, "everything scaled by 0.5"),
    p("half step and residual", lambda x, *w: x + 0.5 * plain(x, *w), RELU, "a half step and the residual"),
    p("layer scale 0.1 and residual", lambda x, *w: x + 0.1 * plain(x, *w), RELU, "added to the output times 0.1"),
    p("scaled by 1.25", lambda *a: 1.25 * plain(*a), RELU, "everything scaled by 1.25"),
    p("scaled by 0.31", lambda *a: 0.31 * plain(*a), RELU, "everything scaled by 0.31"),
    p("zeros", lambda *a: 0 * plain(*a), RELU, "zeros"),
    p("x half added", lambda x, *w: plain(x, *w) + 0.5 * x, RELU, "x added 0.5 times"),
    p("layer norm in front", lambda x, *w: plain(layer(x), *w), RELU, "layer normalisation of x inside, eps 1e-05"),
    p("RMS norm in front", lambda x, *w: plain(rms(x), *w), RELU, "RMS normalisation of x inside, eps 1e-06"),
    p("layer norm, eps 1e-3", lambda x, *w: plain(layer(x, 1e-3), *w), RELU, "layer normalisation of x inside, eps 0.001", *WIDE),
    p("RMS norm of hidden", lambda x, W1, b1, W2, b2: rms(gelu(x @ W1 + b1)) @ W2 + b2, GELU, "RMS normalisation of the hidden layer, eps 1e-06"),
    p("layer norm of hidden", lambda x, W1, b1, W2, b2: layer(gelu(x @ W1 + b1)) @ W2 + b2, GELU, "layer normalisation of the hidden layer, eps 1e-05"),
    p("layer norm behind", lambda *a: layer(plain(*a)), RELU, "layer normalisation of the output, eps 1e-05"),
    p("post-norm", lambda x, *w: layer(x + plain(x, *w)), RELU, "layer normalisation of x + f(x)"),
    p("truncated x", of_x(np.trunc), RELU, "x truncated to integers"),
    p("x scaled by sqrt(d)", lambda x, *w: plain(x * math.sqrt(x.shape[-1]), *w), RELU, "W1 scaled by sqrt(d_model)"),
    # Positions and tiles.
    # In float32 the rounding of the mean itself, where numbers cancel, is in no bound.
    p("averaged", of_x(averaged), RELU, "x averaged over the positions", "float64"),
    p("reversed", of_x(lambda x: x[::-1] if x.ndim > 1 else x), RELU, "positions in reverse order"),
    p("shifted", of_x(lambda x: np.roll(x, 1, -2) if x.ndim > 1 else x), RELU, "positions shifted by one"),
    p("axes 1 and 2", swap12, RELU, "the second and third axis"),
    *(p(f"rows lost by {n}", rows_lost(n), RELU, f"positions beyond the last whole tile of {n}") for n in (8, 64, 1024)),
    *(p(f"hidden lost by {n}", cut_hidden(lambda m, n=n: m // n * n), RELU, f"hidden units beyond the last whole tile of {n}") for n in (16, 32, 128)),
    p("hidden cut at 1024", cut_hidden(lambda m: min(m, 1024)), RELU, "hidden units beyond 1024"),
    p("half of hidden", cut_hidden(lambda m: m - m // 2), RELU, "the second half of the hidden units"),
    p("features lost by 8", cut_features(8), RELU, "features of x beyond the last whole tile of 8"),
    p("features lost by 64", cut_features(64), RELU, "features of x beyond the last whole tile of 64"),
    p("outputs lost by 16", cut_outputs(16), RELU, "outputs beyond the last whole tile of 16"),
    p("wrong beyond 1000 rows", lambda x, *w: np.where((np.arange(max(1, x.size // max(x.shape[-1], 1))) < 1000).reshape(*x.shape[:-1], 1), plain(x, *w), 0), RELU, "positions beyond 1000"),
    # Two at once.
    p("tanh GELU, no b2", lambda x, W1, b1, W2, b2: tanh_gelu(x @ W1 + b1) @ W2, GELU, "b2 missing"),
    p("silu, no b1", lambda x, W1, b1, W2, b2: silu(x @ W1) @ W2 + b2, GELU, "b1 missing"),
    p("relu and residual", lambda x, *w: x + plain(x, *w), GELU, "relu where gelu"),
    p("pre-norm sublayer", lambda x, *w: x + plain(layer(x), *w), RELU, "the residual x added"),
    p("swapped, tanh GELU", lambda x, W1, b1, W2, b2, V, c: gated(x, V, c, W2, b2, W1, b1, tanh_gelu), GEGLU, "swapped"),
    # Arithmetic.
    p("TF32", coarse(11), RELU, "products in TF32", *WIDE),
    p("bfloat16 products", coarse(8), RELU, "products in bfloat16", *WIDE),
    p("float32 inside", narrow(np.float32), RELU, "float64 served as float32", "float64"),
    p("float16 inside", narrow(np.float16), RELU, "served as float16", *WIDE),
    Planted("sums in float16", lambda x, W1, b1, W2, b2: sums("float16")(x, W1, b1, W2, b2), RELU, "sums kept in float16", ("float16",)),
    # Behaviour.
    p("NaN hidden", nan_hidden, RELU, "NaN hidden"),
    p("dropout", dropped, RELU, "dropout left on"),
    Planted("x written to", in_place, RELU, "written to", WIDE),
    Planted("one buffer", one_buffer(), RELU, "overwritten by the next", WIDE),
    # What no table has.
    p("cos of x in front", of_x(np.cos), RELU, None),
    p("output squared", lambda *a: plain(*a) ** 2, RELU, None),
    p("weights twice through", lambda x, W1, b1, W2, b2: plain(plain(x, W1, b1, W2, b2), W1, b1, W2, b2) if W2.shape[1] == W1.shape[0] else 0 * x, RELU, None),
    p("noise from x", lambda x, *w: plain(x, *w) + 1e-3 * np.sin(1e3 * x), RELU, None),
    p("wrong in negative x[0]", lambda x, *w: plain(np.where(x[..., :1] < 0, 1.5 * x, x), *w), RELU, None),
)  # fmt: skip
