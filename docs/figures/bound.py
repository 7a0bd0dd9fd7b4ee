"""Errors of a right network and of one wrong GELU, in units of the bound."""

import matplotlib.pyplot as plt
import numpy as np

from portable_ffn import feed_forward, init_weights, oracle

widths = (8, 16, 32, 64, 128, 256)
right, wrong = [], []
for d_model in widths:
    x = np.random.default_rng(0).standard_normal((16, d_model)).astype("float32")
    weights = init_weights(d_model, dtype="float32")
    y, bound = oracle.feed_forward(x, *weights, activation="gelu")
    for found, name in ((right, "gelu"), (wrong, "gelu_tanh")):
        found.append(np.max(np.abs(feed_forward(x, *weights, activation=name) - y) / bound))

figure, axes = plt.subplots(figsize=(7, 3.4))
axes.loglog(widths, wrong, "s-", color="#b04a00", label="tanh GELU where the exact one is meant")
axes.loglog(widths, right, "o-", color="#0b66a5", label="the exact GELU, rounded in float32")
axes.axhline(1, color="black", linewidth=1)
axes.text(widths[0], 1.15, "the bound", va="bottom")
axes.set(xlabel="d_model (d_ff is 4 d_model)", ylabel="largest error / bound")
axes.set_xticks(widths, [str(width) for width in widths])
axes.minorticks_off()
axes.legend(frameon=False, loc="center right")
figure.tight_layout()
