"""The check that a loss is a mean over rows, as micro-batches assume: by a proof, or else on a few rows."""

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
from wholestep.frontend.argument_kinds import kind_of, number_kind
from wholestep.frontend.printing import take_prints
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import trace_flat, type_of
from wholestep.ir.graph import Graph, NDArray, Node, Value, subgraphs
from wholestep.passes.rewrite import map_nested_graphs, new_value, rewrite
from wholestep.primitives.random import WORD
from wholestep.primitives.structure import While
from wholestep.train.program.mean_proof import ROWS, is_mean
from wholestep.train.program.microbatches import count_parts, count_rows
from wholestep.train.program.step_function import StepFunction
from wholestep.train.state.model_state import in_mode
from wholestep.train.state.precision import convert_floats
from wholestep.transforms.autocast import HALVES

FEW_ROWS = 2
"""The most rows of each of the two parts on which a loss is first tried."""

MAX_ELEMENTS = 2**25
"""The most elements of all values of a loss that is tried on parts of their true size."""

RANDOM_WORD = 0x9E3779B9
"""The word that replaces every random word, so that a row's draws do not depend on its place in the batch."""

CANDIDATES = 64
"""The number of rows of the batch from which the tried rows are chosen."""

EXACT_KINDS = ("creation", "movement", "indexing", "order", "mark")
"""The kinds of primitives that do not round."""


class MeanComparison(NamedTuple):
    """The loss of some rows at once, the losses of their first and second half, and the line that computes the loss."""

    rows: int
    whole: float
    halves: tuple[float, float]
    epsilon: float
    where: Where
    assigns: bool
    """True where the loss assigns buffers, as batch normalization does."""

    @property
    def mean(self) -> float:
        return sum(self.halves) / 2

    def differs(self, tolerance: float) -> bool:
        """Return whether the loss at once and the mean of the halves differ, relative to the largest of the three."""
        return abs(self.whole - self.mean) > tolerance * max(map(abs, (self.whole, *self.halves)))

    @property
    def suspect(self) -> bool:
        """True where the two differ by more than the usual rounding error."""
        return self.differs(64 * self.epsilon)

    @property
    def sure(self) -> bool:
        """True where the two differ by more than any rounding error of a loss that can be trained."""
        return self.differs(math.sqrt(self.epsilon))

    def __str__(self) -> str:
        if math.isclose(self.whole, 2 * self.mean, rel_tol=1e-3):
            guess = ": a sum, or divided by a fixed number?"
        else:
            known = {max(self.halves): ": a maximum?", min(self.halves): ": a minimum?"}
            guess = next((text for x, text in known.items() if math.isclose(x, self.whole, rel_tol=1e-5)), "")
        return f"of {self.rows} rows at once it is {self.whole:.4g}, and the mean over two parts {self.mean:.4g}{guess}"


class LossExample(NamedTuple):
    """The arguments that a step is compiled with; a `stacked` batch has a first axis of batches."""

    step_function: StepFunction
    state: dict[str, Any]
    batch: Any
    stacked: bool


def check_mean(step_function: StepFunction, state: dict[str, Any], batch: Any, stacked: bool) -> None:
    """Raise ParameterError where parts of a batch have another mean loss than the batch.

    `batch` is the example that the step is compiled for, with a first axis of batches where it is `stacked`. Where the
    loss assigns buffers the difference may be due to batch statistics, and is a BatchStatisticsWarning. A loss that
    cannot be computed on so few rows, that draws by rejection, or that is not finite is not checked, nor is one of
    parameters that lie in files.
    """
    if step_function.microbatch is None or step_function.stream is not None:
        return
    rows = count_rows(batch, int(stacked))
    number = count_parts(rows, step_function.microbatch)
    if number == 1:
        return
    example = LossExample(step_function, state, batch, stacked)
    found = try_rows(example, rows // number)
    if found is None:
        return
    if not found.assigns:
        raise no_mean_error(step_function, found)
    if step_function.model is not None:
        still = try_rows(
            example._replace(step_function=replace(step_function, loss=in_evaluation_mode(step_function.loss))),
            rows // number,
        )
        if still is not None:
            raise no_mean_error(step_function, still)
    warn(
        f"compile: microbatch={step_function.microbatch} takes batch statistics of each part by itself, which changes "
        f"the loss of {step_function.name}: {found}",
        BatchStatisticsWarning,
        where=found.where,
        hint="normalize each row by itself, as nn.LayerNorm and nn.GroupNorm do, or leave microbatch out",
    )


def no_mean_error(step_function: StepFunction, found: MeanComparison) -> ParameterError:
    """The error for a loss whose mean over parts of a batch differs from that of the batch."""
    return ParameterError(
        f"compile: microbatch={step_function.microbatch} averages the loss over parts of the batch, and "
        f"{step_function.name} is no mean over its rows: {found}",
        where=found.where,
        hint="average over the rows, with np.mean or nn.cross_entropy(..., reduction='mean'), or leave microbatch out",
    )


def try_rows(example: LossExample, size: int) -> MeanComparison | None:
    """The losses of a few rows that show the loss to be no mean; None where it is proved a mean, or no rows show it.

    A suspected difference is computed again in double precision, if the loss allows that. It must then appear for two
    parts of the true size too, unless they have too many elements: the size of a part may be a constant of the loss.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if is_proved_mean(example):
            return None
        few = compare_halves(example, min(size, FEW_ROWS))
        if few is not None and few.suspect:
            double = in_double_precision(example)
            exact = compare_halves(double, min(size, FEW_ROWS))
            few, example = (few, example) if exact is None else (exact, double)
        if size <= FEW_ROWS or (few is not None and not few.sure):
            return few if few is not None and few.sure else None
        true = compare_halves(example, size, few, MAX_ELEMENTS)
        return (few or true) if true is not None and true.sure else None


def is_proved_mean(example: LossExample) -> bool:
    """Return whether the graph of the loss for any number of rows proves it a mean over them."""
    try:
        return is_mean(loss_graph(example, ROWS))
    except Exception:
        return False  # the user's code, which may need the number of rows


def in_double_precision(example: LossExample) -> LossExample:
    """The example with parameters, buffers and computation in double precision."""
    state = {
        **example.state,
        **{name: convert_floats(example.state[name], "float64") for name in ("params", "buffers")},
    }
    return example._replace(step_function=replace(example.step_function, precision="float64"), state=state)


def compare_halves(
    example: LossExample, size: int, otherwise: MeanComparison | None = None, most: float = math.inf
) -> MeanComparison | None:
    """The loss of two parts of this size, at once and apart; None where it cannot be computed or is not finite.

    `otherwise` is returned where the values of the loss have more than `most` elements.
    """
    try:
        whole, half = [loss_graph(example, n) for n in (2 * size, size)]
    except Exception:
        return None  # the user's code, on a number of rows that it was not written for
    if sum(int(t.size) for t in whole.types()) > most:
        return otherwise
    for arrays, has_rows in example_arguments(example, 2 * size):
        pairs = list(zip(arrays, has_rows, strict=True))
        halves = [(half, [x[i : i + size] if rows else x for x, rows in pairs]) for i in (0, size)]
        at_once, *apart = [evaluate_loss(graph, given) for graph, given in ((whole, arrays), *halves)]
        if all(map(math.isfinite, (at_once, *apart))):
            assigns = any(v not in whole.inputs for v in whole.outputs[1:])
            return MeanComparison(
                2 * size, at_once, (apart[0], apart[1]), coarsest_epsilon(whole), loss_line(example, whole), assigns
            )
    return None


def evaluate_loss(graph: Graph, arrays: Sequence[NDArray]) -> float:
    """The loss for these arguments; nan where it has none."""
    try:
        return float(reference.interpret(graph, arrays)[0])
    except (WholestepError, ArithmeticError, ValueError):
        return math.nan


def loss_graph(example: LossExample, rows: Any) -> Graph:
    """The loss of so many rows, and the buffers after it, as a graph without random numbers."""
    step_function = example.step_function
    if step_function.precision in HALVES:
        step_function = replace(step_function, precision=None)
    leaves, structure = tree.flatten((example.state, batch_rows(example, rows, None)))
    kinds = [number_kind(x) for x in leaves]

    def loss(*arrays: Any) -> Any:
        state, batch = tree.unflatten(structure, arrays)
        value, (buffers, _) = step_function.objective(state, batch)(state["params"])
        take_prints()  # discard the text that the loss prints in this trial
        return value, buffers

    types, scalars, weak = [kind_of(x) for x in leaves], [s for s, _ in kinds], [w for _, w in kinds]
    graph = trace_flat(loss, types, scalars, reason="compile", weak=weak).graph
    loops = [node for part in graph.family() for node in part.nodes if isinstance(node.op, While)]
    if any(draws_random_numbers(part) for node in loops for part in subgraphs(node)):
        raise UnsupportedError("compile: a loop that draws until a number is accepted never ends with equal draws")
    return without_random_numbers(graph)


def draws_random_numbers(graph: Graph) -> bool:
    """Return whether a graph makes random numbers."""
    return any(node.op.kind == "random" for part in graph.family() for node in part.nodes)


def without_random_numbers(graph: Graph) -> Graph:
    """The graph with one constant word in place of every random word."""

    def constant(node: Node) -> Value | None:
        drawn = node.op.kind == "random"
        return (
            new_value(node, "full", value=RANDOM_WORD, shape=node.outputs[0].type.shape, dtype=WORD) if drawn else None
        )

    return rewrite(map_nested_graphs(graph, without_random_numbers), constant)


def coarsest_epsilon(graph: Graph) -> float:
    """The coarsest epsilon among the dtypes that a graph computes in."""
    nodes = [node for part in graph.family() for node in part.nodes if node.op.kind not in EXACT_KINDS]
    found = {v.dtype for node in nodes for v in node.outputs if dtypes.is_inexact(v.dtype)}
    return max((float(dtypes.limits(dtype).eps) for dtype in found), default=0.0)


def loss_line(example: LossExample, graph: Graph) -> Where:
    """The line that computes the loss, or the first line of its function."""
    made, code = graph.outputs[0].node, getattr(example.step_function.loss, "__code__", None)
    return made.where if made is not None else None if code is None else (code, 0)


def batch_rows(example: LossExample, rows: Any, at: NDArray | None) -> Any:
    """The rows of the batch at these places, or the types of so many rows."""

    def some(x: Any) -> Any:
        shape, dtype = kind_of(x).shape[int(example.stacked) :], kind_of(x).dtype
        if isinstance(x, ShapeDtype) or (shape and at is None):
            return ShapeDtype((rows, *shape[1:]) if shape else (), dtype)
        x = x[0] if example.stacked else x
        return x[at] if shape else x

    return tree.map(some, example.batch)


def select_unlike_rows(example: LossExample, rows: int) -> NDArray:
    """Rows with the least totals of integers and booleans, then rows with the greatest, in standard deviations cubed.

    Rows with few masked elements or rare classes then distinguish a ratio of sums from a mean. Half of the first part
    are rows of the least totals, so that a mask does not leave out all of it. Only `CANDIDATES` evenly spaced rows of
    the batch are considered.
    """
    count = count_rows(example.batch, int(example.stacked))
    at = np.linspace(0, count - 1, min(count, max(rows, CANDIDATES))).astype(int)
    arrays = [x[0] if example.stacked else x for x in tree.leaves(example.batch) if not isinstance(x, ShapeDtype)]
    kept = [np.asarray(x)[at] for x in arrays if np.ndim(x) and not dtypes.is_inexact(type_of(x).dtype)]
    totals = [x.reshape(len(at), -1).sum(axis=1, dtype=np.float64) for x in kept]
    scores = [((t - t.mean()) / (t.std() or 1.0)) ** 3 for t in totals]
    order = at[np.argsort(sum(scores, np.zeros(len(at))), kind="stable")]
    low = max(rows // 4, 1)
    found: NDArray = np.concatenate([order[:low], order[len(order) - rows + low :]])
    return found


def example_arguments(example: LossExample, rows: int) -> Iterator[tuple[list[NDArray], list[bool]]]:
    """Arguments of the loss with so many rows, and marks of those with rows: first all varied, then as given.

    Zeros and equal rows would hide a sum or a maximum. The later arguments vary less, for a loss that is nan or has
    indices out of range for varied ones. The last have ones in place of zeros, which are no targets of a margin loss.
    """
    batch = batch_rows(example, rows, select_unlike_rows(example, rows))
    has_rows = [False] * len(tree.leaves(example.state)) + [bool(kind_of(x).shape) for x in tree.leaves(batch)]
    for floats, others in ((True, True), (True, False), (False, False)):
        rng = np.random.default_rng(0)
        params = tree.map(lambda x, rng=rng: without_zeros(x, rng), example.state["params"]) if floats else None
        state = {**example.state, "params": params} if floats else example.state
        drawn = tree.map(lambda x, rng=rng, on=(floats, others): vary_array(x, rng, *on), batch)
        yield [np.asarray(x) for x in tree.leaves((state, drawn))], has_rows
    filled = tree.map(lambda x: x if np.any(x) else np.ones_like(x), drawn)
    yield [np.asarray(x) for x in tree.leaves((example.state, filled))], has_rows


def without_zeros(x: Any, rng: np.random.Generator) -> NDArray:
    """A parameter; one that is zero everywhere gets small numbers, since it would hide the rows from the loss."""
    given: NDArray = np.asarray(x)
    return given if given.any() else rng.uniform(-0.5, 0.5, given.shape).astype(given.dtype)


def vary_array(x: Any, rng: np.random.Generator, floats: bool, others: bool) -> NDArray:
    """An array of the batch with other numbers of its kind, near its own.

    Floats become smaller, the most in the first rows, and arrays of zeros positive; integers that are all equal become
    two numbers, which differ between the first and the second half of the rows.
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


def in_evaluation_mode(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The loss of a model in evaluation mode, in which no batch statistics combine rows."""

    @wraps(loss)
    def still(model: Any, batch: Any, **keys: Any) -> Any:
        return ordinary(loss)(in_mode(model, False), batch, **keys)

    return still
