"""The runs of the real engines: their processes are started at once, bounded in time, and none is left behind."""

import fcntl
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# PyTorch's gloo listens on the interface that it is told.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}


def free_port():
    """A port of the loopback interface that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def once(tmp_path_factory, name, make):
    """A path that `make(path)` has written files beside, once for all workers of the suite."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"scale-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            make(folder / name)
            (folder / "done").touch()
    return folder / name


def together(*commands, timeout, **environment):
    """Run Python programs with these arguments side by side; AssertionError with what the first to fail has said."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    running = [subprocess.Popen([sys.executable, *map(str, one)], env=variables, **pipes) for one in commands]
    deadline = time.monotonic() + timeout
    failed = []
    try:
        while not failed and any(process.poll() is None for process in running):
            assert time.monotonic() < deadline, f"not finished after {timeout} s"
            time.sleep(0.02)
            # One that has failed leaves the others waiting for it.
            failed = [process for process in running if process.poll()]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
        said = {process.pid: process.communicate()[0] for process in running}
    failed = failed or [process for process in running if process.returncode]
    assert not failed, said[failed[0].pid][-4000:]


def jax_in_one_process(tmp_path_factory):
    """Eight host devices in one process."""
    return once(tmp_path_factory, "jax-one", lambda out: together([HERE / "jax_worker.py", out, 8], timeout=150))


def jax_in_two_processes(tmp_path_factory):
    """Four host devices in each of two processes."""

    def make(out):
        address = f"127.0.0.1:{free_port()}"
        together(*([HERE / "jax_worker.py", out, 4, address, rank, 2] for rank in range(2)), timeout=150)

    return once(tmp_path_factory, "jax-two", make)


def torch_in_two_processes(tmp_path_factory):
    """A gloo group of two processes."""

    def make(out):
        address = f"127.0.0.1:{free_port()}"
        commands = ([HERE / "torch_worker.py", out, address, rank, 2] for rank in range(2))
        together(*commands, timeout=150, **LOOPBACK)

    return once(tmp_path_factory, "torch-two", make)


def torch_forked(tmp_path_factory):
    """Gloo groups of one, two, four and eight processes."""
    command = HERE / "torch_worker.py"
    return once(tmp_path_factory, "torch-forked", lambda out: together([command, out], timeout=150, **LOOPBACK))


def dask_cluster(tmp_path_factory):
    """A Dask cluster of two worker processes."""
    return once(tmp_path_factory, "dask", lambda out: together([HERE / "dask_worker.py", out], timeout=200))
