"""What people do with a module of PyTorch, done to the network's."""

import copy
import io
import pickle

import numpy as np
import pytest

from portable_ffn import ClippedGate, feed_forward, init_weights, oracle
from portable_ffn.testing import assert_agrees

torch = pytest.importorskip("torch", reason="PyTorch is not installed; a demanded backend fails in the matrix")

from torch import nn  # noqa: E402

from portable_ffn.adapters.torch import FeedForward, from_linear  # noqa: E402
from tests.engines.scale.launch import together  # noqa: E402

GATE = ClippedGate(7.0, 1.702, 1.0)
KINDS = [
    pytest.param({"activation": "gelu"}, id="plain"),
    pytest.param({"activation": "silu", "gated": True, "bias": False}, id="swiglu"),
    pytest.param({"activation": GATE, "gated": True, "dropout": 0.1}, id="clipped"),
]
every_kind = pytest.mark.parametrize("kind", KINDS)


class Gated(nn.Module):
    """SwiGLU as people write it with Linear layers."""

    def __init__(self, d_model, d_ff, bias):
        super().__init__()
        self.gate_proj = nn.Linear(d_model, d_ff, bias=bias)
        self.up_proj = nn.Linear(d_model, d_ff, bias=bias)
        self.down_proj = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


@pytest.fixture(autouse=True)
def _compiled_anew():
    """All modules share one forward, of which Dynamo keeps only so many variants."""
    torch._dynamo.reset()


def plain(d_model=4, d_ff=8, bias=True):
    """The network as people write it with Linear layers."""
    return nn.Sequential(nn.Linear(d_model, d_ff, bias=bias), nn.GELU(), nn.Linear(d_ff, d_model, bias=bias))


def x_of(*shape, dtype=torch.float32):
    return torch.randn(*shape, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)


def losses(module, steps=20):
    """The losses of some steps of Adam."""
    x = x_of(32, dtype=torch.float64)
    target = torch.sin(3 * x)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


# --- beside the framework's own layers -----------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_initialised_as_linear_and_by_the_same_draws(bias):
    torch.manual_seed(3)
    own = plain(bias=bias)
    torch.manual_seed(3)
    module = FeedForward(4, 8, activation="gelu", bias=bias)
    assert torch.equal(module.W1, own[0].weight.T)
    assert torch.equal(module.W2, own[2].weight.T)
    if bias:
        assert torch.equal(module.b1, own[0].bias)
        assert torch.equal(module.b2, own[2].bias)
    before = module.W1.clone()
    module.reset_parameters()
    assert not torch.equal(module.W1, before)
    assert module.W1.abs().max() <= 0.5


@pytest.mark.parametrize("bias", [True, False])
def test_trains_along_the_trajectory_of_the_framework_s_own(bias):
    for own, parts, settings in (
        (plain(bias=bias).double(), lambda m: (m[0], m[2]), {"activation": "gelu"}),
        (Gated(4, 8, bias).double(), lambda m: (m.gate_proj, m.down_proj, m.up_proj), {"activation": "silu"}),
    ):
        module = FeedForward.from_weights(from_linear(*parts(own)), **settings)
        ours, theirs = losses(module), losses(own)
        assert ours[-1] < 0.9 * ours[0]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_from_linear_gives_views():
    own = Gated(4, 8, bias=True)
    x = x_of(3)
    weights = from_linear(own.gate_proj, own.down_proj, own.up_proj)
    for view, layer in ((weights.W1, own.gate_proj), (weights.W2, own.down_proj), (weights.V, own.up_proj)):
        assert view.data_ptr() == layer.weight.data_ptr()
    assert weights.b1 is own.gate_proj.bias
    torch.testing.assert_close(feed_forward(x, *weights, activation="silu"), own(x))
    with torch.no_grad():
        own.gate_proj.weight.mul_(2)
    torch.testing.assert_close(feed_forward(x, *weights, activation="silu"), own(x))
    feed_forward(x, *weights, activation="silu").sum().backward()
    assert own.gate_proj.weight.grad.abs().sum() > 0


def test_from_convolutions():
    first, second = nn.Conv1d(4, 8, 1), nn.Conv1d(8, 4, 1, bias=False)
    x = x_of(2, 5)
    weights = from_linear(first, second)
    assert weights.W1.data_ptr() == first.weight.data_ptr()
    assert weights.b2 is None
    theirs = second(torch.relu(first(x.mT))).mT
    torch.testing.assert_close(feed_forward(x, *weights), theirs)


@pytest.mark.parametrize(
    ("layers", "error", "match"),
    [
        ((nn.Conv1d(4, 8, 3), nn.Linear(8, 4)), ValueError, "first must be a convolution with kernel_size 1"),
        ((nn.Linear(4, 8), nn.Conv1d(8, 4, 1, groups=2)), ValueError, "second must be a convolution with"),
        ((nn.Linear(4, 8), nn.Conv1d(8, 4, 1, padding=1)), ValueError, "padding 0 and one group, got Conv1d"),
        ((nn.Linear(4, 8), nn.Linear(4, 8)), ValueError, r"W2 must have shape \(d_ff, d_model\)"),
        ((nn.Linear(4, 8), nn.Linear(8, 4), nn.ReLU()), TypeError, "gate must be a .* got ReLU"),
        ((torch.ones(4, 8), nn.Linear(8, 4)), TypeError, "first must be a .* got Tensor"),
    ],
)
def test_what_from_linear_refuses(layers, error, match):
    with pytest.raises(error, match=match):
        from_linear(*layers)


def test_the_tanh_gelu_of_an_encoder_layer():
    # PyTorch's own TransformerEncoderLayer takes the exact GELU for GELU("tanh") on its fast path: its layers are the
    # reference here, not the whole.
    layer = nn.TransformerEncoderLayer(4, 1, 8, activation=nn.GELU("tanh"), batch_first=True).eval()
    module = FeedForward.from_weights(from_linear(layer.linear1, layer.linear2), activation="gelu_tanh")
    x = x_of(2, 5)
    torch.testing.assert_close(module(x), layer.linear2(layer.activation(layer.linear1(x))))


# --- dtypes and devices --------------------------------------------------------------------------------------------


@every_kind
def test_to_half_and_to_another_device(kind):
    module = FeedForward(4, 8, **kind).eval()
    x = x_of(3)
    for dtype, change in (
        (torch.float16, lambda m: m.half()),
        (torch.bfloat16, lambda m: m.bfloat16()),
        (torch.float64, lambda m: m.to("cpu", torch.float64)),
    ):
        moved = change(copy.deepcopy(module))
        assert {p.dtype for p in moved.parameters()} == {dtype}
        given = x.to(dtype)
        arrays = [None if p is None else p.detach().double().numpy() for p in moved.weights]
        expected = oracle.feed_forward(
            given.double().numpy(),
            *arrays,
            activation=kind["activation"],
            dtype=str(dtype).split(".")[1],
        )
        assert_agrees(moved(given), given, *expected)
    meta = FeedForward(4, 8, **kind, device="meta", dtype=torch.bfloat16)
    assert {(p.device.type, p.dtype) for p in meta.parameters()} == {("meta", torch.bfloat16)}
    assert meta(x.to("meta", torch.bfloat16)).shape == (3, 4)
    assert nn.utils.skip_init(FeedForward, 4, 8).W1.device.type == "cpu"


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [True, False])
def test_autocast_gives_the_dtype_of_linear(bias, dtype, training):
    module = FeedForward(4, 8, activation="gelu", bias=bias, dropout=0.5).train(training)
    own = plain(bias=bias)
    for given in (torch.float32, torch.bfloat16):
        x = x_of(3).to(given)
        with torch.autocast("cpu", dtype=dtype):
            assert module(x).dtype == own(x).dtype == dtype
            if training:
                module(x).sum().backward()
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    x = x_of(3, dtype=torch.float64)
    with torch.autocast("cpu", dtype=dtype):
        assert module.double()(x).dtype == own.double()(x).dtype


# --- kept, copied, replaced ----------------------------------------------------------------------------------------


@every_kind
def test_state_dict_pickle_and_deepcopy(kind, tmp_path):
    module = FeedForward(4, 8, **kind).eval()
    x = x_of(3)
    expected = module(x)
    bias = kind.get("bias", True)
    names = ["W1", "b1", "W2", "b2", "V", "c"]
    there = [n for n in names if (bias or n in ("W1", "W2", "V")) and (kind.get("gated") or n not in ("V", "c"))]
    assert list(module.state_dict()) == there == [name for name, _ in module.named_parameters()]

    torch.save(module.state_dict(), tmp_path / "state.pt")
    other = FeedForward(4, 8, **kind).eval()
    assert not torch.equal(other(x), expected)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for same in (other, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(same(x), expected)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=False)(x), expected)

    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    safetensors.save_file(module.state_dict(), tmp_path / "state.safetensors")
    fresh = FeedForward(4, 8, **kind).eval()
    fresh.load_state_dict(safetensors.load_file(tmp_path / "state.safetensors"))
    assert torch.equal(fresh(x), expected)
    assert f"d_model=4, d_ff=8, activation={kind['activation']!r}" in repr(module)


@every_kind
def test_functional_call_and_per_sample_gradients(kind):
    module = FeedForward(4, 8, **kind).double().eval()
    x = x_of(3, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    doubled = {name: 2 * p for name, p in parameters.items()}
    call = torch.func.functional_call
    assert not torch.equal(call(module, doubled, (x,)), module(x))
    torch.testing.assert_close(call(module, parameters, (x,)), module(x))

    def loss(parameters, row):
        return call(module, parameters, (row,)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    module(x).square().sum().backward()
    for name, p in module.named_parameters():
        torch.testing.assert_close(each[name].sum(0), p.grad)


def test_a_module_as_activation_is_trained_and_kept():
    module = FeedForward(4, 8, activation=nn.PReLU())
    assert "activation.weight" in module.state_dict()
    module(x_of(3)).sum().backward()
    assert module.activation.weight.grad is not None
    assert "PReLU" in repr(module)


# --- compiled, exported, distributed -------------------------------------------------------------------------------


@every_kind
def test_compiled_whole(kind):
    module = FeedForward(4, 8, **{**kind, "dropout": 0.0})
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for rows in (3, 5):  # the second shape becomes a symbol
        x = x_of(rows)
        torch.testing.assert_close(compiled(x), module(x))
    compiled(x).sum().backward()
    assert module.W1.grad is not None


def test_dropout_compiled_whole():
    module = FeedForward(4, 64, dropout=0.5)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = x_of(3)
    assert not torch.equal(compiled(x), compiled(x))
    module.eval()
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.slow
def test_fused_and_eager_in_bfloat16_are_both_within_the_bound():
    module = FeedForward(16, 32, activation="gelu", dtype=torch.bfloat16).eval()
    x = torch.randn(5, 16, dtype=torch.bfloat16)
    arrays = [None if p is None else p.detach().double().numpy() for p in (x, *module.weights)]
    expected = oracle.feed_forward(*arrays, activation="gelu", dtype="bfloat16")
    assert_agrees(module(x), x, *expected)
    assert_agrees(torch.compile(module, fullgraph=True)(x), x, *expected)


@every_kind
def test_exported_saved_and_loaded(kind, tmp_path):
    module = FeedForward(4, 8, **kind).eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (x_of(3),), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "network.pt2")
    loaded = torch.export.load(tmp_path / "network.pt2").module()
    for n in (3, 7):
        torch.testing.assert_close(loaded(x_of(n)), module(x_of(n)))


DISTRIBUTED = """
import datetime, os, sys, torch, torch.distributed as dist
from portable_ffn.adapters.torch import FeedForward
rank, world, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
store = dist.FileStore(path, world)
dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60))
torch.manual_seed(0)
module = FeedForward(4, 8, activation="silu", gated=True).double()
alone = FeedForward.from_weights(module.weights, activation="silu")
x = torch.randn(2 * world, 4, dtype=torch.float64)
parallel = torch.nn.parallel.DistributedDataParallel(module)
seen = []
def hook(state, bucket):
    seen.append(bucket.buffer().numel())
    future = dist.all_reduce(bucket.buffer().div_(world), async_op=True).get_future()
    return future.then(lambda future: future.value()[0])
parallel.register_comm_hook(None, hook)
parallel(x[2 * rank : 2 * rank + 2]).square().mean().backward()
alone(x).square().mean().backward()
assert sum(seen) == module.weights.num_parameters, seen
for (name, p), q in zip(module.named_parameters(), alone.parameters(), strict=True):
    torch.testing.assert_close(p.grad, q.grad, msg=name)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # all is checked, and gloo's threads now and then abort a process that ends by itself
"""


@pytest.mark.parametrize("world", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_distributed_data_parallel(world, tmp_path):
    if not torch.distributed.is_gloo_available():
        pytest.skip("this build of PyTorch has no gloo")
    together(*(("-c", DISTRIBUTED, rank, world, tmp_path / "store") for rank in range(world)), timeout=120)


def test_weights_for_the_functions_of_the_package():
    module = FeedForward(4, 8, activation="gelu")
    x = x_of(3)
    torch.testing.assert_close(module(x), feed_forward(x, *module.weights, activation="gelu"))
    feed_forward(x, *module.weights, activation="gelu").sum().backward()
    assert module.W1.grad is not None  # the parameters themselves
    assert module.weights.to(like=np.zeros(1)).W1.shape == (4, 8)
    same = FeedForward.from_weights(init_weights(4, 8, like=x), activation="gelu")
    assert same.W1.is_leaf
    assert same.W1.is_contiguous()
