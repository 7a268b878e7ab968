"""What a program holds in its arena over time, in words and as a picture."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wholestep.errors import ParameterError, Where, show

SHOWN = 40
"""Lines of a table; what is smaller is counted together."""
NAMED = 8
"""Operations that a picture explains the colours of."""
MANY = 200
"""Boxes beyond which a picture draws no edges, which would hide the small ones."""


class Held(NamedTuple):
    """Bytes of the arena from one moment to another, both included; a moment is the run of one kernel or routine."""

    offset: int
    nbytes: int
    start: int
    end: int
    what: str
    where: Where

    @property
    def operation(self) -> str:
        """What made it, without its type."""
        return self.what.split()[0]

    def __str__(self) -> str:
        line = f"  {show(self.where)}" if self.where is not None else ""
        return f"{self.nbytes:>15,} bytes at {self.offset:<12,} {self.what}{line}"


def fullest(held: Sequence[Held]) -> int:
    """The first moment at which most is held."""
    changes: dict[int, int] = {}
    for h in held:
        changes[h.start] = changes.get(h.start, 0) + h.nbytes
        changes[h.end + 1] = changes.get(h.end + 1, 0) - h.nbytes
    most = now = moment = 0
    for at in sorted(changes):
        now += changes[at]
        if now > most:
            most, moment = now, at
    return moment


def peak(held: Sequence[Held]) -> list[Held]:
    """What is alive at the moment when most is, the largest first."""
    moment = fullest(held)
    return sorted([h for h in held if h.start <= moment <= h.end], key=lambda h: (-h.nbytes, h.offset))


def total(held: Sequence[Held]) -> int:
    """The bytes of all of them."""
    return sum(h.nbytes for h in held)


def table(held: Sequence[Held]) -> Iterator[str]:
    """What is held at the peak: a line for all values of one type that an operation in one place makes."""
    alive = peak(held)
    groups: dict[tuple[str, str], list[Held]] = {}
    for h in alive:
        groups.setdefault((h.what, show(h.where) if h.where is not None else ""), []).append(h)
    ordered = sorted(groups.items(), key=lambda group: -total(group[1]))
    yield f"at the peak {total(alive):,} bytes in {len(alive)} values"
    for (what, where), group in ordered[:SHOWN]:
        yield f"{total(group):>15,} bytes  {f'{len(group)} x' if len(group) > 1 else '':>7} {what}  {where}".rstrip()
    rest = [h for _, group in ordered[SHOWN:] for h in group]
    if rest:
        yield f"{total(rest):>15,} bytes  in {len(rest)} others"


def draw(plan: Any, path: str | Path) -> None:
    """A picture of a plan's arena: time from left to right, addresses from bottom to top, one box a value.

    Raises ParameterError for a name that ends in neither .png nor .html.
    """
    path = Path(path)
    if path.suffix == ".png":
        draw_png(plan, path)
    elif path.suffix == ".html":
        path.write_text(page(plan), encoding="utf-8")
    else:
        raise ParameterError(f"plot: {path.name} is neither a .png nor an .html", hint="the ending says which is drawn")


def hues(held: Sequence[Held]) -> dict[str, float]:
    """A colour for each operation, in degrees: those that make most lie furthest apart."""
    return {h.operation: 137.5 * k % 360 for k, h in enumerate(largest(held))}


def draw_png(plan: Any, path: Path) -> None:
    from matplotlib.colors import hsv_to_rgb
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.add_subplot()
    peaked, colours = frozenset(peak(plan.held)), hues(plan.held)
    edge = {"edgecolor": "white"} if len(plan.held) <= MANY else {"linewidth": 0}

    def colour(h: Held, dark: bool) -> Any:
        return tuple(hsv_to_rgb((colours[h.operation] / 360, *((0.7, 0.65) if dark else (0.3, 0.92)))))

    for h in plan.held:
        where = [(h.start, h.end - h.start + 1)], (h.offset / 2**20, h.nbytes / 2**20)
        axes.broken_barh(*where, color=colour(h, h in peaked), **edge)
    axes.axvline(fullest(plan.held) + 0.5, color="black", linewidth=0.8, linestyle=":")
    named = {h.operation: Patch(color=colour(h, True)) for h in largest(peaked)[:NAMED]}
    axes.legend(named.values(), named.keys(), loc="upper right", title="at the peak")
    axes.set_xlabel("kernels and routines, in their order; the dotted line is the peak")
    axes.set_ylabel("arena, MiB")
    axes.set_title(f"{plan.name}: {plan.arena:,} bytes; what the peak holds is dark")
    axes.set_ylim(0, max(plan.arena / 2**20, 1e-6))
    figure.savefig(path, dpi=110)


def largest(held: Iterable[Held]) -> list[Held]:
    """A value of each operation, those first that make most."""
    groups: dict[str, list[Held]] = {}
    for h in held:
        groups.setdefault(h.operation, []).append(h)
    return [group[0] for group in sorted(groups.values(), key=lambda group: (-total(group), group[0].what))]


def page(plan: Any) -> str:
    """One page with the picture, whose boxes say what they are when they are pointed at, and the table."""
    last = max([h.end for h in plan.held], default=0) + 1
    peaked, colours = frozenset(peak(plan.held)), hues(plan.held)

    def shade(h: Held) -> str:
        return f"hsl({colours[h.operation]:g} {'65% 45%' if h in peaked else '45% 78%'})"

    boxes = "\n".join(
        f'<rect x="{h.start}" y="{plan.arena - h.offset - h.nbytes}" width="{h.end - h.start + 1}" '
        f'height="{h.nbytes}" fill="{shade(h)}"><title>{html.escape(str(h).strip())}</title></rect>'
        for h in plan.held
    )
    return PAGE.format(
        name=html.escape(plan.name),
        arena=plan.arena,
        size=f"{plan.arena:,}",
        last=last,
        boxes=boxes,
        names="\n".join(
            f'<span style="background: {shade(h)}">{html.escape(h.operation)}</span>' for h in largest(peaked)[:NAMED]
        ),
        peak=fullest(plan.held) + 0.5,
        edge="#fff" if len(plan.held) <= MANY else "none",
        rows=html.escape("\n".join(table(plan.held))),
    )


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}: memory</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; max-width: 72rem; color: #222; background: #fff }}
svg {{ width: 100%; height: 30rem; border: 1px solid #bbb; background: #fafafa }}
rect {{ stroke: {edge}; vector-effect: non-scaling-stroke; stroke-width: 0.6px }}
rect:hover {{ stroke: #000; stroke-width: 1.5px }}
line {{ stroke: #000; stroke-dasharray: 2 3; vector-effect: non-scaling-stroke }}
span {{ color: #fff; padding: 0.1rem 0.5rem; border-radius: 0.2rem }}
pre {{ overflow-x: auto; font-size: 13px }}
</style>
<h1>{name}</h1>
<p>The arena is {size} bytes. Time runs from left to right, one kernel or routine after another, and addresses from
bottom to top; each box is a value, dark where it is held at the peak, which is the dotted line. Point at one to see
what it is.</p>
<p>{names}</p>
<svg viewBox="0 0 {last} {arena}" preserveAspectRatio="none">
{boxes}
<line x1="{peak}" x2="{peak}" y1="0" y2="{arena}"/>
</svg>
<pre>{rows}</pre>
</html>
"""
