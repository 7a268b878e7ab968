"""Memory plots: the contents of a program's arena over time, as a table, a PNG or an HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from wholestep.errors import ParameterError, show
from wholestep.lower.program.live_ranges import LiveRange, live_at_peak, peak_moment, total_bytes
from wholestep.lower.program.program import LoweredProgram
from wholestep.report.graph_drawing import html_fold
from wholestep.words import preformatted

TABLE_LINES = 40
"""Maximum lines of a table; smaller values are summed up in the last one."""
LEGEND_ENTRIES = 8
"""Maximum operations in the legend."""
EDGE_LIMIT = 200
"""The most boxes that are drawn with edges, which would hide small boxes among more."""


def peak_table(held: Sequence[LiveRange]) -> Iterator[str]:
    """The values live at the peak: one line for all values of one type that one operation and source line defines."""
    alive = live_at_peak(held)
    groups: dict[tuple[str, str], list[LiveRange]] = {}
    for h in alive:
        groups.setdefault((h.what, show(h.where) if h.where is not None else ""), []).append(h)
    ordered = sorted(groups.items(), key=lambda group: -total_bytes(group[1]))
    yield f"at the peak {total_bytes(alive):,} bytes in {len(alive)} values"
    for (what, where), group in ordered[:TABLE_LINES]:
        times = f"{len(group)} x" if len(group) > 1 else ""
        yield f"{total_bytes(group):>15,} bytes  {times:>7} {what}  {where}".rstrip()
    rest = [h for _, group in ordered[TABLE_LINES:] for h in group]
    if rest:
        yield f"{total_bytes(rest):>15,} bytes  in {len(rest)} others"


class PlottableProgram(LoweredProgram):
    """The lowered program for users, which can draw its arena."""

    def plot(self, path: str | Path) -> None:
        """Draw the live ranges in the arena over time: a PNG by matplotlib, or one self-contained HTML page."""
        plot_memory(self, path)

    def _repr_html_(self) -> str:
        return memory_svg(self) + html_fold("plan", preformatted(str(self)))


def plottable(program: LoweredProgram, skipped_rewrites: tuple[str, ...] = ()) -> PlottableProgram:
    """The same program with a `plot` method, and the rewrites that were left out."""
    given = {f.name: getattr(program, f.name) for f in fields(program)}
    return PlottableProgram(**{**given, "skipped_rewrites": skipped_rewrites})


def plot_memory(plan: Any, path: str | Path) -> None:
    """Draw a program's arena: time from left to right, addresses from bottom to top, one box per live range.

    Raises ParameterError for a file name that ends in neither .png nor .html.
    """
    path = Path(path)
    if path.suffix == ".png":
        plot_memory_png(plan, path)
    elif path.suffix == ".html":
        path.write_text(memory_html(plan), encoding="utf-8")
    else:
        raise ParameterError(f"plot: {path.name} is neither a .png nor an .html", hint="the ending says which is drawn")


def operation_hues(held: Sequence[LiveRange]) -> dict[str, float]:
    """A hue in degrees for each operation; the hues of operations with the most bytes are furthest apart."""
    return {h.operation: 137.5 * k % 360 for k, h in enumerate(largest_operations(held))}


def plot_memory_png(plan: Any, path: Path) -> None:
    from matplotlib.colors import hsv_to_rgb
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.add_subplot()
    peaked, colours = frozenset(live_at_peak(plan.live_ranges)), operation_hues(plan.live_ranges)
    edge = {"edgecolor": "white"} if len(plan.live_ranges) <= EDGE_LIMIT else {"linewidth": 0}

    def colour(h: LiveRange, dark: bool) -> Any:
        return tuple(hsv_to_rgb((colours[h.operation] / 360, *((0.7, 0.65) if dark else (0.3, 0.92)))))

    for h in plan.live_ranges:
        where = [(h.start, h.end - h.start + 1)], (h.offset / 2**20, h.nbytes / 2**20)
        axes.broken_barh(*where, color=colour(h, h in peaked), **edge)
    axes.axvline(peak_moment(plan.live_ranges) + 0.5, color="black", linewidth=0.8, linestyle=":")
    named = {h.operation: Patch(color=colour(h, True)) for h in largest_operations(peaked)[:LEGEND_ENTRIES]}
    axes.legend(named.values(), named.keys(), loc="upper right", title="at the peak")
    axes.set_xlabel("kernels and routines, in their order; the dotted line is the peak")
    axes.set_ylabel("arena, MiB")
    axes.set_title(f"{plan.name}: {plan.arena:,} bytes; what the peak holds is dark")
    axes.set_ylim(0, max(plan.arena / 2**20, 1e-6))
    figure.savefig(path, dpi=110)


def largest_operations(held: Iterable[LiveRange]) -> list[LiveRange]:
    """One value of each operation, ordered by the total bytes of the operation."""
    groups: dict[str, list[LiveRange]] = {}
    for h in held:
        groups.setdefault(h.operation, []).append(h)
    return [group[0] for group in sorted(groups.values(), key=lambda group: (-total_bytes(group), group[0].what))]


def memory_html(plan: Any) -> str:
    """An HTML page with the plot, whose boxes have tooltips, and the peak table."""
    return HTML_TEMPLATE.format(
        name=html.escape(plan.name),
        size=f"{plan.arena:,}",
        plot=memory_svg(plan),
        edge="#fff" if len(plan.live_ranges) <= EDGE_LIMIT else "none",
        rows=html.escape("\n".join(peak_table(plan.live_ranges))),
    )


def memory_svg(plan: Any) -> str:
    """The plot as SVG under its legend; each box has a tooltip that describes its live range."""
    last = max([h.end for h in plan.live_ranges], default=0) + 1
    peaked, colours = frozenset(live_at_peak(plan.live_ranges)), operation_hues(plan.live_ranges)

    def shade(h: LiveRange) -> str:
        return f"hsl({colours[h.operation]:g} {'65% 45%' if h in peaked else '45% 78%'})"

    boxes = "\n".join(
        f'<rect x="{h.start}" y="{plan.arena - h.offset - h.nbytes}" width="{h.end - h.start + 1}" '
        f'height="{h.nbytes}" fill="{shade(h)}"><title>{html.escape(str(h).strip())}</title></rect>'
        for h in plan.live_ranges
    )
    names = "\n".join(
        f'<span style="background: {shade(h)}; color: #fff; padding: 0.1rem 0.5rem; border-radius: 0.2rem">'
        f"{html.escape(h.operation)}</span>"
        for h in largest_operations(peaked)[:LEGEND_ENTRIES]
    )
    peak = peak_moment(plan.live_ranges) + 0.5 if plan.live_ranges else 0
    return SVG_TEMPLATE.format(names=names, last=last, arena=plan.arena, boxes=boxes, peak=peak)


SVG_TEMPLATE = """<p>{names}</p>
<svg viewBox="0 0 {last} {arena}" preserveAspectRatio="none"
 style="width: 100%; height: 30rem; border: 1px solid #bbb; background: #fafafa">
{boxes}
<line x1="{peak}" x2="{peak}" y1="0" y2="{arena}" stroke="#000" stroke-dasharray="2 3"
 vector-effect="non-scaling-stroke"/>
</svg>
"""

HTML_TEMPLATE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}: memory</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; max-width: 72rem; color: #222; background: #fff }}
rect {{ stroke: {edge}; vector-effect: non-scaling-stroke; stroke-width: 0.6px }}
rect:hover {{ stroke: #000; stroke-width: 1.5px }}
pre {{ overflow-x: auto; font-size: 13px }}
</style>
<h1>{name}</h1>
<p>The arena is {size} bytes. Time runs from left to right, one kernel or routine after another, and addresses from
bottom to top; each box is a value, dark where it is held at the peak, which is the dotted line. Point at one to see
what it is.</p>
{plot}<pre>{rows}</pre>
</html>
"""
