"""Which layer of one model is compared with which of the other."""

from types import SimpleNamespace

from portable_ffn.testing._models.pairs import pair


def entry(name, stack, layer, expert=None):
    return SimpleNamespace(name=name, stack=stack, layer=layer, expert=expert)


def paired(left, right, layer=None):
    found = pair(left, right, layer)
    return [(mine.name, other.name) for mine, other in found.both], [e.name for e in (*found.only_a, *found.only_b)]


def test_pairs_by_name_then_by_place():
    left = [entry("h.0", "main", 0), entry("h.1", "main", 1), entry("v.0", "vision", 0)]
    assert paired(left, left[::-1]) == ([("h.0", "h.0"), ("h.1", "h.1"), ("v.0", "v.0")], [])
    right = [entry("blocks.1", "main", 1), entry("blocks.0", "main", 0), entry("tower.0", "vision", 0)]
    assert paired(left, right) == ([("h.0", "blocks.0"), ("h.1", "blocks.1"), ("v.0", "tower.0")], [])
    assert paired(left[:2], [entry("e.1", "encoder", 1)]) == ([("h.1", "e.1")], ["h.0"])
    assert paired(left, [entry("x.0", "text", 0)]) == ([], ["h.0", "h.1", "v.0", "x.0"])


def test_pairs_of_experts_and_of_two_networks_in_a_layer():
    left = [*(entry(f"moe#{i}", "main", 0, i) for i in range(3)), entry("mlp", "main", 0), entry("shared", "main", 0)]
    right = [
        *(entry(f"x.{i}", "main", 0, i) for i in (2, 1, 0)), entry("dense", "main", 0), entry("other", "main", 0)
    ]  # fmt: skip
    assert paired(left, right)[0] == [
        ("moe#0", "x.0"), ("moe#1", "x.1"), ("moe#2", "x.2"), ("mlp", "dense"), ("shared", "other")
    ]  # fmt: skip
