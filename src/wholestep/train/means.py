"""Whether a loss is the mean over the rows of its batch, which micro-batches take it for: tried on a few rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes, tree
from wholestep.backends import reference
from wholestep.errors import BatchStatisticsWarning, ParameterError, UnsupportedError, Where, WholestepError, warn
from wholestep.frontend.jit import kind_of, number_kind
from wholestep.frontend.printing import taken
from wholestep.frontend.scope import trace_flat, type_of
from wholestep.frontend.shapes import ShapeDtype
from wholestep.ir.graph import Graph, NDArray, Node, Value, subgraphs
from wholestep.passes.rewrite import inside, make, rewrite
from wholestep.primitives.random import WORD
from wholestep.train.microbatches import parts, rows_of
from wholestep.train.models import in_mode
from wholestep.train.precision import converted
from wholestep.train.recipe import Recipe
from wholestep.transforms.autocast import HALVES

FEW = 2
"""The rows of each of the two parts that a loss is tried on, where parts have so many."""

MOST = 2**25
"""The elements of all values of a loss beyond which it is not tried on parts of their true size."""

DRAWN = 0x9E3779B9
"""The word that stands for every random one, so that a row draws the same wherever in the batch it stands."""

CANDIDATES = 64
"""The rows among which those are looked for that a loss is tried on."""

EXACT = ("creation", "movement", "indexing", "order", "mark")
"""The kinds of primitives that do not round."""

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


class Found(NamedTuple):
    """A loss of some rows at once, of their first and second half, and the line where it is made."""

    rows: int
    whole: float
    halves: tuple[float, float]
    epsilon: float
    where: Where
    assigns: bool
    """Whether the loss assigns buffers, as batch normalization does."""

    @property
    def mean(self) -> float:
        return sum(self.halves) / 2

    def differs(self, tolerance: float) -> bool:
        """Whether the loss at once is another number than the mean, relative to the largest of the three."""
        return abs(self.whole - self.mean) > tolerance * max(map(abs, (self.whole, *self.halves)))

    @property
    def suspect(self) -> bool:
        """Whether they differ by more than rounding mostly makes."""
        return self.differs(64 * self.epsilon)

    @property
    def sure(self) -> bool:
        """Whether they differ by more than rounding ever makes in a loss that can be trained."""
        return self.differs(math.sqrt(self.epsilon))

    def __str__(self) -> str:
        if math.isclose(self.whole, 2 * self.mean, rel_tol=1e-3):
            guess = ": a sum, or divided by a fixed number?"
        else:
            known = {max(self.halves): ": a maximum?", min(self.halves): ": a minimum?"}
            guess = next((text for x, text in known.items() if math.isclose(x, self.whole, rel_tol=1e-5)), "")
        return f"of {self.rows} rows at once it is {self.whole:.4g}, and the mean over two parts {self.mean:.4g}{guess}"


class Example(NamedTuple):
    """What a step is compiled with; the batch has a first axis of batches where it is `stacked`."""

    recipe: Recipe
    state: dict[str, Any]
    batch: Any
    stacked: bool


def check_mean(recipe: Recipe, state: dict[str, Any], batch: Any, stacked: bool) -> None:
    """Raise ParameterError where parts of a batch have another mean loss than the batch, tried on a few of its rows.

    `batch` is the example that the step is compiled for, with a first axis of batches where it is `stacked`. Where the
    loss assigns buffers it may be the statistics of the batch that differ: a BatchStatisticsWarning says so. A loss
    that cannot be computed on so few rows, that draws by rejection, or that is not finite is not looked at, nor is one
    of parameters that lie in files.
    """
    if recipe.microbatch is None or recipe.stream is not None:
        return
    rows = rows_of(batch, int(stacked))
    number = parts(rows, recipe.microbatch)
    if number == 1:
        return
    example = Example(recipe, state, batch, stacked)
    found = trial(example, rows // number)
    if found is None:
        return
    if not found.assigns:
        raise no_mean(recipe, found)
    if recipe.model is not None:
        still = trial(example._replace(recipe=replace(recipe, loss=evaluating(recipe.loss))), rows // number)
        if still is not None:
            raise no_mean(recipe, still)
    warn(
        f"compile: microbatch={recipe.microbatch} takes batch statistics of each part by itself, which changes the "
        f"loss of {recipe.name}: {found}",
        BatchStatisticsWarning,
        where=found.where,
        hint="normalize each row by itself, as nn.LayerNorm and nn.GroupNorm do, or leave microbatch out",
    )


def no_mean(recipe: Recipe, found: Found) -> ParameterError:
    """What is wrong with a loss that parts of a batch have another mean of."""
    return ParameterError(
        f"compile: microbatch={recipe.microbatch} averages the loss over parts of the batch, and {recipe.name} is no "
        f"mean over its rows: {found}",
        where=found.where,
        hint="average over the rows, with np.mean or nn.cross_entropy(..., reduction='mean'), or leave microbatch out",
    )


def trial(example: Example, size: int) -> Found | None:
    """What shows that a loss is no mean over rows; None where nothing does.

    What looks like a difference is computed again in double precision, where the loss can be. It must then be so of two
    parts of the true size as well, unless those are too many to try: a loss may have the size of a part written in it.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        few = compared(example, min(size, FEW))
        if few is not None and few.suspect:
            double = in_double(example)
            exact = compared(double, min(size, FEW))
            few, example = (few, example) if exact is None else (exact, double)
        if size <= FEW or (few is not None and not few.sure):
            return few if few is not None and few.sure else None
        true = compared(example, size, few, MOST)
        return (few or true) if true is not None and true.sure else None


def in_double(example: Example) -> Example:
    """The example with everything in double precision."""
    state = {**example.state, **{name: converted(example.state[name], "float64") for name in ("params", "buffers")}}
    return example._replace(recipe=replace(example.recipe, precision="float64"), state=state)


def compared(example: Example, size: int, otherwise: Found | None = None, most: float = math.inf) -> Found | None:
    """The loss of two parts of this size, at once and apart; None where it cannot be computed or is not finite.

    `otherwise` stands for it where its values have more than `most` elements.
    """
    try:
        whole, half = [graph_of(example, n) for n in (2 * size, size)]
    except Exception:
        return None  # the user's code, on a number of rows that it was not written for
    if sum(int(t.size) for t in whole.types()) > most:
        return otherwise
    for arrays, has_rows in examples(example, 2 * size):
        pairs = list(zip(arrays, has_rows, strict=True))
        halves = [(half, [x[i : i + size] if rows else x for x, rows in pairs]) for i in (0, size)]
        at_once, *apart = [value_of(graph, given) for graph, given in ((whole, arrays), *halves)]
        if all(map(math.isfinite, (at_once, *apart))):
            assigns = any(v not in whole.inputs for v in whole.outputs[1:])
            return Found(2 * size, at_once, (apart[0], apart[1]), epsilon(whole), line(example, whole), assigns)
    return None


def value_of(graph: Graph, arrays: Sequence[NDArray]) -> float:
    """The loss for these arguments; nan where it has none."""
    try:
        return float(reference.run(graph, arrays)[0])
    except (WholestepError, ArithmeticError, ValueError):
        return math.nan


def graph_of(example: Example, rows: int) -> Graph:
    """The loss of so many rows, and the buffers after it, as a graph without random numbers."""
    recipe = example.recipe
    if recipe.precision in HALVES:
        recipe = replace(recipe, precision=None)
    leaves, structure = tree.flatten((example.state, batch_of(example, rows)))
    kinds = [number_kind(x) for x in leaves]

    def loss(*arrays: Any) -> Any:
        state, batch = tree.unflatten(structure, arrays)
        value, (buffers, _) = recipe.objective(state, batch)(state["params"])
        taken()  # what it prints, which nobody is to see
        return value, buffers

    types, scalars, weak = [kind_of(x) for x in leaves], [s for s, _ in kinds], [w for _, w in kinds]
    graph = trace_flat(loss, types, scalars, reason="compile", weak=weak).graph
    loops = [node for part in graph.family() for node in part.nodes if node.op.name == "while_loop"]
    if any(draws(part) for node in loops for part in subgraphs(node)):
        raise UnsupportedError("compile: a loop that draws until a number is accepted never ends with equal draws")
    return without_draws(graph)


def draws(graph: Graph) -> bool:
    """Whether a graph makes random numbers."""
    return any(node.op.name == "random_bits" for part in graph.family() for node in part.nodes)


def without_draws(graph: Graph) -> Graph:
    """The graph with one constant word for every random one."""

    def constant(node: Node) -> Value | None:
        drawn = node.op.name == "random_bits"
        return make(node, "full", value=DRAWN, shape=node.outputs[0].type.shape, dtype=WORD) if drawn else None

    return rewrite(inside(graph, without_draws), constant)


def epsilon(graph: Graph) -> float:
    """The coarsest epsilon among the dtypes that a graph computes in."""
    nodes = [node for part in graph.family() for node in part.nodes if node.op.kind not in EXACT]
    found = {v.dtype for node in nodes for v in node.outputs if dtypes.is_inexact(v.dtype)}
    return max((EPSILON[dtypes.real_of(dtype).name] for dtype in found), default=0.0)


def line(example: Example, graph: Graph) -> Where:
    """Where the loss is made, or else begins."""
    made, code = graph.outputs[0].node, getattr(example.recipe.loss, "__code__", None)
    return made.where if made is not None else None if code is None else (code, 0)


def batch_of(example: Example, rows: int) -> Any:
    """So many rows of the batch, the first of which are as unlike the others in their integers as any."""
    at = unlike(example, rows)

    def some(x: Any) -> Any:
        if isinstance(x, ShapeDtype):
            shape = x.shape[int(example.stacked) :]
            return ShapeDtype((rows, *shape[1:]) if shape else (), x.dtype)
        x = x[0] if example.stacked else x
        return x[at] if np.ndim(x) else x

    return tree.map(some, example.batch)


def unlike(example: Example, rows: int) -> NDArray:
    """Rows with the least totals of integers and booleans, then rows with the greatest, in standard deviations cubed.

    A mask of few elements, or other classes, then tell a ratio of sums from a mean, the rarest first. Half of the first
    part are the least, so that a mask leaves it something. Only some rows from all over the batch are seen.
    """
    count = rows_of(example.batch, int(example.stacked))
    at = np.linspace(0, count - 1, min(count, max(rows, CANDIDATES))).astype(int)
    arrays = [x[0] if example.stacked else x for x in tree.leaves(example.batch) if not isinstance(x, ShapeDtype)]
    kept = [np.asarray(x)[at] for x in arrays if np.ndim(x) and not dtypes.is_inexact(type_of(x).dtype)]
    totals = [x.reshape(len(at), -1).sum(axis=1, dtype=np.float64) for x in kept]
    scores = [((t - t.mean()) / (t.std() or 1.0)) ** 3 for t in totals]
    order = at[np.argsort(sum(scores, np.zeros(len(at))), kind="stable")]
    low = max(rows // 4, 1)
    found: NDArray = np.concatenate([order[:low], order[len(order) - rows + low :]])
    return found


def examples(example: Example, rows: int) -> Iterator[tuple[list[NDArray], list[bool]]]:
    """Arguments of the loss of so many rows, and which of them have rows: first with all varied, at last as given.

    Zeros and equal rows would hide a sum or a maximum. What a loss makes nan of, or an index out of range, is left as
    it is given.
    """
    batch = batch_of(example, rows)
    has_rows = [False] * len(tree.leaves(example.state)) + [bool(kind_of(x).shape) for x in tree.leaves(batch)]
    for floats, others in ((True, True), (True, False), (False, False)):
        rng = np.random.default_rng(0)
        params = tree.map(lambda x, rng=rng: awake(x, rng), example.state["params"]) if floats else None
        state = {**example.state, "params": params} if floats else example.state
        drawn = tree.map(lambda x, rng=rng, on=(floats, others): varied(x, rng, *on), batch)
        yield [np.asarray(x) for x in tree.leaves((state, drawn))], has_rows


def awake(x: Any, rng: np.random.Generator) -> NDArray:
    """A parameter; one that is zero everywhere gets small numbers, since nothing may pass through it as it is."""
    given: NDArray = np.asarray(x)
    return given if given.any() else rng.uniform(-0.5, 0.5, given.shape).astype(given.dtype)


def varied(x: Any, rng: np.random.Generator, floats: bool, others: bool) -> NDArray:
    """An array of the batch with other numbers of its kind, near its own.

    Floats become smaller, the most in the first rows, and zeros positive; integers that are all equal become two
    numbers, which are others in the first half of the rows and in the second.
    """
    given: NDArray = np.zeros(x.shape, x.dtype) if isinstance(x, ShapeDtype) else np.asarray(x)
    count, shape, dtype = len(given) if given.ndim else 1, given.shape, given.dtype
    if dtypes.is_inexact(dtype):
        by_row = np.linspace(0.4, 1.0, count).reshape(-1, *[1] * (given.ndim - 1)) if given.ndim else 1.0
        factors = rng.uniform(0.75, 1.0, shape) * by_row
        smaller: NDArray = (given * factors if given.any() else factors).astype(dtype)
        return smaller if floats else given
    if not others or not given.ndim or not given.size or given.min() != given.max() or given.min() < 0:
        return given
    chosen = rng.random(shape) < 0.5
    chosen.reshape(count, -1)[:, 0] = np.arange(count) < 3 * count // 4
    chosen[0] = True
    made: NDArray = (max(int(given.max()) - 1, 0) + chosen).astype(dtype)
    return made


def evaluating(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The loss of a model in evaluation mode, where rows do not meet in batch statistics."""

    @wraps(loss)
    def still(model: Any, batch: Any, **keys: Any) -> Any:
        return loss(in_mode(model, False), batch, **keys)

    return still
