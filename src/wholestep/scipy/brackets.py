"""Brent's search for a root in a bracket: a loop of the program, each step of which halves or interpolates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wholestep import dtypes
from wholestep.frontend.control import while_loop
from wholestep.frontend.promotion import lift
from wholestep.scipy.outside import np


class Bracket(NamedTuple):
    """The state of Brent's method: the last two places and the one across the root, values there, and the steps."""

    before: Any
    here: Any
    across: Any
    f_before: Any
    f_here: Any
    f_across: Any
    step_before: Any
    step: Any
    count: Any

    def ordered(self) -> Bracket:
        """The place across the root set anew where the last step crossed it, and the best place taken for `here`."""
        crossed = (self.f_before != 0) & (self.f_here != 0) & (np.sign(self.f_before) != np.sign(self.f_here))
        width = self.here - self.before
        across, f_across = np.where(crossed, self.before, self.across), np.where(crossed, self.f_before, self.f_across)
        before, last = np.where(crossed, width, self.step_before), np.where(crossed, width, self.step)
        turn = np.abs(f_across) < np.abs(self.f_here)
        return self._replace(
            before=np.where(turn, self.here, self.before),
            here=np.where(turn, across, self.here),
            across=np.where(turn, self.here, across),
            f_before=np.where(turn, self.f_here, self.f_before),
            f_here=np.where(turn, f_across, self.f_here),
            f_across=np.where(turn, self.f_here, f_across),
            step_before=before,
            step=last,
        )

    def next_step(self, half: Any, least: Any, bisecting: bool) -> tuple[Any, Any]:
        """The step that counts as the one before the next, and the next one: interpolated where that is short."""
        if bisecting:
            return half, half
        flat = self.f_here == self.f_before
        linear = -self.f_here * (self.here - self.before) / np.where(flat, 1, self.f_here - self.f_before)
        two = self.before == self.across
        d_before = divided(self.f_before - self.f_here, self.before - self.here)
        d_across = divided(self.f_across - self.f_here, self.across - self.here)
        below = d_across * d_before * (self.f_across - self.f_before)
        quadratic = divided(-self.f_here * (self.f_across * d_across - self.f_before * d_before), below)
        tried = np.where(two, linear, quadratic)
        worth = (np.abs(self.step_before) > least) & (np.abs(self.f_here) < np.abs(self.f_before))
        bound = np.minimum(np.abs(self.step_before), 3 * np.abs(half) - least)
        short = worth & (2 * np.abs(tried) < bound) & ~(two & flat)
        return np.where(short, self.step, half), np.where(short, tried, half)


def divided(a: Any, b: Any) -> Any:
    """a / b, and infinity where b is 0."""
    nothing = b == 0
    return np.where(nothing, np.inf, a / np.where(nothing, 1, b))


class Bracketing(NamedTuple):
    """The options of a search in a bracket."""

    name: str
    xtol: Any
    rtol: Any
    maxiter: int
    bisecting: bool = False

    def found(self, f: Callable[[Any], Any], a: Any, b: Any) -> tuple[Any, Any]:
        """The root between a and b, nan where there is none or the steps run out; and counts and convergence."""
        least_relative = max(self.rtol, 4 * float(dtypes.limits(a.dtype).eps))

        def margin(x: Any) -> Any:
            return (self.xtol + least_relative * np.abs(x)) / 2

        def ended(at: Bracket) -> Any:
            return (at.f_here == 0) | (np.abs(at.across - at.here) / 2 < margin(at.here))

        def going(at: Any) -> Any:
            state = Bracket(*at)
            return ~ended(state) & (state.count < self.maxiter)

        def body(at: Any) -> Any:
            state = Bracket(*at)
            half, least = (state.across - state.here) / 2, margin(state.here)
            before, step = state.next_step(half, least, self.bisecting)
            move = np.where(np.abs(step) > least, step, np.where(half > 0, least, -least))
            here = (state.here + move).astype(a.dtype)
            made = state._replace(
                before=state.here, f_before=state.f_here, here=here, f_here=f(here), step_before=before, step=step
            )
            ordered = made._replace(count=state.count + 1).ordered()
            return tuple([x.astype(y.dtype) for x, y in zip(ordered, state, strict=True)])

        fa, fb = f(a), f(b)
        start = Bracket(a, b, a, fa, fb, fa, b - a, b - a, lift(np.int64(0)))
        at_ends = (fa == 0) | (fb == 0)
        bracketed = at_ends | (np.sign(fa) * np.sign(fb) < 0)
        first = start.ordered()
        first = first._replace(here=np.where(fa == 0, a, first.here), f_here=np.where(at_ends, 0, first.f_here))
        first = first._replace(here=np.where((fb == 0) & (fa != 0), b, first.here))
        carried = tuple([x.astype(y.dtype) for x, y in zip(first, start, strict=True)])
        last = Bracket(*while_loop(going, body, carried))
        converged = bracketed & ended(last)
        return np.where(converged, last.here, np.nan).astype(a.dtype), (last.count, last.count + 2, converged)
