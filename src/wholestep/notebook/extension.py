"""The IPython extension: `%load_ext wholestep`."""

from __future__ import annotations

import builtins
import importlib.util
from typing import Any

from wholestep.ir.graph import Graph
from wholestep.nn.ambient import params
from wholestep.nn.annotations import buffer, frozen, tied
from wholestep.nn.module import Module
from wholestep.nn.summaries import summary
from wholestep.notebook.names import NamedWeights
from wholestep.report.graph_drawing import html_drawing

NAMES = {"params": params, "frozen": frozen, "buffer": buffer, "tied": tied}
"""Names that a session gets, unless it has such a name of its own."""

VIEWS: dict[type[Any], Any] = {
    Graph: html_drawing,
    Module: lambda module: summary(module)._repr_html_(),
}
"""Each class that has a view in a notebook, and the view; subclasses have it too."""

MISSING = 'pipescript is not installed, so there is no |> and no params{ ... }: pip install "wholestep[notebook]"'


def load_ipython_extension(shell: Any) -> None:
    """Give a session views of graphs, steps and models, `|>` pipelines, and `params{ ... } as weights:`.

    `with params{ w = ...; b = frozen(...) } as weights:` binds the weights by their bare names until the block ends.
    Pipelines and that notation come from pipescript; without it, the session prints a message and has only the views.
    """
    formatter = shell.display_formatter.formatters["text/html"]
    for cls, view in VIEWS.items():
        formatter.for_type(cls, view)
    namespace = shell.user_ns
    for name, value in NAMES.items():
        namespace.setdefault(name, value)
    if importlib.util.find_spec("pipescript") is None:
        print(MISSING)
        return
    shell.extension_manager.load_extension("pipescript")
    from pipescript.tracers.macro_tracer import register_namespace_macro

    register_namespace_macro("params", lambda found: NamedWeights(**found).bound_in(namespace), params)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the views and names that loading added; pipescript stays loaded."""
    formatter = shell.display_formatter.formatters["text/html"]
    for cls in VIEWS:
        formatter.pop(cls, None)
    for name, value in NAMES.items():
        if shell.user_ns.get(name) is value:
            del shell.user_ns[name]
    if getattr(builtins, "params", None) is params:
        from pipescript.tracers.macro_tracer import MacroTracer

        MacroTracer.namespace_block_macros.pop("params", None)
        MacroTracer.static_macros.pop("params", None)
        delattr(builtins, "params")
