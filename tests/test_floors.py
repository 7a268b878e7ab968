"""The house rule: a module imports its own package or lower floors, at the top of the file."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
FLOORS = (
    "words",
    "errors",
    "contents forks config dtypes tree dims",
    "exits",
    "boundary",
    "lazy",
    "ir kernel",
    "primitives",
    "passes",
    "transforms",
    "lower",
    "backends export",
    "runtime",
    "frontend",
    "numpy scipy random",
    "nn optim",
    "train testing",
    "__init__",
    "cli notebook",
    "__main__",
)
FLOOR = {package: floor for floor, packages in enumerate(FLOORS) for package in packages.split()}
OPTIONAL = set(
    "IPython einops jax llvmlite matplotlib ml_dtypes opt_einsum pipescript rich safetensors scipy sklearn "
    "tensorboardX threadpoolctl torch".split()
)
FILES = sorted(SOURCE.rglob("*.py"))


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names, to the second dot: `wholestep.ir`, `numpy`."""
    if isinstance(node, ast.Import):
        paths = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == "wholestep":
        paths = [f"wholestep.{alias.name}" for alias in node.names]
    else:
        paths = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return [".".join(path.split(".")[: 2 if path.startswith("wholestep") else 1]) for path in paths]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_down(file: Path) -> None:
    home = file.relative_to(SOURCE / "wholestep").with_suffix("").parts[0]
    assert home in FLOOR, f"say in test_floors.py on which floor {home} is"
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        assert not getattr(node, "level", 0), f"line {node.lineno}: imports are absolute"
        for module in (name for name in imported(node) if name.startswith("wholestep")):
            package = module.partition(".")[2] or "__init__"
            assert package in FLOOR, f"line {node.lineno}: say in test_floors.py on which floor {package} is"
            down = package == home or FLOOR[package] < FLOOR[home]
            assert down, f"line {node.lineno}: {home} is on floor {FLOOR[home]}, {package} on floor {FLOOR[package]}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_stand_at_the_top(file: Path) -> None:
    for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                late = set(imported(node)) - OPTIONAL
                assert not late, f"line {node.lineno}: {', '.join(late)} is imported inside a function"
