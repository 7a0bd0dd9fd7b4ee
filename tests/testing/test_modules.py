"""`check` of a PyTorch module: given weights are put into a copy of it, as its layers hold them."""

import numpy as np
import pytest

from portable_ffn import feed_forward
from portable_ffn.testing import check

torch = pytest.importorskip("torch", reason="PyTorch is not installed; a demanded backend fails in the matrix")
nn = torch.nn
SWIFT = {"dtypes": ["float64", "float32"], "cases": ["curve", "ordinary", "odd sizes", "square", "biases alone"]}


class SwiGLU(nn.Module):
    """LLaMA's names; without biases."""

    def __init__(self, swapped=False, fused=False):
        super().__init__()
        self.swapped = swapped
        self.fused = fused
        if fused:
            self.gate_up_proj = nn.Linear(4, 12, bias=False)
        else:
            self.gate_proj = nn.Linear(4, 6, bias=False)
            self.up_proj = nn.Linear(4, 6, bias=False)
        self.down_proj = nn.Linear(6, 4, bias=False)

    def forward(self, x):
        g, u = self.gate_up_proj(x).chunk(2, -1) if self.fused else (self.gate_proj(x), self.up_proj(x))
        g, u = (u, g) if self.swapped else (g, u)
        return self.down_proj(nn.functional.silu(g) * u)


def plain(act=None, **options):
    return nn.Sequential(nn.Linear(4, 6, **options), act or nn.GELU(), nn.Dropout(0.5), nn.Linear(6, 4, **options))


def test_a_module_is_right():
    module = plain()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    report = check(module, activation="gelu", **SWIFT)
    report.raise_if_failed()
    assert {row.backend for row in report.rows} == {"torch"}
    assert "Sequential" in report.subject
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_wrong_gelu_is_named():
    report = check(plain(nn.GELU("tanh")), activation="gelu", **SWIFT)
    assert not report.passed
    assert "gelu_tanh where gelu is meant" in str(report)


@pytest.mark.parametrize("fused", [False, True])
def test_gated_modules(fused):
    check(SwiGLU(fused=fused), activation="silu", gated=True, bias=False, **SWIFT).raise_if_failed()
    report = check(SwiGLU(swapped=True, fused=fused), activation="silu", gated=True, bias=False, **SWIFT)
    assert not report.passed
    assert "branches" in str(report) or "swapped" in str(report), str(report)


def test_a_bias_that_a_module_lacks():
    report = check(plain(bias=False), activation="gelu", **SWIFT)
    assert report.passed
    assert "takes no b1, b2" in report.notes[0]
    assert not check(plain(bias=False), activation="gelu", strict=True, **SWIFT).passed
    check(plain(bias=False), activation="gelu", bias=False, strict=True, **SWIFT).raise_if_failed()


def test_strict_for_a_function():
    def without(x, W1, W2):
        return feed_forward(x, W1, None, W2, None)

    assert check(without, backends="numpy", **SWIFT).passed
    assert not check(without, backends="numpy", strict=True, **SWIFT).passed


def test_layers_that_cannot_be_told_are_named_by_the_caller():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    with pytest.raises(TypeError, match=r"3 were found \(a, b, c\); name them by weights=\{'W1'"):
        check(Odd(), **SWIFT)
    check(Odd(), weights={"W1": "a", "W2": "b"}, **SWIFT).raise_if_failed()
    with pytest.raises(TypeError, match="weights must name the layers of W1, W2 among a, b, c"):
        check(Odd(), weights={"W1": "a", "W2": "z"}, **SWIFT)
    with pytest.raises(TypeError, match="weights are those of a PyTorch module"):
        check(feed_forward, weights={"W1": "a", "W2": "b"}, backends="numpy")


def test_a_module_that_takes_the_arrays_is_a_function():
    class Function(nn.Module):
        def forward(self, x, W1, b1, W2, b2):
            return torch.relu(x @ W1 + b1) @ W2 + b2

    check(Function(), backends="torch", **SWIFT).raise_if_failed()


def test_layers_of_gpt2():
    class Conv1D(nn.Module):
        """Holds (in, out), as GPT-2's does."""

        def __init__(self, nf, nx):
            super().__init__()
            self.nf = nf
            self.weight, self.bias = nn.Parameter(torch.empty(nx, nf)), nn.Parameter(torch.zeros(nf))

        def forward(self, x):
            return (x.reshape(-1, x.shape[-1]) @ self.weight + self.bias).reshape(*x.shape[:-1], self.nf)

    module = nn.Sequential(Conv1D(6, 4), nn.GELU("tanh"), Conv1D(4, 6))
    check(module, activation="gelu_tanh", **SWIFT).raise_if_failed()
    assert np.isfinite(module[0].bias.detach().numpy()).all()
