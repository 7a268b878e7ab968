"""verify: a step's compiled program, its gradient and its update beside float64, on the step's own state and data."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.boundary.counts import whole_number
from wholestep.compiler.double_precision import in_double, widest
from wholestep.compiler.rounding_bound import allowance, error, exact_values, jittered, rounding, values
from wholestep.errors import ParameterError, show
from wholestep.frontend import outside
from wholestep.ir.analysis import part
from wholestep.ir.graph import Graph, NDArray, Node
from wholestep.train.inspect.diagnose import operation_name
from wholestep.train.inspect.verification.findings import ComparedSlope, ComparedValue, Fault, Verification
from wholestep.train.inspect.verification.operations import OperationWalk
from wholestep.train.inspect.verification.plain import PlainRun, plain_loss
from wholestep.train.inspect.verification.rules import RuleWalk, first_wrong
from wholestep.train.inspect.verification.slopes import HeldRun, Slope, aside, compare_slopes, random_directions
from wholestep.train.inspect.verification.subject import Place, Subject
from wholestep.train.program.engine import Engine
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.captured_arrays import check_unchanged

NEAR = 200
"""The number of runs of a step with perturbed roundings before a result counts as off: an intermediate float16 value
may round the other way in only a few of them."""
GROUPS = 8
"""The number of directions of some of the parameters, in addition to the direction of all."""


def verified_batch(engine: Engine, batch: Any, rows: int | None, seed: int) -> Verification:
    """The verification of a step on a batch, or with `rows` on its first rows."""
    given = outside.taken_over(batch, "batch", "verify")
    feed = engine.signature.resized(engine.signature.ordered(given))
    check_unchanged(engine.watches, "verify", whole=True)
    most = None if rows is None else whole_number("rows", rows, "verify")
    if most is not None and most > batch_rows(feed.checked(given), engine):
        raise ParameterError(f"verify: rows is {rows}, and the batch has {batch_rows(feed.checked(given), engine)}")
    return verified_rows(engine, feed, feed.checked(given), most, seed)


def verified_rows(
    engine: Engine, feed: BatchSignature, arrays: Sequence[NDArray], rows: int | None, seed: int
) -> Verification:
    """The verification on at most `rows` rows of the arrays of a signature."""
    if rows is not None and rows < batch_rows(arrays, engine):
        arrays = first_rows(arrays, rows, int(engine.count > 1))
        feed = feed.resized(arrays)
    return verified(engine, feed, arrays, seed)


def batch_rows(arrays: Sequence[NDArray], engine: Engine) -> int:
    """The number of rows of a batch: the size of its first array's first axis after that of steps."""
    axis = int(engine.count > 1)
    return next((int(x.shape[axis]) for x in arrays if x.ndim > axis), 0)


def first_rows(arrays: Sequence[NDArray], rows: int, axis: int) -> tuple[NDArray, ...]:
    """The first rows of every array of a batch that has as many as the first one."""
    own = next(x.shape[axis] for x in arrays if x.ndim > axis)
    cut = (slice(None),) * axis + (slice(rows),)
    return tuple([np.ascontiguousarray(x[cut]) if x.shape[axis : axis + 1] == (own,) else x for x in arrays])


def verified(engine: Engine, feed: BatchSignature, arrays: Sequence[NDArray], seed: int) -> Verification:
    """The verification of an engine's step on arrays of a signature; nothing of the engine changes."""
    subject = Subject(engine, feed, arrays)
    case = VerificationCase(subject, seed)
    for look in (
        case.compare_results,
        case.compare_operations,
        case.explain_results,
        case.compare_slopes,
        case.plainly,
    ):
        look()
    return case.verification()


class LossPoint(NamedTuple):
    """Arguments in float64, with loss and gradient, and the run that holds the values without a derivative."""

    args: list[NDArray]
    held: HeldRun
    loss: list[NDArray]
    gradient: list[NDArray]


class VerificationCase:
    """One verification in progress: the comparisons and the findings so far."""

    def __init__(self, subject: Subject, seed: int) -> None:
        self.subject, self.seed = subject, seed
        self.rng = np.random.default_rng(seed)
        self.wide_args = widest(subject.args)
        self.places: list[Place] = subject.places(subject.call)
        self.bounds: list[list[float]] = []
        self.results: list[NDArray] = []
        self.walk = OperationWalk(subject.device, seed, subject.line)
        self.rules = RuleWalk(seed)
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.unchecked: list[str] = []
        self.slopes: list[ComparedSlope] = []
        self.plain = PlainRun("")
        self.point: LossPoint | None = None

    # The results of the call.

    def compare_results(self) -> None:
        """Compare the results of the user's own program, and the gradients of a program that returns them."""
        subject = self.subject
        places, own, note = subject.own()
        self.notes += [note] * bool(note)
        known = dict(zip(places, own, strict=True))
        both = subject.compiled(subject.call)
        self.results = [known.get(place, x) for place, x in zip(self.places, both, strict=True)]
        graph, args = subject.call.graph, [*subject.state, *subject.given]
        self.exact, plain = exact_values(graph, args), values(graph, args)
        self.bounds = [[error(x, z), allowance(y, z), rounding(y) or 1.0] for x, y, z in self.triples(plain)]

    def triples(self, plain: Sequence[NDArray]) -> Any:
        """Each result with NumPy's in the same dtype and in float64."""
        return zip(self.results, plain, self.exact, strict=True)

    def off(self) -> list[int]:
        """The numbers of the results whose errors exceed their bounds."""
        return [i for i, (apart, allowed, _) in enumerate(self.bounds) if not apart <= allowed]

    # The operations of one step.

    def compare_operations(self) -> None:
        """Compare the operations of one step, one by one."""
        subject = self.subject
        self.walk.walk(subject.step.graph, subject.args, phases=subject.phases())
        self.faults += self.walk.faults
        if self.subject.count > 1:
            self.unchecked.append(f"the operations of {self.subject.count - 1} of the {self.subject.count} steps")

    def explain_results(self) -> None:
        """Widen the bounds of results that are off although no operation is, by runs with other roundings."""
        if self.walk.faults or not self.off():
            return
        graph, args = self.subject.rounded(self.subject.call.graph), [*self.subject.state, *self.subject.given]
        for _ in range(NEAR):
            off = self.off()
            if not off:
                return
            here = jittered(self.rng, graph, args)
            for i in off:
                self.bounds[i][1] = max(self.bounds[i][1], allowance(here[i], self.exact[i]))
        for i in self.off()[:1]:
            self.faults.append(self.whole_fault(i))

    def whole_fault(self, i: int) -> Fault:
        """The fault of a result that is off although each operation alone is right, located by bisection."""
        apart, allowed, unit = self.bounds[i]
        node = None if self.subject.stacked else self.first_off(self.subject.step.graph, i)
        name = operation_name(node) if node is not None else self.places[i].path
        said = f"{self.places[i].path} is {apart / unit:.3g} ulp from float64, {allowed / unit:.3g} allowed, and every "
        said += "operation compiled by itself is right: it is what is fused with it, or where it lies in memory"
        return Fault("value", name, self.subject.line(node.where) if node is not None else "", "", said)

    def first_off(self, graph: Graph, i: int) -> Node | None:
        """The first operation whose result is wrong in a program that returns it in addition to the step's result."""
        nodes = part(graph, graph.inputs, [graph.outputs[i]]).nodes

        def wrong(at: int) -> bool:
            wanted = [
                *[v for v in nodes[at].outputs],
                *[graph.outputs[i]] * (graph.outputs[i] not in nodes[at].outputs),
            ]
            probe = Graph(graph.inputs, graph.nodes, tuple(wanted), graph.name)
            program = self.subject.program(part(probe, probe.inputs, wanted))
            args = self.subject.args
            found, exact, plain = program(args), exact_values(probe, args), values(self.subject.rounded(probe), args)
            return any([error(x, z) > allowance(y, z) for x, y, z in zip(found[:1], plain, exact, strict=False)])

        low, high = -1, len(nodes) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if wrong(middle) else (middle, high)
        return nodes[high] if nodes else None

    # The gradient.

    def compare_slopes(self) -> None:
        """Compare the gradient with differences of the loss, in directions of all parameters and of some."""
        subject = self.subject
        if subject.engine.step_function.optimizer is None:
            self.unchecked.append("derivatives: the step has no optimizer, and so no gradient")
            return
        paths = [i for i, path in enumerate(subject.engine.state.paths) if path.startswith("params")]
        if not paths:
            return
        names = [subject.engine.state.paths[i] for i in paths]
        for chosen in direction_groups(len(paths)):
            self.slope([paths[k] for k in chosen], [names[k] for k in chosen])
        if not all([s.ok for s in self.slopes]):
            self.name_rule(paths)
        if subject.count > 1:
            self.unchecked.append(f"derivatives of {subject.count - 1} of the {subject.count} steps")

    def slope(self, on: list[int], names: list[str]) -> None:
        """Compare the slope in one direction, at the step's own parameters or, at a kink, beside them."""
        args = self.wide_args
        marks = [i in on for i in range(len(args))]
        found = self.slope_at(args, on, marks)
        if not found.ok and found.finite:
            everywhere = [x.dtype.kind in "fc" and i < len(self.subject.args) for i, x in enumerate(args)]
            there = self.slope_at(aside(self.rng, args, self.movable(everywhere)), on, marks)
            if there.ok:
                self.notes.append(
                    f"the loss has a kink at these parameters; beside them the gradient agrees, for {names[0]}"
                )
            found = there if there.ok or there.finite else found
        if not found.finite:
            self.unchecked.append(f"derivatives for {', '.join(names[:3])}: not finite")
            return
        self.slopes.append(ComparedSlope(tuple(names), found.differences, found.cotangents, found.gap, found.ok))

    def movable(self, floats: list[bool]) -> list[bool]:
        """The inputs that may be perturbed: parameters, buffers and the batch, but no hyper-parameters."""
        paths = self.subject.engine.state.paths
        fixed = len(paths) + len(self.subject.engine.head)
        own = [path.startswith(("params", "buffers")) for path in paths]
        return [f and (own[i] if i < len(paths) else i >= fixed) for i, f in enumerate(floats)]

    def slope_at(self, args: list[NDArray], on: list[int], marks: list[bool]) -> Slope:
        """The slope in a random direction at these arguments."""
        point = self.point_at(args)
        paths = self.subject.engine.state.paths
        order = [i for i, path in enumerate(paths) if path.startswith("params")]
        gxs = [point.gradient[order.index(i)] for i in on]
        ways = random_directions(self.rng, args, marks)
        forward = in_double(self.subject.forward)
        return compare_slopes(lambda xs: point.held(forward, xs), args, ways, [np.ones(())], gxs, point.loss)

    def point_at(self, args: list[NDArray]) -> LossPoint:
        """Loss and gradient in float64; those of the last point are cached."""
        if self.point is None or self.point.args is not args:
            held = HeldRun()
            loss = held(in_double(self.subject.forward), args)
            self.point = LossPoint(args, held, loss, HeldRun()(in_double(self.subject.gradient), args))
        return self.point

    def name_rule(self, paths: list[int]) -> None:
        """Find the operation whose derivative is wrong, or the place where derivatives are chained wrongly."""
        forward, args = self.subject.forward, self.wide_args
        wrt = [i in paths for i in range(len(args))]
        self.rules.walk(forward, args, wrt)
        self.faults += self.rules.faults
        if self.rules.faults:
            return
        bad = next(s for s in self.slopes if not s.ok)
        said = f"for {', '.join(bad.params[:3])} the slope is {bad.differences:.6g} by differences and "
        said += f"{bad.gradient:.6g} by the gradient"
        if self.rules.notes:
            self.notes += self.rules.notes
            self.unchecked.append(f"the gradient as a whole, since a derivative is stated otherwise: {said}")
            return
        node = first_wrong(forward, args, wrt, self.seed)
        name = operation_name(node) if node is not None else "the loss"
        why = f"{said}; every rule alone is right, and wrong is how they are put together"
        self.faults.append(Fault("derivative", name, show(node.where) if node is not None else "", "backward", why))

    # The function itself.

    def plainly(self) -> None:
        """Compare the loss of the user's function on plain arrays."""
        if self.subject.stacked:
            self.subject_note()
        loss = self.results[[place.kind for place in self.places].index("loss")]
        self.plain = plain_loss(self.subject, loss.reshape(-1)[0], self.seed)
        self.unchecked += [self.plain.unchecked] * bool(self.plain.unchecked)
        if self.plain.wrong:
            name = self.subject.engine.step_function.name
            self.faults.append(
                Fault("function", name, defined(self.subject.engine.step_function.loss), "", self.plain.wrong)
            )

    def subject_note(self) -> None:
        """Note that the function was called for the first step only."""
        self.notes.append("the function itself was called for the first step of the call")

    # The report.

    def verification(self) -> Verification:
        """The report of the verification."""
        state = self.subject.engine.state
        lines = sorted(self.walk.lines.values(), key=lambda x: (-x.share, x.line))
        return Verification(
            self.subject.engine.step_function.name,
            int(state.counter("step")),
            tuple([self.compared(i) for i in range(len(self.places))]),
            tuple(lines),
            tuple(self.slopes),
            self.plain.said,
            first_of_each(self.faults),
            tuple(dict.fromkeys(self.notes)),
            tuple(dict.fromkeys([*self.unchecked, *self.rules.unsure, *ALWAYS])),
            self.walk.operations,
            self.rules.rules,
            self.walk.memory,
        )

    def compared(self, i: int) -> ComparedValue:
        """One result as an entry of the report."""
        apart, allowed, unit = self.bounds[i]
        made = self.subject.call.graph.outputs[i].node
        line = self.subject.line(made.where) if made is not None else ""
        return ComparedValue(*self.places[i], str(self.results[i].dtype), apart / unit, allowed / unit, line)


ALWAYS = ("what the optimizer is meant to do: its update is compared as it is written",)
"""The parts of a step that no verification checks."""


def direction_groups(count: int) -> list[list[int]]:
    """Groups of the numbers of so many parameters: all, and each alone, or up to `GROUPS` groups of several."""
    parts = [list(range(k, count, GROUPS)) for k in range(min(count, GROUPS))]
    return [list(range(count)), *(parts if count > 1 else [])]


def first_of_each(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """The first fault of each operation and line, since the trips of a loop repeat faults."""
    found: dict[Any, Fault] = {}
    for fault in faults:
        found.setdefault((fault.kind, fault.operation, fault.line, fault.phase), fault)
    return tuple(found.values())


def defined(f: Any) -> str:
    """The first line of a function, in the form of errors; empty where it is unknown."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return "" if code is None else show((code, -1))
