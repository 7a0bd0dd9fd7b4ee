"""`apply` killed at every call to the system that matters, one after the other, and started again each time.

    python -m tests.command.kill_points [--every N]

A run is forked; in the fork the n-th of these calls ends the process, before it, after it, or (a write) half way
through. Then the same command is given again, as it is or, every third time, for another network first. Prints one
JSON document: the points by call and moment, and what went otherwise than it should.
"""

import argparse
import builtins
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from portable_ffn import init_weights
from portable_ffn.__main__ import main as portable_ffn
from portable_ffn.command._apply import memory, stream

# What changes something outside the process, or decides by what is there.
CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "remove", "ftruncate", "posix_fallocate", "mkdir",
         "rmdir", "fchmod", "fchown", "sync", "lstat", "close")  # fmt: skip
MOMENTS = ("before", "after", "half")
KILLED = 77
D_MODEL, D_FF = 4, 8


class Killer:
    """Counts the calls, and ends the process at one of them."""

    def __init__(self, at, moment, told):
        self.at, self.moment, self.told, self.count = at, moment, told, 0

    def wrapped(self, name, call):
        def inner(*arguments, **options):
            if name in ("open", "lstat", "close") and not self._matters(name, arguments):
                return call(*arguments, **options)
            self.count += 1
            self.told(name)
            if self.count != self.at:
                return call(*arguments, **options)
            if self.moment == "half" and name == "write":
                call(arguments[0], memoryview(arguments[1])[: max(1, len(arguments[1]) // 2)])
            elif self.moment == "after":
                with contextlib.suppress(Exception):  # it may be that nothing is there, and that is asked for
                    call(*arguments, **options)
            os._exit(KILLED)

        return inner

    def _matters(self, name, arguments):
        return name == "close" or "/out/" in str(arguments[0])


def install(killer):
    """Put the killer in front of the system's calls, in this process for good."""
    for name in CALLS:
        if hasattr(os, name):
            setattr(os, name, killer.wrapped(name, getattr(os, name)))
    lock = sys.modules["fcntl"]
    lock.flock = killer.wrapped("flock", lock.flock)
    # Zarr writes by way of Python's own files.
    opened = builtins.open
    io.open = builtins.open = killer.wrapped("open", opened)


def quietly(command):
    """The status of a run, and its one line on stderr; whatever it raises is told as a traceback."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            status = portable_ffn(command)
        except BaseException as error:
            return -1, f"Traceback {error!r}"
    return status, err.getvalue()


def forked(work):
    """The exit status of a process that does the work; 0 where it returns."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Scene:
    """A folder with a model, another one, an input, and the bytes that whole runs make of it."""

    def __init__(self, folder, kind):
        self.folder, self.suffix = folder, "zarr" if kind == "zarr" else "npy"
        suffix = self.suffix
        self.out = folder / "out"
        for seed, name in enumerate(("model", "other")):
            self._model(folder / name, seed)
        rows = 70 if suffix == "npy" else 40
        x = np.random.default_rng(0).standard_normal((rows, D_MODEL)).astype("float32")
        if suffix == "npy":
            np.save(folder / "x.npy", np.asfortranarray(x) if kind == "fortran" else x)
        else:
            import zarr

            zarr.create_array(folder / "x.zarr", shape=x.shape, chunks=(16, D_MODEL), dtype=x.dtype)[...] = x
        self.whole = {}
        for name in ("model", "other"):
            self.clean(False)
            status, told = quietly(self.command(name))
            assert status == 0, told
            self.whole[name] = self.content()

    def command(self, name):
        output = self.out / f"y.{self.suffix}"
        return ["apply", str(self.folder / name), "--input", str(self.folder / f"x.{self.suffix}"), "--output",
                str(output), "--activation", "gelu", "--layout", "in_out"]  # fmt: skip

    def clean(self, with_output):
        """An empty folder for the output, with an older one in its place where that can be."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        if with_output and self.suffix == "npy":
            (self.out / "y.npy").write_bytes(b"what was there before")
            (self.out / "y.npy").chmod(0o640)

    def content(self):
        """The bytes of the output, of a directory by name; None where there is none."""
        output = self.out / f"y.{self.suffix}"
        if output.is_dir():
            files = sorted(path for path in output.rglob("*") if path.is_file())
            return {str(path.relative_to(output)): path.read_bytes() for path in files}
        return output.read_bytes() if output.exists() else None

    def left(self):
        return sorted(path.name for path in self.out.iterdir())

    def _model(self, folder, seed):
        from portable_ffn.checkpoint import save

        folder.mkdir()
        save(folder / "model.safetensors", init_weights(D_MODEL, D_FF, seed=seed, dtype="float32"), activation="gelu")


def wrong_after(scene, at, moment, name):
    """What is not as it should be after a kill and another try; None where all is well. Whether it was killed."""
    before = b"what was there before" if scene.suffix == "npy" else None
    scene.clean(True)

    def die():
        install(Killer(at, moment, lambda name: None))
        quietly(scene.command("model"))

    status = forked(die)
    if status == 0:
        return None, False
    if status != KILLED:
        return f"ended with {status}", True
    found = scene.content()
    if found not in (before, scene.whole["model"]):
        return "something unfinished stands under the output's name", True
    if name == "other":
        if scene.suffix == "zarr" and found is not None:  # which the user has to remove
            shutil.rmtree(scene.out / "y.zarr")
        status, told = quietly(scene.command("other"))
        if status or scene.content() != scene.whole["other"]:
            return f"another run ended with {status}: {told}", True
    else:
        status, told = quietly(scene.command("model"))
        if scene.suffix == "zarr" and found is not None and "is there already" in told:
            status = 0  # all was done but the exit
        if status or scene.content() != scene.whole["model"]:
            return f"the second run ended with {status}: {told}", True
    if scene.left() != [f"y.{scene.suffix}"]:
        return f"left {scene.left()}", True
    if scene.suffix == "npy" and (scene.out / "y.npy").stat().st_mode & 0o777 != 0o640:
        return "the output has another mode than the one whose place it took", True
    return None, True


def calls_of(scene):
    """The names of the calls of a whole run, in their order."""
    scene.clean(True)
    told = scene.folder / "calls"
    with told.open("wb") as file:
        write, descriptor = os.write, file.fileno()

        def work():
            install(Killer(0, "", lambda name: write(descriptor, name.encode() + b"\n")))
            quietly(scene.command("model"))

        assert forked(work) == 0
    return told.read_text().split()


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="take every n-th point only")
    parser.add_argument("--kinds", nargs="+", default=["npy", "fortran", "zarr"])
    args = parser.parse_args(arguments)
    memory.MOST_ROWS, stream.SAFE_EVERY, stream.SAFE_SHARE = 16, 0.0, 0  # few blocks, each made safe by itself
    points, wrong = Counter(), []
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk takes its time over every fsync
    for kind in args.kinds:
        with tempfile.TemporaryDirectory(dir=fast) as folder:
            scene = Scene(Path(folder).resolve(), kind)
            names = calls_of(scene)
            for at, name in enumerate(names, 1):
                for moment in MOMENTS if name == "write" else MOMENTS[:2]:
                    number = sum(points.values())
                    points[f"{kind} {name} {moment}"] += 1
                    if number % args.every:
                        continue
                    told, killed = wrong_after(scene, at, moment, "other" if number % 3 == 0 else "model")
                    if told or not killed:
                        wrong.append(f"{kind}, {moment} call {at} ({name}): {told or 'was not killed'}")
    taken = sum(1 for number in range(sum(points.values())) if number % args.every == 0)
    print(json.dumps({"points": points, "all": sum(points.values()), "taken": taken, "wrong": wrong}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
