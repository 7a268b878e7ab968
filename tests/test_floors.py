"""The house rule: a module imports its own package or lower floors, at the top of the file."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src"
FLOORS = {
    "": (
        "collector spelling words",
        "errors",
        "contents forks config dtypes dims",
        "collectives",
        "exits",
        "containers",
        "tree",
        "boundary",
        "lazy",
        "ir kernel",
        "primitives",
        "passes",
        "transforms",
        "lower",
        "backends export",
        "runtime",
        "report",
        "compiler",
        "frontend",
        "mesh numpy random",
        "scipy",
        "nn optim",
        "interop",
        "train testing",
        "__init__",
        "cli notebook",
        "__main__",
    ),
    "passes": (
        "optional rewrite dce differential_check",
        "cse named_pass rules",
        "inline_bodies pads_to_concat",
        "absorb_transposes attention_pattern convolution_gradients fold matrix_chain one_hot_indexing reroll simplify "
        "simplify_reductions sparse_rows",
        "convolution_phases",
        "pipeline",
    ),
    "lower": (
        "program",
        "blocking fusion",
        "cost kernels",
        "target",
        "buffers",
        "legalize verify_program",
        "remat",
        "dynamic_shapes ops",
        "lower_graph",
        "compilation_unit compile",
    ),
    "backends.cpu": (
        "code_pages gate llvm_builder rebase_launches size_table target",
        "cpu_features host_function",
        "codegen llvm_jit routines support_ir",
        "entry_function object_compiler",
        "compiler profiled_entry",
        "exported_object",
    ),
    "runtime": (
        "error_sites executable memory",
        "cache",
        "backend",
        "cpu delegates gpu",
    ),
    "runtime.delegates": (
        "failure_conditions libraries",
        "index_status",
        "memory",
        "executable",
    ),
    "runtime.gpu": (
        "conditions driver modules nvrtc",
        "card_steps memory opencl transfers",
        "card_program cuda webgpu",
        "executable",
        "profiler",
        "backend",
    ),
    "backends.gpu": (
        "host_scalars integer_ranges interchange_loops keep_roundings language nested_values share_loops wgsl_prelude "
        "wgsl_values",
        "byte_copies index_width placed_values short_forms short_integers tile_shapes vector_items",
        "beside_kernels c_language collapse_folds find_products matrix_loops share_columns",
        "tile_kernel",
        "matrix_products tile_products",
        "statement_writer target",
        "access_rows kernel_writer",
        "cuda join_kernels known_scalars opencl scalar_functions",
        "wgsl",
        "join_rows limits",
        "launch_order",
        "dispatch_list",
    ),
    "compiler": (
        "backends double_precision memory_report rewrites",
        "driver rounding_bound",
        "dynamic_shapes reference",
        "devices",
    ),
    "train": (
        "state",
        "program",
        "checkpoint inspect",
        "step",
        "data handover",
        "calibrate loop sklearn",
    ),
}
"""The parts of the library, and of packages with rooms of their own, the lower ones first."""
OPTIONAL = set(
    "IPython PIL cuda einops jax llvmlite matplotlib ml_dtypes mpi4py nbclient nbformat onnx onnxruntime opt_einsum "
    "pipescript pyopencl rich safetensors scipy sklearn tensorboardX threadpoolctl torch wgpu".split()
)
FILES = sorted(SOURCE.rglob("*.py"))
TOOLS = sorted((SOURCE.parent / "tools").rglob("*.py"))


class Import(NamedTuple):
    """An import statement: its line, its leading dots, the modules that it names, and whether a function has it."""

    line: int
    level: int
    modules: list[str]
    late: bool


@cache
def imports(file: Path) -> list[Import]:
    """The import statements of a file, which is read once for all tests."""
    found, waiting = [], [(ast.parse(file.read_text(encoding="utf-8")), False)]
    while waiting:
        node, late = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(Import(node.lineno, getattr(node, "level", 0), imported(node), late))
        elif isinstance(node, ast.stmt | ast.Module | ast.excepthandler | ast.match_case):  # no other has statements
            late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            waiting += [(inside, late) for inside in ast.iter_child_nodes(node)]
    return found


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that an import statement names: `wholestep.ir.graph`, `numpy`."""
    if isinstance(node, ast.Import):
        paths = [alias.name for alias in node.names]
    else:
        whole = [f"{node.module}.{alias.name}" for alias in node.names]
        paths = [path if exists(path) else node.module or "" for path in whole]
    return [path if path.startswith("wholestep") else path.split(".")[0] for path in paths]


def exists(module: str) -> bool:
    """Test whether a module of the library has this name."""
    path = SOURCE.joinpath(*module.split("."))
    return module.startswith("wholestep") and (path.is_dir() or path.with_suffix(".py").is_file())


def part_of(module: str, package: str) -> str:
    """The direct part of a package that a module is or lies in: `graph` for `ir.graph` in `ir`; "" outside of it."""
    inside = module == package or module.startswith(f"{package}.") or not package
    return module.removeprefix(package).strip(".").split(".")[0] if inside else ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_down(file: Path) -> None:
    own = ".".join(file.relative_to(SOURCE / "wholestep").with_suffix("").parts)
    for package, floors in FLOORS.items():
        home, floor = part_of(own, package), {part: n for n, parts in enumerate(floors) for part in parts.split()}
        if not home or (package and home == "__init__"):
            continue
        assert home in floor, f"say in test_floors.py on which floor of {package or 'the library'} {home} is"
        for line, level, modules, _ in imports(file):
            assert not level, f"line {line}: imports are absolute"
            for module in (name.partition(".")[2] for name in modules if name.startswith("wholestep")):
                part = part_of(module, package) or ("" if package else "__init__")
                if part and part != home:
                    assert part in floor, f"line {line}: say in test_floors.py on which floor {part} is"
                    down = floor[part] < floor[home]
                    assert down, f"line {line}: {home} is on floor {floor[home]}, {part} on floor {floor[part]}"


DEVICES = ("cpu", "gpu")
"""Packages of `backends` and `runtime`, one for each kind of device, which the rest reaches through its backend."""
KNOW_A_DEVICE = {
    "compiler/backends.py": "registers the backends",
    "cli/doctor.py": "reports on the processor",
    "testing/guarded.py": "runs machine code in memory that watches it",
    "train/calibrate.py": "measures the rates of the processor",
}


def test_general_floors_know_no_device() -> None:
    found = set()
    for file in FILES:
        own = file.relative_to(SOURCE / "wholestep").as_posix()
        others = [device for device in DEVICES if not own.startswith((f"backends/{device}/", f"runtime/{device}/"))]
        rooms = tuple([f"wholestep.{floor}.{device}" for floor in ("backends", "runtime") for device in others])
        found |= {own for x in imports(file) for name in x.modules if name.startswith(rooms)}
    assert found == set(KNOW_A_DEVICE), "a device is reached through `runtime.backend.Backend`"


@pytest.mark.parametrize("file", FILES + TOOLS, ids=lambda file: str(file.relative_to(SOURCE.parent)))
def test_imports_stand_at_the_top(file: Path) -> None:
    for line, _, modules, late in imports(file):
        needed = set(modules) - OPTIONAL
        assert not (late and needed), f"line {line}: {', '.join(needed)} is imported inside a function"
