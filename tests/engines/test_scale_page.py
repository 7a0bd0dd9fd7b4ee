"""The table of collectives in the page on scale is what the engines were seen to do."""

import json
from pathlib import Path

import pytest

from tests.engines.scale import torch_worker
from tests.engines.scale.launch import jax_in_one_process, torch_forked

PAGE = Path(__file__).parents[2] / "docs" / "use" / "beyond.md"
HEAD = (
    "| shards | predicted | JAX, Auto axes | JAX, Explicit axes | DTensor | other collectives "
    "| bytes sent: predicted | at the sockets |\n|---|---|---|---|---|---|---|---|\n"
)


def table(jax, torch):
    """The rows for 1, 2, 4 and 8 shards."""
    lines = []
    for n in (1, 2, 4, 8):
        predicted = f"{int(n > 1)} + {int(n > 1)}"
        counts, others = [], 0
        for axes in ("Auto", "Explicit"):
            found = [fact for fact in jax if fact["model"] == n and fact["axes"] == axes]
            ways = [{fact[way]["all-reduce"] for fact in found} for way in ("forward", "backward")]
            counts.append(" + ".join("/".join(map(str, sorted(way))) for way in ways))
            others += sum(sum(fact[way].values()) - fact[way]["all-reduce"] for fact in found for way in ("forward",))
        seen = [torch[str(n)][form] for form in ("plain", "gated")]
        pairs = (("forward", "sum"), ("backward", "sum of dx"))
        ways = [{sum(fact[part].get("all_reduce", 0) for part in pair) for fact in seen} for pair in pairs]
        counts.append(" + ".join("/".join(map(str, sorted(way))) for way in ways))
        others += sum(
            fact[part]["calls"] - fact[part].get("all_reduce", 0) for fact in seen for p in pairs for part in p
        )
        sent = torch[str(n)]["sent"] / (torch_worker.D_MODEL * 8)
        lines.append(f"| {n} | {predicted} | {' | '.join(counts)} | {others} | {2 * (n - 1) / n:.2f} | {sent:.2f} |\n")
    return HEAD + "".join(lines)


@pytest.mark.slow
def test_the_table_is_not_stale(require, tmp_path_factory):
    require("jax")
    require("torch")
    jax = json.loads(jax_in_one_process(tmp_path_factory).with_suffix(".json").read_text())["meshes"]
    torch = json.loads(torch_forked(tmp_path_factory).with_suffix(".json").read_text())
    made = table(jax, torch)
    assert made in PAGE.read_text(encoding="utf-8"), f"the page's table must be\n{made}"
