"""scipy.signal's recursive filters along one axis, each a scan or several of them in turn, and their response."""

from __future__ import annotations

from typing import Any

import scipy.signal

from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.control import scan
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.promotion import inexact_array, lift, promoted, wrap
from wholestep.numpy.movement import axis_of
from wholestep.scipy.outside import np

outside: Any = scipy.signal


@covers(outside.lfilter)
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """scipy.signal.lfilter: a recursive filter along one axis, as a scan."""
    # A filter without feedback has the one number a = 1.
    given = (np.atleast_1d(b), np.atleast_1d(a), x) + (() if zi is None else (zi,))
    operands = [inexact_array(v) for v in given]
    top, bottom, signal, *state = [wrap(v) for v in promoted(*operands)]
    if top.ndim != 1 or bottom.ndim != 1:
        raise ShapeError(f"lfilter: coefficients are vectors: {top.type} and {bottom.type}")
    n = max(int(top.shape[0]), int(bottom.shape[0]))
    top, bottom = [np.pad(c / bottom[0], (0, n - int(c.shape[0]))) for c in (top, bottom)]
    rows = np.moveaxis(signal, axis, 0)
    side = rows.shape[1:]
    start = np.moveaxis(state[0], axis, 0) if state else np.zeros((n - 1, *side), rows.dtype)
    wide = (-1, *[1] * len(side))
    ahead, behind = top[1:].reshape(wide), bottom[1:].reshape(wide)

    def step(kept: Any, row: Any) -> Any:
        out = top[0] * row + kept[0] if n > 1 else top[0] * row
        if n == 1:
            return kept, out
        moved = np.concatenate([kept[1:], np.zeros((1, *side), rows.dtype)])
        return moved + ahead * row - behind * out, out

    last, made = scan(step, lift(start), rows)
    made = np.moveaxis(made, 0, axis)
    return (made, np.moveaxis(last, 0, axis)) if state else made


@covers(outside.lfilter_zi)
def lfilter_zi(b: Any, a: Any) -> Any:
    """scipy.signal.lfilter_zi: the state of a filter whose input has been 1 for ever."""
    top, bottom = [wrap(v) for v in promoted(inexact_array(np.atleast_1d(b)), inexact_array(np.atleast_1d(a)))]
    n = max(int(top.shape[0]), int(bottom.shape[0]))
    top, bottom = [np.pad(c / bottom[0], (0, n - int(c.shape[0]))) for c in (top, bottom)]
    unit = np.eye(n - 1, dtype=bottom.dtype)
    moved = np.concatenate([-bottom[1:, None], unit[:, : n - 2]], axis=1) if n > 1 else unit
    return np.linalg.solve(unit - moved, top[1:] - bottom[1:] * top[0])


@covers(outside.freqz)
def freqz(
    b: Any,
    a: Any = 1,
    worN: Any = 512,
    whole: bool = False,
    plot: Any = None,
    fs: Any = 2 * np.pi,
    include_nyquist: bool = False,
) -> Any:
    """scipy.signal.freqz: coefficients are vectors, and frequencies plain numbers."""
    top, bottom = [wrap(v) for v in promoted(inexact_array(np.atleast_1d(b)), inexact_array(np.atleast_1d(a)))]
    if top.ndim != 1 or bottom.ndim != 1:
        raise ShapeError(f"freqz: coefficients are vectors: {top.type} and {bottom.type}")
    unit = np.ones(1, top.dtype)
    w, _ = outside.freqz(unit, unit, worN, whole, None, fs, include_nyquist)
    turns = np.exp(-2j * np.pi / fs * np.outer(w, np.arange(max(top.shape[0], bottom.shape[0]), dtype=w.dtype)))
    h = (turns[:, : top.shape[0]] @ top) / (turns[:, : bottom.shape[0]] @ bottom)
    if plot is not None:
        plot(w, h)
    return w, h


@covers(outside.freqz_sos)
def freqz_sos(sos: Any, worN: Any = 512, whole: bool = False, fs: Any = 2 * np.pi) -> Any:
    """scipy.signal.freqz_sos: the product of the sections' responses, at plain frequencies."""
    sections = sections_of("freqz_sos", sos)
    found = [freqz(section[:3], section[3:], worN, whole, fs=fs) for section in sections]
    return found[0][0], np.prod(np.stack([h for _, h in found]), axis=0)


@covers(outside.sosfilt)
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """scipy.signal.sosfilt: its sections are scans one after the other."""
    sections = sections_of("sosfilt", sos)
    made, states = x, []
    for k in range(sections.shape[0]):
        b, a = sections[k, :3], sections[k, 3:]
        made = lfilter(b, a, made, axis) if zi is None else lfilter(b, a, made, axis, lift(zi)[k])
        if zi is not None:
            made, state = made
            states.append(state)
    return made if zi is None else (made, np.stack(states))


def sections_of(name: str, sos: Any) -> Any:
    """The coefficients of sections in the rows of a matrix; raises ShapeError for other shapes."""
    sections = lift(sos)
    if sections.ndim != 2 or sections.shape[1] != 6:
        raise ShapeError(f"{name}: sections are rows of six coefficients, not {sections.type}")
    known = sections.value.data
    if known is not None and np.any(known[:, 3] != 1):
        raise ValueError("sos[:, 3] should be all ones")
    return sections


def extended(x: Any, axis: int, edge: int, padtype: str) -> Any:
    """A signal that goes on by `edge` elements beyond both ends: turned round a point, mirrored, or constant."""

    def part(*bounds: Any) -> Any:
        return x[(*[slice(None)] * axis, slice(*bounds))]

    first, last = part(0, 1), part(-1, None)
    before, after = part(edge, 0, -1), part(-2, -(edge + 2), -1)
    if padtype == "odd":
        ends = [2 * first - before, 2 * last - after]
    elif padtype == "even":
        ends = [before, after]
    else:
        ends = [first + 0 * before, last + 0 * after]
    return np.concatenate([ends[0], x, ends[1]], axis=axis)


def both_ways(name: str, x: Any, axis: int, padtype: Any, edge: int, once: Any) -> Any:
    """A signal filtered forwards and then backwards; `once` filters one that begins at rest at its first element."""
    at = axis_of(name, axis, x.ndim)
    if padtype not in ("even", "odd", "constant", None):
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype.  padtype must be 'even', 'odd', 'constant', or None."
        )
    edge = 0 if padtype is None else edge
    if x.shape[at] <= edge:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}.")
    wide = extended(x, at, edge, padtype) if edge > 0 else x
    made = np.flip(once(np.flip(once(wide, at), at), at), at)
    return made[(*[slice(None)] * at, slice(edge, made.shape[at] - edge))]


@covers(outside.filtfilt)
def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: Any = "odd",
    padlen: Any = None,
    method: str = "pad",
    irlen: Any = None,
) -> Any:
    """scipy.signal.filtfilt by padding."""
    if method != "pad":
        raise UnsupportedError(f"filtfilt: method={method!r} is not covered for traced arrays", hint="method='pad' is")
    signal, count = inexact_array(x), max(np.size(b), np.size(a))
    state = lfilter_zi(b, a) if count > 1 else None

    def once(part: Any, at: int) -> Any:
        first = part[(*[slice(None)] * at, slice(0, 1))]
        if state is None:
            return lfilter(b, a, part, at)
        return lfilter(b, a, part, at, state.reshape([-1 if i == at else 1 for i in range(part.ndim)]) * first)[0]

    return both_ways("filtfilt", signal, axis, padtype, 3 * count if padlen is None else padlen, once)


@covers(outside.sosfiltfilt)
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    """scipy.signal.sosfiltfilt; traced sections need padlen=."""
    sections, signal = sections_of("sosfiltfilt", sos), inexact_array(x)
    if padlen is None and padtype is not None:
        if is_traced(sos):
            raise UnsupportedError(
                "sosfiltfilt: the length of the padding follows traced sections", hint="give padlen="
            )
        plain = np.asarray(sos)
        padlen = 3 * (2 * len(plain) + 1 - min(int((plain[:, 2] == 0).sum()), int((plain[:, 5] == 0).sum())))
    states, scale = [], 1.0
    for k in range(sections.shape[0]):
        states.append(scale * lfilter_zi(sections[k, :3], sections[k, 3:]))
        scale = scale * np.sum(sections[k, :3]) / np.sum(sections[k, 3:])

    def once(part: Any, at: int) -> Any:
        first = part[(*[slice(None)] * at, slice(0, 1))]
        shape = [-1 if i == at else 1 for i in range(part.ndim)]
        return sosfilt(sections, part, at, np.stack([s.reshape(shape) * first for s in states]))[0]

    return both_ways("sosfiltfilt", signal, axis, padtype, padlen or 0, once)
