"""How far the other GELUs lie from the exact one."""

import matplotlib.pyplot as plt
import numpy as np

from portable_ffn import ACTIVATIONS

x = np.linspace(-5, 5, 1001)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
for axes, name, colour in ((left, "gelu_tanh", "#0b66a5"), (right, "quick_gelu", "#b04a00")):
    axes.plot(x, ACTIVATIONS[name](x) - ACTIVATIONS["gelu"](x), color=colour)
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.set(title=f"{name} - gelu", xlabel="x")
figure.tight_layout()
