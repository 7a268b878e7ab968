"""jit: a function traced once for each kind of arguments, with abstract values and strict errors."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from wholestep import config, containers, tree
from wholestep.boundary.public import bounded
from wholestep.collector import without_garbage_collection
from wholestep.compiler import devices
from wholestep.compiler.backends import DEFAULT_DEVICE
from wholestep.dims import bind
from wholestep.errors import DtypeError
from wholestep.exits import UNBROKEN
from wholestep.frontend import outside
from wholestep.frontend.argument_kinds import (
    complete_statics,
    enters,
    kind_change,
    kind_of,
    number_kind,
    program_key,
    takes_any_keyword,
)
from wholestep.frontend.array import Array
from wholestep.frontend.array_watches import watch_named
from wholestep.frontend.closure_reads import Reading, readings
from wholestep.frontend.einops import register_backend
from wholestep.frontend.printing import with_said, without_said
from wholestep.frontend.pure import pure
from wholestep.frontend.recompilation import Sizes
from wholestep.frontend.repeated_call import UNLIKE, RepeatedCall, repeated_call
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.frontend.structures import structure_change
from wholestep.frontend.traced_function import Captured, TracedFunction
from wholestep.frontend.tracing import as_array, check_function, guarded, parameter_names
from wholestep.ir.analysis import cut
from wholestep.ir.build import GraphBuilder, building, close, current, inline
from wholestep.ir.graph import Graph
from wholestep.ir.types import Type
from wholestep.ir.verify import verify
from wholestep.passes.attention_pattern.replace import (
    FIND_ATTENTION,
    FoundAttention,
    check_blocks,
    looking_for_attention,
)
from wholestep.primitives.marks import identity
from wholestep.words import printable

P = ParamSpec("P")
R = TypeVar("R")

ANY_SIZE = (
    'f.any_size(ws.ShapeDtype((ws.Dim("B"), ...), dtype)) compiles f once for all sizes; '
    "padding to a few lengths makes a few programs"
)
"""The hint for a function that is called with many different sizes."""


@bounded
class jit(Generic[P, R]):
    """f as a program, traced once for each combination of argument types and static values.

    Inside, arrays are abstract: an `if` on one is an error that names the line. Arrays that f closes over are
    constants, listed in `constants`; changing one afterwards raises MutationError instead of replaying the old value.
    Where a name that f reads from around it, a field of a model or an item of a container that it reads there, is bound
    to something else, f is traced anew.
    Tensors of other libraries are arrays, and data frames dictionaries of columns; a list stays a list of numbers.
    Arguments that are no arrays, and those named in `static_argnums` or `static_argnames`, are part of the key and must
    hash. With `rewrite=False` the user's functions run as they stand (see language.md).
    The program is compiled for `device`: "cpu", a card or an array library as in `compile`, or "reference" for the
    interpreter, node by node in NumPy. `blocks=False` leaves attention that f writes out in arrays as it is written.
    `winograd=True` computes convolutions of 3x3 windows by tiles, as in `compile`; of nested functions the outermost
    one decides.
    `traces` counts how often f was traced, and `reasons` says why, one line each.

    Shapes: those of f, which is traced once for each combination.
    Raises: StaticArgumentError for an unhashable static argument, TreeError for a static name that f does not take,
    ParameterError for another device or other blocks, UnsupportedError for tiles on a device that no code
    is made for, MutationError for a changed constant, and the exceptions of f.

    >>> import numpy as np, wholestep as ws
    >>> f = ws.jit(lambda x: np.sin(x) * 2.0)
    >>> float(f(0.0)), f.traces
    (0.0, 1)
    """

    def __init__(
        self,
        f: Callable[P, R],
        *,
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        device: str = DEFAULT_DEVICE,
        blocks: bool | None = None,
        winograd: bool = False,
        rewrite: bool = True,
    ) -> None:
        check_function(f, "jit")
        devices.check_device(device)
        check_blocks("jit", blocks)
        devices.check_winograd("jit", winograd, device)
        self.device, self.blocks, self.winograd, self.rewrite = device, blocks, winograd, rewrite
        functools.update_wrapper(self, f)
        self.f = as_asked(f, rewrite)
        self.name = str(getattr(f, "__name__", "function"))
        numbers = (static_argnums,) if isinstance(static_argnums, int | np.integer) else tuple(static_argnums)
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self.static_numbers, self.static_names = complete_statics(f, numbers, names)
        self.any_keyword = takes_any_keyword(f)
        self.programs: dict[Any, TracedFunction] = {}
        self.open: list[Any] = []
        """The keys of programs whose sizes are symbolic, and which calls of any size may use."""
        self.reasons: list[str] = []
        self.names: list[Reading] = []
        self.sizes = Sizes(self.name, ANY_SIZE)
        self.last: RepeatedCall | None = None

    def __repr__(self) -> str:
        count = len(self.programs)
        return printable(f"<jit of {self.name}, device {self.device!r}, {count} program{'s' * (count != 1)}>")

    def alike(self, f: Callable[..., Any]) -> jit[..., Any]:
        """Another function as a program for the same device, with the same choices of blocks and tiles."""
        return jit(f, device=self.device, blocks=self.blocks, winograd=self.winograd)

    def __reduce__(self) -> Any:
        """Pickles hold the name of a decorated function, and of others the function itself; programs stay here."""
        own = vars(self)
        found: Any = sys.modules.get(self.__module__)
        name = own.get("__qualname__", "")  # an object with __call__ has none
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        made = functools.partial(
            jit[..., Any],
            static_argnums=self.static_numbers,
            static_argnames=self.static_names,
            device=self.device,
            blocks=self.blocks,
            winograd=self.winograd,
            rewrite=self.rewrite,
        )
        return made, (own["__wrapped__"],)

    @property
    def traces(self) -> int:
        """The number of times that the function has been traced."""
        return len(self.reasons)

    @property
    def constants(self) -> list[Any]:
        """The arrays captured by closure, over all programs."""
        return [kept.array for program in self.programs.values() for kept in program.constants]

    def lower(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that these arguments run."""
        return self.prepare(args, kwargs)[0].graph

    def any_size(self, *args: Any, **kwargs: Any) -> None:
        """Trace and compile for arguments some of which are `ShapeDtype`s of symbolic size, for calls of any size.

        Calls whose arguments have these dtypes and shapes, but for the sizes, then run that program and trace nothing.
        Raises the exceptions of f on such shapes.

        >>> import numpy as np, wholestep as ws
        >>> f = ws.jit(lambda x: x.sum(axis=0))
        >>> f.any_size(ws.ShapeDtype((ws.Dim("B"), 2), "float64"))
        >>> f(np.ones((3, 2))).tolist(), f(np.ones((7, 2))).tolist(), f.traces
        ([3.0, 3.0], [7.0, 7.0], 1)
        """
        program, _ = self.prepare(args, kwargs)
        found = [key for key, known in self.programs.items() if known is program and key not in self.open]
        self.open += found

    def fitting(self, key: Any) -> TracedFunction | None:
        """A program for any size that takes arguments of these kinds."""
        for pattern in self.open:
            if pattern[:-1] != key[:-1] or len(pattern[-1]) != len(key[-1]):
                continue
            kinds = list(zip(pattern[-1], key[-1], strict=True))
            if not all(p[0].dtype == k[0].dtype and p[0].ndim == k[0].ndim and p[1:] == k[1:] for p, k in kinds):
                continue
            try:
                bind([n for p, _ in kinds for n in p[0].shape], [n for _, k in kinds for n in k[0].shape], {})
            except ValueError:
                continue
            return self.programs[pattern]
        return None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        last = self.last
        if last is not None and current() is None:
            made = last(args, kwargs, self.names)
            if made is not UNLIKE:
                return made
        return self._unlike(args, kwargs)

    def _unlike(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is not like the last one."""
        traces = len(self.reasons)
        program, leaves = self.prepare(args, kwargs)
        if len(self.reasons) != traces and current() is None:
            shapes = [value.type.shape for value in program.graph.inputs]
            self.sizes.made(zip(program.graph.input_names, shapes, strict=False))  # captured values come last
        if any(isinstance(leaf, ShapeDtype) for leaf in leaves):
            raise DtypeError(
                f"{self.name}: called with a shape and no array", hint="ws.eval_shape gives shapes for shapes"
            )
        if current() is None and not any(isinstance(leaf, Array) for leaf in leaves):
            program.check(self.name)
            inputs = program.graph.inputs
            given = [np.asarray(leaf, v.type.dtype) for leaf, v in zip(leaves, inputs, strict=True)]
            outs = program.run(given, self.device)
            self.last = self._repeated(program, args, kwargs)
            made = [out[()] if s else out for out, s in zip(outs, program.scalars, strict=True)]
            return without_said(tree.unflatten(program.structure, made))
        program.check(self.name)
        values = [as_array(leaf, self.name).value for leaf in leaves]
        outs = inline(program.inlined, [*values, *program.outer])
        made = [Array(v, s) for v, s in zip(outs, program.scalars, strict=True)]
        return without_said(tree.unflatten(program.structure, made))

    def _repeated(self, program: TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RepeatedCall | None:
        """A call for others like this one; None where each needs a look at its arguments."""

        def make() -> tuple[RepeatedCall | None]:
            static = any(-len(args) <= n < len(args) for n in self.static_numbers)
            if static or not kwargs.keys().isdisjoint(self.static_names):
                return (None,)
            return (repeated_call(program, self.device, args, kwargs),)

        found: tuple[RepeatedCall | None] = program.graph.derived(("repeated", self.device), make)
        return found[0]

    @UNBROKEN
    def prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str] = ()
    ) -> tuple[TracedFunction, list[Any]]:
        """The program for these arguments, traced if it must be, and their array leaves.

        Its inputs get these names, unless there are none: then they are the user's for the arguments.
        """
        static = {n % len(args): args[n] for n in self.static_numbers if -len(args) <= n < len(args)}
        named = {k: v for k, v in kwargs.items() if k in self.static_names}
        dynamic = [None if i in static else a for i, a in enumerate(args)]
        given = {k: v for k, v in kwargs.items() if k not in named}
        leaves, structure = tree.flatten((dynamic, given))
        on = [enters(leaf) for leaf in leaves]
        if not all(on) and any([outside.foreign(leaf) for leaf in leaves]):
            called = parameter_names(self.f, len(args))
            taken = [outside.taken_over(x, name, self.name, False) for x, name in zip(dynamic, called, strict=True)]
            own = tuple([static.get(i, x) for i, x in enumerate(taken)])
            keywords = {k: outside.taken_over(x, k, self.name, False) for k, x in given.items()}
            return self.prepare(own, {**keywords, **named}, names)
        fixed = [leaf for leaf, o in zip(leaves, on, strict=True) if not o]
        arrays = [leaf for leaf, o in zip(leaves, on, strict=True) if o]
        kinds = tuple([(kind_of(a), *number_kind(a)) for a in arrays])
        orders = containers.key_orders((*dynamic, *([given] if self.any_keyword else given.values())))
        key = program_key(self.name, static, named, fixed, orders, structure, kinds)
        other = next((name for name in self.names if not name.same()), None)
        program = self.programs.get(key) if other is None else None
        if program is None and other is None and self.open and current() is None:
            program = self.fitting(key)
        if program is None:
            self.reasons.append(self.reason(key) if other is None else f"{other} since it was traced")
            program = self.trace(args, kwargs, static, named, kinds, leaves, structure, on, names)
            self.reasons[-1] = "; ".join([self.reasons[-1], *program.notes])
            if other is not None:
                self.programs.clear()
                self.open.clear()
                self.names, self.last = [], None
            if not program.outer:
                self.programs[key] = program
                self.names = readings(self.f)
        return program, arrays

    def reason(self, key: Any) -> str:
        """The reason for a new program: its difference from the one most like it."""
        if not self.reasons:
            return "first call"
        if key in self.programs or not self.programs:
            return "it closes over arrays of a surrounding trace"
        labels = (
            "a static argument",
            "a static keyword",
            "a plain argument",
            "the named axes of vmap around it",
            "the order of keys",
            "the structure of the arguments",
            "types",
        )
        nearest = min(self.programs, key=lambda old: sum(a != b for a, b in zip(old, key, strict=True)))
        parts = []
        for label, old, new in zip(labels, nearest, key, strict=True):
            if old == new:
                continue
            if label == "types" and len(old) == len(new):
                changed = [kind_change(a, b) for a, b in zip(old, new, strict=True) if a != b]
                parts.append(f"types changed: {', '.join(changed)}")
            elif label == "the structure of the arguments":
                parts.append(f"{label} changed: {structure_change(old, new)}")
            else:
                parts.append(f"{label} changed")
        return "; ".join(parts)

    @without_garbage_collection()  # nearly all that a trace makes is in use until it ends
    def trace(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        static: Any,
        named: Any,
        kinds: Sequence[tuple[Type, bool, bool]],
        leaves: list[Any],
        structure: Any,
        on: list[bool],
        names: Sequence[str],
    ) -> TracedFunction:
        """Run f once on abstract arrays."""
        register_backend()
        looked_for = self.blocks is not False and devices.is_lowered(self.device)
        outermost = current() is None
        builder = GraphBuilder(None, "jit")
        with looking_for_attention(looked_for) if outermost else nullcontext(), building(builder):
            entered = iter([Array(identity(builder.input(t)), s, w) for t, s, w in kinds])
            given = [next(entered) if o else guarded(leaf) for leaf, o in zip(leaves, on, strict=True)]
            dynamic, keywords = tree.unflatten(structure, given)
            own = [static[i] if i in static else a for i, a in enumerate(dynamic)]
            with pure(self.f, "call of the program"):
                out = with_said(ordinary(self.f))(*own, **keywords, **named)
            found, shape = tree.flatten(out)
            arrays = [as_array(leaf, self.name) for leaf in found]
            values = [a.value if a.value.builder is builder else builder.capture(a.value) for a in arrays]
            names = names or self.input_names(args, kwargs, static, named, on)
        name = self.name if self.name.isidentifier() else "graph"
        inlined, outer = close(builder, values, name, names, named=True)
        graph = cut(inlined, [True] * len(values)) if any([node.op.named for node in inlined.nodes]) else inlined
        notes: tuple[str, ...] = ()
        if outermost and looked_for:
            graph, notes = FIND_ATTENTION(graph, otherwise=FoundAttention(graph), verified=True)
        if config.check():
            verify(graph)
        if config.debug("ir"):
            print(graph, file=sys.stderr)
        used = {id(value) for part in inlined.family() for value in part.constants} | builder.consulted
        constants = [Captured(*held) for held in builder.held.values() if id(held[1]) in used]
        watches = watch_named([self.f], {id(kept.array) for kept in constants})
        scalars = [a._scalar for a in arrays]
        return TracedFunction(graph, inlined, outer, shape, scalars, constants, notes, watches, self.winograd)

    def input_names(self, args: Any, kwargs: Any, static: Any, named: Any, on: Sequence[bool]) -> list[str]:
        """The user's names for the graph's inputs."""
        names = parameter_names(self.f, len(args))
        paths = []
        for i, arg in enumerate(args):
            if i not in static:
                paths += tree.paths(arg, names[i])
        for k in sorted(kwargs):
            if k not in named:
                paths += tree.paths(kwargs[k], k)
        spelled = [identifier(p) for p, o in zip(paths, on, strict=True) if o]
        return numbered(spelled)


def identifier(path: str) -> str:
    """`params.layers[0].weight` as `params_layers_0_weight`."""
    return "_".join(re.findall(r"[^\W_]+", path)) or "x"


def numbered(names: Sequence[str]) -> list[str]:
    """The names, repeated ones with their place behind them.

    >>> numbered(["a", "b", "a"])
    ['a_0', 'b', 'a_2']
    """
    often = Counter(names)
    return [name if often[name] == 1 else f"{name}_{i}" for i, name in enumerate(names)]


def own_copy(out: Any, scalar: bool) -> Any:
    """A result that shares memory with nothing."""
    return np.asarray(out)[()] if scalar else np.array(out, order="C", copy=True)
