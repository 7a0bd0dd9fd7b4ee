"""The network as a `torch.nn.Module`, and the weights of existing layers as views."""

from functools import partial
from typing import Any

from portable_ffn._arrays.typing import Activation, DType
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._module import LAYERS, check_settings, check_weights, forward, missing, shapes

try:
    import torch
except ImportError as error:
    raise missing("PyTorch", "torch") from error

from portable_ffn.adapters._torch_experts import Experts as Experts


class FeedForward(torch.nn.Module):
    """act(x W1 + b1) W2 + b2, or, gated, (act(x W1 + b1) * (x V + c)) W2 + b2, with dropout on the hidden layer.

    Parameters
    ----------
    d_model : int
    d_ff : int, optional
        4 d_model where it is not given; for a gated network 8/3 d_model, rounded up to a multiple of 64.
    activation : str, gate object or callable
        A name of `portable_ffn.ACTIVATIONS`, a gate such as `ClippedGate`, or a callable on one tensor. A
        `torch.nn.Module` becomes a part of this one, its parameters too.
    gated : bool
        With the linear branch V, c.
    bias : bool
        With b1, b2 and, gated, c.
    dropout : float
        The share of the hidden layer to drop in training, 0 <= dropout < 1.
    device, dtype
        As of `torch.nn.Linear`.

    Attributes
    ----------
    W1, b1, W2, b2, V, c : torch.nn.Parameter, or None
        Shapes (d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,), (d_model, d_ff), (d_ff,); the keys of the
        state_dict. Initialised as `torch.nn.Linear` does.

    Raises
    ------
    ValueError
        For an unknown activation, a gate without `gated`, a negative width, a dropout outside [0, 1).
    TypeError
        For a width that is no integer, an activation that can't be called.

    References
    ----------
    Vaswani et al. 2017, Attention Is All You Need, section 3.3; Shazeer 2020, GLU Variants Improve Transformer.
    """

    W1: torch.nn.Parameter
    b1: torch.nn.Parameter | None
    W2: torch.nn.Parameter
    b2: torch.nn.Parameter | None
    V: torch.nn.Parameter | None
    c: torch.nn.Parameter | None

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        *,
        activation: Activation = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.dropout = check_settings(activation, gated, dropout)
        self.activation = activation
        wanted = shapes(d_model, d_ff, gated, bias)
        self._hold(
            Weights(*(None if shape is None else torch.empty(shape, device=device, dtype=dtype) for shape in wanted)),
        )
        self.reset_parameters()

    @classmethod
    def from_weights(
        cls,
        weights: Weights,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> "FeedForward":
        """A module with a copy of these weights, of any library; in their dtypes, or in `dtype`.

        Raises ValueError where the shapes are not those of a network.
        """
        check_weights(weights)
        module = cls(1, 1, activation=activation, gated=weights.gated, dropout=dropout, device="meta")
        like = None if isinstance(weights.W1, torch.Tensor) else torch.empty(0, dtype=torch.bool)
        moved = weights.to(like=like, dtype=dtype, device=device)
        module._hold(Weights(*(None if array is None else _copy(array) for array in moved)))
        return module

    def _hold(self, weights: Weights) -> None:
        """Register these tensors as the parameters."""
        for name, tensor in zip(Weights._fields, weights, strict=True):
            self.register_parameter(name, None if tensor is None else torch.nn.Parameter(tensor))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise again, as `torch.nn.Linear` does."""
        for weight, bias in LAYERS:
            W, b = getattr(self, weight), getattr(self, bias)
            if W is not None:
                fan_in, fan_out = W.shape
                linear = torch.nn.Linear(fan_in, fan_out, b is not None, W.device, W.dtype)
                W.copy_(linear.weight.T)
                if b is not None:
                    b.copy_(linear.bias)

    @property
    def weights(self) -> Weights:
        """The parameters themselves, as what `feed_forward` takes."""
        return Weights(self.W1, self.b1, self.W2, self.b2, self.V, self.c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The network on x of shape (..., d_model)."""
        drop = partial(torch.nn.functional.dropout, p=self.dropout) if self.training and self.dropout else None
        y: torch.Tensor = forward(x, self.weights, self.activation, drop)
        return y

    def extra_repr(self) -> str:
        """The settings, as they were given."""
        weights = self.weights
        bias = any(b is not None for b in (self.b1, self.b2, self.c))
        activation = "" if isinstance(self.activation, torch.nn.Module) else f"activation={self.activation!r}, "
        return (
            f"d_model={weights.d_model}, d_ff={weights.d_ff}, {activation}gated={weights.gated}, bias={bias}, "
            f"dropout={self.dropout}"
        )


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Memory of its own, outside of autograd: training writes to it."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def from_linear(first: torch.nn.Module, second: torch.nn.Module, gate: torch.nn.Module | None = None) -> Weights:
    """The weights of existing layers as views, without a copy.

    A change of the layers shows in the views, and gradients through the views reach the layers.

    Parameters
    ----------
    first, second : torch.nn.Linear, or torch.nn.Conv1d with a kernel of 1
        What becomes W1, b1 and W2, b2.
    gate : the same, optional
        What becomes the linear branch V, c: of LLaMA `first` is gate_proj and `gate` is up_proj.

    Returns
    -------
    Weights

    Raises
    ------
    TypeError
        For another kind of layer.
    ValueError
        For a convolution that is more than a linear layer, and for shapes that don't fit.

    Examples
    --------
    >>> import torch
    >>> from portable_ffn import feed_forward
    >>> mlp = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(feed_forward(x, *from_linear(mlp[0], mlp[2]), activation="gelu"), mlp(x), atol=1e-6)
    True
    """
    W1, b1 = _matrix("first", first)
    W2, b2 = _matrix("second", second)
    V, c = (None, None) if gate is None else _matrix("gate", gate)
    weights = Weights(W1, b1, W2, b2, V, c)
    check_weights(weights)
    return weights


def _matrix(argument: str, layer: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The weight of a layer in (in, out), and its bias."""
    if isinstance(layer, torch.nn.Linear):
        return layer.weight.T, layer.bias
    if not isinstance(layer, torch.nn.Conv1d):
        raise TypeError(
            f"{argument} must be a torch.nn.Linear, or a Conv1d with a kernel of 1, got {type(layer).__name__}",
        )
    padded = layer.padding not in ((0,), "same", "valid")
    if padded or (layer.kernel_size, layer.stride, layer.groups) != ((1,), (1,), 1):
        raise ValueError(
            f"{argument} must be a convolution with kernel_size 1, stride 1, padding 0 and one group, got {layer}",
        )
    return layer.weight[:, :, 0].T, layer.bias
