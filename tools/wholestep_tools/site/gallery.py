"""The gallery: examples that each print one number, with the number that each reached."""

from __future__ import annotations

import ast
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

from wholestep_tools.bench.machine import processor

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "gallery"
REACHED = EXAMPLES / "reached.json"
BESIDE = EXAMPLES / "twins.json"
PICTURES = ROOT / "docs" / "pictures" / "gallery"
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

HEAD = """\
# Gallery

{count} small programs of many fields, each on one page, each with a picture of what it has found and a number that says
whether it is right: an error against a closed form, a share of wrong answers, a bound on a likelihood.
`python examples/gallery/NAME.py` prints the number, and its function `picture` draws on a figure of matplotlib;
`make pictures` draws all that stand here.

<div class="grid cards pictures" markdown>

{cards}

</div>

## What each reached

All run in the tests, which demand the bound. Seconds are those of the processor, {machine}, for the whole run,
compilation included.

*JAX / ours* is the time of one step written by hand in {peer} beside that of the example's own, on {threads} of
{beside}, in turns: above 1 ours is faster. Both begin with the same parameters and data, and what they compute first
agrees to 1e-4. `wholestep bench gallery` measures it.

| | reached | bound | seconds | JAX / ours |
|---|---|--:|--:|--:|
"""

FOOT = """
Eight of them are notebooks too, with what they print and the same picture: {notebooks}.

Longer ones, with data, checkpoints and curves, are among the [examples](../examples/README.md).
"""


def files() -> list[Path]:
    """The examples of the gallery, by name."""
    return sorted(EXAMPLES.glob("*.py"))


def picture_of(file: Path) -> Path:
    """The file of an example's picture, whether there is one or not."""
    return PICTURES / f"{file.stem if file.parent == EXAMPLES else ''}.png"


def loaded(file: Path) -> Any:
    """An example as a module, which nothing else imports."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_sentence(file: Path) -> str:
    """The sentence with which an example begins."""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0].replace("\n", " ")


def title(file: Path) -> str:
    """The name of an example as a heading."""
    return file.stem.replace("_", " ")


def card(file: Path) -> str:
    """The picture of an example, and under it the first sentence of its docstring."""
    link = f"../examples/gallery/{file.name}"
    picture = f"[![{title(file)}](pictures/gallery/{file.stem}.png)]({link})"
    return f"- {picture}\n\n    **[{title(file)}]({link})**. {first_sentence(file)}"


def page() -> str:
    """The page of the gallery, from the examples and from their recorded results."""
    record = json.loads(REACHED.read_text(encoding="utf-8"))
    beside = json.loads(BESIDE.read_text(encoding="utf-8"))
    threads = "one thread" if beside["threads"] == 1 else f"{beside['threads']} threads"
    facts = {"machine": record["machine"], "beside": beside["processor"], "peer": beside["peer"], "threads": threads}
    facts["cards"] = "\n\n".join(map(card, files()))
    lines = [HEAD.format(count=len(files()), **facts).rstrip("\n")]
    for file in files():
        found = record["examples"][file.stem]
        numbers = f"{found['reached']:.2g} {found['quantity']} | {found['bound']:g} | {found['seconds']:.1f}"
        took = beside["examples"].get(file.stem)
        ratio = f"{took['theirs'] / took['ours']:.2f}" if took else ""
        lines.append(f"| [{title(file)}](../examples/gallery/{file.name}) | {numbers} | {ratio} |")
    links = [f"[{title(file)}](../examples/notebooks/{file.name})" for file in NOTEBOOKS]
    return "\n".join(lines) + "\n" + FOOT.format(notebooks=", ".join(links))


def measured(machine: str) -> dict[str, Any]:
    """The record of all examples, run one after the other."""
    found = {}
    for file in files():
        module, start = loaded(file), time.process_time()
        reached = module.main()
        seconds = time.process_time() - start
        found[file.stem] = dict(
            reached=reached, quantity=module.QUANTITY, bound=module.BOUND, seconds=round(seconds, 2)
        )
    return {"machine": machine, "examples": found}


if __name__ == "__main__":
    REACHED.write_text(json.dumps(measured(processor()), indent=1) + "\n", encoding="utf-8")
