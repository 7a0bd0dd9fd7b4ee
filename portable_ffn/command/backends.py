"""`portable-ffn backends`: what is found here, with versions and devices, and why the rest is not."""

import argparse
import json
import sys
from typing import Any

from portable_ffn.command._terminal import say_table
from portable_ffn.testing import BACKENDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print the table of backends."""
    rows = [_described(name) for name in BACKENDS]
    if args.json:
        json.dump({"backends": rows}, sys.stdout, indent=1)
        print()
        return 0
    if say_table(("backend", "version", "devices", "dtypes"), [_cells(row) for row in rows]):
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        if row["found"]:
            told = f"{row['version']:12} {', '.join(row['devices']):32} {', '.join(row['dtypes'])}"
        else:
            told = f"not found: {row['reason']}"
        print(f"{row['name']:{width}}  {told}")
    return 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """One row of the table."""
    if not row["found"]:
        return row["name"], "", "", f"not found: {row['reason']}"
    return row["name"], row["version"], ", ".join(row["devices"]), ", ".join(row["dtypes"])


def _described(name: str) -> dict[str, Any]:
    """One backend: found or not, its version, devices and dtypes, or the reason."""
    row = BACKENDS[name]
    reason = row.missing()
    found = reason is None
    return {
        "name": name,
        "library": row.library,
        "found": found,
        "reason": reason,
        "version": row.version() if found else None,
        "devices": list(row.devices()) if found else [],
        "dtypes": list(row.held_dtypes()) if found else [],
    }
