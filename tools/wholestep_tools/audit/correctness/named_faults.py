"""The planted faults that verification must find, each with the loss that meets it and the line it must name."""

from __future__ import annotations

from typing import NamedTuple


class NamedFault(NamedTuple):
    """A fault by its name, the job that is verified, and the text of the lines that the verification may name."""

    name: str
    job: str
    lines: tuple[str, ...]


TABLE = """
a conj dropped in reverse mode | spectra | np.exp( & np.fft.fft & np.conj(f) & 1j * p["c"]
the sign of sub's second operand | arithmetic | b["x"] - a
the sign of a partial of -1 lost | arithmetic | b["x"] - a & -p["d"]
mul's first partial | arithmetic | x * p["c"]
div's second partial | arithmetic | x / (2.0
the sign of remainder's second partial | arithmetic | np.remainder
the sign of arctan2's second partial | arithmetic | np.arctan2
pow's exponent not lowered | arithmetic | np.power
the sign of cos's derivative | functions | np.cos
tanh's derivative | functions | np.tanh
sqrt's derivative | functions | np.sqrt
log10's factor | functions | np.log10
gamma's derivative | functions | special.gamma
j1's derivative | functions | special.j1
zeta's derivative | functions | special.zeta
select's branches swapped in reverse mode | choices | np.where
imag transposed into the real part | spectra | g.imag
a cast to complex transposed into the imaginary part | spectra | np.fft.fft & p["a"] + 1j
contract's conj dropped | spectra | z @ np.conj
the transpose of fft is fft itself | spectra | np.fft.fft
rfft's transpose counts its inner bins whole | spectra | np.fft.rfft
broadcast transposed over the wrong axes | products | p["c"][:, None]
permute transposed by itself | moves | np.transpose
flip's transpose does nothing | moves | x[:, ::-1]
concat's parts all cut from the start | moves | np.concatenate & np.pad
an overwritten element keeps its cotangent | writes | y[1:11:3] & y[:, 2:9] & w[3]
an overwritten write gets a cotangent | writes | z[[1, 4, 1]]
scatter keeps the cotangent of what it overwrites | writes | z[[1, 4, 1]]
gather's transpose overwrites instead of adding | indices | p["a"][i]
prod's products from the right shifted the wrong way | reductions | np.prod
cumsum's transpose runs the same way | reductions | np.cumsum
cumprod's recurrence loses its factor | reductions | np.cumprod
sort's tangent unsorted | reductions | np.sort
scan's way back runs forward | loops | ws.scan
scan's constants not accumulated | loops | ws.scan
fan-out keeps its last cotangent | arithmetic | a & x & y
cholesky's diagonal is not halved | matrices | cholesky
the sign of a solve's tangent in its matrix | matrices | solve
the tangent of eigenvalues doubled | matrices | np.linalg.eig
eigh in the eigenvectors' wrong basis | matrices | np.linalg.eig
a triangular solve transposed as if it were plain | matrices | cholesky
pinv without the projection on its columns | matrices | pinv
a choice within a choice takes the other side | choices | np.where
slices of slices forget the inner step | moves | x[2:]
what is repeated counts once | reductions | np.broadcast_to
a kernel that is not turned round | windows | nn.conv2d(h
a flip that starts one too late | moves | ::-1
a slice without its step | moves | x[1:11:3 & x[2:]
a permutation the other way round | moves | np.transpose
padding that ends one too late | moves | np.pad
a concatenation from one side | moves | np.concatenate & np.pad
assignment without its step | writes | y[1:11:3]
windows added without their dilation | windows | nn.conv2d
a window without its dilation | windows | nn.conv2d
negative indices off by one | indices | -np.array
a running sum that is never reversed | reductions | np.cumsum & np.cumprod
lanes beyond the end are taken in | layers | (
an odd accumulator lost | products | @ & einsum & np.mean( & np.sum( & [:, None]
strides of the wrong axes | moves | (
"""

NAMED_FAULTS = [
    NamedFault(name, job, tuple(lines.split(" & ")))
    for name, job, lines in [line.split(" | ") for line in TABLE.strip().splitlines()]
]
"""The faults, in the order of the table: of derivatives, of rewritings, of kernels and of indices."""
