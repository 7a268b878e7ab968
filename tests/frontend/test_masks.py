"""Elements that a mask leaves out reach no value, no derivative of any order and no warning, in every call and mode."""

import numpy as np
import pytest
import scipy.special

import wholestep as ws
import wholestep.numpy as wnp
from wholestep.errors import DerivativeError, DtypeError, UnsupportedError
from wholestep.frontend import ufunc_rules, ufuncs
from wholestep.primitives.elementwise import Elementwise

MASK = np.array([1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], bool)
LEFT_OUT = {
    "d": [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, -5.5, 2.0, -1e-320],
    "l": [0, -1, 70, -(2**62), 3, 0, -7, 2, 1],
    "?": [True, False] * 4 + [True],
}


def loop_of(ufunc):
    """The operand types to try a ufunc in: float64 where it has them."""
    for types in ("d", "ld", "dd", "ddd", "dddd", "dl", "l", "ll", "?", "??"):
        if len(types) == ufunc.nin and any(t.split("->")[0].replace("q", "l") == types for t in ufunc.types):
            try:
                return types, ufuncs.resolve(ufunc, tuple(np.dtype(t) for t in types))[0]
            except (UnsupportedError, DtypeError):
                continue
    return None


def calls():
    """Every ufunc of the tables, with its operand types, and an interval that its operands may come from."""
    for name in sorted({*ufunc_rules.DIRECT, *ufunc_rules.COMPOSED}):
        ufunc = getattr(np, name, None) or getattr(scipy.special, name, None)
        ufunc = getattr(scipy.special._ufuncs, name) if ufunc is None else ufunc
        found = loop_of(ufunc) if isinstance(ufunc, np.ufunc) and ufunc.signature is None else None
        if found is not None:
            types, rule = found
            yield pytest.param(ufunc, types, rule.domain if isinstance(rule, Elementwise) else (0.3, 0.9), id=name)


CALLS = list(calls())


def operands(types, domain):
    """Operands inside the domain where the mask holds, and harmful values elsewhere."""
    rng = np.random.default_rng(len(types))
    made = []
    for shift, t in enumerate(types):
        inside = rng.uniform(*domain, MASK.sum()) if t == "d" else rng.integers(1, 4, MASK.sum())
        x = np.empty(MASK.shape, t)
        x[MASK], x[~MASK] = inside, np.roll(LEFT_OUT[t], shift)
        made.append(x)
    return made


def total(result):
    """All outputs of a call as one number."""
    return sum(np.sum(part * 1.0) for part in (result if isinstance(result, tuple) else (result,)))


def direct(ufunc, xs):
    """The results of `forms` computed without a mask, from operands that hold the chosen elements alone."""
    plain = total(ufunc(*xs))
    mixed = [total(ufunc(*[x if i == k else x[0] for i, x in enumerate(xs)])) for k in range(len(xs) if xs[1:] else 0)]
    return [plain] * (5 if len(xs) > 1 else 6) + mixed


def forms(ufunc, xs, m):
    """One call in every masked form, a number each: reads, writes, out= with where=, select, where, piecewise."""
    made = [total(ufunc(*[x[m] for x in xs]))]
    results = ufunc(*[x[m] for x in xs])
    places = [wnp.zeros(MASK.shape, r.dtype) for r in (results if isinstance(results, tuple) else (results,))]
    for place, r in zip(places, results if isinstance(results, tuple) else (results,), strict=True):
        place[m] = r
    made.append(sum(np.sum(place * 1.0) for place in places))
    out = tuple([wnp.zeros(MASK.shape, place.dtype) for place in places])
    made.append(total(ufunc(*xs, out=out, where=m)))
    safe = ufunc(*[np.where(m, x, x[0]) for x in xs])
    parts = safe if isinstance(safe, tuple) else (safe,)
    made.append(sum(np.sum(np.where(m, part * 1.0, 0.0)) for part in parts))
    made.append(sum(np.sum(np.select([m], [part * 1.0], 0.0)) for part in parts))
    if len(xs) == 1:
        made.append(total(np.piecewise(xs[0] * 1.0, [m], [lambda v: total_each(ufunc, v, xs[0].dtype), 0.0])))
    else:
        made += [total(ufunc(*[x[m] if i == k else x[0] for i, x in enumerate(xs)])) for k in range(len(xs))]
    return made


def total_each(ufunc, v, dtype):
    """All outputs of a call added up, element by element."""
    result = ufunc(v.astype(dtype))
    return sum(part * 1.0 for part in (result if isinstance(result, tuple) else (result,)))


def loss(numbers):
    """One number of all forms, each with another weight."""
    return sum((k + 1.0) * number for k, number in enumerate(numbers))


def derivatives(f, order):
    """A function of the operands: the gradient, and for order 2 also its derivative in a fixed direction."""
    if order == 0:
        return lambda xs: ()
    if order == 1:
        return ws.grad(f)
    return lambda xs: ws.jvp(ws.grad(f), (xs,), ([0.5 + 0 * np.where(np.isfinite(x), x, 0) for x in xs],))


def smooth(ufunc, types, xs):
    """The highest order of derivative of a call, and the operands that have it."""
    floats = [k for k, t in enumerate(types) if t == "d"]
    for order, chosen in ((2, floats), (1, floats), (2, floats[-1:]), (1, floats[-1:])):

        def f(some, chosen=chosen):
            rest = dict(zip(chosen, some, strict=True))
            return loss(direct(ufunc, [rest.get(k, x) for k, x in enumerate(xs)]))

        try:
            found = derivatives(f, order)([xs[k] for k in chosen])
        except (DerivativeError, DtypeError):
            continue
        return order, chosen, found
    return 0, [], ()


def spread(found):
    """Derivatives at the chosen elements, and zero elsewhere."""
    return [np.zeros(MASK.shape) if x is None else put(x) for x in ws.tree.leaves(found)]


def put(x):
    wide = np.zeros(MASK.shape)
    wide[MASK] = x
    return wide


class Checked:
    """A call with operands: the function that computes all its numbers, and the expected ones."""

    def __init__(self, ufunc, types, domain):
        self.ufunc = ufunc
        self.xs = operands(types, domain)
        inside = [x[MASK] for x in self.xs]
        self.order, self.chosen, found = smooth(ufunc, types, inside)
        self.value = direct(ufunc, inside)
        if hasattr(np, ufunc.__name__):  # the loops of scipy.special lose their place under where=
            with np.errstate(all="ignore"):
                assert np.allclose(forms(ufunc, self.xs, MASK), self.value, rtol=1e-13), "what NumPy itself gives"
        self.derivatives = spread(found)

    def slopes(self, xs, m):
        def f(some):
            rest = dict(zip(self.chosen, some, strict=True))
            return loss(forms(self.ufunc, [rest.get(k, x) for k, x in enumerate(xs)], m))

        return derivatives(f, self.order)([xs[k] for k in self.chosen])

    def __call__(self, xs, m):
        return forms(self.ufunc, xs, m), self.slopes(xs, m)

    def holds(self, made):
        values, found = made
        assert np.allclose(np.ravel(values), self.value, rtol=1e-12, atol=1e-300), self.ufunc
        for x, y in zip(ws.tree.leaves(found), self.derivatives, strict=True):
            assert np.allclose(np.reshape(x, y.shape), y, rtol=1e-9, atol=1e-12), (self.ufunc, x, y)


@pytest.mark.parametrize("ufunc, types, domain", CALLS)
def test_what_a_mask_leaves_out_reaches_nothing(ufunc, types, domain):
    checked = Checked(ufunc, types, domain)
    checked.holds((checked.value, checked.slopes(checked.xs, MASK)))
    known = ws.jit(lambda xs: checked(xs, MASK), device="reference")
    checked.holds(known(checked.xs))
    checked.holds(ws.vmap(checked)([x[None] for x in checked.xs], MASK[None]))
    checked.holds(ws.jit(checked, device="reference")(checked.xs, MASK))


COMPILED = "exp log sqrt arccosh power divide arctan2 logaddexp floor_divide hypot gammaln xlogy rel_entr".split()


def test_compiled_programs_leave_out_the_same():
    checked = [Checked(*p.values) for p in CALLS if p.id in COMPILED]
    assert len(checked) == len(COMPILED)
    program = ws.jit(lambda all, m: [c(xs, m) for c, xs in zip(checked, all, strict=True)])
    for c, made in zip(checked, program([c.xs for c in checked], MASK), strict=True):
        c.holds(made)


def test_most_calls_are_differentiated():
    orders = [Checked(*p.values).order for p in CALLS[::4]]
    assert np.mean(np.array(orders) == 2) > 0.5, orders
