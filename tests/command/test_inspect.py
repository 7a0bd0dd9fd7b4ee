"""`portable-ffn inspect`: the table, the document, the statistics, and one clear line where it can't run."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from portable_ffn.__main__ import main

D, F, EXPERTS = 4, 6, 3


def gated(at: str) -> dict[str, tuple[int, ...]]:
    """The matrices of a gated network."""
    return {f"{at}.gate_proj.weight": (F, D), f"{at}.up_proj.weight": (F, D), f"{at}.down_proj.weight": (D, F)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two dense layers, one mixture of experts, one layer of a fused matrix whose order nobody knows."""
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (10, D)}
    for n in range(2):
        shapes |= gated(f"model.layers.{n}.mlp")
    for expert in range(EXPERTS):
        shapes |= gated(f"model.layers.2.mlp.experts.{expert}")
    shapes["model.layers.2.mlp.gate.weight"] = (EXPERTS, D)
    shapes |= {"model.layers.3.mlp.gate_up_proj.weight": (2 * F, D), "model.layers.3.mlp.down_proj.weight": (D, F)}
    rng = np.random.default_rng(0)
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    config = {"model_type": "not_known", "hidden_act": "silu", "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the one document on stdout."""
    status = main(["inspect", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_the_document(model, capsys):
    """Parameters and FLOPs are counted by hand here: 3 matrices of 24 numbers, 2 operations each."""
    status, told = document(capsys, str(model))
    assert status == 1, "one layer is not understood"
    total = 10 * D + 2 * 3 * F * D + EXPERTS * 3 * F * D + EXPERTS * D + 3 * F * D
    assert told["parameters"] == total
    dense, experts = told["rows"]
    assert dense["layers"] == [0, 1]
    assert dense["form"] == "gated"
    assert dense["parameters"] == 2 * 72
    assert dense["flops"] == 2 * 2 * 72
    assert dense["share"] == pytest.approx(144 / total)
    assert any("hidden_act = silu" in reason for reason in dense["evidence"])
    assert (experts["layers"], experts["experts"], experts["form"]) == ([2], EXPERTS, "expert")
    assert experts["parameters"] == EXPERTS * 72
    assert experts["flops"] == 2 * 2 * 72, "two of three are chosen"
    (unread,) = told["not_understood"]
    assert unread["argument"] == "gate"
    assert len(told["layers"]) == 2 + EXPERTS + 1


def test_a_fact_settles_it(model, capsys):
    status, told = document(capsys, str(model), "--gate", "second")
    assert status == 0
    assert told["not_understood"] == []
    assert [row["form"] for row in told["rows"]] == ["gated", "expert", "fused-gated"]


def test_the_table(model, capsys):
    assert main(["inspect", str(model)]) == 1
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("main  ") and "gated" in line)
    assert line.split() == [
        "main",
        "0-1",
        "gated",
        "silu",
        "4",
        "6",
        "no",
        "float32",
        "32",
        "288",
        "144",
        "29.8%",
        "288",
    ]
    assert "3 x expert" in out
    assert "not understood\n  model.layers.3.mlp: " in out
    assert "--gate first" in out


def test_a_terminal_gets_a_drawn_table(model, capsys, monkeypatch):
    pytest.importorskip("rich", reason="rich is not installed")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    main(["inspect", str(model)])
    assert "┏━" in capsys.readouterr().out


def test_statistics(model, capsys, tmp_path):
    """Active units and the strongest memories, against NumPy."""
    x = np.random.default_rng(1).normal(size=(2, 5, D)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    _, told = document(capsys, str(model), "--layer", "1", "--stats", "--input", str(tmp_path / "x.npy"))
    (one,) = told["statistics"]
    from safetensors.numpy import load_file

    tensors = load_file(model / "model.safetensors")
    W1, V, W2 = (tensors[f"model.layers.1.mlp.{n}_proj.weight"].T.astype(float) for n in ("gate", "up", "down"))
    g = x.reshape(-1, D) @ W1
    a = np.abs(g / (1 + np.exp(-g)) * (x.reshape(-1, D) @ V))
    assert one["tokens"] == 10
    assert one["active"] == pytest.approx((a >= 0.01 * a.max(-1, keepdims=True)).mean())
    strength = a.mean(0) * np.linalg.norm(W2, axis=-1)
    assert [memory["unit"] for memory in one["memories"]] == list(np.argsort(-strength)[:5])
    assert one["memories"][0]["coefficient"] == pytest.approx(a.mean(0)[np.argmax(strength)])


def test_statistics_are_printed_and_seeded(model, capsys):
    main(["inspect", str(model), "--layer", "0", "--stats", "--tokens", "8", "--seed", "3"])
    first = capsys.readouterr().out
    main(["inspect", str(model), "--layer", "0", "--stats", "--tokens", "8", "--seed", "3"])
    assert capsys.readouterr().out == first
    assert "of the hidden units active for a token" in first
    assert "unit" in first


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("missing", None, "missing"),
        ("model.safetensors", b"", "bytes"),
        ("pytorch_model.bin", b"PK", "must be a zip archive of torch.save, and is damaged"),
    ],
)
def test_it_cannot_run(tmp_path, capsys, name, content, match):
    """One clear line on stderr, exit 2, nothing on stdout."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert match in told.err
    assert len(told.err.strip().splitlines()) == 1


def test_an_input_of_another_width(model, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((2, D + 1)))
    assert main(["inspect", str(model), "--stats", "--input", str(tmp_path / "x.npy")]) == 2
    assert "last axis" in capsys.readouterr().err
    (tmp_path / "y.npy").write_bytes(b"nothing")
    assert main(["inspect", str(model), "--stats", "--input", str(tmp_path / "y.npy")]) == 2
    assert "can't be read" in capsys.readouterr().err


def test_a_file_and_an_index_too(model, capsys):
    """A directory, a file, a sharded index."""
    status, told = document(
        capsys, str(model / "model.safetensors"), "--gate", "first", "--activation", "silu", "--layout", "out_in"
    )
    assert status == 0
    assert len(told["rows"]) == 3
    from safetensors.numpy import load_file

    tensors = load_file(model / "model.safetensors")
    shards = {"model-00001-of-00002.safetensors": {}, "model-00002-of-00002.safetensors": {}}
    for n, (name, array) in enumerate(sorted(tensors.items())):
        list(shards.values())[n % 2][name] = array
    (model / "model.safetensors").unlink()
    for shard, held in shards.items():
        save_file(held, model / shard)
    places = {name: shard for shard, held in shards.items() for name in held}
    index = model / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    for path in (model, index):
        _, sharded = document(capsys, str(path), "--gate", "first")
        # Without a config nothing says how many experts are chosen, and the grounds are others.
        for row, other in zip(told["rows"], sharded["rows"], strict=True):
            assert other == row | {"evidence": other["evidence"], "flops": other["flops"]}


def llama(folder: Path, layers: tuple[int, ...], edit: Any = None, **config: Any) -> Path:
    """A LLaMA that holds these layers."""
    rng = np.random.default_rng(0)
    shapes = {name: shape for n in layers for name, shape in gated(f"model.layers.{n}.mlp").items()}
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    if edit is not None:
        edit(tensors)
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    said = {"model_type": "llama", "hidden_act": "silu", "hidden_size": D, "intermediate_size": F}
    (folder / "config.json").write_text(json.dumps({**said, **config}))
    return folder


@pytest.mark.parametrize(
    ("layers", "count", "lost"),
    [((0, 1, 2), 5, "5 layers as num_hidden_layers in the config says, and layers 3, 4 are not in the file"),
     ((0, 2), 3, "layer 1 is not in the file"),
     ((0, 1, 2), 3, None),
     ((1, 2, 3), 3, None),
     ((0, 1, 2), 2, None)],
)  # fmt: skip
def test_layers_that_the_config_counts_and_the_file_lacks(tmp_path, capsys, layers, count, lost):
    """Numbers from 1, and layers past the count (of the prediction of further tokens), are nobody's loss."""
    path = str(llama(tmp_path, layers, num_hidden_layers=count))
    status, told = document(capsys, path)
    assert status == 0
    assert len(told["warnings"]) == (lost is not None)
    main(["inspect", path])
    out = capsys.readouterr().out
    assert (lost in out) if lost else ("warning" not in out)


def test_a_layer_without_a_network_and_a_shared_one_are_not_lost(tmp_path, capsys):
    """A hybrid's other layers hold something else; a block that is gone through again is there once."""

    def mamba(tensors):
        tensors["model.layers.1.mixer.in_proj.weight"] = np.ones((D, D), np.float32)

    assert document(capsys, str(llama(tmp_path, (0, 2), mamba, num_hidden_layers=3)))[1]["warnings"] == []
    path = llama(tmp_path, (0, 1), num_hidden_layers=4, n_recurrent_loops=2)
    assert document(capsys, str(path))[1]["warnings"] == []


@pytest.mark.parametrize("asked", [["--layer", "77"], ["--stack", "foo"], ["--layer", "1", "--stack", "vision"]])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_layer_that_is_not_there(model, capsys, asked, as_json):
    assert main(["inspect", str(model), *asked, *as_json]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert " ".join(asked[:2]) in err
    assert "stack main (layers 0-3)" in err


def test_not_finite_weights_are_told(tmp_path, capsys):
    def spoil(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][3, 3] = np.nan
        tensors["model.layers.1.mlp.down_proj.weight"][0, 0] = np.inf

    path = str(llama(tmp_path, (0, 1), spoil))
    _, told = document(capsys, path, "--stats")
    whole, bad = told["statistics"]
    assert whole["not_finite"] == []
    assert whole["active"] > 0
    assert (bad["not_finite"], bad["active"], bad["memories"]) == (["W2", "V"], None, [])
    main(["inspect", path, "--stats"])
    out = capsys.readouterr().out
    assert "model.layers.1.mlp: W2, V hold NaN or infinite numbers" in out
    assert "0.0% of the hidden units active" not in out


@pytest.mark.parametrize("tokens", ["0", "-1", "two"])
def test_statistics_need_a_token(model, capsys, tokens):
    with pytest.raises(SystemExit) as ended:
        main(["inspect", str(model), "--stats", f"--tokens={tokens}"])
    assert ended.value.code == 2
    assert "one or more" in capsys.readouterr().err


@pytest.mark.parametrize("x", [np.zeros((0, D)), np.full((2, D), np.nan)])
def test_an_input_of_which_nothing_can_be_counted(model, capsys, tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    assert main(["inspect", str(model), "--stats", "--input", str(tmp_path / "x.npy")]) == 2
    assert "one token or more, of finite numbers" in capsys.readouterr().err


def test_no_layer_is_said_only_where_there_is_none(tmp_path, capsys):
    """All layers are found and none understood: the names are known, and it is the order that isn't."""

    def fuse(tensors):
        names = [f"model.layers.0.mlp.{part}_proj.weight" for part in ("gate", "up")]
        tensors["model.layers.0.mlp.gate_up_proj.weight"] = np.concatenate([tensors.pop(name) for name in names])

    assert main(["inspect", str(llama(tmp_path / "a", (0,), fuse, model_type="not_known"))]) == 1
    out = capsys.readouterr().out
    assert "not understood" in out
    assert "names that are known" not in out
    (tmp_path / "b").mkdir()
    save_file({"embedding.weight": np.ones((3, 4), np.float32)}, tmp_path / "b" / "model.safetensors")
    assert main(["inspect", str(tmp_path / "b")]) == 0
    assert "no feed-forward layer under names that are known" in capsys.readouterr().out
