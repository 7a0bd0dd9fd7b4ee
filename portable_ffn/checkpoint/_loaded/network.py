"""A loaded network: its weights and all that its own module does beside them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from portable_ffn import Weights, feed_forward, hidden, layer_norm, rms_norm
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.promotion import add
from portable_ffn._arrays.typing import Array, DType
from portable_ffn._transfer.move import move


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Norm:
    """A normalisation over the last axis, of one of the kinds of `recipe.NORMS`."""

    kind: str
    gamma: Array | None
    beta: Array | None
    eps: float

    def __call__(self, x: Array) -> Array:
        """The normalised x, of its shape."""
        if self.kind == "layer":
            return layer_norm(x, self.gamma, self.beta, eps=self.eps)
        if self.kind == "affine":
            y = x if self.gamma is None else x * self.gamma
            return y if self.beta is None else y + self.beta
        if self.kind == "rms_of_scaled":
            return rms_norm(x if self.gamma is None else x * (1 + self.gamma), None, eps=self.eps)
        if self.kind == "l2":
            # x / sqrt(sum(x**2) + eps) is the RMS norm divided by sqrt(n), with eps / n in its place.
            n = int(x.shape[-1])
            return rms_norm(x, None, eps=self.eps / n) * n**-0.5
        return rms_norm(x, self.gamma, eps=self.eps, offset=1.0 if self.kind == "rms1p" else 0.0)

    def __repr__(self) -> str:
        """In a line: no number of an array."""
        arrays = ((name, _told(getattr(self, name))) for name in ("gamma", "beta") if getattr(self, name) is not None)
        return f"Norm({self.kind!r}, {''.join(f'{name}: {told}, ' for name, told in arrays)}eps={self.eps:g})"

    def to(self, *, like: Array | None = None, dtype: DType | None = None, device: Any = None) -> "Norm":
        """The same in another library, dtype or on another device."""

        def there(array: Array | None) -> Array | None:
            return None if array is None else move(array, like, dtype, device)

        return replace(self, gamma=there(self.gamma), beta=there(self.beta))


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Network:
    """A feed-forward network as its model has it.

    y = scale * after(middle(hidden(before(x))) W2 + b2), plus x where `residual`; what is None is left out, and
    `after_residual` says that the last normalisation takes the sum with x.

    Attributes
    ----------
    weights : Weights
        With what is linear beside the matrices (BatchNorm, scales, low-rank additions) folded in.
    activation : str, gate object or callable
        As `feed_forward` takes it.
    form : str
        "dense", "gated", "fused-gated" or "expert", as the entry had it.
    """

    weights: Weights
    activation: Any
    form: str = "dense"
    before: Norm | None = None
    middle: Norm | None = None
    after: Norm | None = None
    after_residual: bool = False
    residual: bool = False
    scale: float = 1.0

    def __repr__(self) -> str:
        """In a line: what it computes, and the shapes, no number of an array."""
        arrays = [f"{name}: {_told(a)}" for name, a in self.weights._asdict().items() if a is not None]
        # A learned activation may have a number for each unit.
        activation = repr(self.activation)
        activation = activation if len(activation) <= 80 else f"{activation[:76]} ..."
        return f"Network({', '.join([self.form, f'activation={activation}', *arrays, *self._beside()])})"

    def _beside(self) -> Iterator[str]:
        """What there is beside the weights and the activation."""
        for place in ("before", "middle", "after"):
            if getattr(self, place) is not None:
                yield f"{place}={getattr(self, place)!r}"
        for name in ("after_residual", "residual"):
            if getattr(self, name):
                yield f"{name}=True"
        if self.scale != 1.0:
            yield f"scale={self.scale:g}"

    def __call__(self, x: Array) -> Array:
        """What the model's own module returns for x of shape (..., d_model), in evaluation."""
        h = x if self.before is None else self.before(x)
        if self.middle is None:
            y = feed_forward(h, *self.weights, activation=self.activation)
        else:
            W1, b1, W2, b2, V, c = self.weights
            y = hidden(self.middle(hidden(h, W1, b1, V, c, activation=self.activation)), W2, b2, activation="identity")
        if self.after is not None:
            y = self.after(add(x, y) if self.after_residual else y)
        if self.scale != 1.0:
            y = y * self.scale
        return add(x, y) if self.residual else y

    def hidden(self, x: Array) -> Array:
        """The activated hidden layer (..., d_ff) that x gives, before any normalisation of it."""
        W1, b1, _, _, V, c = self.weights
        return hidden(x if self.before is None else self.before(x), W1, b1, V, c, activation=self.activation)

    @property
    def plain(self) -> bool:
        """Whether the weights and the activation are all there is."""
        return self.before is self.middle is self.after is None and not self.residual and self.scale == 1.0

    def to(self, *, like: Array | None = None, dtype: DType | None = None, device: Any = None) -> "Network":
        """The same network in another library, dtype or on another device, as `Weights.to` says."""
        there: dict[str, Any] = {"like": like, "dtype": dtype, "device": device}
        norms = {
            place: norm if norm is None else norm.to(**there)
            for place, norm in (("before", self.before), ("middle", self.middle), ("after", self.after))
        }
        return replace(self, weights=self.weights.to(**there), **norms)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Sublayer:
    """A network in its place: y = x + after(f(before(x))), or norm(x + f(x)) where the order is "post".

    Attributes
    ----------
    network : Network
    before, after : Norm or None
        The normalisation of the network's input and of its output, before the sum.
    post : Norm or None
        The normalisation of the sum.
    factor : float
        What the network's output is multiplied with before the sum (1/2 in a macaron layer).
    """

    network: Network
    before: Norm | None = None
    after: Norm | None = None
    post: Norm | None = None
    factor: float = 1.0

    def __repr__(self) -> str:
        """In a line, as the network's."""
        norms = [f"{place}={norm!r}" for place in ("before", "after", "post") if (norm := getattr(self, place))]
        factor = [] if self.factor == 1.0 else [f"factor={self.factor:g}"]
        return f"Sublayer({', '.join([repr(self.network), *norms, *factor])})"

    def __call__(self, x: Array) -> Array:
        """The layer's residual stream behind the network, for x of shape (..., d_model) before it."""
        y = self.network(x if self.before is None else self.before(x))
        y = y if self.after is None else self.after(y)
        y = add(x, y if self.factor == 1.0 else y * self.factor)
        return y if self.post is None else self.post(y)

    def to(self, *, like: Array | None = None, dtype: DType | None = None, device: Any = None) -> "Sublayer":
        """The same in another library, dtype or on another device."""
        there: dict[str, Any] = {"like": like, "dtype": dtype, "device": device}
        norms = {
            place: norm if norm is None else norm.to(**there)
            for place, norm in (("before", self.before), ("after", self.after), ("post", self.post))
        }
        return replace(self, network=self.network.to(**there), **norms)  # type: ignore[arg-type]


def _told(array: Array) -> str:
    """An array's dtype and shape."""
    return f"{dtype_name(array.dtype)} {tuple(array.shape)}"
