"""Whether a layer's widths are those that its config names: a difference means that one of the two is wrong."""

from collections.abc import Iterator, Mapping
from typing import Any

from portable_ffn.checkpoint._config.family import Family
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError

_HIDDEN_KEYS = (
    "intermediate_size",
    "d_ff",
    "ffn_dim",
    "n_inner",
    "dim_feedforward",
    "ffn_hidden_size",
    "mlp_dim",
    "dff",
    "d_inner",
    "feed_forward_size",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
)
_MODEL_KEYS = ("hidden_size", "d_model", "n_embd")
# A list under one of these says that the width grows from stage to stage, by a rule that the config doesn't spell out.
_STAGE_KEYS = ("depths", "num_heads", "hidden_sizes", "embed_dims", "embed_dim", "stage_depths", "num_blocks")


def integers(value: Any, key: str = "") -> Iterator[tuple[str, int]]:
    """Every whole number of a config with its key, those of nested configs and lists too."""
    if isinstance(value, Mapping):
        for inner, item in value.items():
            yield from integers(item, str(inner))
    elif isinstance(value, list):
        for item in value:
            yield from integers(item, key)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield key, value


def check_sizes(
    scope: Scope, d_model: int, d_ff: int, family: Family, where: str, given: str | None = None, unequal: bool = False
) -> None:
    """CheckpointError where the innermost config names a width and no number of the config is the layer's.

    `unequal` says that the layers of the stack differ in d_ff among each other (pruned ones): no number can be all of
    theirs, so none is asked for.

    Widths of several stages, of experts and of shared experts (a multiple of theirs) are numbers of the config as
    well, so any of them is allowed.
    """
    named = list(integers(scope.chain[-1]))
    numbers = {number for _, number in named}
    inner = scope.chain[0]
    if any(isinstance(inner.get(key), list) for key in _STAGE_KEYS):
        return
    model, hidden = ({inner[k] for k in keys if isinstance(inner.get(k), int)} for keys in (_MODEL_KEYS, _HIDDEN_KEYS))
    if d_model != d_ff and d_model not in model and d_model in hidden and d_ff in model:
        if given is not None:
            other = "in_out" if given == "out_in" else "out_in"
            raise CheckpointError(
                f"layout={given!r} must fit {scope.label}, which says d_model = {d_ff} and d_ff = {d_model} where by "
                f"that layout {where} has d_model = {d_model} and d_ff = {d_ff}; leave it out or pass layout={other!r}"
            )
        raise CheckpointError(
            f"{where} must have d_model = {d_ff} and d_ff = {d_model} as {scope.label} says, and its matrices lie the "
            'other way round; pass layout="in_out" if that is how they were written, layout="out_in" if not'
        )
    for keys, width, word in ((_MODEL_KEYS, d_model, "d_model"), (_HIDDEN_KEYS, d_ff, "d_ff")):
        key = next((k for k in keys if isinstance(inner.get(k), int)), None)
        if key is None or width in numbers:
            continue
        if word == "d_ff":
            if unequal or width in _derived(scope, inner[key], family) or (family.halved and 2 * width in numbers):
                continue
            shared = [n for k, n in named if "shared_expert" in k and n > 0]
            if any(width % n == 0 and width // n in numbers for n in shared):
                continue
        raise CheckpointError(
            f"{where} must have {word} = {inner[key]} as {key} of {scope.label} says, got {width}; "
            "the config or the tensors belong to another model"
        )


def _derived(scope: Scope, d_ff: int, family: Family) -> Iterator[int]:
    """The widths that a family makes of its config's d_ff."""
    if family.doubled and scope.value(family.doubled):
        yield 2 * d_ff
    if family.adjusted and scope.value("block_auto_adjust_ff_dim") is not False:
        # Lfm2MLP of transformers 5.24: 2/3 of it, times a factor, rounded up to a multiple.
        factor, multiple = scope.number("block_ffn_dim_multiplier"), scope.number("block_multiple_of")
        shrunk = int((1.0 if factor is None else factor) * int(2 * d_ff / 3))
        step = int(multiple or 256)
        yield -(-shrunk // step) * step if step > 0 else shrunk
