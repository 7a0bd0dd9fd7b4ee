"""The library's own file says one thing strictly, and what can't be a network is not written."""

import json

import numpy as np
import pytest

from portable_ffn import ClippedGate, Weights, checkpoint
from portable_ffn._activations.learned import PReLU
from portable_ffn.checkpoint import CheckpointError
from portable_ffn.checkpoint._loaded.network import Network, Norm
from tests.checkpoint.bases import BASES, D, F

ONES = np.ones
WHOLE = {"W1": (D, F), "b1": (F,), "W2": (F, D), "b2": (D,), "V": (D, F), "c": (F,)}


def weights(**other):
    """A gated network's, with another shape under a name, or none."""
    shapes = {**WHOLE, **other}
    return Weights(*(None if shape is None else ONES(shape) for shape in shapes.values()))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"W2": (F + 1, D)}, "W2 must have shape"),
        ({"b1": (1, F)}, "b1 must"),
        ({"b2": ()}, "b2 must"),
        ({"V": (F, D)}, "V must"),
        ({"V": None}, "c must"),
        ({"W1": (D,)}, "W1 must"),
    ],
    ids=lambda value: str(value),
)
def test_contradictory_shapes_are_not_saved(tmp_path, other, words):
    with pytest.raises(ValueError, match=words):
        checkpoint.save(tmp_path / "net.safetensors", weights(**other), activation="silu")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("obj", "activation", "error", "words"),
    [
        (weights(V=None, c=None), ClippedGate(7.0), ValueError, "without V"),
        (weights(), PReLU((0.1,) * (F + 1)), ValueError, "one slope, or d_ff = 6"),
        (weights(), "prelu", TypeError, "an object with the numbers of prelu"),
        (Network(weights(), "silu", before=Norm("rms", ONES(D + 1), None, 1e-6)), None, ValueError, "before.gamma"),
        (Network(weights(), "silu", middle=Norm("rms", ONES(D), None, 1e-6)), None, ValueError, "middle.gamma"),
    ],
    ids=["a gate without V", "slopes", "a learned name", "a norm before", "a norm between"],
)
def test_what_can_not_be_a_network_is_not_saved(tmp_path, obj, activation, error, words):
    with pytest.raises(error, match=words):
        checkpoint.save(tmp_path / "net.safetensors", obj, activation=activation)


STAGES = json.loads(BASES["own"].metadata["stages"])


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ({**STAGES, "residual": "no"}, "residual must be true or false, got 'no'"),
        ({**STAGES, "after_residual": 1}, "after_residual must be true or false"),
        ({**STAGES, "scale": "2"}, "scale must be a finite number"),
        ({**STAGES, "scale": True}, "scale must be a finite number"),
        ({**STAGES, "before": {"kind": "layer", "eps": -1.0}}, "eps must be zero or more"),
        ({**STAGES, "before": {"kind": "layer"}}, "must have a kind, .*, and eps"),
        ({**STAGES, "before": {"kind": "none", "eps": 0.1}}, "must have a kind, one of"),
        ({**STAGES, "before": None}, "must say what before.gamma is for"),
        ({**STAGES, "residuals": True}, "'residuals', which is none that is known"),
        ([], "must be a JSON object"),
    ],
    ids=str,
)
def test_metadata_of_another_type(tmp_path, stages, words):
    made = BASES["own"].copy()
    made.metadata["stages"] = json.dumps(stages)
    (entry,) = checkpoint.find(made.write(tmp_path))
    with pytest.raises(CheckpointError, match=words):
        entry.load()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("form", "dense", "is 'dense' by its metadata, and holds"),
        ("activation", '{"ClippedGate": {"limit": "7"}}', "keeps an activation that is damaged"),
        ("activation", '{"os.system": {"limit": 7}}', "keeps an activation that is damaged"),
        ("activation", '{"PReLU": {"weight": [0.1, 0.2]}}', "one slope, or d_ff = 6"),
        ("activation", "[" * 5000, "none that is known"),
        ("portable_ffn", "2", "a later version"),
    ],
)
def test_metadata_that_say_another_thing(tmp_path, key, value, words):
    made = BASES["own"].copy()
    made.metadata[key] = value
    (entry,) = checkpoint.find(made.write(tmp_path))
    with pytest.raises(CheckpointError, match=words):
        entry.load()
