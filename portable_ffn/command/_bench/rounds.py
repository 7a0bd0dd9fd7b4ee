"""Time and memory of a few functions that do the same, side by side in one process."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# A sample lasts at least so long, so that the clock's own cost doesn't show.
SHORTEST = 20e-6


def medians(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Microseconds a call, and the median over the rounds of the ratios between them.

    Every round runs each once, the order turning, so that whatever else the machine does falls on all alike.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    repeat = 1
    for run in runs.values():
        run()
        start = time.perf_counter()
        run()
        repeat = max(repeat, round(SHORTEST / max(time.perf_counter() - start, 1e-9)))
    names = list(runs)
    # Short calls vary more and cost nothing: more rounds of them.
    rounds = rounds if repeat == 1 else 100 * rounds
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            run = runs[name]
            start = time.perf_counter()
            for _ in range(repeat):
                run()
            times[name].append((time.perf_counter() - start) / repeat)

    def ratio(name: str, other: str) -> float:
        return statistics.median(t / o for t, o in zip(times[name], times[other], strict=True))

    return {
        "microseconds": {name: 1e6 * statistics.median(taken) for name, taken in times.items()},
        # name -> its ratio to each of the others.
        "ratios": {name: {other: ratio(name, other) for other in names if other != name} for name in names},
        "rounds": rounds,
    }


def peak_mib(run: Callable[[], Any]) -> float | None:
    """MiB that the process grew by at the most while `run` ran; None where the system doesn't tell (not Linux)."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    gc.collect()
    try:
        reset.write_text("5")  # sets the high-water mark to what is resident now
        before = _kib(status, "VmHWM")
        kept = run()
        grown = (_kib(status, "VmHWM") - before) / 1024
    except OSError:
        return None
    del kept
    return grown


def _kib(status: Path, field: str) -> int:
    """One line of the process's status."""
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(field))
