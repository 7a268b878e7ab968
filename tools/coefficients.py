"""Makes src/wholestep/kernel/maths/coefficients.py: the polynomials of the scalar mathematics, by Remez's exchange.

python tools/coefficients.py            half a minute, with mpmath; prints the error of each polynomial in bits

Each polynomial P stands for a target on an interval, and the weight is the factor from an error of P to the relative
error of the function's value. Coefficients are rounded to the dtype from the lowest up, and higher ones are refitted to
compensate the rounding error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import erf, erfc, exp, expm1, lu_solve, matrix, mp, mpf, nstr

mp.dps = 60
Function = Callable[[Any], Any]
FILE = Path(__file__).parents[1] / "src" / "wholestep" / "kernel" / "maths" / "coefficients.py"


class Spec(NamedTuple):
    """A polynomial to be made: its degrees in float32 and float64, and of how many parts its lowest coefficient is."""

    name: str
    says: str
    degrees: tuple[int, int]
    interval: tuple[Any, Any]
    target: Function
    weight: Function
    parts: int = 1


def half_log2() -> Any:
    return mp.log(2) / 2 * mpf("1.001")


def mills(v: Any) -> Any:
    """(z + 1/2) erfcx(z) at z = CENTRE (1 + v) / (1 - v): erfc without its decay."""
    z = CENTRE * (1 + v) / (1 - v)
    if z < 1e4:
        return (z + mpf(1) / 2) * exp(z * z) * erfc(z)
    q = 1 / (2 * z * z)
    return (1 + 1 / (2 * z)) * (1 - q * (1 - 3 * q * (1 - 5 * q * (1 - 7 * q)))) / mp.sqrt(mp.pi)


CENTRE = 3
QUARTER = mp.pi / 4
EIGHTH = mp.tan(mp.pi / 8)


def tail(b: Any) -> Any:
    """Q where 1 - erf(b) = exp(-b - b Q(b))."""
    return (-mp.log(erfc(b)) - b) / b


SPECS = (
    Spec(
        "EXP",
        "exp(r) = 1 + r + r**2 P(r) for |r| <= log(2) / 2",
        (4, 10),
        (-half_log2(), half_log2()),
        lambda r: (expm1(r) - r) / r**2,
        lambda r: r**2 / expm1(r),
    ),
    Spec(
        "EXP2",
        "2**r = 1 + r P(r) for |r| <= 1/2",
        (5, 11),
        (mpf("-0.5001"), mpf("0.5001")),
        lambda r: expm1(r * mp.log(2)) / r,
        lambda r: r / mpf(2) ** r,
    ),
    Spec(
        "LOG",
        "log(1 + f) = f - f**2 / 2 + f**3 P(f) for -1/3 <= f <= 1/3",
        (7, 18),
        (-mpf(1) / 3, mpf(1) / 3),
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        lambda f: f**3 / mp.log1p(f),
    ),
    Spec(
        "SIN",
        "sin(r) = r + r s P(s), s = r**2, for |r| <= pi / 4",
        (2, 5),
        (mpf("1e-9"), (QUARTER * mpf("1.001")) ** 2),
        lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
        lambda s: s * mp.sqrt(s) / mp.sin(mp.sqrt(s)),
    ),
    Spec(
        "COS",
        "cos(r) = 1 - s / 2 + s**2 P(s), s = r**2, for |r| <= pi / 4",
        (2, 5),
        (mpf("1e-9"), (QUARTER * mpf("1.001")) ** 2),
        lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2,
        lambda s: s**2 / mp.cos(mp.sqrt(s)),
    ),
    Spec(
        "ATAN",
        "arctan(t) = t + t s P(s), s = t**2, for |t| <= tan(pi / 8)",
        (4, 10),
        (mpf("1e-9"), (EIGHTH * mpf("1.001")) ** 2),
        lambda s: (mp.atan(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
        lambda s: s * mp.sqrt(s) / mp.atan(mp.sqrt(s)),
    ),
    Spec(
        "ASIN",
        "arcsin(t) = t + t s P(s), s = t**2, for |t| <= 1/2",
        (4, 11),
        (mpf("1e-9"), mpf("0.2501")),
        lambda s: (mp.asin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
        lambda s: s * mp.sqrt(s) / mp.asin(mp.sqrt(s)),
    ),
    Spec(
        "CBRT",
        "cbrt(m) for 1/2 <= m < 4, to a few bits: Newton's steps do the rest",
        (5, 5),
        (mpf("0.49"), mpf("4.01")),
        lambda m: mp.cbrt(m),
        lambda m: 1 / mp.cbrt(m),
    ),
    Spec(
        "ERF",
        "erf(x) = x + x P(x**2) for |x| <= 0.94",
        (5, 11),
        (mpf("1e-9"), mpf("0.8837")),
        lambda s: erf(mp.sqrt(s)) / mp.sqrt(s) - 1,
        lambda s: mp.sqrt(s) / erf(mp.sqrt(s)),
    ),
    Spec(
        "ERF_TAIL",
        "erf(b) = 1 - exp(-b - b P(b)) from 0.93 to where it is 1",
        (6, 17),
        (mpf("0.93"), (mpf("4.0"), mpf("6.0"))),
        tail,
        lambda b: b * erfc(b) / erf(b),
    ),
    Spec(
        "MILLS",
        f"(z + 1/2) erfcx(z) = P(v), v = (z - {CENTRE}) / (z + {CENTRE}), for z >= 0; the first in two parts",
        (12, 25),
        (mpf(-1), mpf("0.9999999")),
        mills,
        lambda v: 1 / mills(v),
        2,
    ),
)


class Fit:
    """Weighted minimax polynomials on one grid of the interval."""

    def __init__(self, spec: Spec, which: int) -> None:
        self.degree = spec.degrees[which]
        self.parts = spec.parts
        low, high = spec.interval
        if isinstance(high, tuple):
            high = high[which]
        count = 40 * (self.degree + 2)
        nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
        self.xs = [(low + high) / 2 - (high - low) / 2 * c for c in nodes]
        self.target = [spec.target(x) for x in self.xs]
        self.weight = [abs(spec.weight(x)) for x in self.xs]
        self.powers = [[x**k for k in range(self.degree + 1)] for x in self.xs]

    def errors(self, coefficients: list[Any]) -> list[Any]:
        """The weighted error at each point of the grid."""
        values = [sum((c * p for c, p in zip(coefficients, powers, strict=True)), mpf(0)) for powers in self.powers]
        return [w * (t - v) for w, t, v in zip(self.weight, self.target, values, strict=True)]

    def remez(self) -> list[Any]:
        """The coefficients whose largest error is least."""
        count, n = self.degree + 2, len(self.xs)
        points = [int((i + 0.5) * n / count) for i in range(count)]
        for _ in range(30):
            system = matrix(count, count)
            for row, i in enumerate(points):
                for k in range(count - 1):
                    system[row, k] = self.powers[i][k] * self.weight[i]
                system[row, count - 1] = (-1) ** row
            solved = lu_solve(system, matrix([self.target[i] * self.weight[i] for i in points]))
            found, level = list(solved[: count - 1]), abs(solved[count - 1])
            errors = self.errors(found)
            if max(abs(e) for e in errors) <= level * mpf("1.002"):
                break
            points = exchanged(errors, count, points)
        return found

    def rounded(self, dtype: Any) -> tuple[list[float], Any]:
        """Coefficients rounded to the dtype, and the remaining error.

        Each coefficient is rounded in turn, and the higher ones are refitted by least squares to compensate the
        rounding error.
        """
        columns = range(self.degree + 1)
        gram = [
            [sum((w * w * p[j] * p[k] for w, p in zip(self.weight, self.powers, strict=True)), mpf(0)) for k in columns]
            for j in columns
        ]
        wanted = self.remez()
        done: list[Any] = []
        given: list[float] = []
        for k in columns:
            pieces = shared(wanted[k], dtype, self.parts if k == 0 else 1)
            given += pieces
            done.append(sum(map(mpf, pieces), mpf(0)))
            off, rest = done[k] - wanted[k], range(k + 1, self.degree + 1)
            if rest and off:
                system = matrix([[gram[i][j] for j in rest] for i in rest])
                moved = lu_solve(system, matrix([-off * gram[i][k] for i in rest]))
                wanted[k + 1 :] = [w + m for w, m in zip(wanted[k + 1 :], moved, strict=True)]
        return given, max(abs(e) for e in self.errors(done))


def shared(number: Any, dtype: Any, parts: int) -> list[float]:
    """A number as a sum of numbers of a dtype, each the nearest to the remainder."""
    out: list[float] = []
    for _ in range(parts):
        out.append(float(dtype(nstr(number - sum(map(mpf, out), mpf(0)), 25))))
    return out


def exchanged(errors: list[Any], count: int, before: list[int]) -> list[int]:
    """The largest errors of alternating sign."""
    runs: list[int] = []
    for i, e in enumerate(errors):
        if runs and (e > 0) == (errors[runs[-1]] > 0):
            runs[-1] = i if abs(e) > abs(errors[runs[-1]]) else runs[-1]
        else:
            runs.append(i)
    while len(runs) > count:
        runs = runs[1:] if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else runs[:-1]
    return runs if len(runs) == count else before


def made(task: tuple[int, int]) -> tuple[list[float], float]:
    """One polynomial in one dtype, and its error in bits."""
    dtype = (np.float32, np.float64)[task[1]]
    coefficients, error = Fit(SPECS[task[0]], task[1]).rounded(dtype)
    return coefficients, float(-mp.log(error, 2))


def shown(number: float, which: int) -> str:
    """The shortest text that gives the number back in its dtype."""
    return str(np.float32(number)) if which == 0 else repr(number)


def text(results: dict[tuple[int, int], tuple[list[float], float]]) -> str:
    """The file."""
    out = ['"""Polynomials of the scalar mathematics, lowest coefficient first: made by tools/coefficients.py."""', ""]
    out += ["import numpy as np", "", "F32, F64 = np.dtype(np.float32), np.dtype(np.float64)"]
    out += ["Table = dict[np.dtype[np.floating], tuple[float, ...]]", ""]
    for i, spec in enumerate(SPECS):
        out.append(f"{spec.name}: Table = {{")
        for which, name in enumerate(("F32", "F64")):
            out.append(f"    {name}: (")
            out += [f"        {shown(c, which)}," for c in results[i, which][0]]
            out.append("    ),")
        out += ["}", f'"""{spec.says}."""', ""]
    return "\n".join(out)


def main() -> None:
    tasks = [(i, which) for i in range(len(SPECS)) for which in (1, 0)]
    with ProcessPoolExecutor(2) as pool:
        results = {}
        for task, result in zip(tasks, pool.map(made, tasks), strict=True):
            results[task] = result
            print(f"{SPECS[task[0]].name:10} float{32 << task[1]}  {result[1]:6.2f} bits", file=sys.stderr)
    FILE.write_text(text(results), encoding="utf-8")


if __name__ == "__main__":
    main()
