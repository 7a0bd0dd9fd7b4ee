"""GPUs and TPUs that are not here: JAX lowers for them, PyTorch runs in shapes alone. Nothing is computed."""

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, feed_forward, init_weights

FORMS = [
    pytest.param("gelu", False, id="dense"),
    pytest.param("silu", True, id="gated"),
    pytest.param(ClippedGate(7.0, 1.702, 1.0), True, id="clipped"),
]


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
@pytest.mark.parametrize(("activation", "gated"), FORMS)
def test_jax_lowers_the_network_and_its_gradient(platform, activation, gated, require):
    require("jax")
    import jax
    from jax import export

    weights = init_weights(4, 8, gated=gated).to(like=jax.numpy.zeros(1, "float32"))

    def loss(x, weights):
        return feed_forward(x, *weights, activation=activation).sum()

    x = jax.ShapeDtypeStruct((3, 4), "float32")
    for function in (loss, jax.grad(loss, argnums=(0, 1))):
        lowered = export.export(jax.jit(function), platforms=[platform])(x, weights)
        assert lowered.platforms == (platform,)
        assert "callback" not in lowered.mlir_module()


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_pytorch_runs_in_shapes(activation, require):
    """Forward and backward on meta: all that is made lies on that device, and no value is read."""
    require("torch")
    import torch

    def made(*shape):
        return torch.empty(*shape, device="meta", requires_grad=True)

    x, weights = made(3, 4), [made(*w.shape) for w in init_weights(4, 8, gated=True)]
    y = feed_forward(x, *weights, activation=activation)
    assert (y.device.type, y.shape) == ("meta", (3, 4))
    for array, gradient in zip((x, *weights), torch.autograd.grad(y.sum(), [x, *weights]), strict=True):
        assert gradient.device.type == "meta"
        assert gradient.shape == array.shape


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_another_device_of_the_standard(activation, require):
    """A constant made on the default device would not go together with it."""
    require("array-api-strict")
    import array_api_strict as strict

    x = strict.asarray(np.linspace(-3, 3, 12).reshape(3, 4), device=strict.Device("device1"))
    assert ACTIVATIONS[activation](x).device == x.device
    assert ACTIVATIONS[activation].derivative(x).device == x.device
