"""Programs written by hand in LLVM text, as the compiler would print them."""

import numpy as np

from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.llvm_jit import object_code
from wholestep.backends.cpu.support_ir.record_layouts import CONTEXT, POOL_BYTES, WORKER
from wholestep.backends.cpu.support_ir.support import DECLARATIONS
from wholestep.ir.graph import Graph
from wholestep.runtime.cpu.artifact import Artifact, TableSlot
from wholestep.runtime.cpu.executable import NativeExecutable
from wholestep.runtime.error_sites import ErrorSite

SHARED = """
define void @kernel(ptr %args, i64 %low, i64 %high) {{
entry:
  %a.at = getelementptr ptr, ptr %args, i64 0
  %a = load ptr, ptr %a.at
  %b.at = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %b.at
  %c.at = getelementptr ptr, ptr %args, i64 2
  %c = load ptr, ptr %c.at
  br label %loop
loop:
  %i = phi i64 [ %low, %entry ], [ %next, %again ]
{body}
  br label %again
again:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %high
  br i1 %more, label %loop, label %done
done:
  ret void
}}
define i32 @entry(ptr %table, ptr %context) {{
  %args = alloca [3 x ptr]
  %s1 = getelementptr ptr, ptr %table, i64 {0}
  %p1 = load ptr, ptr %s1
  store ptr %p1, ptr %args
  %s2 = getelementptr ptr, ptr %table, i64 {1}
  %p2 = load ptr, ptr %s2
  %a2 = getelementptr ptr, ptr %args, i64 1
  store ptr %p2, ptr %a2
  %a3 = getelementptr ptr, ptr %args, i64 2
  {third}
  call void @ws_parallel(ptr %context, ptr @kernel, ptr %args, i64 {n})
  %status.at = getelementptr i8, ptr %context, i64 {status}
  %status = load i64, ptr %status.at
  %r = trunc i64 %status to i32
  ret i32 %r
}}
"""

MULTIPLY = """
  %x.at = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %x.at
  %w = load float, ptr %b
  %y = fmul float %x, %w
  %y.at = getelementptr float, ptr %c, i64 %i
  store float %y, ptr %y.at"""

PICK = """
  %k.at = getelementptr i64, ptr %a, i64 %i
  %k = load i64, ptr %k.at
  %low.side = icmp slt i64 %k, 0
  %high.side = icmp sge i64 %k, {size}
  %out = or i1 %low.side, %high.side
  br i1 %out, label %bad, label %good
bad:
  call void @ws_fail(ptr %c, i64 0, i64 %i, i64 %k, i64 0, i64 {size})
  br label %again
good:
  %y.at = getelementptr i64, ptr %b, i64 %i
  store i64 %k, ptr %y.at"""

COUNT = """
define i32 @entry(ptr %table, ptr %context) {{
entry:
  %s0 = getelementptr ptr, ptr %table, i64 0
  %state = load ptr, ptr %s0
  %s1 = getelementptr ptr, ptr %table, i64 1
  %limit.at = load ptr, ptr %s1
  %limit = load i64, ptr %limit.at
  %stop.at = getelementptr i8, ptr %context, i64 {stop}
  %trips.at = getelementptr i8, ptr %context, i64 {trips}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  %over = icmp sge i64 %i, %limit
  %end = or i1 %stopped, %over
  br i1 %end, label %done, label %body
body:
  %old = load i64, ptr %state
  %new = add i64 %old, 1
  store i64 %new, ptr %state
  %next = add i64 %i, 1
  store atomic i64 %next, ptr %trips.at monotonic, align 8
  br label %loop
done:
  ret i32 0
}}
"""


MEET = """
define void @kernel(ptr %args, i64 %low, i64 %high) {{
entry:
  %old = atomicrmw add ptr %args, i64 1 seq_cst, align 8
  br label %wait
wait:
  %now = load atomic i64, ptr %args seq_cst, align 8
  %all = icmp uge i64 %now, 2
  br i1 %all, label %done, label %wait
done:
  ret void
}}
define i32 @entry(ptr %table, ptr %context) {{
entry:
  %s0 = getelementptr ptr, ptr %table, i64 0
  %arena = load ptr, ptr %s0
  %s1 = getelementptr ptr, ptr %table, i64 1
  %times.at = load ptr, ptr %s1
  %times = load i64, ptr %times.at
  %s2 = getelementptr ptr, ptr %table, i64 2
  %met = load ptr, ptr %s2
  %pool.at = getelementptr i8, ptr %context, i64 {pool}
  %pool = load ptr, ptr %pool.at
  %asleep.at = getelementptr i8, ptr %pool, i64 {asleep}
  store i64 0, ptr %met
  br label %sleepy
sleepy:
  %asleep = load atomic i64, ptr %asleep.at seq_cst, align 8
  %ready = icmp eq i64 %asleep, 1
  br i1 %ready, label %loop, label %sleepy
loop:
  %i = phi i64 [ 0, %sleepy ], [ %next, %loop ]
  store i64 0, ptr %arena
  call void @ws_parallel(ptr %context, ptr @kernel, ptr %arena, i64 2)
  %here = load i64, ptr %arena
  %sum = load i64, ptr %met
  %more = add i64 %sum, %here
  store i64 %more, ptr %met
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %times
  br i1 %again, label %loop, label %done
done:
  ret i32 0
}}
"""


def slot(kind, dtype, *shape):
    dtype = np.dtype(dtype)
    return TableSlot(kind, dtype, shape, int(np.prod(shape)) * dtype.itemsize)


def made(text, names=(), **facts):
    objects = (object_code(DECLARATIONS + text, host_target()),)
    return NativeExecutable(Graph((), (), (), "by_hand", names), Artifact(objects=objects, entry="entry", **facts))


def shared(body, third, n):
    return SHARED.format(1, 2, body=body, third=third, n=n, status=CONTEXT["status"])


def multiply(n=1000, **facts):
    """y = x * w, shared out among threads; `w` is f32 and `x` and `y` are f32[n]."""
    third = "%s3 = getelementptr ptr, ptr %table, i64 3\n  %p3 = load ptr, ptr %s3\n  store ptr %p3, ptr %a3"
    slots = (slot("arena", "u1", 64), slot("input", "f4", n), slot("input", "f4"), slot("output", "f4", n))
    facts = {"parallel": True, "outputs": (3,), **facts}
    return made(shared(MULTIPLY, third, n), ("x", "w"), slots=slots, inputs=(1, 2), **facts)


def pick(n, size, where=None):
    """The program y = k, which fails where an element is no index of an axis of this size."""
    slots = (slot("arena", "u1", 64), slot("input", "i8", n), slot("output", "i8", n))
    facts = {"slots": slots, "inputs": (1,), "outputs": (2,), "sites": (ErrorSite("bounds", where),), "parallel": True}
    return made(shared(PICK.format(size=size), "store ptr %context, ptr %a3", n), ("k",), **facts)


def count(**facts):
    """A program with a loop whose trips, as many as the input says, each add 1 to a resident i64."""
    slots = (slot("input", "i8"), slot("input", "i8"))
    text = COUNT.format(stop=CONTEXT["stop"], trips=CONTEXT["trips"])
    return made(text, ("state", "limit"), slots=slots, inputs=(0, 1), outputs=(0,), resident=((0, 0),), **facts)


def meet():
    """A program that waits until the first worker sleeps, and then lets two threads wait for each other some times."""
    text = MEET.format(pool=CONTEXT["pool"], asleep=POOL_BYTES + WORKER["asleep"])
    slots = (slot("arena", "u1", 64), slot("input", "i8"), slot("output", "i8"))
    return made(text, ("times",), slots=slots, inputs=(1,), outputs=(2,), parallel=True)
