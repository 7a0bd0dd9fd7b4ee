"""Where a layer stands: the stack that it belongs to and its number in it, from its path."""

import re
from collections.abc import Iterable, Sequence

_WRAPPERS = ("module.", "_orig_mod.", "base_model.model.", "_fsdp_wrapped_module.", "_forward_module.")
# layers.3, and layers_3 or encoderblock_3 as flax.linen numbers its modules. Longer numbers count no layers.
_NUMBER = re.compile(r"(?:(?:\w*?(?:layers?|blocks?|h))_)?([0-9]{1,9})\Z")
# The words of a stack's name, in the order in which they are joined.
_STACKS = (
    ("vision", re.compile(r"vis|vit|image|patch|pixel")),
    ("audio", re.compile(r"audio|speech|acoustic|codec|perception")),
    ("text", re.compile(r"text|language|\bllm\b")),
    ("qformer", re.compile(r"qformer")),
    ("encoder", re.compile(r"encoder")),
    ("decoder", re.compile(r"decoder")),
)
# A number after one of these counts layers inside a stage that the number before it counts.
_INNER = frozenset({"layers", "layer", "blocks", "block"})


# Components that wrappers put anywhere.
_INSIDE = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module")


def unwrap(name: str) -> str:
    """A name without what training wrappers put before it, or into it."""
    if any(wrapper in name for wrapper in _INSIDE):
        name = ".".join(part for part in name.split(".") if part not in _INSIDE)
    while True:
        for prefix in _WRAPPERS:
            if name.startswith(prefix):
                name = name[len(prefix) :]
                break
        else:
            return name


def stack_of(path: str, text: bool) -> str:
    """The stack of the layer at `path`: "main", or the words that its path has of the others, joined by +.

    `text` says that a config for text applies, whether or not the path says so.
    """
    lowered = path.lower()
    found = [word for word, pattern in _STACKS if pattern.search(lowered)]
    if text and not {"vision", "audio", "text"} & set(found):
        found.insert(0, "text")
    return "+".join(found) or "main"


def whole(text: str) -> int | None:
    """The number that a text is, of nine digits at most; None where it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def _number(part: str) -> str | None:
    """The number that a component of a path counts, or None."""
    match = _NUMBER.match(part)
    return match[1] if match else None


def numbers(path: str) -> tuple[int, ...]:
    """The numbers of a path's components."""
    return tuple(int(n) for part in path.split(".") if (n := _number(part)) is not None)


def shape(path: str) -> str:
    """A path with its numbers left out: equal for the layers of one stack."""
    return ".".join(part if (n := _number(part)) is None else part[: -len(n)] + "*" for part in path.split("."))


def in_a_stack(path: str) -> bool:
    """Whether a component of the path counts layers."""
    return any(_number(part) is not None for part in path.split("."))


def natural(path: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts layers.2 before layers.10."""
    return tuple((1, 0, part) if (n := _number(part)) is None else (0, int(n), part) for part in path.split("."))


def layer_numbers(paths: Sequence[str]) -> list[int]:
    """The number of each layer, given the paths of all layers of one shape.

    It is the outermost number that varies; where blocks are counted inside stages, the layer's rank over all
    stages.
    """
    counted = [numbers(path) for path in paths]
    if not counted or not counted[0]:
        return [0] * len(counted)
    varying = [i for i in range(len(counted[0])) if len({n[i] for n in counted}) > 1]
    if not varying:
        return [n[0] for n in counted]
    if len(varying) > 1:
        containers = _containers(paths[0])
        if containers[varying[-1]] in _INNER:
            return ranks([tuple(n[i] for i in varying) for n in counted])
    return [n[varying[0]] for n in counted]


def _containers(path: str) -> list[str]:
    """The component before each number of a path."""
    parts = path.split(".")
    return [parts[i - 1] if i else "" for i, part in enumerate(parts) if _number(part) is not None]


def ranks(keys: Iterable[tuple[int, ...]]) -> list[int]:
    """The rank of each key among the distinct ones."""
    keys = list(keys)
    order = {key: i for i, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]
