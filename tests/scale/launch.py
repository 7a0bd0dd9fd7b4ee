"""Processes that belong together: started at once, bounded in time, and none left behind."""

import fcntl
import os
import socket
import subprocess
import sys
import time


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
