"""Whatever a file says, what comes out is a network that computes, or one line that says why not.

Seeded, and short here; ci/fuzz.sh runs many more (PORTABLE_FFN_FUZZ says how many of each kind).
"""

import contextlib
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portable_ffn.__main__ import main
from portable_ffn.checkpoint import CheckpointError, find
from portable_ffn.checkpoint._errors import CheckpointError as Base
from tests.checkpoint.bases import BASES, gguf, loaded
from tests.checkpoint.damage import bent, damaged

COUNT = int(os.environ.get("PORTABLE_FFN_FUZZ", "0"))
SETTINGS = settings(
    max_examples=COUNT or 200,
    derandomize=not COUNT,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
# In a longer run the outside cases are damaged too: every family and every format of quantised weights.
CASES = Path(os.environ.get("PORTABLE_FFN_CASES", "nowhere")) if COUNT else Path("nowhere")
OUTSIDE = sorted(file.parent for file in CASES.glob("*/*/model.safetensors") if file.stat().st_size < 300_000)
KNOWN = (*BASES.values(), *map(loaded, OUTSIDE))
GGUF = (gguf(), gguf(8), *(file.read_bytes() for file in sorted(CASES.glob("formats/*/*.gguf"))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A function that gives an empty directory, the same one each time."""
    path = tmp_path_factory.mktemp("fuzz")

    def fresh():
        shutil.rmtree(path / "one", ignore_errors=True)
        (path / "one").mkdir()
        return path / "one"

    return fresh


def probe(path):
    """Whether a checkpoint, however damaged, is refused by a CheckpointError, or its layers keep word."""
    try:
        found = find(path)
    except CheckpointError as error:
        one_line(error)
        found = []
    for entry in found:
        if entry.problem is not None:
            one_line(entry.problem)
            with pytest.raises(CheckpointError) as caught:
                entry.load()
            assert caught.value is entry.problem
            continue
        if entry.store.formats or any(one.decision.recipe.learned for one in entry.networks):
            # What only the values tell: scales that don't fit, learned numbers that are none.
            try:
                entry.load()
            except CheckpointError as error:
                one_line(error)
                continue
        computes(entry)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        status = main(["inspect", os.fspath(path)])
    assert status in (0, 1, 2)
    assert all(char.isprintable() or char == "\n" for char in shown.getvalue())


def computes(entry):
    """Whether a layer without a problem loads, and gives what it should for two rows."""
    x = np.ones((2, entry.d_model), np.float32)
    with np.errstate(all="ignore"):
        net = entry.load()
        y = net(x)
        assert y.ndim == 2
        assert len(y) == 2
        for one in entry.networks if entry.experts else ():
            one.load()
        if not entry.experts:
            assert net.hidden(x).shape == (2, entry.d_ff)
        if entry.placement is not None and entry.placement.problem is None:
            assert entry.load_sublayer()(x).shape == y.shape
        elif entry.placement is not None:
            one_line(entry.placement.problem)
        elif entry.experts:
            with pytest.raises(CheckpointError, match="is not known for this family"):
                entry.load_sublayer()


def one_line(error):
    """An error's message is a line, short, and no accident that was caught at the last door."""
    assert isinstance(error, Base)
    assert str(error).isprintable()
    assert 0 < len(str(error)) < 3000
    assert "not foreseen" not in str(error)


@SETTINGS
@given(made=damaged(KNOWN))
def test_well_formed_files_with_faults(folder, made):
    probe(made.write(folder()))


@SETTINGS
@given(data=st.data())
def test_bent_headers(folder, data):
    made = data.draw(st.sampled_from(KNOWN))
    probe(made.write(folder(), data.draw(bent(made.header()))))


@SETTINGS
@given(data=st.data())
def test_bent_configs(folder, data):
    made = data.draw(st.sampled_from([made for made in KNOWN if made.config is not None]))
    path = made.write(folder())
    (path / "config.json").write_bytes(data.draw(bent(json.dumps(made.config).encode())))
    probe(path)


@SETTINGS
@given(data=st.data())
def test_bent_indexes(folder, data):
    path = BASES["llama"].write(folder())
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").rename(path / "a.safetensors")
    BASES["unknown"].write(path)
    (path / "model.safetensors").rename(path / "b.safetensors")
    places = {name: file for base, file in (("llama", "a"), ("unknown", "b")) for name in BASES[base].tensors}
    text = json.dumps({"weight_map": {name: f"{file}.safetensors" for name, file in places.items()}})
    (path / "model.safetensors.index.json").write_bytes(data.draw(bent(text.encode())))
    probe(path)


@SETTINGS
@given(data=st.data())
def test_bent_gguf(folder, data):
    whole = data.draw(st.sampled_from(GGUF))
    header = max(whole.rfind(b"blk."), 0) + 60
    path = folder() / "model.gguf"
    path.write_bytes(data.draw(bent(whole[:header])) + whole[header:])
    probe(path)
