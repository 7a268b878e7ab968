"""Notebooks: eight examples of the gallery, cut into cells, run, and kept with their outputs."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from wholestep_tools.site.drawn import SIZE
from wholestep_tools.site.gallery import EXAMPLES

FOLDER = EXAMPLES.parent / "notebooks"

CHOSEN = ("diffusion", "flow", "fluid", "gaussian_process", "neural_ode", "pendulum", "transport", "unet")
"""The examples that are notebooks."""

OF_A_CELL = re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py")
"""The file that a kernel gives a cell, whose name is of one machine and one run."""

RAN = ("run", "main", "picture")
"""The functions of an example whose bodies are cells: its training, its number, and its picture."""
BLANK = f'figure = plt.figure(figsize={SIZE}, layout="constrained")'
EPILOGUE = {"step": "step.memory"}
"""Cells that follow where a notebook has a name: the memory of a compiled step, as a table."""


def cells(name: str) -> list[dict[str, str]]:
    """The cells of a notebook, without outputs: prose, imports, definitions, and the run in pieces."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.splitlines()
    title = name.replace("_", " ").capitalize()
    found = [{"cell_type": "markdown", "source": f"# {title}\n\n{ast.get_docstring(tree)}"}]
    imports: list[str] = []
    ran = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in RAN}
    for node in tree.body[1:]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(piece(node, lines))
        elif not isinstance(node, ast.If) and node not in ran.values():
            found.append(code(piece(node, lines)))
    found.insert(1, code("\n".join([*imports, "import matplotlib.pyplot as plt", "", "%matplotlib inline"])))
    found += [code(part) for part in [*pieces_of_run(ran, lines), number(ran["main"], lines)]]
    source = "\n".join(cell["source"] for cell in found)
    extra = [code(text) for word, text in EPILOGUE.items() if f"{word} = " in source]
    drawn = "\n".join([BLANK, *[piece(x, lines) for x in ran["picture"].body[1:]]]) + ";"  # its last value is not shown
    return [*found, code(drawn), *extra]


def piece(node: ast.stmt, lines: list[str]) -> str:
    """The text of a statement, as it would stand outside of a function."""
    return "\n".join([line[node.col_offset :] for line in lines[first_line(node) - 1 : node.end_lineno]])


def pieces_of_run(ran: dict[str, ast.FunctionDef], lines: list[str]) -> list[str]:
    """The body of `run` as cells: up to the compilation, and the training with names for its results."""
    parts: list[list[str]] = [[]]
    *statements, last = ran["run"].body
    for statement in statements:
        if isinstance(statement, ast.For) and parts[-1]:
            parts.append([])
        parts[-1].append(piece(statement, lines))
    assert isinstance(last, ast.Return) and last.value is not None
    for value, *names in zip(each(last.value), *[names_of(ran[f]) for f in ("main", "picture")], strict=True):
        name = next(name for name in names if name != "_")
        if name != value:
            parts[-1].append(f"{name} = {value}")
    return ["\n".join(part) for part in parts if part]


def each(value: ast.expr) -> list[str]:
    """The elements of a tuple as text, or the text of any other expression."""
    return [ast.unparse(x) for x in (value.elts if isinstance(value, ast.Tuple) else [value])]


def names_of(function: ast.FunctionDef) -> list[str]:
    """The names that a function's first assignment gives to the results of `run`."""
    (given,) = [x.targets[0] for x in function.body[:1] if isinstance(x, ast.Assign)]
    return each(given)


def number(main: ast.FunctionDef, lines: list[str]) -> str:
    """The cell that prints the number that `main` returns."""
    *statements, last = main.body[1:]
    reached = piece(last, lines).replace("return ", "reached = ", 1)
    told = 'print(f"{reached:.4f} {QUANTITY}; at most {BOUND}")'
    return "\n".join([*[piece(x, lines) for x in statements], reached, told])


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *[d.lineno for d in decorators]])


def code(source: str) -> dict[str, str]:
    """A cell of code."""
    return {"cell_type": "code", "source": source}


def executed(name: str) -> Any:
    """A notebook with its outputs; raises nbclient's CellExecutionError where a cell fails."""
    import nbclient
    import nbformat

    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    found = nbformat.v4.new_notebook(
        cells=[make[cell["cell_type"]](cell["source"], id=f"{name}-{i}") for i, cell in enumerate(cells(name))],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbclient.NotebookClient(found, timeout=600, record_timing=False).execute()
    found.metadata.pop("language_info", None)  # the version of a machine's Python
    for output in [output for cell in found.cells for output in cell.get("outputs", ())]:
        for kind, text in output.get("data", {}).items():
            if isinstance(text, str):
                output["data"][kind] = OF_A_CELL.sub("cell", text)
    return found


def write_all() -> None:
    """Run every notebook, and keep it in its folder."""
    FOLDER.mkdir(exist_ok=True)
    for name in CHOSEN:
        text = json.dumps(executed(name), indent=1, ensure_ascii=False, sort_keys=True)
        (FOLDER / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_all()
