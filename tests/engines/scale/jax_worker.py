"""The network on meshes of JAX's CPU devices: what was compiled, how results lie, and their values.

    python jax_worker.py OUT DEVICES                      one process
    python jax_worker.py OUT DEVICES ADDRESS RANK WORLD   one of several, by jax.distributed

writes OUT.json and OUT.npz. Started by test_scale_jax.py, in processes of its own since devices are counted once.
"""

import functools
import json
import re
import sys

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
SIZES = {"f64": 8, "f32": 4, "bf16": 2}
D_MODEL, D_FF, SHAPE = 16, 64, (8, 6, 16)
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "mish", "hard_swish", "elu")


def network(gated):
    """x and the weights, in NumPy float64."""
    import numpy as np

    from portable_ffn import init_weights

    return np.random.default_rng(7).normal(size=SHAPE), init_weights(D_MODEL, D_FF, gated=gated, seed=3)


def collectives(compiled):
    """How often each kind stands in a compiled program, and the bytes that all-reduces yield on one device."""
    text = compiled.as_text()
    counts = {kind: len(re.findall(rf" {kind}(?:-start)?\(", text)) for kind in KINDS}
    reduced = 0
    for shapes in re.findall(r"= (.+?) all-reduce(?:-start)?\(", text):
        for dtype, lengths in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
            size = SIZES[dtype]
            for length in filter(None, lengths.split(",")):
                size *= int(length)
            reduced += size
    return counts, reduced


def placed(mesh, array, *spec):
    """An array on a mesh; each process fills in its own part."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    if array is None:
        return None
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def sharded(mesh, gated, rows=("data", None, None), fsdp=None):
    """x by rows, W1 and V by columns, W2 by rows."""
    from portable_ffn import Weights

    x, w = network(gated)
    put = functools.partial(placed, mesh)
    return put(x, *rows), Weights(
        put(w.W1, fsdp, "model"),
        put(w.b1, "model"),
        put(w.W2, "model", fsdp),
        put(w.b2, None),
        put(w.V, fsdp, "model"),
        put(w.c, "model"),
    )


def whole(y):
    """All of an array, in NumPy, on every process."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(y, tiled=True) if jax.process_count() > 1 else y)


def on_a_mesh(mesh, gated):
    """Forward, called outside jit and compiled, and the gradient by x."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    from portable_ffn import feed_forward

    def forward(x, w):
        return feed_forward(x, *w, activation="silu")

    x, w = sharded(mesh, gated)
    wanted = NamedSharding(mesh, PartitionSpec("data", None, None))
    eager = forward(x, w)
    compiled = jax.jit(forward).lower(x, w).compile()
    jitted = compiled(x, w)
    with jax.set_mesh(mesh):
        backward = jax.jit(jax.grad(lambda x, w: forward(x, w).sum())).lower(x, w).compile()
        dx = backward(x, w)
    counts, size = collectives(compiled)
    back, back_size = collectives(backward)
    facts = {
        "gated": gated,
        "forward": counts,
        "forward_bytes": size,
        "backward": back,
        "backward_bytes": back_size,
        "stays": {name: y.sharding.is_equivalent_to(wanted, y.ndim) for name, y in (("eager", eager), ("jit", jitted))},
        "shard": list(eager.addressable_shards[0].data.shape),
        "processes": jax.process_count(),
    }
    return facts, {"eager": whole(eager), "jit": whole(jitted), "dx": whole(dx)}


def variants(mesh):
    """Other layouts and the other functions of the package, on Explicit axes: their shardings and values."""
    import jax
    import numpy as np
    from jax.sharding import PartitionSpec

    from portable_ffn import ClippedGate, feed_forward, hidden, layer_norm, sublayer
    from portable_ffn._native.table import without_native

    x, w = sharded(mesh, True)
    found = {f"activation-{name}": feed_forward(x, *w, activation=name) for name in ACTIVATIONS}
    with without_native():
        found["op-by-op"] = feed_forward(x, *w, activation="gelu")
    found["activation-clipped"] = feed_forward(x, *w, activation=ClippedGate(0.5, 1.702, 1.0))
    rows, w = sharded(mesh, True, rows=(None, "data", None))
    found["by-position"] = jax.jit(feed_forward)(rows, *w)
    rows, _ = sharded(mesh, True, rows=("data", None, "model"))
    found["by-feature"] = feed_forward(rows, *w)
    _, scattered = sharded(mesh, True, fsdp="data")
    found["weights-over-data-too"] = feed_forward(x, *scattered)
    found["hidden"] = hidden(x, w.W1, w.b1, w.V, w.c)
    one = placed(mesh, np.ones(D_MODEL), None)
    found["sublayer"] = sublayer(x, w, lambda x: layer_norm(x, one, one))
    found["vmap"] = jax.vmap(lambda x: feed_forward(x, *w))(x)
    found["one-row"] = feed_forward(placed(mesh, network(True)[0][0, 0], None), *w)
    uncommitted = jax.numpy.asarray(network(True)[0])
    found["uncommitted"] = feed_forward(uncommitted, *w)

    def by_hand(x, W1, b1, W2, V, c):
        return jax.lax.psum(feed_forward(x, W1, b1, W2, None, V, c), "model")

    spec = PartitionSpec
    manual = jax.shard_map(
        by_hand,
        mesh=mesh,
        in_specs=(spec("data"), spec(None, "model"), spec("model"), spec("model"), spec(None, "model"), spec("model")),
        out_specs=spec("data"),
    )
    found["shard-map"] = manual(x, w.W1, w.b1, w.W2, w.V, w.c) + w.b2
    facts = {name: [str(axis) for axis in y.sharding.spec] for name, y in found.items()}
    return facts, {name: whole(y) for name, y in found.items()}


def main(out, devices, address=None, rank="0", world="1"):
    """All meshes, kinds of axes and forms."""
    import jax

    jax.config.update("jax_num_cpu_devices", int(devices))
    jax.config.update("jax_enable_x64", True)
    if address:
        from jax._src.lib import _jax

        # JAX has no setting for the interface that gloo listens on.
        _jax.make_gloo_tcp_collectives = functools.partial(_jax.make_gloo_tcp_collectives, hostname="127.0.0.1")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            address, int(world), int(rank), initialization_timeout=60, coordinator_bind_address=address
        )
    import numpy as np
    from jax.sharding import AxisType

    total, facts, values = jax.device_count(), [], {}
    # Every split of the devices in one process; over several, one with `model` inside a process and one across.
    for model in (4, 8) if address else (1, 2, 4, 8):
        for axes in (AxisType.Auto, AxisType.Explicit):
            mesh = jax.make_mesh((total // model, model), ("data", "model"), axis_types=(axes, axes))
            for gated in (False, True):
                name = f"{model}-{axes.name}-{'gated' if gated else 'plain'}"
                fact, made = on_a_mesh(mesh, gated)
                facts.append({"name": name, "data": total // model, "model": model, "axes": axes.name, **fact})
                values.update({f"{name}-{what}": y for what, y in made.items()})
    others = {}
    if not address:
        others, made = variants(jax.make_mesh((2, 4), ("data", "model")))
        values.update(made)
    if rank == "0":
        np.savez(out + ".npz", **values)
        with open(out + ".json", "w") as file:
            json.dump({"meshes": facts, "variants": others}, file)
    if address:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
