"""NumPy's words, and SciPy's for special functions and matrices: a step without a compiler, to be read and compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.python.vocabulary import (
    INFIX,
    Call,
    PythonTarget,
    Spelling,
    as_matrix_product,
    chosen_branch,
    front_order,
    listed,
    literal,
    orders_to_front,
    over_typed_rows,
    special_symbols,
    while_it_holds,
)
from wholestep.primitives.movement import spread

ONE = """exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh floor ceil trunc rint sign isfinite isnan signbit real imag conj""".split()
TWO = """maximum minimum copysign nextafter arctan2 hypot logaddexp logaddexp2 floor_divide remainder fmod left_shift
right_shift""".split()


def numpy_dtype(dtype: np.dtype[Any]) -> str:
    """A dtype as NumPy names it; bfloat16 is that of `ml_dtypes`."""
    return "ml_dtypes.bfloat16" if dtype.kind == "V" else f"np.{'bool_' if dtype.kind == 'b' else dtype.name}"


def special_words() -> dict[str, Spelling]:
    """The functions of scipy.special."""
    found = {}
    for name, (symbol, arity) in special_symbols().items():
        found[name] = in_dtype(f"scipy.special.{symbol}({', '.join([f'{{{i}}}' for i in range(arity)])})")
    return found


def in_dtype(text: str) -> Spelling:
    """A function whose result is cast to the dtype of the program, where the library widens half precisions."""

    def spelling(c: Call) -> str:
        made = text.format(*c.a, **c.p)
        half = c.out.dtype.kind == "V" or c.out.dtype == np.float16
        return f"{made}.astype({c.dtype})" if half else made

    return spelling


def reduced_in_wide(function: str) -> Spelling:
    """A reduction that adds or multiplies in the dtype in which that is exact enough, and keeps its own."""

    def spelling(c: Call) -> str:
        wide = dtypes.compute_dtype(c.out.dtype)
        text = f"np.{function}({c.a[0]}, axis={c.p['axes']}, dtype={c.target.dtype(wide)})"
        return text if wide == c.out.dtype else f"{text}.astype({c.dtype})"

    return spelling


def accumulated_in_wide(function: str) -> Spelling:
    """A running sum or product in a wide dtype."""

    def spelling(c: Call) -> str:
        wide = dtypes.compute_dtype(c.out.dtype)
        flipped = f"np.flip({c.a[0]}, {c.p['axis']})" if c.p["reverse"] else c.a[0]
        text = f"np.{function}({flipped}, axis={c.p['axis']}, dtype={c.target.dtype(wide)})"
        text = text if wide == c.out.dtype else f"{text}.astype({c.dtype})"
        return f"np.flip({text}, {c.p['axis']})" if c.p["reverse"] else text

    return spelling


def numpy_slices(c: Call, start: tuple[int, ...], stop: tuple[int, ...], step: tuple[int, ...]) -> str:
    """Slices between brackets."""
    return ", ".join([f"{a}:{b}:{s}" for a, b, s in zip(start, stop, step, strict=True)]) or "()"


def numpy_update(c: Call) -> str:
    """An update of slices."""
    sizes = zip(c.p["start"], c.types[1].shape, c.p["step"], strict=True)
    slices = listed([f"slice({a}, {a + spread(m, s)}, {s})" for a, m, s in sizes])
    return f"write_slices({c.a[0]}, {c.a[1]}, {slices})"


def numpy_product(c: Call) -> str:
    """A contraction by products of matrices, which add up in the dtype of their operands."""
    wide = dtypes.compute_dtype(c.out.dtype)
    if wide == c.out.dtype:
        return as_matrix_product(c, ".T") or f"np.einsum({c.p['spec']!r}, {c.a[0]}, {c.a[1]}, optimize=True)"
    x, y = [f"{text}.astype({c.target.dtype(wide)})" for text in c.a]
    return f"np.einsum({c.p['spec']!r}, {x}, {y}, optimize=True).astype({c.dtype})"


def numpy_read(c: Call) -> str:
    """A gather."""
    order, _ = orders_to_front(c)
    x = f"{c.a[0]}.transpose({order})" if order else c.a[0]
    return f"{x}[{', '.join(c.a[1:])}]"


def numpy_write(function: str, *given: str) -> Spelling:
    """A scatter, of the operand with the indexed axes first, by a function that may be given more."""

    def spelling(c: Call) -> str:
        order = front_order(c.p["axes"], c.types[0].ndim)
        return f"{function}({', '.join([*given, *c.a[:2]])}, {listed(c.a[2:])}, {order})"

    return spelling


def numpy_fourier(c: Call) -> str:
    """A complex transform without a factor."""
    if not c.p["axes"]:
        return c.a[0]
    name, norm = ("ifftn", ", norm='forward'") if c.p["inverse"] else ("fftn", "")
    return f"np.fft.{name}({c.a[0]}, axes={c.p['axes']}{norm})"


WORDS: dict[str, Spelling] = {
    **{name: in_dtype(f"np.{name}({{0}})") for name in ONE},
    **{name: in_dtype(f"np.{name}({{0}}, {{1}})") for name in TWO},
    **{name: f"{{0}} {sign} {{1}}" for name, sign in INFIX.items()},
    **special_words(),
    "abs": "np.abs({0})",
    "neg": "-{0}",
    "bitwise_not": "~{0}",
    "pow": "np.power({0}, {1})",
    "select": "np.where({0}, {1}, {2})",
    "make_complex": lambda c: f"({c.a[0]} + 1j * {c.a[1]}).astype({c.dtype})",
    "cast": lambda c: f"np.asarray({c.a[0]}).astype({c.dtype})",
    "constant": lambda c: c.names.constant(c.p["value"]),
    "iota": lambda c: f"counted_along({c.out.shape}, {c.p['axis']}, {c.dtype})",
    "reshape": "{0}.reshape({shape})",
    "permute": "{0}.transpose({axes})",
    "flip": "np.flip({0}, {axes})",
    "slice": lambda c: f"{c.a[0]}[{numpy_slices(c, c.p['start'], c.p['stop'], c.p['step'])}]",
    "pad": "pad_between({0}, {before}, {after}, {interior})",
    "concat": lambda c: f"np.concatenate([{', '.join(c.a)}], {c.p['axis']})",
    "update_slice": numpy_update,
    "contract": numpy_product,
    "window": "windows({0}, {size}, {stride}, {dilation})",
    "sum": reduced_in_wide("sum"),
    "prod": reduced_in_wide("prod"),
    **{name: f"np.{name}({{0}}, axis={{axes}})" for name in ("max", "min", "any", "all")},
    **{name: f"np.{name}({{0}}, axis={{axis}})" for name in ("argmax", "argmin")},
    "cumsum": accumulated_in_wide("cumsum"),
    "cumprod": accumulated_in_wide("cumprod"),
    "gather": numpy_read,
    "scatter_add": numpy_write("join_at", "np.add"),
    "scatter": numpy_write("write_at"),
    "scatter_max": numpy_write("join_at", "np.maximum"),
    "scatter_min": numpy_write("join_at", "np.minimum"),
    "sort": "sort_rows({0}, {axis})",
    "top_k": "largest({0}, {axis}, {k})",
    "partition": "around_places({0}, {axis}, {kth})",
    "cummax": "running({0}, {axis}, True)",
    "cummin": "running({0}, {axis}, False)",
    "fft": numpy_fourier,
    "rfft": "np.fft.rfft({0}, axis={axis})",
    "irfft": "np.fft.irfft({0}, n={n}, axis={axis}, norm='forward')",
    "cholesky": "np.linalg.cholesky({0})",
    "solve": "np.linalg.solve({0}, {1})",
    "triangular_solve": "each_matrix(scipy.linalg.solve_triangular, {0}, {1}, lower={lower}, unit_diagonal={unit}, "
    "trans={trans}, check_finite=False)",
    "det": "np.linalg.det({0})",
    "slogdet": "np.linalg.slogdet({0})",
    "pinv": "np.linalg.pinv({0}, {rcond})",
    "qr": "np.linalg.qr({0}, mode={mode!r})",
    "eigh": lambda c: f"np.linalg.eigh({c.a[0]}, {literal('L' if c.p['lower'] else 'U')})",
    "eig": lambda c: f"complex_pair(np.linalg.eig({c.a[0]}), {c.dtype})",
    "svd": "np.linalg.svd({0}, {full_matrices})",
    "svdvals": "np.linalg.svd({0}, compute_uv=False)",
    "expm": "each_matrix(scipy.linalg.expm, {0})",
    "lu": "packed_lu({0})",
    "schur": "schur_forms({0})",
    "sqrtm": "matrix_roots({0})",
    "solve_sylvester": "sylvester_solutions({0}, {1}, {2})",
    "composite": lambda c: f"{c.function('graph')}({', '.join(c.a)})",
    "cond": chosen_branch,
    "scan": over_typed_rows,
    "while_loop": while_it_holds,
}
"""The spelling of each operation in NumPy."""

NUMPY = PythonTarget(
    name="numpy",
    frees=True,
    title="NumPy",
    words=WORDS,
    imports=("import scipy.linalg", "import scipy.special", "import ml_dtypes"),
    dtype=numpy_dtype,
    broadcast=lambda text, shape, dtype: f"np.broadcast_to({text}, {tuple(shape)})",
    number=lambda text, dtype: f"np.asarray({text}, {dtype})",
    support="numpy_support.py",
    numbers_in=frozenset((*INFIX, "select")),
    widened_by_numbers="V",
    decorated=lambda text, _: f'@np.errstate(all="ignore")\n{text}',
    outlined=frozenset(("random_bits", "random_blocks")),
)
"""NumPy as a target."""
