"""Unrolled copies of values: an operation is emitted once for each combination of unrolled steps."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.codegen.conversions import emit_conversion
from wholestep.backends.cpu.codegen.llvm_types import llvm_constant, llvm_type, simd_type
from wholestep.backends.cpu.codegen.memory import BufferAccess
from wholestep.backends.cpu.codegen.ops import OpEmitter, emitter_of
from wholestep.backends.cpu.codegen.reduction import Reducer
from wholestep.backends.cpu.codegen.uniformity import VaryingAxes, vector_lanes
from wholestep.backends.cpu.codegen.writer import FunctionWriter, UnrolledValue
from wholestep.kernel.lang import I64, Axis, Buffer, Var

EmitCopy = Callable[[int], str]


class UnrolledValues:
    """The registers that hold the values of a kernel at this point of its text."""

    def __init__(self, w: FunctionWriter, bases: dict[Buffer, str]) -> None:
        self.w = w
        self.known: dict[Var, UnrolledValue] = {}
        self.memory = BufferAccess(w, bases, self.known)
        self.special: dict[str, Callable[[Var, UnrolledValue], EmitCopy]] = {
            "index": self.index,
            "convert": self.convert,
            "bits": self.bits,
            "across": self.across,
            "call": self.call,
            "select": self.select,
            "load": self.load,
        }

    def define(self, v: Var, names: list[str]) -> None:
        """Bind the copies of a value to registers."""
        value = self.declare(v)
        value.names[:] = names
        for lanes in value.splats:
            value.splats[lanes] = [self.w.splat(name, llvm_type(v.dtype).register, lanes) for name in names]

    def declare(self, v: Var) -> UnrolledValue:
        """Add a value without registers."""
        axes = self.w.uniformity.axes_of[v]
        value = self.known[v] = UnrolledValue(axes, vector_lanes(axes), self.w.copies(axes))
        for lanes in () if value.lanes else self.w.uniformity.splats.get(v, ()):
            value.splats[lanes] = [None] * len(value.names)
        return value

    def define_on_demand(self, v: Var) -> UnrolledValue:
        """Add a value whose copies are emitted at their first use."""
        value = self.declare(v)
        if v.op == "const":
            value.names[0] = llvm_constant(v.dtype, v.attr)
            for lanes in value.splats:
                value.splats[lanes] = [self.constant_vector(v, lanes)]
            return value
        if v.op == "size":
            self.define(v, [self.w.sizes.name(v.attr)])
            return self.known[v]
        write = self.special.get(v.op, self.scalar)(v, value)
        names, splats, w = value.names, value.splats, self.w
        if not splats:
            value.make = lambda copy: names.__setitem__(copy, write(copy))
            return value
        element = llvm_type(v.dtype).register

        def make(copy: int) -> None:
            names[copy] = name = write(copy)
            for lanes, held in splats.items():
                held[copy] = w.splat(name, element, lanes)

        value.make = make
        return value

    def emitter(self, v: Var) -> tuple[VaryingAxes, Callable[[int], None]]:
        """Return the axes of a value and a function that emits a copy unless its first use has."""
        value = self.define_on_demand(v)

        def write(copy: int) -> None:
            if value.names[copy] is None:
                assert value.make is not None
                value.make(copy)

        return value.axes, write

    def constant_vector(self, v: Var, lanes: int) -> str:
        """Return a vector of a constant: a register, where it is a floating-point number other than 0 that each use
        would make anew."""
        made = llvm_type(v.dtype)
        if not self.w.target.remakes_constants or made.kind != "f" or not v.attr:
            return llvm_constant(v.dtype, v.attr, lanes)
        return self.w.kept_constant(made.register, llvm_constant(v.dtype, v.attr), lanes)

    def names(self, x: Var, axes: VaryingAxes) -> list[str]:
        """Return the registers of the copies along some axes."""
        held, lanes = self.known[x], vector_lanes(axes)
        return [held.name(copy, lanes) for copy in self.w.project(axes, held.axes)]

    def operand(self, x: Var, value: UnrolledValue) -> Callable[[int], str]:
        """Return a function from a copy of a value to the register of an operand."""
        held, lanes = self.known[x], value.lanes
        copies = self.w.project(value.axes, held.axes)
        return lambda copy: held.name(copies[copy], lanes)

    # -- operations --------------------------------------------------------------------------------------------------

    def scalar(self, v: Var, value: UnrolledValue) -> EmitCopy:
        last = v.args[-1]
        made = llvm_type(last.dtype)
        number = int(last.attr) if last.op == "const" and made.kind in "iu" else None
        write, at = emitter_of(v.op, made, number), OpEmitter(self.w, made, value.lanes)
        args = [self.operand(x, value) for x in v.args]
        if len(args) == 2:
            a, b = args
            return lambda copy: write(at, a(copy), b(copy))
        return lambda copy: write(at, *[a(copy) for a in args])

    def select(self, v: Var, value: UnrolledValue) -> EmitCopy:
        at = OpEmitter(self.w, llvm_type(v.dtype), value.lanes)
        test, yes, no = [self.operand(x, value) for x in v.args]
        return lambda copy: at.pick(test(copy), yes(copy), no(copy))

    def convert(self, v: Var, value: UnrolledValue) -> EmitCopy:
        source, target = llvm_type(v.args[0].dtype), llvm_type(v.dtype)
        x = self.operand(v.args[0], value)
        return lambda copy: emit_conversion(self.w, x(copy), source, target, value.lanes)

    def bits(self, v: Var, value: UnrolledValue) -> EmitCopy:
        source, target = (simd_type(llvm_type(x.dtype).register, value.lanes) for x in (v.args[0], v))
        x = self.operand(v.args[0], value)
        return lambda copy: x(copy) if source == target else self.w.let(f"bitcast {source} {x(copy)} to {target}")

    def load(self, v: Var, value: UnrolledValue) -> EmitCopy:
        return self.memory.load(v, value)

    def call(self, v: Var, value: UnrolledValue) -> EmitCopy:
        """An external function takes scalars: one call for each lane within the extent."""
        w, lanes, live = self.w, value.lanes, self.w.live_lanes(value.axes)
        held = [(self.known[x], w.project(value.axes, self.known[x].axes), llvm_type(x.dtype).register) for x in v.args]
        # The functions of scipy.special take one argument more, which is 0.
        hidden = ["i32 0"] if v.attr.startswith("special.") else []
        result = llvm_type(v.dtype).register
        types = ", ".join([*[kind for _, _, kind in held], *[h.split()[0] for h in hidden]])

        def one(copy: int, lane: int) -> str:
            args = []
            for x, copies, kind in held:
                name = x.name(copies[copy], 0)
                if x.lanes:
                    name = w.let(f"extractelement {simd_type(kind, x.lanes)} {name}, i64 {lane}")
                args.append(f"{kind} {name}")
            return w.call(result, f'"{v.attr}"', types, ", ".join([*args, *hidden]))

        def make(copy: int) -> str:
            if not lanes:
                return one(copy, 0)
            kind, found = simd_type(result, lanes), "zeroinitializer"
            for lane in range(live[copy]):
                found = w.let(f"insertelement {kind} {found}, {result} {one(copy, lane)}, i64 {lane}")
            return found

        return make

    def across(self, v: Var, value: UnrolledValue) -> EmitCopy:
        op, axis = v.attr
        w, held = self.w, self.known[v.args[0]]
        lanes = axis.lanes if axis.lanes > 1 else held.lanes
        full = tuple([a for a in w.scopes if a in value.axes or a is axis])
        groups: list[list[tuple[int, int]]] = [[] for _ in value.names]
        for mine, its, live in zip(
            w.project(full, value.axes), w.project(full, held.axes), w.live_lanes(full), strict=True
        ):
            groups[mine].append((its, live))
        reducer = Reducer(w, op, v.dtype)

        def make(copy: int) -> str:
            names = []
            for its, live in groups[copy]:
                name = held.name(its, lanes)
                names.append(reducer.mask_tail(lanes, live, name) if axis.lanes > 1 and live < lanes else name)
            found = reducer.reduce_tree(lanes, names)
            return reducer.reduce_lanes(lanes, found) if axis.lanes > 1 else found

        return make

    def index(self, v: Var, value: UnrolledValue) -> EmitCopy:
        w, index, lanes = self.w, v.attr, value.lanes
        moving, strides, start, step = [], {}, index.const, 0
        for key, factor in index.terms.items():
            if isinstance(key, Axis):
                scope = w.scopes[key]
                strides[key], start = factor, start + scope.base * factor
                step = factor if key.lanes > 1 else step
                motions = [motion for motion in (scope.induction, scope.rows) if motion is not None]
                moving += [w.induction_offset(motion, factor) for motion in motions]
        terms = [(x, index.terms[x], self.operand(x, value)) for x in index.values()]
        distances = w.element_offsets(value.axes, strides, start)

        def make(copy: int) -> str:
            steps = ", ".join(f"i64 {distances[copy] + lane * step}" for lane in range(lanes))
            found = f"<{steps}>" if lanes else str(distances[copy])
            kind = simd_type("i64", lanes)
            for name in moving:
                found = w.let(f"add {kind} {w.splat(name, 'i64', lanes) if lanes else name}, {found}")
            for x, factor, operand in terms:
                long = self.memory.addressing.long(operand(copy), llvm_type(x.dtype), lanes)
                times = f"splat (i64 {factor})" if lanes else str(factor)
                found = w.let(f"add {kind} {w.let(f'mul {kind} {long}, {times}')}, {found}")
            return found if v.dtype == I64 else w.let(f"trunc {kind} {found} to {simd_type('i32', lanes)}")

        return make
