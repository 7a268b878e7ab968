"""The verifier: kernels with one planted fault each are refused, their sound neighbours are not."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.kernel.parse import parse_kernel

from wholestep import dtypes
from wholestep.errors import KernelError
from wholestep.kernel.dependence import ValueRanges
from wholestep.kernel.lang import BOOL, I64, Axis, Buffer, Carry, Fold, Index, Kernel, Loop, Statement, Store, Var
from wholestep.kernel.verify import verify_kernel

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
BUFFERS = (
    "x: f32[40], d: f64[40], h: f16[40], s: bf16[40], c: c64[40], n: i32[40], u: u8[40], m: i64[40], p: bool[40], "
    "mut y: f32[40], mut z: f64[40], mut w: f32[40]"
)


def kernel(body: str) -> Kernel:
    return parse_kernel(f"kernel k({BUFFERS}):\n" + "".join(f"    {line}\n" for line in body.strip("\n").split("\n")))


FAULTS = {
    # values: scopes and dtypes
    "value of a loop used after it": (
        "for i in 4:\n    v0 = x[i]\ny[0] = v0",
        "made later, in another loop, or nowhere",
    ),
    "value of a sibling loop": (
        "for i in 4:\n    v0 = index(i)\nfor j in 4:\n    v1 = x[v0]\n    y[j] = v1",
        "made later, in another loop, or nowhere",
    ),
    "fold used inside its loop": (
        "v0 = f32(0.0)\nfor i in 4:\n    v1 = x[i]\n    fold v2 = add(v1) from v0\nfor j in 4:\n"
        "    v3 = x[j]\n    fold v4 = add(v2) from v3",
        "made later, in another loop, or nowhere",
    ),
    "dtypes mixed": ("v0 = x[0]\nv1 = d[0]\nv2 = v0 + v1", "add wants values of one dtype, not float32 and float64"),
    "select by a number": ("v0 = x[0]\nv1 = select(v0, v0, v0)", "select chooses by a bool"),
    "floats shifted": ("v0 = x[0]\nv1 = v0 << v0", "shl does not take float32"),
    "integers divided": ("v0 = n[0]\nv1 = v0 / v0", "div does not take int32"),
    "bools added": ("v0 = p[0]\nv1 = v0 + v0", "add does not take bool"),
    "half precision computed with": ("v0 = h[0]\nv1 = v0 + v0", "add does not take float16, which is computed with"),
    "bfloat16 computed with": ("v0 = s[0]\nv1 = v0 * v0", "mul does not take bfloat16"),
    "complex computed with": ("v0 = c[0]\nv1 = v0 * v0", "mul does not take complex64"),
    "upper word of an integer": ("v0 = n[0]\nv1 = mulhi(v0, v0)", "mulhi does not take int32"),
    "nan among integers": ("v0 = n[0]\nv1 = isnan(v0)", "isnan does not take int32"),
    "bits of another size": ("v0 = x[0]\nv1 = bits(i64, v0)", "the bits of float32 do not fill int64"),
    "bits of a bool": ("v0 = p[0]\nv1 = bits(u8, v0)", "bits takes one value, not a bool"),
    "call of two dtypes": ("v0 = x[0]\nv1 = d[0]\nv2 = call(f, v0, v1)", "f takes values of one dtype"),
    "guard by a number": ("v0 = n[0]\nv1 = x[0] if v0", "a guard is a bool, not int32"),
    "loop under a number": ("v0 = n[0]\nfor i in 4 if v0:\n    pass", "a guard is a bool, not int32"),
    # memory
    "store of another dtype": ("v0 = x[0]\nz[0] = v0", "float32 is stored to z, which holds float64"),
    "store to what is only read": ("v0 = x[0]\nx[1] = v0", "x is stored to, but not marked as written"),
    "past the end": ("for i in 5:\n    for j in 9:\n        v0 = x[8*i + j]", "x[0] to [40] are touched, it has 40"),
    "before the start": ("for i in 5:\n    v0 = x[-i + 3]", "x[-1] to [3] are touched"),
    "past the end by a masked value": ("v0 = n[0]\nv1 = i32(7)\nv2 = v0 & v1\nv3 = x[6*v2]", "x[0] to [42] are"),
    "past the end by a clamped value": (
        "v0 = m[0]\nv1 = i64(0)\nv2 = i64(40)\nv3 = max(v0, v1)\nv4 = min(v3, v2)\nv5 = x[v4]",
        "x[0] to [40] are touched",
    ),
    "index by a float": ("v0 = x[0]\nv1 = x[v0]", "an index uses a value of dtype float32"),
    "axis outside its loop": ("for i in 4:\n    pass\nv0 = x[i]", "an index uses i outside its loop"),
    # loops
    "loop in itself": ("for i in 4:\n    for i in 4:\n        pass", "stands inside another one over it"),
    "three lanes": ("for i in 4 lanes 3:\n    pass", "lanes that are a power of two"),
    "lanes in lanes": (
        "for i in 4 lanes 4:\n    for j in 4 lanes 4:\n        pass",
        "inside the loop over an axis that",
    ),
    "ordered lanes": ("for i in 4 lanes 4 ordered:\n    pass", "cannot be the lanes of a vector"),
    "carry in a loop that is not ordered": (
        "v0 = f32(0.0)\nfor i in 4:\n    carry v1 from v0\n    next v1 = v1, after v2",
        "carries values and so must be ordered",
    ),
    "carry of two dtypes": (
        "v0 = f32(0.0)\nv1 = d[0]\nfor i in 4 ordered:\n    carry v2 from v0\n    next v2 = v1, after v3",
        "a carry of dtype float32 is given float32 at first and float64 then",
    ),
    "unknown fold": ("v0 = f32(0.0)\nfor i in 4:\n    fold v1 = sub(v0) from v0", "sub is no fold: the folds are"),
    "fold of two values": ("v0 = f32(0.0)\nfor i in 4:\n    fold v1 = add(v0, v0) from v0", "add takes 1 values"),
    "fold from another dtype": (
        "v0 = f32(0.0)\nv1 = d[0]\nfor i in 4:\n    fold v2 = add(v1) from v0",
        "a result of float64",
    ),
    "pairs that are no words": (
        "v0 = f32(0.0)\nv1 = x[0]\nfor i in 4:\n    fold v2 = dot_bf16x2(v1, v1) from v0",
        "dot_bf16x2 does not take float32",
    ),
    "pairs into words": (
        "v0 = u32(0)\nv1 = x[0]\nv2 = bits(u32, v1)\nfor i in 4:\n    fold v3 = dot_bf16x2(v2, v2) from v0",
        "a result of float32",
    ),
    "fold of truth values": ("v0 = p[0]\nfor i in 4:\n    fold v1 = add(v0) from v0", "add does not take bool"),
    "across in many steps": (
        "for i in 40 lanes 16 tile 2:\n    v0 = x[i]\n    v1 = across(add, v0, i)",
        "whose one step",
    ),
    "across an ordered loop": ("for i in 1 ordered:\n    v0 = x[i]\n    v1 = across(add, v0, i)", "an unordered loop"),
    "across a loop elsewhere": (
        "for i in 8 lanes 8:\n    v0 = x[i]\nfor j in 4:\n    v1 = x[j]\n    v2 = across(add, v1, i)",
        "an unordered loop over i around it",
    ),
    "across lanes that a guard leaves out": (
        "for i in 8 lanes 8:\n    v0 = x[i]\n    v1 = p[i]\n    for j in 1 if v1:\n        v2 = across(add, v0, i)",
        "a guard around it may leave out steps",
    ),
    # independent steps
    "one place for all steps": ("for i in 4:\n    v0 = x[i]\n    y[0] = v0", "over i may store to what is stored to"),
    "axis without a factor": (
        "for i in 4:\n    for j in 5:\n        v0 = x[i + 4*j]\n        y[j] = v0",
        "over i may store to what is stored to",
    ),
    "strides that overlap": (
        "for i in 4:\n    for j in 5:\n        v0 = x[i + 4*j]\n        y[4*i + j] = v0",
        "over i may store to what is stored to",
    ),
    "two stores, one place": (
        "for i in 4:\n    v0 = x[i]\n    y[i] = v0\n    y[i + 3] = v0",
        "may store to what is stored",
    ),
    "reads what the next step writes": (
        "for i in 4:\n    v0 = y[i + 1]\n    y[i] = v0",
        "what is loaded from in others",
    ),
    "shared scratch": (
        "for i in 4:\n    for j in 5:\n        v0 = x[5*i + j]\n        y[j] = v0\n    for k in 5:\n"
        "        v1 = y[k]\n        w[5*i + k] = v1",
        "over i may store to what is",
    ),
    "scatter to a loaded place": (
        "for i in 4:\n    v0 = n[i]\n    v1 = x[i]\n    y[v0] = v1",
        "over i may store to what is stored to",
    ),
    "scatter within rows that overlap": (
        "for i in 4:\n    v0 = n[i]\n    v1 = i32(7)\n    v2 = v0 & v1\n    v3 = x[i]\n    y[7*i + v2] = v3",
        "over i may store to what is stored to",
    ),
    "folding loop that stores to one place": (
        "v0 = f32(0.0)\nfor i in 4:\n    v1 = x[i]\n    y[0] = v1\n    fold v2 = add(v1) from v0",
        "may store to what is stored to",
    ),
    "uniform store of many steps": (
        "v0 = f32(0.0)\nfor i in 4 tile 2:\n    y[0] = v0",
        "may store to what is stored to",
    ),
    "read before a loop that is shared out": (
        "v0 = y[0]\nfor i in 4:\n    v1 = x[i]\n    v2 = v0 + v1\n    y[i] = v2",
        "y is loaded before a loop that may be shared out",
    ),
}

SOUND = {
    "past the end, never reached": "for i in 0:\n    for j in 9:\n        v0 = x[8*i + j + 40]",
    "past the end under a guard": "for i in 5:\n    v0 = p[i]\n    v1 = x[i + 39] if v0",
    "past the end in a guarded loop": "v0 = p[0]\nfor i in 5 if v0:\n    v1 = x[i + 39]",
    "clamped value": "v0 = m[0]\nv1 = i64(0)\nv2 = i64(39)\nv3 = max(v0, v1)\nv4 = min(v3, v2)\nv5 = x[v4]",
    "small integer": "v0 = u[0]\nv1 = i64(v0)\nv2 = i64(3)\nv3 = v1 & v2\nv4 = i32(v3)\nv5 = x[13*v4]",
    "backwards and interleaved": "for i in 4:\n    for j in 5:\n        v0 = x[0]\n        y[2*i - 8*j + 33] = v0",
    "strides that are no multiples": (
        "for i in 3:\n    for j in 2:\n        for l in 2:\n            v0 = x[0]\n            y[i + 5*j + 12*l] = v0"
    ),
    "two halves": "for i in 20:\n    v0 = x[i]\n    y[i] = v0\n    y[i + 20] = v0",
    "even and odd": "for i in 20:\n    v0 = x[i]\n    y[2*i] = v0\n    y[2*i + 1] = v0",
    "rows read again": (
        "for i in 4:\n    for j in 5:\n        v0 = x[5*i + j]\n        y[5*i + j] = v0\n    for k in 5:\n"
        "        v1 = y[-k + 5*i + 4]\n        w[5*i + k] = v1"
    ),
    "columns updated in place": "for i in 5:\n    for j in 4:\n        v0 = y[i + 5*j]\n        y[i + 5*j] = v0",
    "ordered overwriting": "for i in 4:\n    for j in 5 ordered:\n        v0 = x[j]\n        y[i] = v0",
    "ordered scatter of rows": (
        "for j in 4:\n    for i in 4 ordered:\n        v0 = n[i]\n        v1 = y[4*v0 + j]\n        y[4*v0 + j] = v1"
    ),
    "scatter within a row": (
        "for i in 5:\n    v0 = n[i]\n    v1 = i32(7)\n    v2 = v0 & v1\n    v3 = x[i]\n    y[8*i + v2] = v3"
    ),
    "an index that is a value": "for i in 4:\n    v0 = index(2*i)\n    v1 = x[v0]\n    y[v0 + 1] = v1",
    "lanes that agree": (
        "for i in 4:\n    for j in 8 lanes 8:\n        v0 = x[j]\n        v1 = across(add, v0, j)\n        y[i] = v1"
    ),
    "one axis in two loops": "for i in 4:\n    v0 = x[i]\n    y[i] = v0\nfor i in 4:\n    v1 = x[i]\n    w[i] = v1",
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str) -> None:
    body, problem = FAULTS[name]
    with pytest.raises(KernelError, match="verify: .*" + re.escape(problem)) as caught:
        verify_kernel(kernel(body))
    assert "\n  -> " in str(caught.value)


@pytest.mark.parametrize("name", SOUND)
def test_sound_kernels_pass(name: str) -> None:
    verify_kernel(kernel(SOUND[name]))


def number(dtype: np.dtype[np.generic], value: object = 0) -> Var:
    return Var("const", (), dtype, np.asarray(value, dtype)[()])


def written_out() -> dict[str, tuple[tuple[Statement, ...], str]]:
    """Faults that the text cannot say."""
    x, other, axis = Buffer("x", F32, 4, written=True), Buffer("q", F32, 4), Axis("i", 4)
    one, double = number(F32), number(F64)
    carry, after = Var("carry", (), F32), Var("carried", (), F32)
    return {
        "made twice": ((one, one), "is made twice"),
        "constant of another dtype": (
            (Var("const", (), F32, np.float64(0)),),
            "a constant of float32 is given as float64",
        ),
        "result of another dtype": ((one, Var("neg", (one,), F64)), "neg gives float32, not float64"),
        "comparison that gives a number": ((one, Var("lt", (one, one), F32)), "lt gives bool, not float32"),
        "too few operands": ((one, Var("add", (one,), F32)), "add takes 2 values, not 1"),
        "unknown operation": ((one, Var("tan", (one,), F32)), "tan is no operation"),
        "fold by itself": ((Var("fold", (), F32),), "fold is no operation that stands by itself"),
        "conversion of two": ((one, double, Var("convert", (one, double), F32)), "convert takes one value"),
        "load of another dtype": ((Var("load", (), F64, (x, Index())),), "x holds float32, not float64"),
        "load of a foreign buffer": ((Var("load", (), F32, (other, Index())),), "q is no buffer of the kernel"),
        "load with two guards": (
            (g := number(BOOL, True), Var("load", (g, g), F32, (x, Index()))),
            "a load has one guard at most",
        ),
        "index of another dtype": ((Var("index", (), F32, Index()),), "an index is an int64 or an int32, not float32"),
        "call of no symbol": ((one, Var("call", (one,), F32, "a b")), "'a b' is no symbol"),
        "value never made": ((Store(x, Index(), one),), "made later, in another loop, or nowhere"),
        "tile of nothing": ((Loop(Axis("i", 4, tile=0), ()),), "a tile of at least 1"),
        "carry of the wrong kind": (
            (one, Loop(axis, (), carries=(Carry(one, one, one, after),), ordered=True)),
            "a carry goes from a value `carry` to a value `carried`",
        ),
        "carry used outside": (
            (one, Loop(axis, (), carries=(Carry(carry, one, carry, after),), ordered=True), Var("neg", (carry,), F32)),
            "made later, in another loop, or nowhere",
        ),
        "fold of the wrong kind": (
            (one, Loop(axis, (), (Fold("add", after, one, (one,)),))),
            "a fold of float32 wants",
        ),
        "across of another dtype": (
            (one, Loop(Axis("i", 4, lanes=4), (Var("across", (one,), F64, ("add", axis)),))),
            "an unordered loop over i around it",
        ),
        "index made of a half": (
            (Var("index", (), I64, Index(0, {number(dtypes.from_short("bf16")): 1})),),
            "an index uses a value of dtype bfloat16",
        ),
    }


@pytest.mark.parametrize("name", written_out())
def test_faults_that_text_cannot_say(name: str) -> None:
    body, problem = written_out()[name]
    x = next((b.buffer for b in body if isinstance(b, Store)), None)
    loaded = [s.attr[0] for s in body if isinstance(s, Var) and s.op == "load" and s.attr[0].name == "x"]
    buffers = (x,) if x is not None else tuple(loaded[:1])
    with pytest.raises(KernelError, match="verify: .*" + re.escape(problem)):
        verify_kernel(Kernel("k", buffers, body))


def test_errors_show_the_place() -> None:
    with pytest.raises(KernelError) as caught:
        verify_kernel(kernel("v0 = x[0]\nfor i in 4:\n    v1 = x[i]\n    v2 = v0 << v1\n    y[i] = v2"))
    assert str(caught.value).split("\n")[:7] == [
        "verify: shl does not take float32",
        f"     kernel k({BUFFERS}):",
        "         v0 = x[0]",
        "         for i in 4:",
        "             v1 = x[i]",
        "  ->         v2 = v0 << v1",
        "             y[i] = v2",
    ]


def nest(rng: np.random.Generator) -> Kernel:
    """Two or three loops around one store and one load of the same buffer, at random indices near each other."""
    axes = [Axis(n, int(rng.integers(1, 5))) for n in "ijk"[: rng.integers(2, 4)]]
    scales = rng.permutation([1, 1, 2, 3, 4, 5, 8, 12]) * rng.choice([1, 1, -1], 8)
    terms: dict[Axis | Var, int] = {axis: int(c) for axis, c in zip(axes, scales, strict=False)}
    others = dict(terms)
    if rng.random() < 0.3:
        others = {axis: int(c) for axis, c in zip(axes, scales[3:], strict=False)}
    at, source = Index(100, terms), Index(int(rng.choice([100, 100, 99, 101, 104, 120])), others)
    y = Buffer("y", F32, 200, written=True)
    load = Var("load", (), F32, (y, source))
    body: tuple[Statement, ...] = (load, Store(y, at, load))
    for axis in reversed(axes):
        body = (Loop(axis, body, ordered=bool(rng.random() < 0.3)),)
    return Kernel("nest", (y,), body)


def collide(kernel: Kernel) -> bool:
    """Test whether two steps of an unordered loop access one element, one of them storing, by trying all points."""
    loops, inner = [], kernel.body
    while isinstance(inner[0], Loop):
        loops.append(inner[0])
        inner = inner[0].body
    load, store = inner
    assert isinstance(load, Var) and isinstance(store, Store)
    points = list(np.ndindex(*[loop.axis.extent for loop in loops]))

    def places(index: Index) -> list[int]:
        return [index.const + sum(index.coefficient(s.axis) * p for s, p in zip(loops, q, strict=True)) for q in points]

    stored, loaded = places(store.index), places(load.attr[1])
    for p, here in zip(points, stored, strict=True):
        for other in (stored, loaded):
            for q, there in zip(points, other, strict=True):
                differ = next((n for n in range(len(loops)) if p[n] != q[n]), None)
                if here == there and differ is not None and not loops[differ].ordered:
                    return True
    return False


def test_no_two_steps_of_a_kernel_that_passes_touch_one_place() -> None:
    """The verifier accepts no kernel with such a conflict, and most kernels without one."""
    rng = np.random.default_rng(0)
    sound = passed = 0
    for _ in range(600):
        kernel = nest(rng)
        collides = collide(kernel)
        try:
            verify_kernel(kernel)
        except KernelError:
            sound += not collides
        else:
            assert not collides, str(kernel)
            sound, passed = sound + 1, passed + 1
    assert 100 < passed < 500 and passed > 0.8 * sound


def test_a_range_of_what_is_read_twice_at_each_of_many_levels_is_worked_out_once() -> None:
    """Nested indices, each read twice at the next level: a walk without a memo would visit 2 ** 60 values."""
    axis = Axis("i", 8)
    place = Var("index", (), I64, Index(0, {axis: 1}))
    for _ in range(60):
        low, high = Var("min", (place, place), I64), Var("max", (place, place), I64)
        place = Var("index", (), I64, Index(0, {low: 1, high: -1}))
    assert ValueRanges().value(place) == (-7 * 2**59, 7 * 2**59)
