"""What a type checker says of calls; never run. `reveal_type` and the errors are compared with what stands beside."""

import numpy as np
import numpy.typing as npt
import torch

from portable_ffn import ClippedGate, Weights, feed_forward, feed_forward_vjp, hidden, layer_norm, sublayer

x: npt.NDArray[np.float32] = np.ones((2, 3), "float32")
t: torch.Tensor = torch.ones(2, 3)
w = Weights(x, None, x, None)

numpy_y: npt.NDArray[np.float32] = feed_forward(x, x, None, x, None)
numpy_h: npt.NDArray[np.float32] = hidden(x, x, None, activation="gelu")
numpy_n: npt.NDArray[np.float32] = layer_norm(x, None)
numpy_s: npt.NDArray[np.float32] = sublayer(x, w, lambda s: layer_norm(s, None), activation=ClippedGate(7.0))
torch_y: torch.Tensor = feed_forward(t, t, None, t, None, activation=torch.relu)
torch_v: torch.Tensor = feed_forward_vjp(t, t, None, t, None, activation="silu")[0]

slip = feed_forward(x, x, None, x, None, activation="geluu")  # error: arg-type
mixed: torch.Tensor = feed_forward(x, x, None, x, None)  # error: assignment
few = feed_forward(x, x)  # error: call-arg
