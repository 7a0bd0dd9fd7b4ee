"""PyTorch's row: tiles, half precision, autocast and what training keeps."""

import numpy as np
import pytest

from portable_ffn import feed_forward, oracle
from tests.native.networks import ENDS, FLOATS, network, put, read


@pytest.mark.parametrize("dtype", FLOATS)
def test_ends_of_the_line_in_tiles_on_pytorch(dtype):
    """Many numbers go by formulas of our own, a few by PyTorch's kernel."""
    one = put("torch", np.ones((1, 1), dtype))
    few = read(feed_forward(put("torch", np.array(ENDS, dtype)[:, None]), one, None, one, None, activation="gelu_tanh"))
    h = put("torch", np.tile(np.array(ENDS, dtype), 10_001)[:, None])
    y = read(feed_forward(h, one, None, one, None, activation="gelu_tanh")).reshape(-1, len(ENDS))
    np.testing.assert_allclose(y, np.broadcast_to(few.T, y.shape), rtol=2e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("rows", [1, 3, 1500])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("widened", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_half_precision_on_pytorch(monkeypatch, dtype, rows, widened, recorded):
    torch = pytest.importorskip("torch")
    from portable_ffn._native.torch import network as _native_torch

    monkeypatch.setattr(_native_torch, "_WIDENED", frozenset({"float16", "bfloat16"} if widened else {"float16"}))
    given = [torch.from_numpy(a).to(getattr(torch, dtype)) for a in network("float32", rows=rows)]
    exact = [a.double().numpy() for a in given]
    expected, bound = oracle.feed_forward(exact[0][:3], *exact[1:], activation="silu", dtype=dtype)
    given[0].requires_grad_(recorded)
    y = feed_forward(*given, activation="silu")
    assert y.dtype is given[0].dtype
    assert y.requires_grad == recorded
    assert (np.abs(y.detach()[:3].double().numpy() - expected) <= bound).all()


@pytest.mark.parametrize("widened", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_autocast(monkeypatch, widened, bias, recorded):
    torch = pytest.importorskip("torch")
    from portable_ffn._native.torch import network as _native_torch

    monkeypatch.setattr(_native_torch, "_WIDENED", frozenset({"float16", "bfloat16"} if widened else {"float16"}))
    x, W1, b1, W2, b2, _, _ = (None if a is None else torch.from_numpy(a) for a in network("float32", False, rows=7))
    x.requires_grad_(recorded)
    biases = (b1, b2) if bias else (None, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = feed_forward(x, W1, biases[0], W2, biases[1], activation="gelu")
    assert y.dtype is torch.bfloat16
    plain = feed_forward(x, W1, biases[0], W2, biases[1], activation="gelu")
    torch.testing.assert_close(y.float(), plain, rtol=0.05, atol=0.3)


def saved_bytes(torch, forward):
    """What autograd keeps for the way back, each storage once."""
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = forward()
    y.sum().backward()
    return sum(kept.values())


@pytest.mark.parametrize("shape", [(64, 16), (4, 16, 16)])
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_training_on_pytorch_keeps_no_more_than_sequential(name, shape):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    module = {"relu": nn.ReLU(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"), "silu": nn.SiLU()}[name]
    plain = nn.Sequential(nn.Linear(16, 64), module, nn.Linear(64, 16))
    x = torch.randn(shape)
    leaves = [plain[0].weight.t(), plain[0].bias, plain[2].weight.t(), plain[2].bias]
    ours = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    # The second call, after whatever the first one set up.
    for _ in range(2):
        for leaf in (mine, theirs, *ours, *plain.parameters()):
            leaf.grad = None
        needs = saved_bytes(torch, lambda: feed_forward(mine, *ours, activation=name))
        usual = saved_bytes(torch, lambda: plain(theirs))
    assert needs <= usual
    torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(ours[0].grad, plain[0].weight.grad.t())
    torch.testing.assert_close(ours[3].grad, plain[2].bias.grad)
