"""The transforms as one argument, for the rules of primitives that hold graphs: nothing below looks up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Transforms:
    """The transforms that a nested rule may apply to its graphs; each enters itself when its module is imported."""

    jvp: Callable[..., Any]
    """(graph, active, out_on=None) -> (graph of outputs and tangents, which outputs have one)"""
    vjp: Callable[..., Any]
    """(graph, wrt, given, primals=False) -> graph of cotangents, after the outputs where `primals`"""
    backward: Callable[..., Any]
    """(nodes, seeds, wanted) -> cotangents"""


TRANSFORMS = Transforms()
