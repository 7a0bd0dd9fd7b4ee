"""A model against its quantised form: what that costs each layer, in numbers and as a picture."""

import json

import numpy as np
import pytest

from portable_ffn import testing
from portable_ffn.checkpoint._files.save import save_tensors
from tests.checkpoint.packed import words

CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "hidden_act": "silu"}
SHAPES = {"gate_proj": (64, 32), "up_proj": (64, 32), "down_proj": (32, 64)}


@pytest.fixture
def pair(tmp_path):
    """Two layers in float32, and quantised to 8 and 2 bits in MLX's way."""
    rng = np.random.default_rng(0)
    plain, packed, settings = {}, {}, {"group_size": 32, "bits": 8}
    for layer, bits in ((0, 8), (1, 2)):
        for name, shape in SHAPES.items():
            stem = f"model.layers.{layer}.mlp.{name}"
            weight = rng.standard_normal(shape).astype(np.float32)
            groups = weight.reshape(len(weight), -1, 32)
            low, scale = groups.min(-1), np.ptp(groups, -1) / ((1 << bits) - 1)
            codes = np.rint((groups - low[..., None]) / scale[..., None]).astype(int).reshape(shape)
            plain[f"{stem}.weight"] = weight
            packed[f"{stem}.weight"] = words(codes, bits, np.uint32)
            packed[f"{stem}.scales"], packed[f"{stem}.biases"] = scale, low
            settings[stem] = {"group_size": 32, "bits": bits}
    for folder, tensors, more in (("a", plain, {}), ("b", packed, {"quantization": settings})):
        (tmp_path / folder).mkdir()
        save_tensors(tmp_path / folder / "model.safetensors", tensors)
        (tmp_path / folder / "config.json").write_text(json.dumps(CONFIG | more))
    return tmp_path / "a", tmp_path / "b"


def test_the_loss_of_each_layer_by_matrix_and_output(pair, tmp_path):
    found = testing.compare_models(*pair)
    assert not found.passed
    fine, coarse = found.layers
    for layer, bits, low, high in ((fine, 8, 1e-4, 0.01), (coarse, 2, 0.1, 0.6)):
        assert layer.loss.b == f"MLX {bits}-bit, groups of 32"
        assert layer.loss.a == ""
        assert set(layer.loss.weights) == {"W1", "W2", "V"}
        assert all(low < share < high for share in (*layer.loss.weights.values(), layer.loss.outputs / 2))
    assert f"{coarse.title}: B is MLX 2-bit, groups of 32: the weights are apart by W1" in str(found)
    told = json.loads(found.to_json())["layers"][1]["loss"]
    assert told["weights"]["W1"] == pytest.approx(coarse.loss.weights["W1"])
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "What quantisation costs" in page
    assert page.count("<rect x=") >= 8


def test_the_loss_is_that_of_the_files_own_values(pair):
    from portable_ffn import checkpoint

    (layer, _) = testing.compare_models(*pair).layers
    mine, other = (checkpoint.load(path).weights.W2.astype(float) for path in pair)
    assert layer.loss.weights["W2"] == pytest.approx(np.linalg.norm(mine - other) / np.linalg.norm(mine))


def test_plain_models_have_none(pair):
    found = testing.compare_models(pair[0], pair[0])
    assert found.passed
    assert [layer.loss for layer in found.layers] == [None, None]
