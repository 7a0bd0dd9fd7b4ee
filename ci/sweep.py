"""Read checkpoints with perturbed configs of every family of transformers, and compare with the models as built.

    python ci/sweep.py --folder build/sweep             all families; a line for each layer that is not right
    python ci/sweep.py --folder build/sweep clip llava  some

It needs transformers 5.24 and torch as ci/families.py does, and is no part of the tests. Each family is built from its
default config with changes: another activation under every key, parts that are silent or absent, a silent root, flags
turned, names with prefixes doubled or cut off. What is saved are the headers alone (the files are sparse), since what a
config decides is the activation, and the module that the model holds is what the reader has to name.
"""

import argparse
import copy
import json
import logging
import re
import signal
import struct
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from families import model_classes
from survey.configs import classes
from survey.probe import build, names_activation, networks, on_disk, shrink
from survey.special import FLAGS, NEEDED

from portable_ffn.checkpoint import CheckpointError, Undecided, find
from portable_ffn.checkpoint._config.spellings import ours

# Each key of a config gets another of these, so that a neighbour's value shows.
_VALUES = (
    "mish",
    "relu6",
    "tanh",
    "leaky_relu",
    "relu2",
    "hardswish",
    "sigmoid",
    "quick_gelu",
    "relu",
    "silu",
    "gelu_new",
)
_SECONDS = 60


def keys(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of a config's keys that name an activation."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from keys(value, (*path, key))
        elif names_activation(key, value):
            yield (*path, key)


def at(config: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The config that a key lies in."""
    for key in path[:-1]:
        config = config[key]
    return config


def variants(base: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The changed configs, each with its name."""
    found = list(keys(base))

    def changed(values: bool, drop: int | None = None, only: int | None = None) -> dict[str, Any]:
        config = copy.deepcopy(base)
        for n, path in enumerate(found):
            inner = at(config, path)
            if (drop is not None and len(path) > drop) or (only is not None and len(path) > 1 + only):
                inner.pop(path[-1], None)
            elif values:
                inner[path[-1]] = _VALUES[n % len(_VALUES)]
        return config

    yield "as published", copy.deepcopy(base)
    yield "acts", changed(True)
    yield "parts silent", changed(True, drop=1)
    yield "silent", changed(False, drop=0)
    silent_root = changed(True)
    for path in found:
        if len(path) == 1:
            silent_root.pop(path[0], None)
    yield "root silent", silent_root
    if any(isinstance(value, Mapping) and key.endswith("config") for key, value in base.items()):
        whole = changed(True)
        yield "parts absent", {k: v for k, v in whole.items() if not (isinstance(v, Mapping) and k.endswith("config"))}
    for key, value in base.items():
        if isinstance(value, bool) and re.search(FLAGS, key):
            yield f"{key} {not value}", changed(True) | {key: not value}


def save(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """A checkpoint of headers: the tensors' bytes are holes in a sparse file."""
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        if name in names:
            size = tensor.numel() * 4
            header[names[name]] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [end, end + size]}
            end += size
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, default=str))
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def truth(model: Any) -> dict[str, str]:
    """The activation of each network, by its second matrix on disk, as the model holds it."""
    found = {}
    for candidate, _, said, _ in networks(model):
        if said is not None and said.startswith("="):
            found[candidate.W2] = ours(said[1:]) or said[1:]
    return found


def read(entry: Any) -> str:
    """The activation that an entry names, or that its gate has inside."""
    activation = entry.activation
    if isinstance(activation, str):
        return activation
    inner = getattr(activation, "activation", None)
    if inner is not None:
        return str(inner)
    return {1.0: "silu", 1.702: "quick_gelu"}.get(getattr(activation, "alpha", None), type(activation).__name__)


def compare(folder: Path, expected: Mapping[str, str], where: str, counts: Counter[str]) -> None:
    """Each network of a checkpoint, counted; what is not right is printed."""
    try:
        entries = find(folder)
    except CheckpointError as error:
        counts["refused"] += 1
        print(f"{where}: refused whole: {error}")
        return
    seen = set()
    for entry in [network for whole in entries for network in whole.networks]:
        second = [name for name in entry.tensors if name in expected]
        for name in second:
            seen.add(name)
            shape = re.sub(r"\d+", "*", name)
            if isinstance(entry.problem, Undecided):
                counts["asked"] += 1
                _tell(f"{where}: asked of {shape}: {entry.problem}")
            elif entry.problem is not None:
                counts["refused"] += 1
                _tell(f"{where}: refused {shape}: {entry.problem}")
            elif read(entry) == expected[name]:
                counts["right"] += 1
            else:
                counts["WRONG"] += 1
                _tell(f"{where}: WRONG {shape}: {read(entry)} for {expected[name]}; {entry.evidence[-2:]}")
    inside = re.compile(r"\.\d+\.(?!.*(merger|projector|bias|time|embed)).*(mlp|ffn|feed_forward)")
    layered = {name for name in expected if inside.search(name)}
    for name in sorted(layered - seen):
        counts["passed over"] += 1
        _tell(f"{where}: passed over {re.sub(chr(92) + 'd+', '*', name)}")


_told: set[str] = set()


def _tell(line: str) -> None:
    """A line, once."""
    if line not in _told:
        _told.add(line)
        print(line[:400], flush=True)


def sweep(model_type: str, cls: Any, folder: Path, counts: Counter[str]) -> None:
    """One family."""
    models = model_classes(cls)
    if not models:
        return
    config = cls(**NEEDED.get(model_type, {}))
    shrink(config, 2)
    base = json.loads(config.to_json_string(use_diff=False))
    for name, changed in variants(base):
        for model_class in models[-1:] if name != "acts" else models:
            signal.alarm(_SECONDS)
            try:
                model = build(model_class, cls.from_dict(copy.deepcopy(changed)))
                tensors = on_disk(model)[1]
                expected = truth(model)
            except Exception:
                continue
            finally:
                signal.alarm(0)
            prefix = {name: name for name in tensors}
            spelled = {"": prefix}
            if name == "acts":
                spelled["doubled"] = {key: f"model.{key}" for key in prefix}
                spelled["module"] = {key: f"module.{key}" for key in prefix}
                cut = {key: key.partition(".")[2] or key for key in prefix}
                if len(set(cut.values())) == len(cut):
                    spelled["cut"] = cut
            for how, names in spelled.items():
                save(folder, changed, tensors, names)
                known = {names[key]: value for key, value in expected.items()}
                compare(folder, known, f"{model_type} {model_class.__name__} {name} {how}".rstrip(), counts)


def main() -> int:
    """All families, or some; status 1 where a layer is read wrongly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where each checkpoint is written in turn")
    parser.add_argument("model_types", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _too_slow)
    counts: Counter[str] = Counter()
    families = 0
    for model_type, cls in classes().items():
        if args.model_types and model_type not in args.model_types:
            continue
        try:
            before = sum(counts.values())
            sweep(model_type, cls, args.folder, counts)
            families += sum(counts.values()) > before
        except Exception as error:
            print(f"{model_type}: {type(error).__name__} {str(error)[:150]}")
    print(f"{families} families: {dict(counts)}")
    return 1 if counts["WRONG"] else 0


def _too_slow(*_: Any) -> None:
    """The end of a model that takes too long."""
    raise TimeoutError(f"more than {_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
