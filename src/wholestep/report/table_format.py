"""Tables of numbers and names, hot spots first, as text and for a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wholestep.dims import Dim, spelled_out
from wholestep.words import printable

SHOWN = 25
"""The most rows of a table; a last line has the number and the total share of further rows."""


class ReportTable(NamedTuple):
    """A table: a head and rows, whose first column is the row's share of the whole."""

    head: tuple[str, ...]
    rows: Sequence[tuple[float | int | Dim | str, ...]]

    def cells(self) -> list[tuple[str, ...]]:
        """The rows as text."""
        shares = [float(row[0]) for row in self.rows]
        shown = [(f"{x:.1%}", *map(format_cell, row[1:])) for x, row in zip(shares, self.rows[:SHOWN], strict=False)]
        rest = self.rows[SHOWN:]
        if rest:
            blank = ("",) * (len(self.head) - 2)
            shown.append((f"{sum(shares[SHOWN:]):.1%}", *blank, f"{len(rest)} more"))
        return [tuple(map(printable, row)) for row in shown]


def format_cell(x: float | int | Dim | str) -> str:
    """The text of a cell: a number with separated thousands, an expression of symbolic sizes, or a name."""
    return x if isinstance(x, str) else f"{x:,.2f}" if isinstance(x, float) else spelled_out(x)


def tables_as_text(title: str, tables: Sequence[ReportTable]) -> str:
    """A title and tables, in columns."""
    return "\n".join([printable(title), *[line for table in tables for line in ("", *table_lines(table))]])


def table_lines(table: ReportTable) -> Iterator[str]:
    """A line for each row: numbers to the right, names to the left."""
    names = [all(isinstance(row[i], str) for row in table.rows) for i in range(len(table.head))]
    return align_columns([table.head, *table.cells()], names)


def align_columns(rows: Sequence[Sequence[str]], left: Sequence[bool]) -> Iterator[str]:
    """A line for each row of cells, in columns that are aligned to the left or to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [c.ljust(w) if name else c.rjust(w) for c, w, name in zip(row, widths, left, strict=True)]
        yield "  ".join(cells).rstrip()


def tables_as_html(title: str, tables: Sequence[ReportTable]) -> str:
    """A title and tables as HTML for a notebook."""
    return f"<p>{html.escape(printable(title))}</p>" + "".join(table_html(x.head, x.cells()) for x in tables)


def table_html(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table in HTML."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    rows = [f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in cells]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
