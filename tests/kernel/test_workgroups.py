"""Workgroups: threads, barriers and scratch memory, verified, interpreted, compared with NumPy, refused by the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.kernel.interpret import KernelInterpreter, ThreadsAtOnce, run_at_once, run_in_order, run_kernel
from tests.kernel.parse import parse_kernel
from tests.kernel.workgroup_kernels import CASES, PRODUCT, TRANSPOSE, numbers

from wholestep.backends.cpu.codegen.function import kernel_function
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.errors import KernelError, UnsupportedError
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.collapse_loops import collapse_loops
from wholestep.kernel.dependence import varying_axes
from wholestep.kernel.lang import Axis, Barrier, Index, Kernel, Loop, Statement, Var, walk
from wholestep.kernel.schedule import KernelSchedule
from wholestep.kernel.text import canonical_text, format_kernel
from wholestep.kernel.verify import verify_kernel
from wholestep.lower.cost.roofline import count_kernel, distinct_bytes
from wholestep.lower.target import Target

F32 = np.dtype(np.float32)

ORDERS: dict[str, Callable[[int], Sequence[int]]] = {
    "forwards": range,
    "backwards": lambda n: range(n)[::-1],
    "shuffled": lambda n: np.random.default_rng(0).permutation(n).tolist(),
}


def run(kernel: Kernel, given: Sequence[np.ndarray], order: str = "forwards") -> np.ndarray:
    """The elements that a kernel stores to its last buffer, which is filled with NaN before."""
    out = np.full(kernel.buffers[-1].size, np.nan, np.float32)
    run_kernel(kernel, [*[np.ascontiguousarray(x).reshape(-1) for x in given], out], order=ORDERS[order])
    return out


def run_one_by_one(kernel: Kernel, given: np.ndarray, order: str) -> np.ndarray:
    """The result of a kernel of two buffers whose threads run one after another."""
    out = np.full(kernel.buffers[-1].size, np.nan, np.float32)
    run_in_order(KernelInterpreter(kernel, dict(zip(kernel.buffers, [given, out], strict=True)), {}, {}), ORDERS[order])
    return out


def at_once(kernel: Kernel, given: Sequence[np.ndarray]) -> np.ndarray | None:
    """The result of a kernel whose threads run at once; None where their order could matter."""
    arrays = [np.ascontiguousarray(x).reshape(-1) for x in given]
    arrays.append(np.full(kernel.buffers[-1].size, np.nan, np.float32))
    machine = ThreadsAtOnce(kernel, dict(zip(kernel.buffers, arrays, strict=True)), {}, {})
    return arrays[-1] if run_at_once(machine, arrays) else None


def without_barriers(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    kept = [s for s in body if not isinstance(s, Barrier)]
    return tuple([s._replace(body=without_barriers(s.body)) if isinstance(s, Loop) else s for s in kept])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_threads_give_what_numpy_gives_in_any_order(name: str, order: str) -> None:
    text, given, wanted = CASES[name]
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    assert format_kernel(kernel) == text
    np.testing.assert_array_equal(run(kernel, given, order), np.ravel(wanted(*given)))
    together = at_once(kernel, given)
    assert together is not None
    np.testing.assert_array_equal(together, np.ravel(wanted(*given)))


@pytest.mark.parametrize("name", CASES)
def test_without_its_barriers_a_kernel_is_refused_and_the_interpreter_shows_why(name: str) -> None:
    text, given, wanted = CASES[name]
    kernel = parse_kernel(text)
    kernel = replace(kernel, body=without_barriers(kernel.body))
    assert at_once(kernel, given) is None
    with pytest.raises(KernelError, match="part them by a barrier"):
        verify_kernel(kernel)
    try:
        found = run(kernel, given)
    except KernelError as error:
        assert "before it is written" in str(error)
    else:
        assert not np.array_equal(found, np.ravel(wanted(*given)))


def test_the_builder_writes_the_transpose() -> None:
    """The builder keeps a load from shared memory at its place behind the barrier."""
    with KernelBuilder("transpose") as b:
        x, y = b.buffer("x", F32, 96), b.buffer("y", F32, 96)
        t = b.buffer("t", F32, 20, space="shared")
        i, j, u, v = Axis("i", 2), Axis("j", 3), Axis("u", 4, thread=True), Axis("v", 4, thread=True)
        with b.loop(i), b.loop(j), b.loop(u), b.loop(v):
            b.store(t, Index(0, {u: 5, v: 1}), b.load(x, Index(0, {i: 48, u: 12, j: 4, v: 1})))
            b.barrier()
            b.store(y, Index(0, {j: 32, u: 8, i: 4, v: 1}), b.load(t, Index(0, {v: 5, u: 1})))
    kernel = b.kernel()
    verify_kernel(kernel)
    assert format_kernel(kernel) == TRANSPOSE
    with KernelBuilder("again") as b:
        t = b.buffer("t", F32, 4, space="shared")
        with b.loop(Axis("i", 4, thread=True)):
            one = b.load(t, Index())
            b.barrier()
            assert b.load(t, Index()) is not one


HEAD = "kernel k(x: f32[40], on: bool[40], at: i32[40], mut y: f32[40]):\n    shared t: f32[8]\n    private r: f32[2]\n"


def kernel(body: str, head: str = HEAD) -> Kernel:
    return parse_kernel(head + "".join(f"    {line}\n" for line in body.strip("\n").split("\n")))


THREADS = "for g in 4:\n    for i in 8 thread:\n        "
STAGED = THREADS + "v0 = x[8*g + i]\n        t[i] = v0\n        "

FAULTS = {
    "barrier outside of threads": ("barrier\nfor i in 8 thread:\n    pass", "inside the loops over all threads"),
    "barrier between the loops over threads": (
        "for i in 2 thread:\n    barrier\n    for j in 4 thread:\n        pass",
        "want a nest of independent loops",
    ),
    "barrier in a loop that is not ordered": (
        THREADS + "for k in 2:\n            barrier",
        "a barrier stands in the loop over k, which is not ordered",
    ),
    "barrier in a loop that folds": (
        THREADS + "v0 = x[i]\n        for k in 2:\n            barrier\n            fold v1 = add(v0) from v0",
        "which is not ordered",
    ),
    "guard that differs from thread to thread": (
        THREADS + "v0 = on[i]\n        for k in 2 ordered if v0:\n            barrier",
        "the loop over k, which not all threads may take part in",
    ),
    "guard around the loop around": (
        THREADS + "v0 = on[i]\n        for k in 2 ordered if v0:\n            for l in 2 ordered:\n"
        "                barrier",
        "the loop over k, which not all threads may take part in",
    ),
    "guard made of an axis": (
        THREADS + "v0 = index(i)\n        v1 = i64(4)\n        v2 = v0 < v1\n        for k in 1 ordered if v2:\n"
        "            barrier",
        "which not all threads may take part in",
    ),
    "guard out of private memory": (
        THREADS + "v0 = x[i]\n        r[0] = v0\n        v1 = r[0]\n        v2 = r[0]\n        v3 = v1 < v2\n"
        "        for k in 1 ordered if v3:\n            barrier",
        "which not all threads may take part in",
    ),
    "guard that a carry brings": (
        THREADS + "v0 = on[i]\n        v1 = on[0]\n        for k in 3 ordered:\n            carry v2 from v1\n"
        "            for l in 1 ordered if v2:\n                barrier\n            next v2 = v0, after v3",
        "the loop over l, which not all threads may take part in",
    ),
    "threads that fold": (
        "v0 = f32(0.0)\nfor i in 8 thread:\n    v1 = x[i]\n    fold v2 = add(v1) from v0",
        "want a nest of independent loops",
    ),
    "threads in order": ("for i in 8 thread ordered:\n    pass", "want a nest of independent loops"),
    "threads under a guard": ("v0 = on[0]\nfor i in 8 thread if v0:\n    pass", "want a nest of independent loops"),
    "threads with lanes": ("for i in 8 thread lanes 4:\n    pass", "without lanes and tiles"),
    "two nests of threads": ("for i in 8 thread:\n    pass\nfor j in 8 thread:\n    pass", "around all that"),
    "threads inside a thread's loop": (
        "for i in 2 thread:\n    for k in 2:\n        for j in 2 thread:\n            pass",
        "want a nest of independent loops",
    ),
    "shared memory without threads": ("for i in 8:\n    v0 = t[i]", "shared memory in a kernel without thread loops"),
    "scratch memory outside of threads": (
        "v0 = t[0]\nfor i in 8 thread:\n    y[i] = v0",
        "touched outside of the loops over threads",
    ),
    "past the end of shared memory": (THREADS + "v0 = t[i + 1]", "t[1] to [8] are touched, it has 8 elements"),
    "read of what others write": (STAGED + "v1 = t[-i + 7]\n        y[8*g + i] = v1", "part them by a barrier"),
    "two writes of one place": (STAGED + "t[-i + 7] = v0", "part them by a barrier"),
    "one place of all threads": (THREADS + "v0 = x[i]\n        t[0] = v0", "part them by a barrier"),
    "barrier too late": (STAGED + "v1 = t[-i + 7]\n        barrier\n        y[8*g + i] = v1", "part them by a barrier"),
    "next step of a loop": (
        THREADS + "for k in 2 ordered:\n            v0 = x[8*g + i]\n            t[i] = v0\n            barrier\n"
        "            v1 = t[-i + 7]\n            y[8*g + i] = v1",
        "part them by a barrier",
    ),
    "barrier in a loop that may take no step": (
        STAGED + "v1 = on[0]\n        for k in 1 ordered if v1:\n            barrier\n        v2 = t[-i + 7]",
        "part them by a barrier",
    ),
    "workgroups that write one place": (
        THREADS + "v0 = x[i]\n        barrier\n        y[i] = v0",
        "steps of the loop over g may store to what is stored to in others: order the loop",
    ),
    "workgroups that read what others wrote": (
        THREADS + "v0 = x[i]\n        y[8*g + i] = v0\n        barrier\n        v1 = y[8*g + i + 8]",
        "steps of the loop over g may store to what is loaded from in others: order the loop",
    ),
    "steps of different threads": (
        THREADS + "v0 = index(i)\n        v1 = i64(0)\n        v2 = i64(1)\n        v3 = v0 == v1\n"
        "        v4 = v0 == v2\n        v5 = x[i]\n        t[0] = v5 if v3\n        t[0] = v5 if v4",
        "part them by a barrier",
    ),
}

SOUND = {
    "memory of each workgroup and thread": STAGED + "r[0] = v0\n        v1 = r[0]\n        r[0] = v1",
    "read of one's own": STAGED + "v1 = t[i]\n        y[8*g + i] = v1",
    "global memory behind a barrier": (
        THREADS
        + "v0 = x[8*g + i]\n        y[8*g + i] = v0\n        barrier\n        v1 = y[8*g - i + 7]\n        r[0] = v1"
    ),
    "guard that all threads share": (THREADS + "v0 = on[g]\n        for k in 2 ordered if v0:\n            barrier"),
    "a single thread": (
        THREADS
        + "v0 = index(i)\n        v1 = i64(3)\n        v2 = v0 == v1\n        v3 = on[i]\n        v4 = v2 & v3\n"
        "        v5 = x[i]\n        t[0] = v5 if v2\n        t[0] = v5 if v4\n        v6 = t[0] if v2"
    ),
    "threads alone": "for i in 8 thread:\n    v0 = x[i]\n    y[i] = v0",
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str) -> None:
    body, problem = FAULTS[name]
    head = HEAD if "memory" in problem or re.search(r"\b[tr]\[", body) else HEAD.split("\n")[0] + "\n"
    with pytest.raises(KernelError, match="verify: .*" + re.escape(problem)) as caught:
        verify_kernel(kernel(body, head))
    assert "\n  -> " in str(caught.value)


@pytest.mark.parametrize("name", SOUND)
def test_sound_kernels_pass(name: str) -> None:
    verify_kernel(kernel(SOUND[name]))


def test_memory_that_a_kernel_is_given_is_global() -> None:
    made = kernel(SOUND["threads alone"])
    for given, own, problem in (
        (made.buffers + made.scratch, (), "t is shared memory, which a kernel is not given"),
        (made.buffers[1:], made.buffers[:1], "x wants to be shared or private memory of constant size"),
    ):
        with pytest.raises(KernelError, match=problem):
            verify_kernel(replace(made, buffers=given, scratch=own))


def test_values_out_of_scratch_memory_vary_with_those_who_have_it() -> None:
    made = kernel(THREADS + "v0 = x[0]\n        v1 = r[0]\n        v2 = t[0]")
    found = varying_axes(made)
    loads = {s.attr[0].name: {a.name for a in found[s]} for s in walk(made.body) if isinstance(s, Var)}
    assert loads == {"x": set(), "r": {"g", "i"}, "t": {"g"}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shared t", "private t"),
        ("                    barrier\n", ""),
        ("v in 4 thread", "v in 4"),
        ("f32[20]", "f32[21]"),
    ],
)
def test_canonical_text_tells_kernels_apart(old: str, new: str) -> None:
    assert old in TRANSPOSE
    assert canonical_text(parse_kernel(TRANSPOSE.replace(old, new))) != canonical_text(parse_kernel(TRANSPOSE))


def test_canonical_text_holds_no_names_of_scratch_memory() -> None:
    other = parse_kernel(TRANSPOSE.replace("t: ", "tile_: ").replace("t[", "tile_["))
    assert canonical_text(other) == canonical_text(parse_kernel(TRANSPOSE))


# Meaning: kernels that the interpreter refuses, and the verifier may accept.


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (THREADS + "v0 = t[i]", "reads t, in shared memory, before it is written"),
        (THREADS + "v0 = r[0]", "reads r, in private memory, before it is written"),
        (THREADS + "v0 = on[i]\n        for k in 1 ordered if v0:\n            barrier", "not all threads"),
        (
            THREADS + "v0 = on[i]\n        v1 = not(v0)\n        for k in 1 ordered if v0:\n            barrier\n"
            "        for l in 1 ordered if v1:\n            barrier",
            "not all threads",
        ),
        ("barrier\nfor i in 8 thread:\n    pass", "outside of the loops over threads"),
    ],
)
def test_the_interpreter_refuses_what_has_no_meaning(body: str, problem: str) -> None:
    made = kernel(body, HEAD if "memory" in problem else HEAD.split("\n")[0] + "\n")
    given = [np.arange(b.size).astype(b.dtype) for b in made.buffers]
    with pytest.raises(KernelError, match=problem):
        run_kernel(made, given)


def test_threads_meet_in_memory_that_two_buffers_share() -> None:
    """Each thread reads, through one buffer, an element that another thread writes through the other buffer."""
    made = kernel(
        THREADS + "v0 = x[8*g - i + 7]\n        y[8*g + i] = v0\n        barrier",
        "kernel k(x: f32[40], mut y: f32[40]):\n",
    )
    memory = np.arange(82, dtype=np.float32)
    halves = memory.view(np.uint8)[2:162].view(np.float32)
    for x, y, fine in (
        (memory[:40], memory[40:80], True),
        (memory[:40], memory[:40], False),
        (memory[:40], halves, False),
    ):
        before = memory.tobytes()
        assert run_at_once(ThreadsAtOnce(made, dict(zip(made.buffers, [x, y], strict=True)), {}, {}), [x, y]) == fine
        assert fine or memory.tobytes() == before
    np.testing.assert_array_equal(memory[40:72], np.arange(32).reshape(4, 8)[:, ::-1].reshape(-1))


def random_body(rng: np.random.Generator) -> tuple[str, int]:
    """Loads and stores of shared memory by eight threads, with barriers between some of them, some in a loop; and the
    number of loaded values."""
    places = ("i", "-i + 7", "i + 8", "-i + 15", "2*i", "2*i + 1", "0", "i + 1", "k", "k + 8")
    lines, values, loads, inside = ["v0 = x[i]", "t[i] = v0", "t[i + 8] = v0", "barrier"], 1, 0, ""
    for _ in range(int(rng.integers(3, 10))):
        kind = str(rng.choice(["load", "store", "barrier", "loop"], p=[0.25, 0.25, 0.35, 0.15]))
        place = str(rng.choice(places if inside else places[:-2]))
        if kind == "load":
            lines += [f"{inside}v{values} = t[{place}]", f"{inside}y[i + {8 * loads}] = v{values}"]
            values, loads = values + 1, loads + 1
        elif kind == "store":
            number = f"index({values}*i + {values}{' + 50*k' if inside else ''})"
            lines += [f"{inside}v{values} = {number}", f"{inside}v{values + 1} = f32(v{values})"]
            lines.append(f"{inside}t[{place}] = v{values + 1}")
            values += 2
        elif kind == "loop" and not inside:
            lines.append("for k in 3 ordered:")
            inside = "    "
            lines.append(f"{inside}v{values} = x[k]")
            values += 1
        else:
            lines.append(f"{inside}barrier")
    return "\n        ".join(lines), loads


def test_what_the_verifier_lets_pass_has_one_result_in_every_order() -> None:
    rng = np.random.default_rng(0)
    passed = refused = raced = alike = 0
    for _ in range(400):
        body, loads = random_body(rng)
        head = f"kernel k(x: f32[8], mut y: f32[{8 * max(loads, 1)}]):\n    shared t: f32[17]\n"
        made = kernel("for g in 1:\n    for i in 8 thread:\n        " + body, head)
        found = []
        for order in ORDERS:
            try:
                found.append(run_one_by_one(made, numbers(8), order).tobytes())
            except KernelError as error:
                assert "before it is written" in str(error)
                found.append(b"")
        same = len(set(found)) == 1
        together = at_once(made, [numbers(8)])
        assert together is None or (same and together.tobytes() == found[0]), str(made)
        alike += together is not None
        try:
            verify_kernel(made)
        except KernelError:
            refused, raced = refused + 1, raced + (not same)
        else:
            passed += 1
            assert same and (together is not None or not found[0]), str(made)
    assert passed > 60 and raced > 60 and refused < 3 * raced, (passed, refused, raced)
    assert alike > passed // 2, alike


# Schedules, costs and targets.


def test_threads_are_a_schedule_of_a_kernel_without_scratch_memory() -> None:
    plain = parse_kernel(
        "kernel k(x: f32[40], mut y: f32[40]):\n    for i in 5:\n        for j in 8:\n"
        "            v0 = x[8*i + j]\n            y[8*i + j] = v0\n"
    )
    (inner,) = [s.axis for s in walk(plain.body) if isinstance(s, Loop) and s.axis.name == "j"]
    made = KernelSchedule().with_axis(inner, thread=True).apply(plain)
    verify_kernel(made)
    assert "for j in 8 thread:" in format_kernel(made)
    np.testing.assert_array_equal(run(made, [numbers(40)]), numbers(40))
    assert collapse_loops(made) is made and collapse_loops(plain) is not plain
    kernel_function(made, "k", host_target())


def test_a_schedule_keeps_barriers_and_scratch_memory() -> None:
    text, given, wanted = CASES["product"]
    before = parse_kernel(text)
    (inner,) = [s.axis for s in walk(before.body) if isinstance(s, Loop) and s.axis.name == "w"]
    after = KernelSchedule().with_axis(inner, tile=2).apply(before)
    assert format_kernel(after) == text.replace("w in 4", "w in 4 tile 2")
    np.testing.assert_array_equal(run(after, given), np.ravel(wanted(*given)))


def test_shared_bytes_are_counted_apart() -> None:
    found = count_kernel(parse_kernel(TRANSPOSE))
    assert (found.moved, found.distinct, found.shared) == (2 * 96 * 4, 2 * 96 * 4, 2 * 96 * 4)
    product = parse_kernel(PRODUCT)
    assert {b.name: n for b, n in distinct_bytes(product).items()} == {"a": 256, "b": 256, "c": 256}
    # Each of 64 threads stages two elements and loads eight, in two steps.
    assert count_kernel(product).shared == 64 * 2 * 10 * 4
    assert count_kernel(product).moved == 64 * (2 * 2 + 1) * 4


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (STAGED + "pass_", "shared memory, t"),
        (THREADS + "v0 = x[i]\n        r[0] = v0", "private memory, r"),
        (THREADS + "barrier", "a barrier"),
    ],
)
def test_the_cpu_refuses_workgroups_by_name(body: str, problem: str) -> None:
    name = re.search(r"memory, (\w)", problem)
    own = [line for line in HEAD.split("\n")[1:] if name and f" {name[1]}:" in line]
    made = kernel(body.replace("pass_", "y[8*g + i] = v0"), "\n".join([HEAD.split("\n")[0], *own, ""]))
    verify_kernel(made)
    with pytest.raises(UnsupportedError, match=f"the target cpu cannot run the kernel k, which has {problem}"):
        kernel_function(made, "k", host_target())
    Target("all", spaces=frozenset({"global", "shared", "private"}), barriers=True).check_kernel(made)


def test_indices_are_no_wider_than_the_target_has_them() -> None:
    made = parse_kernel("kernel k(x: f32[2147483648], mut y: f32[4]):\n    v0 = x[2147483647]\n    y[0] = v0\n")
    Target("wide").check_kernel(made)
    with pytest.raises(UnsupportedError, match="x with 2147483648 elements, more than indices of 32 bits count"):
        Target("narrow", index_bits=32).check_kernel(made)
