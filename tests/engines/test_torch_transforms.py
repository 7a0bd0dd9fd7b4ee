"""What PyTorch does to functions, done to the network: gradients, maps, compilation, export, shapes without data."""

import warnings

import pytest

import portable_ffn
from portable_ffn import ClippedGate, feed_forward, init_weights

torch = pytest.importorskip("torch", reason="PyTorch is not installed; a demanded backend fails in the matrix")

ACTIVATIONS = ["relu", "gelu", "gelu_tanh", "silu", "mish", "quick_gelu"]
NETWORKS = [
    *((name, gated, bias) for name in ACTIVATIONS for gated in (False, True) for bias in (True, False)),
    (ClippedGate(7.0, 1.702, 1.0), True, True),
    (ClippedGate(0.5, clip="after"), True, False),
]


def network(activation, gated, bias=True, dtype=torch.float64):
    """x, the weights that are there, and the network as a function of just these."""
    x = torch.randn(2, 2, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    weights = init_weights(3, 4, gated=gated, bias=bias, like=x)
    given = [array for array in weights if array is not None]

    def function(x, *arrays):
        rest = iter(arrays)
        return feed_forward(x, *(None if w is None else next(rest) for w in weights), activation=activation)

    return function, (x, *given)


def leaves(arrays):
    return [array.detach().clone().requires_grad_() for array in arrays]


@pytest.mark.parametrize(("activation", "gated", "bias"), NETWORKS, ids=str)
def test_gradients_of_first_and_second_order(activation, gated, bias):
    function, arrays = network(activation, gated, bias)
    assert torch.autograd.gradcheck(function, leaves(arrays))
    assert torch.autograd.gradgradcheck(function, leaves(arrays))


@pytest.mark.parametrize(("activation", "gated", "bias"), NETWORKS[::5], ids=str)
def test_functional_transforms(activation, gated, bias):
    function, (x, *weights) = network(activation, gated, bias)
    whole = function(x, *weights)
    mapped = torch.func.vmap(function, in_dims=(0, *(None for _ in weights)))(x, *weights)
    torch.testing.assert_close(mapped, whole)
    stack = torch.stack([weights[0], 2 * weights[0]])
    each = torch.func.vmap(function, in_dims=(None, 0, *(None for _ in weights[1:])))(x, stack, *weights[1:])
    torch.testing.assert_close(each[1], function(x, 2 * weights[0], *weights[1:]))

    direction = torch.ones_like(x)
    value, tangent = torch.func.jvp(lambda x: function(x, *weights), (x,), (direction,))
    _, pullback = torch.func.vjp(lambda x: function(x, *weights), x)
    torch.testing.assert_close(value, whole)
    # <J v, w> = <v, J^T w>, which ties forward and reverse mode to each other.
    torch.testing.assert_close((tangent * whole).sum(), (direction * pullback(whole)[0]).sum())
    gradient = torch.func.grad(lambda x: function(x, *weights).sum())(x)
    torch.testing.assert_close(gradient, pullback(torch.ones_like(whole))[0])


def test_gradient_by_a_whole_weights_without_none():
    x = torch.ones(3, 4, dtype=torch.float64)
    weights = init_weights(4, 6, like=x)[:4]
    gradients = torch.func.grad(lambda w: feed_forward(x, *w).sum())(weights)
    assert [g.shape for g in gradients] == [w.shape for w in weights]


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "gated", "bias"), NETWORKS[::3], ids=str)
def test_compiles_to_one_graph_without_a_warning(activation, gated, bias):
    function, arrays = network(activation, gated, bias)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*arrays), function(*arrays))
    mine, theirs = leaves(arrays), leaves(arrays)
    function(*mine).square().sum().backward()
    compiled(*theirs).square().sum().backward()
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


class Module(torch.nn.Module):
    """The network as a module, for export."""

    def __init__(self, function, weights):
        super().__init__()
        self.function, self.weights = function, torch.nn.ParameterList(weights)

    def forward(self, x):
        return self.function(x, *self.weights)


@pytest.mark.parametrize(("activation", "gated", "bias"), NETWORKS[::5], ids=str)
def test_exports_with_a_length_left_open(activation, gated, bias):
    function, (x, *weights) = network(activation, gated, bias)
    with warnings.catch_warnings():
        # torch 2.13 itself uses what it deprecated: Swig types and pytree registrations.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        program = torch.export.export(Module(function, weights), (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    longer = torch.cat([x, -x, 2 * x])
    torch.testing.assert_close(program.module()(longer), function(longer, *weights))


@pytest.mark.parametrize(("activation", "gated", "bias"), NETWORKS[::5], ids=str)
def test_shapes_without_data(activation, gated, bias):
    function, arrays = network(activation, gated, bias, torch.float32)
    y = function(*(array.to("meta") for array in arrays))
    assert (y.shape, y.dtype, y.device.type) == ((2, 2, 3), torch.float32, "meta")

    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        y = function(*(mode.from_tensor(array) for array in arrays))
    assert (y.shape, y.dtype, y.device.type) == ((2, 2, 3), torch.float32, "cpu")


def test_gradient_tracking_is_left_as_it_was():
    x = torch.ones(2, 4, requires_grad=True)
    weights = init_weights(4, 6, like=x)
    y = feed_forward(x, *weights)
    assert x.requires_grad
    assert y.requires_grad
    assert not any(w.requires_grad for w in weights if w is not None)
    with torch.no_grad():
        assert not feed_forward(x, *weights).requires_grad
    with torch.inference_mode():
        assert feed_forward(x.detach(), *weights).shape == (2, 4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_autocast_gives_the_dtype_of_linear(dtype, bias, activation):
    x = torch.ones(2, 4)
    weights = init_weights(4, 6, bias=bias, like=x)
    with torch.autocast("cpu", dtype=dtype):
        expected = torch.nn.functional.linear(x, weights.W1.T, weights.b1).dtype
        assert feed_forward(x, *weights, activation=activation).dtype == expected
        assert feed_forward(x.double(), *weights.to(dtype="float64")).dtype == torch.float64
    assert feed_forward(x, *weights).dtype == torch.float32


def test_the_default_dtype_is_what_integers_become():
    x = torch.ones(2, 4, dtype=torch.int64)
    weights = portable_ffn.Weights(*(None if w is None else (w > 0) for w in init_weights(4, 6, like=torch.ones(1))))
    assert feed_forward(x, *weights).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert feed_forward(x, *weights).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", sorted(portable_ffn.ACTIVATIONS))
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_gradients_are_finite_from_end_to_end(name, dtype):
    ends = [-1e4, -710.0, -104.0, -89.0, -20.0, -1.0, 0.0, 1.0, 20.0, 89.0, 1e4]
    h = torch.tensor(ends, dtype=dtype)[:, None].requires_grad_()
    one = torch.ones(1, 1, dtype=dtype)
    feed_forward(h, one, None, one, None, activation=name).sum().backward()
    assert torch.isfinite(h.grad).all()
    slope = portable_ffn.ACTIVATIONS[name].derivative(h.detach().double())
    assert torch.allclose(h.grad.double(), slope, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)
