"""The network on a Dask cluster of two worker processes: values, what travelled, and the memory that workers took.

    python dask_worker.py OUT

writes OUT.json and OUT.npz. Started by test_scale_dask.py; the cluster lives and ends in this process.
"""

import json
import resource
import sys

D_MODEL, D_FF, SHAPE = 16, 64, (12, 10, 16)
# chunks of x, then of d_ff
CHUNKS = {
    "tokens": ((3, 10, 16), 64),
    "both-leading-axes": ((4, 5, 16), 64),
    "d_ff": ((12, 10, 16), 16),
    "tokens-and-d_ff": ((3, 5, 16), 32),
    "features-too": ((6, 10, 8), 32),
    "uneven": ((5, 7, 9), 24),
}
# 537 MB of float32 in chunks of 4 MB, every one like the first, for two workers that may have LIMIT each.
WIDTH, HIDDEN, CHUNK, LIMIT = 64, 128, 16_384, 200 * 10**6
ROWS = 128 * CHUNK


def network(gated):
    """x and the weights, in NumPy float64."""
    import numpy as np

    from portable_ffn import init_weights

    return np.random.default_rng(5).normal(size=SHAPE), init_weights(D_MODEL, D_FF, gated=gated, seed=2)


def large_row():
    """What row n of the large input is n times of."""
    import numpy as np

    return np.linspace(-1, 1, WIDTH, dtype="float32") / np.float32(CHUNK)


def chunked(w, d_ff, chunk):
    """Weights as Dask arrays, whole along d_model and in chunks along d_ff."""
    import dask.array as da

    from portable_ffn import Weights

    return Weights(
        *(
            None
            if array is None
            else da.from_array(array, chunks=tuple(chunk if n == d_ff else n for n in array.shape))
            for array in w
        )
    )


def peak():
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def sent(dask_worker):
    """The bytes that this worker has sent to others."""
    return dask_worker.transfer_outgoing_bytes_total


def values(client):
    """Every layout, computed by the workers."""
    import dask.array as da

    from portable_ffn import feed_forward

    made = {}
    for gated in (False, True):
        x, w = network(gated)
        for name, (chunks, d_ff) in CHUNKS.items():
            y = feed_forward(da.from_array(x, chunks=chunks), *chunked(w, D_FF, d_ff), activation="silu")
            made[f"{name}-{'gated' if gated else 'plain'}"] = y.compute()
    x, w = network(True)
    rows = da.from_array(x.reshape(-1, D_MODEL), chunks=(30, D_MODEL))
    some = rows[rows[:, 0] > 0]  # its chunks have sizes that nobody knows yet
    made["unknown"] = feed_forward(some, *chunked(w, D_FF, 32), activation="silu").compute()
    return made


def large(client):
    """An input larger than both workers together: lazily made, and reduced."""
    import dask.array as da

    from portable_ffn import feed_forward, init_weights

    w = init_weights(WIDTH, HIDDEN, seed=1).to(dtype="float32")
    facts = {}
    for name, chunk in (("tokens", HIDDEN), ("d_ff", HIDDEN // 2)):
        # A first chunk has the workers import what they need.
        few = da.ones((CHUNK, WIDTH), chunks=(CHUNK, WIDTH), dtype="float32")
        feed_forward(few, *chunked(w, HIDDEN, chunk)).sum().compute()
        before = client.run(peak)
        position = (da.arange(ROWS, chunks=CHUNK, dtype="int64") % CHUNK).astype("float32")
        x = position[:, None] * large_row()
        mean = feed_forward(x, *chunked(w, HIDDEN, chunk)).mean(axis=0, dtype="float64").compute()
        after = client.run(peak)
        facts[name] = {
            "bytes": x.nbytes,
            "chunk_bytes": CHUNK * WIDTH * 4,
            "hidden_chunk_bytes": CHUNK * chunk * 4,
            "grown": max(after[worker] - before[worker] for worker in after),
            "peak": max(after.values()),
            "mean": mean.tolist(),
        }
    return facts


def main(out):
    """A cluster of two processes on the loopback interface."""
    import os

    import dask
    import numpy as np
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.memory.spill": False})
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
    facts = {}
    with LocalCluster(**options, memory_limit=LIMIT, dashboard_address=None) as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        pids = client.run(os.getpid)
        made = values(client)
        facts["sent"] = sum(client.run(sent).values())
        facts["large"] = large(client)
        facts["restarts"] = client.run(os.getpid) != pids
        facts["workers"] = len(pids)
    np.savez(out + ".npz", **made)
    with open(out + ".json", "w") as file:
        json.dump(facts, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
