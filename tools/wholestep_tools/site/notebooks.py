"""Notebooks: eight examples of the gallery, cut into cells, run, and kept with what they print and draw."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from wholestep_tools.site.gallery import EXAMPLES

FOLDER = EXAMPLES.parent / "notebooks"

DRAWN = {
    "diffusion": """\
figure, axes = plt.subplots(figsize=(4, 4))
axes.plot(*x[:300].T, ".", alpha=0.3, label="data")
axes.plot(*np.asarray(made).T, ".", label="made out of noise")
axes.set_aspect("equal")
axes.legend();""",
    "flow": """\
figure, axes = plt.subplots(figsize=(4, 4))
grid = np.stack(np.meshgrid(np.linspace(-3, 3, 80), np.linspace(-3, 6, 80)), axis=-1).reshape(-1, 2).astype(np.float32)
density = ws.vmap(lambda point: -negative_log_likelihood(step.model, point[None]))(grid)
axes.contourf(*grid.reshape(80, 80, 2).transpose(2, 0, 1), np.exp(density).reshape(80, 80), 12)
axes.plot(*test[:200].T, "w.", markersize=2);""",
    "fluid": """\
figure, axes = plt.subplots(1, 3, figsize=(9, 3))
titles = ["the beginning", "the end that was seen", "the end that was found"]
for axis, smoke, title in zip(axes, [start, batch["end"], ended(step.params, start)], titles, strict=True):
    axis.imshow(smoke)
    axis.set_title(title)""",
    "gaussian_process": """\
figure, axes = plt.subplots(figsize=(6, 3))
axes.plot(x, y, ".", label="data")
axes.plot(between, predicted, label="prediction")
axes.plot(between, np.sin(between), "--", label="truth")
axes.legend();""",
    "neural_ode": """\
figure, axes = plt.subplots(figsize=(4, 4))
axes.plot(*path[1:61, 0].T, ".", label="the trajectory")
axes.plot(*np.asarray(found)[:, 0].T, label="the network's")
axes.legend();""",
    "pendulum": """\
_, (angles, _) = motion(step.params)
figure, axes = plt.subplots(figsize=(6, 3))
axes.plot(STEP * np.arange(STEPS), angles, label="angle")
axes.plot(STEP * np.arange(STEPS), 5 * np.tanh(step.params), label="torque")
axes.set_xlabel("seconds")
axes.legend();""",
    "transport": """\
figure, axes = plt.subplots(figsize=(4, 4))
axes.plot(*target.T, "o", fillstyle="none", label="target")
axes.plot(*moved.T, ".", label="moved points")
axes.legend();""",
    "unet": """\
figure, axes = plt.subplots(3, 5, figsize=(7, 4))
rows = [fresh["x"], fresh["y"], step.predict(fresh["x"]) > 0]
for line, pictures_, title in zip(axes, rows, ["image", "truth", "named"], strict=True):
    line[0].set_ylabel(title)
    for axis, picture in zip(line, pictures_, strict=False):
        axis.imshow(np.squeeze(picture))
        axis.set(xticks=[], yticks=[])""",
}
"""The examples that are notebooks, each with a cell that draws what its `main` has found."""

OF_A_CELL = re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py")
"""The file that a kernel gives a cell, whose name is of one machine and one run."""

EPILOGUE = {"step": "step.memory"}
"""Cells that follow where a notebook has a name: the memory of a compiled step, as a table."""


def cells(name: str) -> list[dict[str, str]]:
    """The cells of a notebook, without what running them gives: prose, imports, definitions, `main` in pieces."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.splitlines()
    title = name.replace("_", " ").capitalize()
    found = [{"cell_type": "markdown", "source": f"# {title}\n\n{ast.get_docstring(tree)}"}]
    imports: list[str] = []
    for node in tree.body[1:]:
        piece = "\n".join(lines[first_line(node) - 1 : node.end_lineno])
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(piece)
        elif isinstance(node, ast.FunctionDef) and node.name == "main":
            found += [code(part) for part in pieces_of_main(node, lines)]
        elif not isinstance(node, ast.If):
            found.append(code(piece))
    found.insert(1, code("\n".join([*imports, "import matplotlib.pyplot as plt", "", "%matplotlib inline"])))
    source = "\n".join(cell["source"] for cell in found)
    extra = [code(text) for word, text in EPILOGUE.items() if f"{word} = " in source]
    return [*found, code(DRAWN[name]), *extra]


def pieces_of_main(node: ast.FunctionDef, lines: list[str]) -> list[str]:
    """The body of `main` as cells: up to the compilation, the training, and the number that it returns."""
    parts: list[list[str]] = [[]]
    for statement in node.body:
        text = "\n".join([line[4:] for line in lines[statement.lineno - 1 : statement.end_lineno]])
        if isinstance(statement, ast.Return):
            assert statement.value is not None
            number = text.removeprefix("return ")
            parts += [[f"reached = {number}", 'print(f"{reached:.4f} {QUANTITY}; at most {BOUND}")']]
            continue
        if isinstance(statement, ast.For) and parts[-1]:
            parts.append([])
        parts[-1].append(text)
    return ["\n".join(part) for part in parts if part]


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *[d.lineno for d in decorators]])


def code(source: str) -> dict[str, str]:
    """A cell of code."""
    return {"cell_type": "code", "source": source}


def executed(name: str) -> Any:
    """A notebook with what running it gives; raises nbclient's CellExecutionError where a cell fails."""
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
    for name in DRAWN:
        text = json.dumps(executed(name), indent=1, ensure_ascii=False, sort_keys=True)
        (FOLDER / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_all()
