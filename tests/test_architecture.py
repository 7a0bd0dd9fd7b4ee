"""Rules of the house that a reader of one file can't see: floors, light imports, the size of rooms, docstrings."""

import ast
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import portable_ffn

PACKAGE = Path(portable_ffn.__file__).parent
ROOT = PACKAGE.parent

# Imports go down only. A package is a floor as a whole; what it is made of may import each other.
FLOORS = {
    "_typing": 0,
    "_number": 0,
    "_dtype": 0,
    "_library": 0,
    "_transfer": 0,
    "_weights": 0,
    "_namespace": 1,
    "_jax": 1,
    "_together": 1,
    "_mlx": 1,
    "_validate": 1,
    "_validated": 1,
    "_erf": 1,
    "_native": 2,
    "_rows": 2,
    "_tiles": 2,
    "_work": 2,
    "_gelu_tail": 2,
    "_named": 3,
    "_piecewise": 3,
    "_exponential": 3,
    "_normal": 3,
    "_activation": 3,
    "_clipped_gate": 3,
    "_gates": 3,
    "_learned": 3,
    "_resolve": 3,
    "_norm": 3,
    "_init": 3,
    "_feed_forward": 4,
    "_sublayer": 4,
    "_gradient": 4,
    "_slopes": 4,
    "checkpoint": 5,
    "testing": 5,
    "adapters": 5,
    "experts": 5,
    "_apply": 5,
    "command": 6,
    "__main__": 6,
}
TOWER = "oracle"


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE)


def room(path):
    """The room that a file belongs to: the first name below the package."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path):
    """The rooms of this package that a file imports, at the top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively; write the whole name"
            names = [node.module]
            if node.module == "portable_ffn":
                names = [f"portable_ffn.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("portable_ffn.") and name != "portable_ffn.__version__":
                yield name.split(".")[1]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path):
    mine = room(path)
    if mine == TOWER:
        assert set(imports(path)) <= {TOWER, "_weights"}
        return
    prefix = next((name for name in sorted(FLOORS, key=len, reverse=True) if mine.startswith(name)), None)
    assert prefix, f"{mine} stands on no floor; give it a row in FLOORS"
    for other in imports(path):
        if other == TOWER:
            assert FLOORS[prefix] >= 5, f"{mine} must not use the oracle that it is checked by"
        elif other in FACE:
            assert FLOORS[prefix] >= 5, f"{mine} must import from the room itself, not from the face"
        elif other != mine:
            below = next((name for name in sorted(FLOORS, key=len, reverse=True) if other.startswith(name)), None)
            assert below, f"{other} stands on no floor"
            assert FLOORS[below] <= FLOORS[prefix], f"{mine} imports {other}, which stands above it"


FACE = frozenset(portable_ffn.__all__)


def test_one_door_to_array_api_compat():
    doors = [
        path.name for path in modules() if re.search(r"^\s*(import|from) array_api_compat", path.read_text(), re.M)
    ]
    assert doors == ["_namespace.py"]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_are_small(path):
    lines = len(path.read_text().splitlines())
    assert lines <= 220, f"{path.name} has {lines} lines; it holds more than one idea"


LIBRARIES = ("numpy", "torch", "jax", "dask", "mlx", "ndonnx", "safetensors", "array_api_compat", "ml_dtypes", "rich")


@pytest.mark.parametrize(
    "name",
    ["portable_ffn", "portable_ffn.adapters", "portable_ffn.checkpoint", "portable_ffn.__main__"],
)
def test_importing_loads_no_array_library(name):
    allowed = () if name == "portable_ffn" else ("numpy",)
    program = f"import sys, {name}; print([m for m in {LIBRARIES!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(ast.literal_eval(done.stdout)) - set(allowed)
    assert not loaded


def test_the_face():
    for name in portable_ffn.__all__:
        assert getattr(portable_ffn, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", portable_ffn.__version__)
    hidden = [name for name in vars(portable_ffn) if not name.startswith("_") and name not in portable_ffn.__all__]
    assert [name for name in hidden if not inspect.ismodule(getattr(portable_ffn, name))] == []


@pytest.mark.parametrize("name", sorted(FACE - {"ACTIVATIONS"}))
def test_public_docstrings_say_what_comes_in_and_out(name):
    text = inspect.getdoc(getattr(portable_ffn, name)) or ""
    wanted = ["Attributes"] if name == "Weights" else ["Parameters", "Raises"]
    missing = [section for section in wanted if f"{section}\n---" not in text]
    assert not missing, f"{name} lacks the sections {missing}"


@pytest.mark.parametrize(
    "value", [*portable_ffn.ACTIVATIONS.values(), portable_ffn.ClippedGate(7.0, 1.702, 1.0)], ids=str
)
def test_everything_pickles(value):
    assert pickle.loads(pickle.dumps(value)) == value


def test_nothing_names_a_place_of_one_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout, so what belongs to the project can't be listed")
    pattern = re.compile(r"/(?:home|root|work)/\w|/tmp/\w|[A-Z]:\\\\Users")
    for name in listed.stdout.split():
        if name.endswith((".py", ".md", ".sh", ".toml", ".txt", ".yml", "run")) and (ROOT / name).exists():
            found = pattern.search((ROOT / name).read_text())
            assert not found or name == "tests/test_architecture.py", f"{name} names {found and found.group()}"
