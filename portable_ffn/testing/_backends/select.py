"""Which rows of the table of backends a check runs on, and which of those asked for are missing."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from portable_ffn._arrays.dtype import REAL_FLOATING, dtype_name
from portable_ffn._arrays.typing import DType
from portable_ffn.testing._backends.table import BACKENDS, Backend, backend


class Place(NamedTuple):
    """A backend on one of its devices, and the dtypes to run there."""

    backend: Backend
    device: str
    dtypes: tuple[str, ...]


class Selection(NamedTuple):
    """Where to run; what was asked for and is missing; what was not asked for and is not run."""

    places: tuple[Place, ...]
    missing: dict[str, str]
    absent: dict[str, str]


def select(
    backends: str | Iterable[str] | None,
    devices: str | Iterable[str] | None,
    dtypes: DType | Iterable[DType] | None,
) -> Selection:
    """The places that were asked for; all that are found where nothing was, but rows that are slow or ours.

    A device is its name or the kind before the colon: "cuda" is every "cuda:0". With devices, a library's name stands
    for its rows on other devices too: torch on cuda is the row torch:cuda.

    Raises ValueError for an unknown backend or dtype.
    """
    names, kinds, wanted = _listed(backends), _listed(devices), _dtypes(dtypes)
    rows = list(_rows(names, kinds))
    places: list[Place] = []
    missing: dict[str, str] = {}
    absent: dict[str, str] = {}
    for row in rows:
        reason = row.missing()
        if reason is not None:
            (absent if names is None or row.name not in names else missing)[row.name] = reason
            continue
        held = tuple(dtype for dtype in row.held_dtypes() if wanted is None or dtype in wanted)
        places += [Place(row, device, held) for device in row.devices() if kinds is None or _is_one(device, kinds)]
    for kind in kinds or ():
        if not any(_is_one(place.device, [kind]) for place in places):
            missing[f"device {kind}"] = _why_no_device(rows, absent)
    for name in names or ():
        if (
            name not in missing
            and not kinds
            and not any(place.dtypes for place in places if place.backend.name == name)
        ):
            row = BACKENDS[name]
            lacks = any(dtype in row.dtypes for dtype in wanted or ())
            extra = '; for bfloat16 pip install "portable-ffn[checkpoint]"' if lacks else ""
            missing[name] = f"{name} has {', '.join(row.held_dtypes())}, got {', '.join(wanted or ())}{extra}"
    return Selection(tuple(place for place in places if place.dtypes), missing, absent)


def _rows(names: list[str] | None, kinds: list[str] | None) -> Iterator[Backend]:
    """The rows of the table in question."""
    named = [backend(name) for name in names or ()]
    for row in BACKENDS.values():
        if names is None:
            if not (row.ours or row.slow):
                yield row
        elif row in named or (kinds and _elsewhere(row) and any(row.name.startswith(f"{one.name}:") for one in named)):
            yield row


def _elsewhere(row: Backend) -> bool:
    """Whether the row is its library on another device."""
    return row.name in ("torch:cuda", "torch:meta", "jax:gpu")


def _is_one(device: str, kinds: list[str]) -> bool:
    """Whether a device is one of those asked for; JAX calls its CUDA devices gpu."""
    kind = device.partition(":")[0]
    return any(asked in (device, kind) or (kind == "gpu" and asked == "cuda") for asked in kinds)


def _why_no_device(rows: list[Backend], absent: dict[str, str]) -> str:
    """What is known of a device that no row has."""
    found = [device for row in rows if row.missing() is None for device in row.devices()]
    reasons = "".join(f"; {reason}" for reason in dict.fromkeys(absent.values()))
    return f"the devices found are {', '.join(dict.fromkeys(found)) or 'none'}{reasons}"


def _listed(given: str | Iterable[str] | None) -> list[str] | None:
    """One name or several, as a list."""
    if given is None:
        return None
    return [given] if isinstance(given, str) else list(given)


def _dtypes(given: DType | Iterable[DType] | None) -> list[str] | None:
    """Dtypes by name."""
    if given is None:
        return None
    many = given if isinstance(given, (list, tuple, set, frozenset)) else [given]
    names = [dtype_name(dtype) for dtype in many]
    unknown = [name for name in names if name not in REAL_FLOATING]
    if unknown:
        raise ValueError(f"dtypes must be of {', '.join(REAL_FLOATING)}, got {', '.join(unknown)}")
    return names
