"""Calls of scipy.fft for the coverage tests: Fourier, cosine and sine transforms, along one axis and several."""

from typing import Any

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import fft

rng = np.random.default_rng(57)
NORMS = (None, "backward", "ortho", "forward")
X, Z = rng.normal(size=(3, 5)), rng.normal(size=(3, 5)) + 1j * rng.normal(size=(3, 5))
SINGLE, HALF, WHOLE = X.astype("f4"), X.astype("f2"), np.arange(12).reshape(3, 4)


def one_axis(name: str, x: Any) -> list[Case]:
    """Calls along one axis; cases of half precision have no derivative to compare."""
    f = getattr(fft, name)
    cases = [Case(lambda x, n=n, m=m: f(x, n, norm=m), x) for n in (4, 5, 8) for m in NORMS]
    cases += [Case(lambda x: f(x, axis=0, overwrite_x=False, workers=1), x), Case(f, WHOLE), Case(f, SINGLE)]
    return [*cases, Case(f, HALF, grad=False)]


def several(name: str, x: Any) -> list[Case]:
    """Calls along several axes."""
    f = getattr(fft, name)
    cases = [Case(lambda x, m=m: f(x, s=(4, 2), axes=(1, 0), norm=m), x) for m in NORMS]
    return [*cases, Case(f, x), Case(lambda x: f(x, axes=(0, -1)), x), Case(f, SINGLE), Case(f, HALF, grad=False)]


def trigonometric(name: str) -> list[Case]:
    """Calls of every type along one axis."""
    f, made = getattr(fft, name), []
    for kind in (1, 2, 3, 4):
        for norm, other in ((None, True), ("ortho", False), ("forward", None), ("backward", None)):
            made += [Case(lambda x, k=kind, m=norm, o=o: f(x, k, norm=m, orthogonalize=o), X) for o in {None, other}]
        made += [Case(lambda x, k=kind, n=n: f(x, k, n), X) for n in (2, 3, 8)]
        made += [Case(lambda x, k=kind: f(x, k, axis=0), a) for a in (Z, WHOLE, SINGLE)]
        made += [Case(lambda x, k=kind: f(x, k), HALF, grad=False)]
    return [*made, Case(f, X[:, :1]), Case(f, rng.normal(size=301), rtol=1e-13)]


def many(name: str) -> list[Case]:
    """Calls of every type along several axes."""
    f = getattr(fft, name)
    cases = [Case(lambda x, k=k, m=m: f(x, k, (4, 2), (1, 0), m), X) for k in (1, 2, 3, 4) for m in NORMS]
    return [*cases, Case(f, X), Case(lambda x: f(x, axes=0), Z), Case(lambda x: f(x, s=3), WHOLE)]


CASES = {f"scipy.fft.{name}": one_axis(name, Z) for name in ("fft", "ifft", "irfft", "hfft")}
CASES |= {f"scipy.fft.{name}": one_axis(name, X) for name in ("rfft", "ihfft")}
CASES |= {f"scipy.fft.{name}": several(name, Z) for name in ("fft2", "ifft2", "irfft2", "fftn", "ifftn", "irfftn")}
CASES |= {f"scipy.fft.{name}": several(name, X) for name in ("rfft2", "rfftn")}
CASES |= {f"scipy.fft.{name}": trigonometric(name) for name in ("dct", "idct", "dst", "idst")}
CASES |= {f"scipy.fft.{name}": many(name) for name in ("dctn", "idctn", "dstn", "idstn")}
CASES |= {
    f"scipy.fft.{f.__name__}": [Case(f, X), Case(lambda x, f=f: f(x, 1), X)] for f in (fft.fftshift, fft.ifftshift)
}
CASES |= {
    f"scipy.fft.{f.__name__}": [Case(lambda d, f=f, n=n: f(n, d), np.float64(0.3), rtol=1e-15) for n in (1, 6, 7)]
    for f in (fft.fftfreq, fft.rfftfreq)
}
