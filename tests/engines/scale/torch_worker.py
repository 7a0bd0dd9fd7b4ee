"""The network on DTensors and under FSDP: what is communicated, how results lie, and their values.

    python torch_worker.py OUT ADDRESS RANK WORLD   one of several processes, over gloo
    python torch_worker.py OUT                      counts, for 1, 2, 4 and 8 processes that it forks itself

writes OUT.json and, of the former, OUT.npz. Started by test_scale_torch.py.
"""

import json
import os
import sys
import time
from collections import Counter

D_MODEL, SHAPE = 16, (4, 6, 16)
# Tokens enough that the heads of messages don't count.
TOKENS = 8192
ACTIVATIONS = ("relu", "silu", "gelu", "gelu_tanh")


def network(gated=True, bias=True, d_ff=64):
    """x and the weights, in NumPy float64, with biases that would show if they were added twice."""
    import numpy as np

    from portable_ffn import init_weights

    w = init_weights(D_MODEL, d_ff, gated=gated, bias=bias, seed=4)
    if bias:
        w = w._replace(b1=w.b1 + 1, b2=w.b2 + 3, c=None if w.c is None else w.c - 2)
    return np.random.default_rng(6).normal(size=SHAPE), w


def traffic():
    """A mode that counts collectives and the bytes that go into them on this rank."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Traffic(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.counts, self.bytes = Counter(), Counter()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            space, _, name = function._schema.name.partition("::")
            collective = not name.startswith(("wait", "_wrap"))
            if space in ("c10d", "c10d_functional", "_c10d_functional") and collective:
                self.counts[name] += 1
                self.bytes[name] += sum(size(arg) for arg in args[:2])
            return function(*args, **(kwargs or {}))

    def size(arg):
        if isinstance(arg, (list, tuple)):
            return sum(map(size, arg))
        return arg.nbytes if hasattr(arg, "nbytes") else 0

    return Traffic()


def placements():
    """How the weights of a network lie: W1 and V by columns, W2 by rows, b2 on every rank."""
    from torch.distributed.tensor import Replicate, Shard

    from portable_ffn import Weights

    return Weights([Shard(1)], [Shard(0)], [Shard(0)], [Replicate()], [Shard(1)], [Shard(0)])


def distributed(mesh, x, w):
    """x on every rank, the weights sharded; each requires a gradient."""
    import torch
    from torch.distributed.tensor import Replicate, distribute_tensor

    from portable_ffn import Weights

    def place(array, where):
        return distribute_tensor(torch.from_numpy(array), mesh, where).requires_grad_()

    pairs = zip(w, placements(), strict=True)
    return place(x, [Replicate()]), Weights(*(None if a is None else place(a, where) for a, where in pairs))


def forward_and_backward(mesh, x, w, activation):
    """The facts of one network, and its result and gradients as DTensors."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.debug import CommDebugMode

    from portable_ffn import feed_forward

    xd, wd = distributed(mesh, x, w)
    facts = {}

    def counted(name, act):
        with CommDebugMode() as comm, traffic() as seen:
            result = act()
        facts[name] = {"calls": sum(comm.get_comm_counts().values()), **seen.counts, "bytes": sum(seen.bytes.values())}
        return result

    y = counted("forward", lambda: feed_forward(xd, *wd, activation=activation))
    facts["y"] = [type(p).__name__ for p in y.placements]
    whole = counted("sum", lambda: y.redistribute(placements=[Replicate()]))
    counted("backward", lambda: whole.sum().backward())
    facts["dx"] = [type(p).__name__ for p in xd.grad.placements]
    dx = counted("sum of dx", lambda: xd.grad.redistribute(placements=[Replicate()]))
    return facts, whole, dx, wd


def tensor_parallel(mesh):
    """Every form: facts, and the values of y and all gradients."""
    facts, values = {}, {}
    for gated in (False, True):
        for bias in (False, True):
            for activation in ACTIVATIONS:
                name = f"{activation}-{'gated' if gated else 'plain'}-{'bias' if bias else 'none'}"
                x, w = network(gated, bias)
                facts[name], y, dx, wd = forward_and_backward(mesh, x, w, activation)
                values[f"{name}-y"], values[f"{name}-dx"] = y.to_local(), dx.to_local()
                for symbol, weight in zip(wd._fields, wd, strict=True):
                    if weight is not None:
                        values[f"{name}-d{symbol}"] = weight.grad.full_tensor()
    for d_ff in (63, 3, 1):
        x, w = network(d_ff=d_ff)
        facts[f"uneven-{d_ff}"], y, dx, _ = forward_and_backward(mesh, x, w, "silu")
        values[f"uneven-{d_ff}-y"], values[f"uneven-{d_ff}-dx"] = y.to_local(), dx.to_local()
    return facts, values


def recipes(mesh):
    """A fused [gate | up] that is split before it is sharded; and the module, sharded as a whole."""
    import torch
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    from portable_ffn import Weights, feed_forward
    from portable_ffn.adapters.torch import FeedForward

    x, w = network(bias=False)
    xd = distribute_tensor(torch.from_numpy(x), mesh, [Replicate()])
    fused = torch.cat([torch.from_numpy(w.W1), torch.from_numpy(w.V)], dim=1)
    gate, up = fused.chunk(2, dim=1)
    W1, V = (distribute_tensor(half.contiguous(), mesh, [Shard(1)]) for half in (gate, up))
    W2 = distribute_tensor(torch.from_numpy(w.W2), mesh, [Shard(0)])
    with CommDebugMode() as comm:
        y = feed_forward(xd, W1, None, W2, None, V, activation="silu")
    facts = {"fused": sum(comm.get_comm_counts().values())}
    values = {"fused": y.full_tensor()}
    together = distribute_tensor(fused, mesh, [Shard(1)])
    with CommDebugMode() as comm:
        halves = together.chunk(2, dim=1)
        feed_forward(xd, halves[0], None, W2, None, halves[1], activation="silu")
    facts["fused, split after"] = sum(comm.get_comm_counts().values())

    def shard(_, module, mesh):
        for name, where in placements()._asdict().items():
            parameter = getattr(module, name)
            if parameter is not None:
                sharded = distribute_tensor(parameter.detach(), mesh, where)
                module.register_parameter(name, torch.nn.Parameter(sharded))

    x, w = network()
    module = FeedForward.from_weights(w, activation="silu")
    parallel = distribute_module(module, mesh, shard)
    xd = distribute_tensor(torch.from_numpy(x), mesh, [Replicate()])
    with CommDebugMode() as comm:
        y = parallel(xd)
    facts["module"] = sum(comm.get_comm_counts().values())
    values["module"] = y.full_tensor()
    facts["mixed"] = None
    try:
        feed_forward(torch.from_numpy(x), *Weights(*parallel.weights))
    except (RuntimeError, TypeError, ValueError) as error:
        facts["mixed"] = str(error)
    return facts, values


def fully_sharded(mesh, rank, world):
    """FSDP2 on the module: parameters gathered once, gradients scattered once, each rank with rows of its own."""
    import torch
    from torch.distributed.fsdp import fully_shard

    from portable_ffn.adapters.torch import FeedForward

    x, w = network()
    module = FeedForward.from_weights(w, activation="silu")
    fully_shard(module, mesh=mesh)
    mine = torch.from_numpy(x).chunk(world)[rank].clone()
    with traffic() as forward:
        y = module(mine)
    with traffic() as backward:
        y.sum().backward()
    held = sum(parameter.to_local().nbytes for parameter in module.parameters())
    rows = [torch.empty_like(y) for _ in range(world)]
    torch.distributed.all_gather(rows, y.detach().contiguous())
    values = {f"fsdp-d{name}": p.grad.full_tensor() for name, p in module.named_parameters()}
    values["fsdp-y"] = torch.cat(rows)
    return {"forward": forward.counts, "backward": backward.counts, "held": held}, values


def written():
    """The bytes that this process has written to files and sockets, 0 where the system doesn't say."""
    if not os.path.exists("/proc/self/io"):
        return 0
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))


def on_the_wire(mesh):
    """The bytes that this rank sends for a token, in one call whose result is brought together."""
    import numpy as np
    import torch.distributed as dist
    from torch.distributed.tensor import Replicate

    from portable_ffn import feed_forward

    x = np.ones((TOKENS, D_MODEL))
    xd, wd = distributed(mesh, x, network()[1])
    y = feed_forward(xd, *wd, activation="silu")
    dist.barrier()
    before = written()
    y.redistribute(placements=[Replicate()])
    return (written() - before) / TOKENS


def rank_of(world, rank, out):
    """One forked process: its facts go into a file of the first."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{out}.store-{world}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    facts = {}
    for gated in (False, True):
        x, w = network(gated)
        facts["gated" if gated else "plain"] = forward_and_backward(mesh, x, w, "silu")[0]
    facts["sent"] = on_the_wire(mesh)
    if rank == 0:
        with open(f"{out}.world-{world}", "w") as file:
            json.dump(facts, file)
    dist.barrier()
    dist.destroy_process_group()


def forked(out):
    """Counts for 1, 2, 4 and 8 processes; PyTorch is imported once and for all of them."""
    import torch.distributed.tensor.debug  # noqa: F401

    import portable_ffn  # noqa: F401

    facts = {}
    for world in (1, 2, 4, 8):
        children = []
        for rank in range(world):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    rank_of(world, rank, out)
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        wait(children)
        with open(f"{out}.world-{world}") as file:
            facts[world] = json.load(file)
    return facts


def wait(children, seconds=60):
    """Wait for forked processes; all end where one fails or the time is up."""
    left, until, fault = set(children), time.monotonic() + seconds, None
    while left:
        for child in list(left):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                left.discard(child)
                fault = fault or (f"a forked process ended with {status}" if status else None)
        if left and (fault or time.monotonic() > until):
            for child in left:
                os.kill(child, 9)
            fault = fault or f"not finished after {seconds} s"
        time.sleep(0.01)
    if fault:
        raise SystemExit(fault)


def main(out, address=None, rank="0", world="1"):
    """One of several processes where there is an address, else all of the forked ones."""
    import torch

    torch.set_num_threads(1)
    values = {}
    if address is None:
        facts = forked(out)
    else:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=int(rank), world_size=int(world))
        mesh = init_device_mesh("cpu", (int(world),))
        facts, values = tensor_parallel(mesh)
        for name, (found, made) in (
            ("recipes", recipes(mesh)),
            ("fsdp", fully_sharded(mesh, int(rank), int(world))),
        ):
            facts[name] = found
            values.update(made)
        dist.destroy_process_group()
    if rank == "0":
        import numpy as np

        np.savez(out + ".npz", **{name: value.detach().numpy() for name, value in values.items()})
        with open(out + ".json", "w") as file:
            json.dump(facts, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
