"""NumPy's ufuncs for the coverage tests: every dtype a ufunc takes, broadcasting, scalars, options and methods."""

import numpy as np
from tests.coverage.cases import Case

from wholestep.frontend import ufunc_rules

rng = np.random.default_rng(17)

DOMAINS = {
    "arccosh": (1.2, 4.0), "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9), "arctanh": (-0.9, 0.9), "log": (0.2, 3.0),
    "log2": (0.2, 3.0), "log10": (0.2, 3.0), "sqrt": (0.2, 3.0), "log1p": (-0.9, 3.0), "tan": (-1.2, 1.2),
    "power": (0.3, 2.5), "float_power": (0.3, 2.5), "reciprocal": (0.3, 3.0), "cbrt": (0.3, 3.0), "divide": (0.4, 3.0),
    "fmod": (1.1, 4.9), "remainder": (1.1, 4.9), "floor_divide": (1.1, 4.9), "divmod": (1.1, 4.9),
    "heaviside": (0.2, 2.0), "sign": (0.2, 2.0), "absolute": (0.2, 2.0), "fabs": (0.2, 2.0), "copysign": (0.2, 2.0),
    "floor": (0.1, 0.9), "ceil": (0.1, 0.9), "trunc": (0.1, 0.9), "rint": (0.6, 1.4), "modf": (0.1, 0.9),
}  # fmt: skip
FLAT = {"nextafter", "spacing", "ldexp", "frexp"}
SHIFTS = {"left_shift", "right_shift"}


def draw(name, shape, dtype):
    low, high = DOMAINS.get(name, (-2.3, 2.3))
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return rng.integers(1, 4, shape).astype(dtype)
    real = rng.uniform(low, high, shape)
    return np.asarray(real + 1j * rng.uniform(0.2, 1.0, shape) if kind == "c" else real).astype(dtype)


def taken(ufunc, dtypes):
    """Test whether both NumPy and the table have a rule for these operands."""
    try:
        kinds = ufunc.resolve_dtypes((*[np.dtype(d) for d in dtypes], *[None] * ufunc.nout))
        operands = kinds[: ufunc.nin]
        if ufunc.__name__ in ufunc_rules.LOGICAL:
            operands = (np.dtype(bool),) * ufunc.nin
        ufunc_rules.rule_for(ufunc, operands)
    except TypeError:
        return False
    return not any(k is not None and (k.kind in "OmM" or k.itemsize > 16 or k.char in "gG") for k in kinds)


def unary(name, ufunc):
    cases = []
    for dtype in ("f8", "f4", "f2", "c16", "c8", "i8", "i2", "u1", "?"):
        if taken(ufunc, (dtype,)):
            smooth = name not in FLAT and dtype in ("f8", "c16")
            # Our half precision and complex sign are rounded once more than NumPy's.
            loose = {"rtol": 4e-3} if dtype == "f2" else {}
            cases.append(Case(ufunc, draw(name, (2, 3), dtype), grad=smooth, **loose))
    if taken(ufunc, ("f8",)):
        cases.append(Case(ufunc, draw(name, (), "f8")[()], grad=name not in FLAT))
        cases.append(Case(ufunc, draw(name, (), "f8"), grad=name not in FLAT))
        cases.append(Case(ufunc, draw(name, (0, 2), "f8"), grad=False))
    return cases


PAIRS = (("f8", "f8"), ("f4", "f4"), ("c16", "c16"), ("f4", "f8"), ("f8", "c8"), ("i4", "f4"), ("i8", "i8"),
         ("u1", "i1"), ("?", "?"), ("f2", "f2"), ("f8", "i4"))  # fmt: skip


def binary(name, ufunc):
    cases = []
    for a, b in PAIRS:
        if taken(ufunc, (a, b)):
            smooth = name not in FLAT and (a, b) in (("f8", "f8"), ("c16", "c16"))
            loose = {"rtol": 4e-3} if a == "f2" else {}
            cases.append(Case(ufunc, draw(name, (2, 3), a), draw(name, (3,), b), grad=smooth, **loose))
    if taken(ufunc, ("f8", "f8")):
        x = draw(name, (2, 1), "f8")
        cases += [
            Case(lambda x, u=ufunc: u(x, 1.7), x, grad=name not in FLAT),
            Case(lambda x, u=ufunc: u(2, x), x, grad=name not in FLAT),
            Case(ufunc, draw(name, (2, 1), "f8"), draw(name, (1, 3), "f8"), grad=name not in FLAT),
            Case(ufunc, draw(name, (), "f8")[()], draw(name, (), "f8")[()], grad=name not in FLAT),
        ]
    return cases


NAMES = sorted(n for n in {*ufunc_rules.DIRECT, *ufunc_rules.COMPOSED} if isinstance(getattr(np, n, None), np.ufunc))
CASES = {
    f"numpy.{n}": unary(n, getattr(np, n)) if getattr(np, n).nin == 1 else binary(n, getattr(np, n)) for n in NAMES
}

X, Y, M = draw("add", (3, 4), "f8"), draw("add", (3, 4), "f8"), rng.integers(0, 2, (3, 4)) > 0
I8 = np.arange(12).reshape(3, 4)
P = np.abs(X) + 0.5


def written(call):
    """A function that copies its first argument, lets the call write into the copy, and returns the copy."""

    def f(x, *rest):
        y = np.copy(x)
        call(y, *rest)
        return y

    return f


def whole(dtype):
    """Integers of a dtype: small ones, large ones, its ends and 0."""
    ends = np.iinfo(dtype)
    drawn = rng.integers(ends.min, ends.max, 40, dtype=dtype, endpoint=True)
    odd = np.array([0, 0, ends.min, ends.max, ends.min], dtype)
    return np.concatenate([drawn, drawn // np.array(max(ends.max >> 5, 1), dtype), odd])


for dtype in "bBhHiIqQ":
    a, b = whole(dtype), whole(dtype)
    b[-5:] = 0, 6, 6, a[-3], a[-3]
    CASES["numpy.gcd"].append(Case(np.gcd, a, b))
    CASES["numpy.lcm"].append(Case(np.lcm, a, b))
    CASES["numpy.bitwise_count"].append(Case(np.bitwise_count, a))
CASES["numpy.gcd"] += [
    Case(lambda x: np.gcd.reduce(x, axis=1), rng.integers(0, 99, (4, 5)) * 6),
    Case(lambda x: np.gcd(x, 12), np.arange(13, dtype=np.int16)),
    Case(lambda x, k: x * np.gcd(k, 6), X, np.arange(4)),
]
CASES["numpy.lcm"] += [
    Case(lambda x: np.lcm.reduce(x), np.arange(1, 11)),
    Case(np.lcm.outer, np.arange(4), np.arange(5)),
]
CASES["numpy.add"] += [
    Case(written(lambda y, z: np.add(y, z, out=y)), X, Y),
    Case(written(lambda y, z: np.add(y, z, out=y, where=M)), X, Y),
    Case(lambda x: np.add.reduce(x), X),
    Case(lambda x: np.add.reduce(x, axis=1, keepdims=True), X),
    Case(lambda x: np.add.reduce(x, axis=None, where=M, initial=2.0), X),
    Case(lambda x: np.add.accumulate(x, 1), X),
    Case(lambda x: np.add.reduceat(x, [0, 2, 1], axis=1), X),
    Case(lambda x, y: np.add.outer(x, y), X, Y[0]),
    Case(written(lambda y, z: np.add.at(y, [0, 0, 2], z)), X, Y),
    Case(written(lambda y, z: np.add.at(y, ([0, 0], [1, 1]), z)), X, Y[0, :2]),
    Case(lambda x, y: np.add(x, y, dtype=np.float32), X, Y, grad=False),
]
CASES["numpy.subtract"] += [
    Case(lambda x: np.subtract.reduce(x, axis=1), X),
    Case(written(lambda y, z: np.subtract.at(y, [0, 0, 2], z)), X, Y),
    *[Case(written(lambda y, i: np.subtract.at(y, (i, 0), i)), a, np.array([1, 1, 2], np.uint8)) for a in (X, I8)],
    Case(written(lambda y: np.subtract.at(y, 0, True)), X),
    Case(lambda x: np.subtract.accumulate(x), X),
]
CASES["numpy.multiply"] += [
    Case(lambda x: np.multiply.reduce(x, axis=1), X),
    Case(lambda x: np.multiply.accumulate(x, axis=1), X),
    Case(lambda x: np.multiply.reduceat(x, [0, 1], 0), X),
    Case(lambda x, y: np.multiply.outer(x, y), X[0], Y),
    Case(written(lambda y, z: np.multiply.at(y, [0, 0, 2], z)), X, Y),
    Case(written(lambda y, z: np.multiply.at(y, (slice(0, 2), [1, 1, 0]), z)), X, Y[0, :3]),
    Case(written(lambda y, i: np.multiply.at(y, i, 1.5)), X, np.array([0, 0, 2])),
    Case(written(lambda y, i: np.subtract.at(y, i, y[0] * 2)), X, np.array(1)),
    Case(written(lambda y, z: np.multiply(y, z, out=y.T[:, ::-1].T)), X, Y),
]
CASES["numpy.divide"] += [Case(lambda x: np.divide.reduce(x, axis=1), P)]
CASES["numpy.negative"] += [Case(written(lambda y: np.negative.at(y, [0, 0, 1])), X)]
CASES["numpy.maximum"] += [
    Case(lambda x: np.maximum.reduce(x, axis=1), X),
    Case(lambda x: np.maximum.accumulate(x, axis=1), X),
    Case(written(lambda y, z: np.maximum.at(y, [0, 0, 2], z)), X, Y),
    Case(written(lambda y, z: np.maximum.at(y, np.argsort(z[:, 0]), z)), X, Y),
    Case(written(lambda y, z: np.maximum.at(y, (slice(0, 2), 1), z[:2, 0])), X, Y),
]
CASES["numpy.maximum"] += [Case(written(lambda y, i: np.maximum.at(y, [0, 0, 2], i)), I8.astype(np.uint8), I8 - 5)]
CASES["numpy.maximum"] += [Case(written(lambda y, z: np.maximum.at(y, [0, 0, 2], z)), X + 1j, Y * (1 + 2j))]
CASES["numpy.minimum"] += [Case(lambda x: np.minimum.accumulate(x), X), Case(lambda x: np.minimum.reduce(x), X)]
CASES["numpy.minimum"] += [Case(written(lambda y, z: np.minimum.at(y, np.argsort(z[:, 0]) // 2, z)), X, Y)]
CASES["numpy.logaddexp"] += [
    Case(lambda x: np.logaddexp.reduce(x, axis=1), X),
    Case(lambda x: np.logaddexp.reduce(x, axis=None, keepdims=True), X),
    Case(lambda x: np.logaddexp.reduce(x, axis=1, where=M, initial=0.5), X),
    Case(lambda x: np.logaddexp.accumulate(x, axis=1), X),
]
CASES["numpy.reciprocal"] += [Case(np.reciprocal, np.array([-5, -1, 1, 7], np.int8), grad=False)]
CASES["numpy.sign"] += [
    Case(np.sign, np.array([complex(np.inf, 1), complex(0, -np.inf), complex(np.inf, np.inf), 3 - 4j]), grad=False)
]
CASES["numpy.frexp"] += [Case(np.frexp, np.array([x, -x]), grad=False) for x in (np.finfo(kind).max for kind in "efd")]
CASES["numpy.ldexp"] += [Case(np.ldexp, np.array([0, 1e-300, 1e300]), np.array([2000, 1500, -1500]), grad=False)]
CASES["numpy.logaddexp2"] += [Case(lambda x: np.logaddexp2.reduce(x, axis=0), X)]
CASES["numpy.hypot"] += [Case(lambda x: np.hypot.reduce(x, axis=1), X)]
CASES["numpy.fmax"] += [
    Case(lambda x: np.fmax.reduce(x, axis=1), X),
    Case(lambda x: np.fmax.reduce(x, axis=1, initial=np.float64(0.1)), X.astype("f")),
]
CASES["numpy.fmin"] += [Case(lambda x: np.fmin.reduce(x, axis=1), X)]
CASES["numpy.power"] += [
    Case(lambda x: x**2, X),
    Case(lambda x: x**3, X),
    Case(lambda x: x**-1, P),
    Case(lambda x: 2.0**x, X),
]
for n, f in (("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)):
    CASES[f"numpy.{n}"].append(Case(lambda x, f=f: f.reduce(x, axis=1), rng.integers(0, 9, (3, 5))))
for n, f in (("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)):
    CASES[f"numpy.{n}"].append(Case(lambda x, f=f: f.reduce(x, axis=1), M))
COUNTS = np.array([[3, 0, 1], [0, 2, 0]], np.uint16)
CASES["numpy.logical_xor"] += [
    Case(lambda x: np.logical_xor.reduce(x, axis=1), COUNTS),
    Case(lambda x: np.logical_xor.reduce(x[:1]), COUNTS),
    Case(lambda x: np.logical_xor.accumulate(x, axis=1), COUNTS * 0.5, grad=False),
    Case(lambda x: np.logical_xor.reduceat(x, [0, 1], axis=1), COUNTS),
]
CASES["numpy.hypot"] += [
    Case(lambda x: np.hypot.reduce(x[:1] > 0), COUNTS),
    Case(lambda x: np.hypot.accumulate(x, axis=1), COUNTS, rtol=1e-6),
]
CASES["numpy.logaddexp"] += [Case(lambda x: np.logaddexp.reduce(x[:1]), COUNTS)]
TRUTHS = np.array([True, False, True])
CASES["numpy.subtract"] += [Case(written(lambda y, k: np.subtract.at(y, k, 1)), TRUTHS, np.array([0, 1]))]
CASES["numpy.add"] += [Case(written(lambda y: np.add.at(y, [0, 1, 1], -1)), TRUTHS)]
