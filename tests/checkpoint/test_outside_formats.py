"""The outside cases of formats: small files as the tools write them, against what the tools' own code decodes.

They are found by PORTABLE_FFN_CASES (formats/NAME). Each is read in float64 to 1e-6 of the largest output, or refused
in one line that names its format; nothing is read wrongly, and nothing is found as nothing.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portable_ffn import ClippedGate, checkpoint
from portable_ffn.checkpoint import CheckpointError, Undecided

pytest.importorskip("gguf", reason="GGUF needs it")
pytest.importorskip("h5py", reason="HDF5 needs it")
pytest.importorskip("msgpack", reason="Flax's files need it")
pytest.importorskip("tensorstore", reason="Orbax needs it")
pytest.importorskip("torch", reason="PyTorch's files need it")
load_file = pytest.importorskip("safetensors.numpy").load_file

CASES = os.environ.get("PORTABLE_FFN_CASES")
pytestmark = pytest.mark.skipif(CASES is None, reason="PORTABLE_FFN_CASES, the outside cases, is unset")

# What is refused, by how a folder's name begins, and the word that the refusal has for it.
REFUSED = {
    "aqlm": "AQLM",
    "bitnet": "BitNet",
    "ctranslate2": "CTranslate2",
    "eetq": "EETQ",
    "equinox": "Equinox",
    "exl2": "EXL2",
    "exl3": "EXL3",
    "gemma": "Gemma",
    "gguf__Q1_0": "Q1_0",
    "gguf__Q2_0": "Q2_0",
    "hqq": "HQQ",
    "modelopt__int8_sq": "SmoothQuant",
    "onnx": "ONNX",
    "openvino": "OpenVINO",
    "quanto": "quanto",
    "quip": "QuIP#",
    "spqr": "SpQR",
    "tensorizer": "tensorizer",
    "torch__dcp": "DCP",
    "torch__megatron": "Megatron",
    "torch__nemo": "NeMo",
    "torchao": "torchao",
    "vptq": "VPTQ",
}


def folders() -> list[Path]:
    """The cases' folders; set and missing fails at collection."""
    if CASES is None:
        return []
    found = sorted(path.parent for path in (Path(CASES) / "formats").glob("*/cases.json"))
    if not found:
        raise FileNotFoundError(f"PORTABLE_FFN_CASES is {CASES}, which holds no formats/*/cases.json")
    return found


def entry_of(path: Path, case: dict[str, Any], facts: dict[str, Any]) -> Any:
    """The one entry that a case is about."""
    found = [one for one in checkpoint.find(path, **facts) if one.layer == case["layer"]]
    found = [part for one in found for part in one.networks if part.expert == case.get("expert")]
    if len(found) > 1 and case.get("tensors"):
        found = [one for one in found if set(case["tensors"]) & set(one.tensors)]
    assert len(found) == 1, [one.name for one in found]
    return found[0]


def loaded(path: Path, case: dict[str, Any]) -> tuple[Any, Any]:
    """The entry and its network; the activation is given where the checkpoint leaves it open."""
    try:
        entry = entry_of(path, case, {})
        return entry, entry.load()
    except Undecided as error:
        if error.argument != "activation":
            raise
    name = case["activation"]
    entry = entry_of(path, case, {"activation": ClippedGate(7, 1.702, 1) if name == "gpt_oss" else name})
    return entry, entry.load()


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_a_format_is_read_as_its_tool_decodes_it_or_refused_by_name(folder, tmp_path):
    said = json.loads((folder / "cases.json").read_text())
    # Under a name that says nothing, without the answers.
    path = Path(shutil.copytree(folder, tmp_path / "checkpoint", ignore=shutil.ignore_patterns("cases.*")))
    path = path / said["read"] if said.get("read", ".") != "." else path
    word = next((word for start, word in REFUSED.items() if folder.name.startswith(start)), None)
    if word is not None:
        with pytest.raises(CheckpointError) as caught:
            entry_of(path, said["cases"][0], {}).load()
        assert word in str(caught.value)
        assert "\n" not in str(caught.value)
        return
    arrays = load_file(folder / "cases.safetensors")
    for case in said["cases"]:
        entry, network = loaded(path, case)
        x, y = arrays[f"{case['name']}.x"].astype(np.float64), arrays[f"{case['name']}.y64"]
        got = network(x)
        assert got.dtype == np.float64
        assert np.abs(got - y).max() <= 1e-6 * np.abs(y).max(), (case["name"], entry.dtype)
