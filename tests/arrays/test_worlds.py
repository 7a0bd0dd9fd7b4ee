"""The settings and stand-ins that people run a library under: the network works in each of them as it is."""

import contextlib

import numpy as np
import pytest

from portable_ffn import (
    ACTIVATIONS,
    ClippedGate,
    Weights,
    feed_forward,
    feed_forward_vjp,
    hidden,
    init_weights,
    layer_norm,
    rms_norm,
    sublayer,
)
from portable_ffn._activations.learned import XIELU, PReLU

EVERY = [*ACTIVATIONS, PReLU(0.1), PReLU([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), XIELU(0.8, 0.8), ClippedGate(7.0, 1.702, 1.0)]
WEIGHTS = init_weights(4, 6, gated=True, dtype="float32")
X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


def everything(x, weights, activation, agree=True):
    """Every public function on these arrays; the network's values are those of NumPy."""
    y = feed_forward(x, *weights, activation=activation)
    hidden(x, weights.W1, weights.b1, weights.V, weights.c, activation=activation)
    _, pullback = feed_forward_vjp(x, *weights, activation=activation)
    pullback(y)
    gamma = weights.b2
    sublayer(x, weights, lambda x: layer_norm(x, gamma, gamma), activation=activation)
    sublayer(x, weights, lambda x: rms_norm(x, gamma, offset=1.0), activation=activation, order="pre")
    if isinstance(activation, str):
        ACTIVATIONS[activation](x)
        ACTIVATIONS[activation].derivative(x)
    if agree:
        expected = feed_forward(X, *WEIGHTS, activation=activation)
        np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def of_jax():
    jnp = pytest.importorskip("jax.numpy")
    return jnp.asarray(X), WEIGHTS.to(like=jnp.zeros(1, "float32"))


@pytest.mark.parametrize(
    "setting",
    [
        {"jax_numpy_rank_promotion": "raise"},
        {"jax_numpy_dtype_promotion": "strict"},
        {"jax_transfer_guard": "disallow"},
        {"jax_enable_x64": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("activation", EVERY, ids=str)
def test_settings_of_jax(of_jax, setting, activation):
    import jax

    ((name, value),) = setting.items()
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        everything(*of_jax, activation, agree=False)
    finally:
        jax.config.update(name, before)
    everything(*of_jax, activation)


@pytest.mark.parametrize("function", ["activation", "learned", "pullback"])
def test_callables_are_jitted_and_checkpointed_as_they_are(of_jax, function):
    import jax

    x, weights = of_jax
    y, pullback = feed_forward_vjp(x, *weights, activation="gelu")
    call, given = {
        "activation": (ACTIVATIONS["gelu"], x),
        "learned": (PReLU(0.1), x),
        "pullback": (pullback, y),
    }[function]
    expected = jax.tree.leaves(call(given))
    for transform in (jax.jit, jax.checkpoint):
        for got, want in zip(jax.tree.leaves(transform(call)(given)), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_devices_of_jax_by_platform_and_number(of_jax):
    import jax

    weights = of_jax[1]
    assert weights.to(device="cpu:1").W1.devices() == {jax.devices("cpu")[1]}
    for name in ("cpu:99", "cpu:one", "nowhere"):
        with pytest.raises(ValueError, match=f"device must be one that jax has here, such as cpu, got '{name}'"):
            weights.to(device=name)


@pytest.fixture
def of_torch():
    torch = pytest.importorskip("torch")
    return torch.from_numpy(X), WEIGHTS.to(like=torch.zeros(1))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("activation", EVERY, ids=str)
def test_fake_tensors(of_torch, activation, inside):
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    x, *weights = (mode.from_tensor(tensor) for tensor in (of_torch[0], *of_torch[1]))
    with mode if inside else contextlib.nullcontext():
        everything(x, Weights(*weights), activation, agree=False)


@pytest.mark.parametrize("activation", EVERY, ids=str)
def test_exported_programs_bake_no_device_in(of_torch, activation):
    import torch

    x, weights = of_torch

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.nn.ParameterList(weights)

        def forward(self, x):
            h = layer_norm(x, self.held[3])
            return feed_forward(h, *self.held, activation=activation)

    program = torch.export.export(Module(), (x,))
    np.testing.assert_allclose(program.module()(x).detach(), Module()(x).detach(), rtol=1e-5, atol=1e-6)
    if not isinstance(activation, PReLU) or isinstance(activation.weight, float):
        assert "device" not in str(program.graph)


def test_half_precision_is_exported_without_a_device(of_torch):
    import torch

    x, weights = of_torch
    x, weights = x.half(), weights.to(dtype="float16")

    class Module(torch.nn.Module):
        def forward(self, x, weights):
            return feed_forward(x, *weights, activation="softplus")

    program = torch.export.export(Module(), (x, tuple(weights)))
    assert "device" not in str(program.graph)


def test_symbolic_tracing_of_torch_fx(of_torch):
    import torch

    x, weights = of_torch
    gamma = torch.ones(4)

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.nn.ParameterList(weights)
            self.gamma = torch.nn.Parameter(gamma)

        def forward(self, x):
            y = sublayer(x, tuple(self.held), lambda x: layer_norm(x, self.gamma), activation="gelu")
            z = hidden(y, self.held[0], self.held[1], activation="relu")
            return rms_norm(z, None), feed_forward(y, *self.held, activation="silu")

    module = Module()
    traced = torch.fx.symbolic_trace(module)
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert called.count(feed_forward) == 2
    assert {layer_norm, rms_norm, hidden} <= set(called)
    for got, want in zip(traced(x), module(x), strict=True):
        torch.testing.assert_close(got, want)


def test_norms_and_residual_sums_keep_their_dtype_under_autocast(of_torch):
    import torch

    x, weights = of_torch
    gamma = torch.ones(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert feed_forward(x, *weights).dtype is torch.bfloat16
        assert layer_norm(x, gamma).dtype is rms_norm(x, gamma).dtype is torch.float32
        for order in ("post", "pre"):
            assert sublayer(x, weights, lambda x: layer_norm(x, gamma), order=order).dtype is torch.float32
        assert ACTIVATIONS["gelu"](x).dtype is torch.nn.functional.gelu(x).dtype


@pytest.mark.filterwarnings("ignore")  # PyTorch says that these layouts are in beta
@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("nested", r"x must be a tensor whose shape can be read, got a strided nested tensor; make it with layout="),
        ("masked", r"x must be a plain array, got torch.MaskedTensor: the mask would be lost; pass x.to_tensor"),
        ("mkldnn", r"x must be stored so that PyTorch can multiply it here, got a tensor of layout mkldnn; pass x\.to"),
    ],
)
def test_tensors_that_pytorch_cannot_multiply_are_told(of_torch, made, told):
    import torch

    x, weights = of_torch
    x = {
        "nested": lambda: torch.nested.nested_tensor([x[0, :2], x[1]]),
        "masked": lambda: torch.masked.masked_tensor(x, x > 0),
        "mkldnn": x.to_mkldnn,
    }[made]()
    with pytest.raises(TypeError, match=told):
        feed_forward(x, *weights, activation="silu")


def test_constants_lie_on_the_device_of_the_input():
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 6, device="meta")
    assert PReLU([0.1] * 6)(x).device.type == PReLU([0.1] * 6).derivative(x).device.type == "meta"


@pytest.mark.parametrize("version", ["2022.12", "2023.12", "2024.12"])
@pytest.mark.parametrize("activation", EVERY, ids=str)
def test_versions_of_the_standard(version, activation):
    strict = pytest.importorskip("array_api_strict")
    strict.set_array_api_strict_flags(api_version=version)
    try:
        x = strict.asarray(X)
        weights = WEIGHTS.to(like=x)
        everything(x, weights, activation)
        ints = Weights(*(strict.astype(array, strict.int32) for array in weights))
        assert feed_forward(strict.astype(x, strict.int32), *ints).dtype == strict.float64
    finally:
        strict.reset_array_api_strict_flags()


@pytest.mark.parametrize("activation", EVERY, ids=str)
def test_devices_of_the_standard(activation):
    strict = pytest.importorskip("array_api_strict")
    for name in ("device1", "no_float64"):
        try:
            device = strict.Device(name)
        except ValueError:
            continue  # an older array-api-strict
        x = strict.asarray(X, device=device)
        weights = WEIGHTS.to(like=x)
        everything(x, weights, activation, agree=False)
        ints = Weights(*(strict.astype(array, strict.int32) for array in weights))
        y = feed_forward(strict.astype(x, strict.int32), *ints)
        assert y.device == device
        assert y.dtype == (strict.float32 if name == "no_float64" else strict.float64)
