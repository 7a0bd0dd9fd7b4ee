"""The feed-forward layers of any checkpoint, into any array library, refusing what is not known.

    for entry in checkpoint.find(path):      # headers only
        print(entry.name, entry.form, entry.activation)
    ffn = checkpoint.load(path, layer=0)     # computes what the model's own module returns
    y = ffn(x)

Facts that a checkpoint leaves open are arguments: activation= (a name of `ACTIVATIONS`, other libraries' spellings of
it, a gate object or a callable), gate= ("first", "second" or "interleaved": where a fused matrix has the gate), layout=
("out_in" as torch.nn.Linear stores a matrix, or "in_out").
"""

from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._find import find
from portable_ffn.checkpoint._own_file import save
from portable_ffn.checkpoint._pick import load

__all__ = ["CheckpointError", "Undecided", "find", "load", "save"]


def __dir__() -> list[str]:
    return __all__
