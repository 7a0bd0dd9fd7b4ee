"""What a file or a config says that is never dropped, and what it lacks that is never made up."""

import json
from pathlib import Path

import numpy as np
import pytest

from portable_ffn import (
    checkpoint,
)


def bert(path: Path, extra: dict | None = None, **config) -> Path:
    """A checkpoint of one layer of BERT's kind."""
    from safetensors.numpy import save_file

    stem = "encoder.layer.0."
    tensors = {
        f"{stem}intermediate.dense.weight": np.ones((8, 4), np.float32),
        f"{stem}intermediate.dense.bias": np.ones(8, np.float32),
        f"{stem}output.dense.weight": np.ones((4, 8), np.float32),
        f"{stem}output.dense.bias": np.ones(4, np.float32),
        f"{stem}output.LayerNorm.weight": np.ones(4, np.float32),
    }
    tensors |= {stem + name: array for name, array in (extra or {}).items()}
    save_file(tensors, path / "model.safetensors")
    said = {"model_type": "bert", "hidden_size": 4, "intermediate_size": 8, "hidden_act": "gelu", **config}
    (path / "config.json").write_text(json.dumps(said))
    return path


@pytest.mark.parametrize(
    "name", ["intermediate.dense.weight_scale", "output.dense.weight_g", "output.dense.parametrizations.weight.0.base"]
)
def test_what_lies_beside_a_matrix_in_its_own_module_is_never_dropped(tmp_path, name):
    assert checkpoint.load(bert(tmp_path)).weights.d_ff == 8
    with pytest.raises(checkpoint.CheckpointError, match=f"it also holds encoder.layer.0.{name}"):
        checkpoint.load(bert(tmp_path, {name: np.ones(8, np.float32)}))


@pytest.mark.parametrize("value", [["gelu", "relu"], {"kind": "relu"}, 3, True])
def test_an_activation_that_is_no_name_is_not_replaced_by_the_family_s(tmp_path, value):
    with pytest.raises(checkpoint.Undecided, match="which is no activation that is known; pass activation="):
        checkpoint.load(bert(tmp_path, hidden_act=value))


@pytest.mark.parametrize("lost", ["intermediate", "output"])
def test_a_checkpoint_that_has_lost_a_bias_is_refused(lost, tmp_path):
    from portable_ffn.checkpoint._files.save import save_tensors

    tensors = {}
    for part, shape in (("intermediate", (32, 8)), ("output", (8, 32))):
        tensors[f"encoder.layer.0.{part}.dense.weight"] = np.ones(shape, dtype="float32")
        if part != lost:
            tensors[f"encoder.layer.0.{part}.dense.bias"] = np.ones(shape[0], dtype="float32")
    save_tensors(tmp_path / "model.safetensors", tensors, {})
    config = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 32}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(checkpoint.CheckpointError, match=f"{lost}.dense.weight must have a bias"):
        checkpoint.load(tmp_path, layer=0)
