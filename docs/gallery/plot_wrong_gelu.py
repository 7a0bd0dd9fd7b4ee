"""A network that passes other tests
=================================

Somebody ports a network and takes the tanh GELU for the exact one. Shapes are right, the outputs look right, and
``allclose`` with its usual tolerances may well pass. Let us see what ``check`` says.
"""

import matplotlib.pyplot as plt
import numpy as np

from portable_ffn import feed_forward, init_weights, oracle
from portable_ffn.testing import check


def port(x, W1, b1, W2, b2):
    """The port: its GELU is the approximation by tanh."""
    h = x @ W1 + b1
    inner = (2 / np.pi) ** 0.5 * (h + 0.044715 * h**3)
    return 0.5 * h * (1 + np.tanh(inner)) @ W2 + b2


# %%
# The usual test
# --------------
# A tolerance chosen by hand: it passes.

x = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
weights = init_weights(8, 32, dtype="float32")
meant = feed_forward(x, *weights, activation="gelu")
found = port(x, *weights[:4])
print(np.allclose(found, meant, atol=1e-3))

# %%
# The computed tolerance
# ----------------------
# The oracle returns the float64 answer and how far rounding in float32 can take a right network from it. The port lies
# far outside; the library's own network inside.

y, bound = oracle.feed_forward(x, *weights, activation="gelu", dtype="float32")
for name, answer in (("the port", found), ("the library", meant)):
    print(f"{name}: {np.max(np.abs(answer - y) / bound):.2g} of the bound")

# %%
# What it is
# ----------
# ``check`` tries the faults that people make and names the one that explains every failing case.

report = check(port, activation="gelu", backends="numpy", dtypes=["float32"])
print(report.passed)
print({row.cause for row in report.rows if row.status == "fail"})

# %%
# Its curve
# ---------
# Through weights of 1 x 1 the network is its activation, so the fault can be looked at.

g = np.linspace(-5, 5, 1001)
one, zero = np.ones((1, 1)), np.zeros(1)
weights = (one, zero, one, zero)
found = port(g[:, None], *weights)[:, 0]
exact = feed_forward(g[:, None], *weights, activation="gelu")[:, 0]

figure, (top, below) = plt.subplots(2, 1, figsize=(7, 5), sharex=True, height_ratios=(2, 1))
top.plot(g, exact, color="#0b66a5", linewidth=3, alpha=0.5, label="meant")
top.plot(g, found, color="#b04a00", linewidth=1, label="found")
top.legend(frameon=False)
below.plot(g, found - exact, color="#b04a00")
below.set(xlabel="x", ylabel="found - meant")
figure.tight_layout()
