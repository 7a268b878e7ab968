"""Calls of numpy.fft for the coverage tests."""

import numpy as np
from tests.coverage.cases import Case

rng = np.random.default_rng(12)


def real(*shape, dtype="f8"):
    return rng.normal(size=shape).astype(dtype)


def cplx(*shape, dtype="c16"):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


fft = np.fft
NORMS = (None, "backward", "ortho", "forward")


def one_axis(f, of, *narrow):
    cases = [Case(f, of(n)) for n in (1, 2, 5, 6) if n > 1 or f not in (fft.irfft, fft.hfft)]
    cases += [Case(lambda x, n=n, m=m: f(x, n, norm=m), of(5)) for n in (3, 4, 8, 9) for m in NORMS]
    cases += [Case(lambda x, a=a: f(x, axis=a), of(4, 3)) for a in (0, 1, -2)]
    cases += [Case(lambda x: f(x, 6, 0, "ortho"), of(4, 3))]
    return cases + [Case(f, x) for x in narrow]


def axes(f, of, *narrow):
    cases = [Case(f, of(4, 3)), Case(f, of(2, 3, 4))]
    cases += [Case(lambda x, m=m: f(x, s=(5, 2), axes=(0, 1), norm=m), of(4, 3)) for m in NORMS]
    cases += [Case(lambda x, a=a: f(x, axes=a), of(2, 3, 4)) for a in ((1, 0), (-1, 0), (2, 1))]
    cases += [Case(lambda x: f(x, s=(3, -1), axes=(0, 1)), of(4, 4))]
    return cases + [Case(f, x) for x in narrow]


WHOLE, HALF, SINGLE = np.arange(8).reshape(4, 2), real(4, 3).astype("f2"), real(4, 3, dtype="f4")
FLAGS = real(4, 3) > 0
SMALL = np.array([1, 2, 3], "i1")
REAL_INPUT = (WHOLE, SINGLE, FLAGS, SMALL)
COMPLEX_INPUT = (*REAL_INPUT, cplx(4, 3, dtype="c8"), real(4, 3))
TWO, MANY = (WHOLE, SINGLE), (WHOLE, SINGLE, cplx(4, 3, dtype="c8"), real(4, 3))

CASES = {
    "numpy.fft.fft": [*one_axis(fft.fft, cplx, *COMPLEX_INPUT), Case(fft.fft, HALF, grad=False)],
    "numpy.fft.ifft": one_axis(fft.ifft, cplx, *COMPLEX_INPUT),
    "numpy.fft.rfft": [*one_axis(fft.rfft, real, *REAL_INPUT), Case(fft.rfft, HALF, grad=False)],
    "numpy.fft.irfft": one_axis(fft.irfft, cplx, *COMPLEX_INPUT),
    "numpy.fft.hfft": one_axis(fft.hfft, cplx, *COMPLEX_INPUT),
    "numpy.fft.ihfft": one_axis(fft.ihfft, real, *REAL_INPUT),
    "numpy.fft.fft2": axes(fft.fft2, cplx, *MANY),
    "numpy.fft.ifft2": axes(fft.ifft2, cplx, *MANY),
    "numpy.fft.fftn": [*axes(fft.fftn, cplx, *MANY), Case(lambda x: fft.fftn(x, axes=()), cplx(2, 3))],
    "numpy.fft.ifftn": axes(fft.ifftn, cplx, *MANY),
    "numpy.fft.rfft2": axes(fft.rfft2, real, *TWO),
    "numpy.fft.irfft2": axes(fft.irfft2, cplx, *MANY),
    "numpy.fft.rfftn": axes(fft.rfftn, real, *TWO),
    "numpy.fft.irfftn": axes(fft.irfftn, cplx, *MANY),
    "numpy.fft.fftshift": [
        Case(fft.fftshift, real(5)),
        Case(fft.fftshift, cplx(4, 3)),
        Case(lambda x: fft.fftshift(x, axes=1), real(4, 3)),
        Case(lambda x: fft.fftshift(x, axes=(0, 2)), real(4, 3, 2)),
    ],
    "numpy.fft.ifftshift": [
        Case(fft.ifftshift, real(5)),
        Case(fft.ifftshift, cplx(4, 3)),
        Case(lambda x: fft.ifftshift(x, axes=0), real(5, 3)),
    ],
    "numpy.fft.fftfreq": [Case(lambda d: fft.fftfreq(5, d), 0.3), Case(lambda d: fft.fftfreq(4, d), np.float64(2.0))],
    "numpy.fft.rfftfreq": [Case(lambda d: fft.rfftfreq(5, d), 0.3)],
}
