"""Drawings of graphs: each operation below its operands, as a self-contained picture in HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wholestep.errors import show
from wholestep.ir.graph import Graph, Node, Value
from wholestep.words import preformatted, printable

MOST_BOXES = 400
"""The most values of a graph that is drawn; larger graphs, whose drawings are illegible, are shown as text."""

CHARACTER = 7.3
"""Width of a character in units of the picture."""
LETTERS = 26
"""The most characters of a line in a box."""
GAP, HEIGHT, STEP = 14, 34, 62

SHADES = {"input": "#5b8def", "operation": "#8a8f98", "output": "#3fa66a"}


class Box(NamedTuple):
    """A rectangle of the picture: its values, its two lines of text, its tooltip, its kind, and the values it reads."""

    values: tuple[Value, ...]
    lines: tuple[str, str]
    tip: str
    kind: str
    reads: tuple[Value, ...]

    @property
    def width(self) -> float:
        return CHARACTER * max(map(len, self.lines)) + 16


def html_drawing(graph: Graph) -> str:
    """The drawing of a graph and of every graph inside it, and under them the program as text, folded.

    Inputs are blue, outputs green; a box has its operation and type, and the user's line as a tooltip.
    """
    inner = list(dict.fromkeys(graph.family()))
    parts = [drawing(inner[0])]
    parts += [html_fold(f"{g.name}, inside", drawing(g)) for g in inner[1:] if len(g.nodes) <= MOST_BOXES]
    return "".join([*parts, html_fold("program", preformatted(str(graph)))])


def html_fold(title: str, body: str) -> str:
    """HTML folded under a title."""
    return f"<details><summary>{html.escape(printable(title))}</summary>{body}</details>"


def drawing(graph: Graph) -> str:
    """One graph as SVG, or a line that says that it is too large to be drawn."""
    boxes = list(boxes_of(graph))
    if len(boxes) > MOST_BOXES:
        return preformatted(f"{graph.name}: {len(graph.nodes)} operations, which are too many to be drawn")
    rows = sorted_rows(rows_by_depth(boxes))
    widths = [sum(box.width + GAP for box in row) for row in rows]
    whole = max(widths, default=0) + GAP
    places: dict[Value, tuple[float, float]] = {}
    drawn = []
    for depth, (row, width) in enumerate(zip(rows, widths, strict=True)):
        left, top = (whole - width + GAP) / 2, 8.0 + STEP * depth
        for box in row:
            drawn.append(html_box(box, left, top))
            places |= dict.fromkeys(box.values, (left + box.width / 2, top))
            left += box.width + GAP
    lines = [html_edge(places[read], places[box.values[0]]) for row in rows for box in row for read in box.reads]
    height = STEP * len(rows) + 8
    return (
        f'<div style="overflow-x: auto"><svg width="{whole:.0f}" height="{height}" '
        f'viewBox="0 0 {whole:.0f} {height}" font-family="monospace" font-size="12">'
        f"{''.join(lines)}{''.join(drawn)}</svg></div>"
    )


def boxes_of(graph: Graph) -> Iterator[Box]:
    """The boxes of inputs and operations; constants appear only in the text of the program."""
    results = set(graph.outputs)
    read = {v for node in graph.nodes for v in node.inputs} | results
    names = graph.input_names or ("",) * len(graph.inputs)
    for name, value in zip(names, graph.inputs, strict=True):
        if value in read:
            yield Box((value,), (shortened(name or "input"), shortened(str(value.type))), "", "input", ())
    left_out: set[Value] = set()
    for node in graph.nodes:
        kind = "output" if results.intersection(node.outputs) else "operation"
        if kind == "operation" and not node.inputs:
            left_out.update(node.outputs)
        elif node.outputs:
            reads = tuple(dict.fromkeys(v for v in node.inputs if v not in left_out))
            types = ", ".join(str(v.type) for v in node.outputs)
            yield Box(node.outputs, (node.op.name, shortened(types)), tip_of(node, types), kind, reads)


def tip_of(node: Node, types: str) -> str:
    """The tooltip of an operation."""
    plain = {k: v for k, v in node.params.items() if not isinstance(v, Graph) and len(repr(v)) < 60}
    given = ", ".join(f"{k}={v!r}" for k, v in plain.items())
    return f"{node.op.name}({given}) -> {types}\n{show(node.where)}".strip()


def shortened(text: str) -> str:
    """Text that fits into a box."""
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"


def rows_by_depth(boxes: Sequence[Box]) -> list[list[Box]]:
    """The boxes by depth: an operation is one below its lowest operand, an input one above its first reader."""
    depths: dict[Value, int] = {}
    first: dict[Value, int] = {}
    for box in boxes:
        depth = 1 + max((depths.get(v, 0) for v in box.reads), default=0)
        if box.kind != "input":
            depths |= dict.fromkeys(box.values, depth)
        for v in box.reads:
            first[v] = min(first.get(v, depth), depth)
    rows: dict[int, list[Box]] = {}
    for box in boxes:
        value = box.values[0]
        rows.setdefault(depths.get(value, first.get(value, 1) - 1), []).append(box)
    return [rows[depth] for depth in sorted(rows)]


def sorted_rows(rows: Sequence[list[Box]]) -> list[list[Box]]:
    """The rows with their boxes sorted by the mean position of their operands."""
    centres: dict[Value, float] = {}
    made = []
    for row in rows:
        row = sorted(row, key=lambda box: mean_place(box, centres))
        made.append(row)
        for i, box in enumerate(row):
            centres |= dict.fromkeys(box.values, (i + 0.5) / len(row))
    return made


def mean_place(box: Box, centres: Mapping[Value, float]) -> float:
    """The mean position of the values that a box reads; the middle for a box that reads none."""
    found = [centres[v] for v in box.reads if v in centres]
    return sum(found) / len(found) if found else 0.5


def html_box(box: Box, left: float, top: float) -> str:
    """A box with its two lines; colors are translucent, for light and dark pages."""
    middle = left + box.width / 2
    first, second = (html.escape(printable(line)) for line in box.lines)
    tip = f"<title>{html.escape(printable(box.tip))}</title>" if box.tip else ""
    return (
        f'<g>{tip}<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{HEIGHT}" rx="4" '
        f'fill="{SHADES[box.kind]}" fill-opacity="0.25" stroke="{SHADES[box.kind]}"/>'
        f'<text x="{middle:.1f}" y="{top + 14:.1f}" text-anchor="middle" fill="currentColor">{first}</text>'
        f'<text x="{middle:.1f}" y="{top + 28:.1f}" text-anchor="middle" fill="currentColor" font-size="10" '
        f'opacity="0.75">{second}</text></g>'
    )


def html_edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve from the lower side of one box to the upper side of another."""
    (x, y), (to, below) = start, end
    y += HEIGHT
    half = (y + below) / 2
    return (
        f'<path d="M{x:.1f} {y:.1f}C{x:.1f} {half:.1f} {to:.1f} {half:.1f} {to:.1f} {below:.1f}" fill="none" '
        f'stroke="#8a8f98" stroke-opacity="0.7"/>'
    )
