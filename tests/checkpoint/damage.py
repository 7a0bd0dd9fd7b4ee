"""Faults in checkpoints, by hypothesis: each file is one that somebody could give, right or not."""

import copy
import json
import math
from typing import Any

from hypothesis import strategies as st

from portable_ffn.checkpoint._files.dtypes import BITS, DISK_NAMES
from tests.checkpoint.bases import BASES, D, F, Model, Tensor

_DEEP: Any = []
for _ in range(60):
    _DEEP = [_DEEP]
# What stands in no config, and what a careless reader stumbles over.
ODD: list[Any] = [
    None, True, False, 0, 1, 2, 3, D, F, 2 * F, -1, 0.5, -1e-5, 1e-320, 1e308, 2**31, 2**63, 10**400, -(10**400),
    "", "gelu", "silu", "prelu", "xielu", "geglu", "swiglu", "gated-gelu", "no_norm", "1", "\x1b[2J", "\ud800",
    [], [1], [0.5, 0.5], [None], ["gelu"], {}, {"name": "gelu"}, {"name": 1}, {"model_type": "llama"}, _DEEP,
    "llama", "bert", "gemma", "levit", "dory", "timesfm", "mobilebert", "kosmos-2", "gpt_oss", "zamba2", "reformer",
]  # fmt: skip
SHAPES = (
    lambda s: s[1:],
    lambda s: s[:-1],
    lambda s: (1, *s),
    lambda s: (*s, 1),
    lambda s: (2, *s),
    lambda s: s[::-1],
    lambda s: (),
    lambda s: (0, *s[1:]),
    lambda s: (*s[:-1], 0),
    lambda s: (s[0] + 1, *s[1:]) if s else (1,),
    lambda s: (*s[:-1], 2 * s[-1]) if s else (2,),
    lambda s: (s[0] // 2, *s[1:]) if s else (3,),
    lambda s: (1,),
    lambda s: (1, *s[1:]),
)
LEAVES = ("weight", "bias", "kernel", "scale", "weight_scale", "weight_scale_inv", "gamma", "absmax", "0", "\x1b[2J")


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a config, as the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in ((*at, key), *places(item, (*at, key)))]


def put(config: Any, place: tuple[Any, ...], value: Any) -> None:
    """A value in a place of a config."""
    for key in place[:-1]:
        config = config[key]
    config[place[-1]] = value


@st.composite
def damaged(draw: Any, bases: tuple[Model, ...] = tuple(BASES.values())) -> Model:
    """A checkpoint with one to three faults that leave it a well-formed file."""
    made = draw(st.sampled_from(bases)).copy()
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("shape", "shape", "dtype", "name", "swap", "drop", "config", "config", "text")))
        name = draw(st.sampled_from(sorted(made.tensors))) if made.tensors else None
        if name is not None and kind in ("shape", "dtype", "name", "swap", "drop"):
            old = made.tensors.pop(name)
            if kind == "shape":
                made.tensors[name] = sized(old.dtype, draw(st.sampled_from(SHAPES))(old.shape), old.data)
            elif kind == "dtype":
                made.tensors[name] = sized(draw(st.sampled_from(sorted(DISK_NAMES.values()))), old.shape, old.data)
            elif kind == "name":
                leaf = draw(st.sampled_from(LEAVES))
                made.tensors[f"{name.rpartition('.')[0]}.{leaf}" if draw(st.booleans()) else f"{name}.{leaf}"] = old
            elif kind == "swap":
                other = draw(st.sampled_from(sorted({*made.tensors, name})))
                made.tensors[name] = made.tensors.get(other, old)
                made.tensors[other] = old
        elif kind == "config" and made.config is not None:
            known = places(made.config)
            place = draw(st.sampled_from(known)) if known else ("model_type",)
            put(made.config, place, copy.deepcopy(draw(st.sampled_from(ODD))))
        elif made.metadata:
            key = draw(st.sampled_from(sorted(made.metadata)))
            made.metadata[key] = draw(texts(made.metadata[key]))
    return made


@st.composite
def texts(draw: Any, old: str) -> str:
    """A text of the metadata with a fault: JSON with an odd value in a place, or another text."""
    try:
        value = json.loads(old)
    except (ValueError, RecursionError):
        value = None
    known = places(value)
    if not known or draw(st.integers(0, 3)) == 0:
        return str(draw(st.sampled_from([*map(str, ODD), "{}", "[]", "{", "NaN", "[" * 5000, "9" * 5000])))
    put(value, draw(st.sampled_from(known)), copy.deepcopy(draw(st.sampled_from(ODD))))
    return json.dumps(value)


def sized(dtype: str, shape: tuple[int, ...], data: bytes) -> Tensor:
    """A tensor of that dtype and shape, its bytes taken from others."""
    bits = BITS[next(name for name, disk in DISK_NAMES.items() if disk == dtype)]
    shape = shape if math.prod(shape) * bits % 8 == 0 else (*shape, 8)
    nbytes = math.prod(shape) * bits // 8
    return Tensor(dtype, shape, ((data or b"\0") * (nbytes // max(len(data), 1) + 1))[:nbytes])


@st.composite
def bent(draw: Any, data: bytes) -> bytes:
    """Bytes with one to three faults: some lost, doubled, or in the place of others."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from((1, 1, 2, 8, 40))))
        words = (
            b"",
            data[at:end] * 2,
            b"9",
            b"-1",
            b"1e999",
            b"null",
            b"[]",
            b'"',
            b"}",
            b"\xff",
            b'"F16"',
            b"9" * 401,
        )
        data = data[:at] + draw(st.sampled_from(words)) + data[end:]
    return data
