"""The reference of the site: a page for each topic, with signature and docstring of every public name.

Docstrings are read at run time from the public names: several names are imported at their first use, which tools that
parse source text do not follow, and the docstrings have a form of their own (`Shapes:`, `Raises:`, an example).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from wholestep_tools.site.names import COVERED, ERRORS, SPACES, TOPICS, Entry, entries

TITLES = {
    **{page: title for page, (title, _) in TOPICS.items()},
    "step": "The compiled step",
    "callbacks": "Callbacks and loggers",
    **{page: title for page, (title, _) in SPACES.items()},
    ERRORS: "Errors and warnings",
}
CODE = re.compile(r"(`[^`]+`)")
PART = re.compile(r"^(Shapes|Raises|Source|Masks): ?", re.MULTILINE)

INDEX = """\
# Reference

Every public name, with the first sentence of its documentation. `import wholestep as ws` and
`from wholestep import nn, optim` are taken as given. Names of NumPy and SciPy are used as they are:
[the calls that differentiate](../coverage.md) lists them, and {covered} hold the same calls for code that runs as it
stands.
"""


def pages() -> dict[str, str]:
    """The pages of the reference by their paths in the site."""
    found = entries()
    links = {entry.name: entry.link for entry in found}
    links |= {name.replace("ws.random", "random"): link for name, link in links.items()}
    by_page: dict[str, list[Entry]] = {}
    for entry in found:
        by_page.setdefault(entry.page, []).append(entry)
    written = {"reference/index.md": index(by_page)}
    for page, members in by_page.items():
        if page != ERRORS:
            sections = [section(entry, links) for entry in members]
            written[f"reference/{page}.md"] = "\n".join([f"# {TITLES[page]}", "", *sections])
    return written


def index(by_page: Mapping[str, list[Entry]]) -> str:
    """The page with every public name and the first sentence about it."""
    lines = [INDEX.format(covered=" and ".join(f"`{module}`" for module in COVERED))]
    for page, members in by_page.items():
        lines += [f"## {TITLES[page]}", "", "| name | |", "|---|---|"]
        lines += [f"| [`{entry.name}`]({entry.link}) | {cell(entry.first)} |" for entry in members]
        lines.append("")
    return "\n".join(lines)


def section(entry: Entry, links: Mapping[str, str]) -> str:
    """Heading, signature and docstring of one name; of a class its methods too."""
    lines = [f"## {entry.name} {{ #{entry.anchor} }}", ""]
    if callable(entry.value):
        lines += ["```python", *import_of(entry), signature(entry.name.split(".")[-1], entry.value), "```", ""]
    others = known(entry, links)
    lines += [documentation(entry.value, others), ""]
    for name, method in methods(entry.value):
        heading = f"{entry.name.split('.')[-1]}.{name}".replace("__", r"\_\_")  # and no bold face
        lines += [f"### {heading} {{ #{entry.anchor}-{name.strip('_')} }}", ""]
        if inspect.isroutine(method):
            lines += ["```python", signature(name, method), "```", ""]
        lines += [documentation(method, others), ""]
    return "\n".join(lines)


def import_of(entry: Entry) -> list[str]:
    """The line that imports a name of a module that no short name stands for."""
    space, _, name = entry.name.rpartition(".")
    return [f"from wholestep.train.loop.{space} import {name}", ""] if entry.page == "callbacks" else []


def known(entry: Entry, links: Mapping[str, str]) -> dict[str, str]:
    """The names that code in a docstring may mean, with their links; those beside it may stand without their module."""
    space = entry.name.rpartition(".")[0] + "."
    beside = {name.removeprefix(space): link for name, link in links.items() if name.startswith(space)}
    found, own = {**beside, **links}, entry.link
    parameters = inspect.signature(entry.value).parameters if callable(entry.value) else ()
    return {name: link for name, link in found.items() if name not in parameters and link != own}


def methods(value: Any) -> list[tuple[str, Any]]:
    """The methods and properties of a class that are for users, which are those that its docstring names."""
    if not isinstance(value, type):
        return []
    told = re.findall(r"`(?:\w+\.)?(\w+)(?:\([^`]*)?`", inspect.getdoc(value) or "")
    own = [(name, getattr(value, name)) for name in dict.fromkeys(told) if name in vars(value)]
    return [(name, x) for name, x in own if x.__doc__ and (isinstance(x, property) or is_method(x, value))]


def is_method(value: Any, cls: type) -> bool:
    """Return whether a routine was written in a class, and not only put into it."""
    return inspect.isroutine(value) and f"{cls.__name__}." in getattr(value, "__qualname__", "")


def signature(name: str, value: Any) -> str:
    """The call of a function as text, one parameter a line where it is long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}(...)"
    parameters = [x for x in found.parameters.values() if x.name != "self"]
    given = found.empty if isinstance(value, type) else found.return_annotation  # a constructor returns None
    found = found.replace(parameters=parameters, return_annotation=given)
    text = plain(str(found))
    if len(name) + len(text) <= 100 or not parameters:
        return name + text
    rows, star = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            rows.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        rows.append(plain(str(parameter)))
    result = text[text.rindex(")") + 1 :]
    return "\n".join([f"{name}(", *[f"    {row}," for row in rows], f"){result}"])


def plain(text: str) -> str:
    """A signature without the quotes of annotations, the places of modules and the addresses of objects."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"(: |-> )\"([^\"]*)\"", r"\1\2", text)
    text = re.sub(r"<(?:function|ufunc|class|built-in function) '?(?:[\w.]*\.)?(\w+)'?[^>]*>", r"\1", text)
    return re.sub(r"<([\w.]+) object at 0x\w+>", r"\1", text)


def documentation(value: Any, links: Mapping[str, str]) -> str:
    """A docstring as Markdown: paragraphs, parts with their names in bold, and examples as blocks of code."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.getdoc(value) or ""):
        example = block.lstrip().startswith(">>>") or (blocks and blocks[-1].startswith("```pycon") and ">>>" in block)
        if example:
            blocks.append(f"```pycon\n{inspect.cleandoc(block)}\n```")
        elif all(line.startswith("    ") for line in block.splitlines()):
            blocks.append(block)
        else:
            blocks.append(prose(block, links))
    return "\n\n".join(blocks)


def prose(text: str, links: Mapping[str, str]) -> str:
    """A paragraph whose names in code are links, and in which nothing else is markup."""
    parts = CODE.split(PART.sub(r"\n@\1@ ", text))
    for i, part in enumerate(parts):
        if i % 2:
            name = part.strip("`").removeprefix("ws.") if part.startswith("`ws.nn.") else part.strip("`")
            parts[i] = f"[{part}]({links[name]})" if name in links else part
        else:
            parts[i] = re.sub(r"@(\w+)@", r"**\1.**", re.sub(r"([*<_])", r"\\\1", part))
    return "".join(parts).strip()


def cell(text: str) -> str:
    """Text that may stand in a cell of a table."""
    return "".join(
        x if x.startswith("`") else x.replace("*", r"\*").replace("<", r"\<") for x in CODE.split(text)
    ).replace("|", r"\|")
