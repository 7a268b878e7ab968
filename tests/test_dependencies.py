"""Packages that are imported are those that pyproject.toml names; the core requires none that it does not import."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARY, TOOLS = ROOT / "src" / "wholestep", ROOT / "tools" / "wholestep_tools"
DISTRIBUTIONS = {"sklearn": "scikit-learn", "IPython": "ipython", "cuda": "cuda-bindings", "PIL": "pillow"}
"""The distributions of packages whose name is another one."""
COMMANDS = ("cli", "notebook")
"""The parts of the library that its extras are for."""
GIVEN = {"einops", "jax", "pandas", "polars", "tensorflow", "torch"}
"""Libraries of the user whose arrays, tables, weights and programs are taken, or for which programs are written."""


def parsed(path: Path) -> ast.Module:
    """A file as a syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(folder: Path, *without: str) -> set[str]:
    """The distributions that the files of a folder import, wherever they do, without those of these parts of it."""
    files = [path for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] not in without]
    names = set()
    for node in [node for path in files for node in ast.walk(parsed(path))]:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    tops = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"wholestep", "wholestep_tools"}
    return {DISTRIBUTIONS.get(name, name) for name in tops}


EXTRAS = ("train", "images", "notebook", "opencl", "webgpu", "cuda")
"""The extras that the library itself imports packages of."""
DEVICES = {"pocl-binary-distribution", "nvidia-cuda-nvrtc"}
"""Packages of an extra that another package of it looks for, and that are not imported."""


def required(project, *extras: str) -> set[str]:
    """The distributions that a project requires, and those of some of its extras."""
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return {re.match(r"[\w.-]+", line)[0] for lines in lists for line in lines}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OTHER = tomllib.loads((ROOT / "tools" / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_core_requires_what_it_imports():
    core, optional = imported(LIBRARY, *COMMANDS), required(PROJECT, *EXTRAS)
    assert required(PROJECT) <= core
    assert core - required(PROJECT) <= optional | GIVEN


def test_the_extras_hold_what_the_commands_import():
    assert imported(LIBRARY) - GIVEN == required(PROJECT, *EXTRAS) - DEVICES


def test_no_module_imports_what_the_user_may_lack_when_it_is_imported():
    for path in LIBRARY.rglob("*.py"):
        if (path.parent / "__init__.py").is_file():
            names = [a.name for node in parsed(path).body if isinstance(node, ast.Import) for a in node.names]
            names += [node.module or "" for node in parsed(path).body if isinstance(node, ast.ImportFrom)]
            assert not GIVEN & {name.split(".")[0] for name in names}, path


def test_the_tools_require_what_they_import():
    measured = {"jax", "torch", "autograd", "onnx", "onnxruntime"}
    assert imported(TOOLS) - measured <= required(OTHER, "notebooks") | required(PROJECT)
    assert required(OTHER) - {"wholestep"} <= imported(TOOLS)
