"""The table of native rows, and the blocks that they work in."""

import itertools
import subprocess
import sys

import pytest

from portable_ffn import ACTIVATIONS, feed_forward
from portable_ffn._native.blocks import FEWEST, HIDDEN_BYTES, MOST, block_rows, blocks
from portable_ffn._native.table import without_native


def test_blocks():
    for rows in (1, FEWEST, MOST, MOST + 1, 10 * MOST + 7):
        for row_bytes in (1, 8 * 2048, HIDDEN_BYTES):
            size = block_rows(rows, row_bytes)
            cut = list(blocks(rows, size))
            assert cut[0][0] == 0
            assert cut[-1][1] == rows
            assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(cut))
            assert min(rows, FEWEST) // 2 <= size <= MOST
            assert size * row_bytes <= max(HIDDEN_BYTES, FEWEST * row_bytes)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_the_native_rows_are_those_of_the_formulas(name):
    torch = pytest.importorskip("torch")
    h = torch.tensor([-6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0], dtype=torch.float64)[:, None]
    one = torch.ones((1, 1), dtype=torch.float64)
    slopes = []
    for context in (without_native(), torch.enable_grad()):
        x = h.clone().requires_grad_()
        with context:
            feed_forward(x, one, None, one, None, activation=name).sum().backward()
        slopes.append(x.grad)
    torch.testing.assert_close(*slopes)


def test_importing_the_table_loads_no_library():
    code = (
        "import sys, portable_ffn._native.table, portable_ffn._native.blocks\n"
        "print([name for name in ('numpy', 'torch', 'jax') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
