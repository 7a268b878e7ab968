"""Fork-join of a program's work on the threads of the pool, and the record of its first error."""

from __future__ import annotations

from wholestep.backends.cpu.llvm_builder import FunctionBuilder, Values
from wholestep.backends.cpu.support_ir.record_layouts import CALL, CONTEXT, POOL, POOL_BYTES, WORKER, WORKER_BYTES

PATIENCE = 5000
"""The number of pauses after which a thread that waits for others lets the system run them."""
LEAVE = "-1"
"""The number of looks of a worker that leaves its loop."""


def worker_record(f: FunctionBuilder, pool: str, k: str) -> str:
    """The record of the worker with share k, from 1: the records begin one before the first."""
    return f.at(f.field(pool, POOL_BYTES - WORKER_BYTES), k, WORKER_BYTES)


def share_start(f: FunctionBuilder, n: str, shares: str, i: str) -> str:
    """The start of share number i of [0, n), which is the end of the one before."""
    each, rest = f.let(f"udiv i64 {n}, {shares}"), f.let(f"urem i64 {n}, {shares}")
    more = f.let(f"call i64 @llvm.umin.i64(i64 {i}, i64 {rest})")
    return f.let(f"add i64 {f.let(f'mul i64 {each}, {i}')}, {more}")


def wake_function() -> str:
    """Return `void wake(worker)`: ring for a worker if it sleeps."""
    f = FunctionBuilder("void", "wake", (("ptr", "worker"),))
    asleep = f.field("%worker", WORKER["asleep"])

    def ring() -> None:
        f.let(f"call i32 @ws_ring(ptr {f.load_field('ptr', '%worker', WORKER['bell'])}, i64 1, ptr null)")

    def claim() -> None:
        f.when(f.compare_exchange(asleep, "1", "0", "seq_cst seq_cst"), ring)

    f.when(f.let(f"icmp ne i64 {f.atomic_load(asleep, 'seq_cst')}, 0"), claim)
    return f.text("ret void")


def spin_function(pause: str) -> str:
    """Return `void ws_spin(n)`: n pauses, to measure them."""
    f = FunctionBuilder("void", "ws_spin", (("i64", "n"),), exported=True)
    f.count_to("%n", lambda i: f.do(pause))
    return f.text("ret void")


def join_function(pause: str) -> str:
    """Return `void join(worker, posted)`: wait until a worker is done with the share that was posted to it."""
    f = FunctionBuilder("void", "join", (("ptr", "worker"), ("i64", "posted")))
    done = f.field("%worker", WORKER["done"])

    def look_again(looks: str) -> list[str]:
        f.do(pause)
        more = f.let(f"add i64 {looks}, 1")
        f.when(f.let(f"icmp ugt i64 {more}, {PATIENCE}"), lambda: f.let("call i32 @ws_yield()"))
        return [more]

    f.loop(["i64"], ["0"], lambda _: f.let(f"icmp ne i64 {f.atomic_load(done, 'acquire')}, %posted"), look_again)
    return f.text("ret void")


def parallel_function() -> str:
    """Return `void ws_parallel(context, function, arguments, n)`: see `support.DECLARATIONS`.

    The caller runs the first share, then those that no worker has claimed, and waits for the others.
    """
    arguments = (("ptr", "context"), ("ptr", "function"), ("ptr", "arguments"), ("i64", "n"))
    f = FunctionBuilder("void", "ws_parallel", arguments, exported=True)
    shares = f.let(f"call i64 @llvm.umin.i64(i64 {f.load('i64', '%context')}, i64 %n)")

    def run(low: str, high: str) -> None:
        f.do(f"call void %function(ptr %arguments, i64 {low}, i64 {high})")

    def bounds(k: str) -> tuple[str, str]:
        return share_start(f, "%n", shares, k), share_start(f, "%n", shares, f.let(f"add i64 {k}, 1"))

    def post(pool: str, k: str) -> None:
        worker, (low, high) = worker_record(f, pool, k), bounds(k)
        share = {"function": "ptr %function", "arguments": "ptr %arguments", "low": f"i64 {low}", "high": f"i64 {high}"}
        for name, value in share.items():
            f.do(f"store {value}, ptr {f.field(worker, WORKER[name])}")
        f.atomic_store(f.let(f"add i64 {f.atomic_load(worker, 'monotonic')}, 1"), worker, "seq_cst")
        f.do(f"call void @wake(ptr {worker})")

    def collect(pool: str, k: str) -> None:
        worker = worker_record(f, pool, k)
        state = f.atomic_load(worker, "monotonic")
        posted, claimed = f.let(f"and i64 {state}, -2"), f.let(f"or i64 {state}, 1")
        mine = f.compare_exchange(worker, posted, claimed, "acq_rel monotonic")
        f.either(mine, lambda: run(*bounds(k)), lambda: f.do(f"call void @join(ptr {worker}, i64 {posted})"))

    def alone() -> None:
        f.when(f.let("icmp ne i64 %n, 0"), lambda: run("0", "%n"))

    def together() -> None:
        pool = f.load_field("ptr", "%context", CONTEXT["pool"])
        f.count_to(shares, lambda k: post(pool, k), start="1")
        run("0", share_start(f, "%n", shares, "1"))
        f.count_to(shares, lambda k: collect(pool, k), start="1")

    f.either(f.let(f"icmp ule i64 {shares}, 1"), alone, together)
    return f.text("ret void")


def rest_function() -> str:
    """Return `i64 rest(worker, stop)`: sleep until the bell is posted; 0, or `LEAVE` where the pool has stopped."""
    f = FunctionBuilder("i64", "rest", (("ptr", "worker"), ("ptr", "stop")))
    asleep = f.field("%worker", WORKER["asleep"])

    def awake() -> list[str]:
        # The bell was not posted; a later post is one too many, and costs one idle pass of the worker.
        f.atomic_store("0", asleep, "seq_cst")
        return ["0"]

    def sleep() -> Values:
        f.let(f"call i32 @ws_sleep(ptr {f.load_field('ptr', '%worker', WORKER['bell'])}, i64 -1)")
        rung = f.let(f"icmp eq i64 {f.atomic_load(asleep, 'seq_cst')}, 0")
        return f.choose(rung, ["i64"], lambda: ["0"], awake)

    def sleep_unless_stopped() -> Values:
        stays = f.let(f"icmp eq i64 {f.atomic_load('%stop', 'seq_cst')}, 0")
        return f.choose(stays, ["i64"], sleep, lambda: [LEAVE])

    # Set `asleep` before the state is read again: a share posted in between is seen here, or its poster rings.
    f.atomic_store("1", asleep, "seq_cst")
    nothing = f.let(f"trunc i64 {f.atomic_load('%worker', 'seq_cst')} to i1")
    (looks,) = f.choose(nothing, ["i64"], sleep_unless_stopped, awake)
    return f.text(f"ret i64 {looks}")


def worker_function(pause: str) -> str:
    """Return `void ws_worker(pool, worker)`: claim and run shares until the pool stops; rest after many looks."""
    f = FunctionBuilder("void", "ws_worker", (("ptr", "pool"), ("ptr", "worker")), exported=True)
    saved = f.let("call i64 @ws_enter()")
    stop, done = f.field("%pool", POOL["stop"]), f.field("%worker", WORKER["done"])
    spins = f.load_field("i64", "%pool", POOL["spins"])

    def work(state: str) -> list[str]:
        function, arguments = (f.load_field("ptr", "%worker", WORKER[name]) for name in ("function", "arguments"))
        low, high = (f.load_field("i64", "%worker", WORKER[name]) for name in ("low", "high"))
        f.do(f"call void {function}(ptr {arguments}, i64 {low}, i64 {high})")
        f.atomic_store(state, done, "release")
        return ["0"]

    def claim(state: str, looks: str) -> Values:
        mine = f.compare_exchange("%worker", state, f.let(f"or i64 {state}, 1"), "acq_rel monotonic")
        return f.choose(mine, ["i64"], lambda: work(state), lambda: [looks])

    def spin(looks: str) -> list[str]:
        f.do(pause)
        return [f.let(f"add i64 {looks}, 1")]

    def idle(looks: str) -> Values:
        tired = f.let(f"icmp uge i64 {looks}, {spins}")
        rest = f"call i64 @rest(ptr %worker, ptr {stop})"
        return f.choose(tired, ["i64"], lambda: [f.let(rest)], lambda: spin(looks))

    def idle_unless_stopped(looks: str) -> Values:
        stopped = f.let(f"icmp ne i64 {f.atomic_load(stop, 'monotonic')}, 0")
        return f.choose(stopped, ["i64"], lambda: [LEAVE], lambda: idle(looks))

    def look(looks: str) -> Values:
        state = f.atomic_load("%worker", "acquire")
        odd = f.let(f"trunc i64 {state} to i1")
        return f.choose(odd, ["i64"], lambda: idle_unless_stopped(looks), lambda: claim(state, looks))

    f.loop(["i64"], ["0"], lambda looks: f.let(f"icmp ne i64 {looks}, {LEAVE}"), look)
    f.do(f"call void @ws_leave(i64 {saved})")
    return f.text("ret void")


def fail_function(pause: str) -> str:
    """Return `void ws_fail(context, site, position, value, axis, size)`: see `support.DECLARATIONS`."""
    facts = ("site", "position", "value", "axis", "size")
    f = FunctionBuilder("void", "ws_fail", (("ptr", "context"), *[("i64", name) for name in facts]), exported=True)
    lock, status = f.field("%context", CONTEXT["lock"]), f.field("%context", CONTEXT["status"])

    def taken() -> str:
        return f.let(f"xor i1 {f.compare_exchange(lock, '0', '1', 'acquire monotonic')}, true")

    def wait() -> list[str]:
        f.do(pause)
        return []

    def write() -> None:
        for name in facts:
            f.store("i64", f"%{name}", f.field("%context", CONTEXT[name]))
        f.atomic_store("1", status, "monotonic")

    f.loop([], [], taken, wait)
    site, position = (f.load_field("i64", "%context", CONTEXT[name]) for name in ("site", "position"))
    same, before = f.let(f"icmp eq i64 %site, {site}"), f.let(f"icmp slt i64 %position, {position}")
    earlier = f.let(f"or i1 {f.let(f'icmp slt i64 %site, {site}')}, {f.let(f'and i1 {same}, {before}')}")
    none = f.let(f"icmp eq i64 {f.load('i64', status)}, 0")
    f.when(f.let(f"or i1 {none}, {earlier}"), write)
    f.atomic_store("0", lock, "release")
    return f.text("ret void")


def run_function() -> str:
    """Return `i64 ws_run(call)`: claim the threads if they are free, run the program, release the threads."""
    f = FunctionBuilder("i64", "ws_run", (("ptr", "call"),), exported=True)
    program, table, context = (f.load_field("ptr", "%call", CALL[name]) for name in ("program", "table", "context"))
    saved = f.let("call i64 @ws_enter()")
    pool = f.load_field("ptr", context, CONTEXT["pool"])
    for name in ("status", "trips"):
        f.store("i64", "0", f.field(context, CONTEXT[name]))
    f.atomic_store("0", f.field(context, CONTEXT["stop"]), "monotonic")
    f.store("i64", "1", context)

    def run() -> list[str]:
        return [f.let(f"call i32 {program}(ptr {table}, ptr {context})")]

    def claim() -> list[str]:
        return [f.compare_exchange(pool, "0", "1", "acquire monotonic")]

    def run_shared() -> list[str]:
        threads = f.load_field("i64", pool, POOL["threads"])
        f.store("i64", threads, context)
        f.count_to(threads, lambda k: f.do(f"call void @wake(ptr {worker_record(f, pool, k)})"), start="1")
        result = run()
        f.atomic_store("0", pool, "release")
        return result

    (owner,) = f.choose(f.let(f"icmp ne ptr {pool}, null"), ["i1"], claim, lambda: ["false"])
    (result,) = f.choose(owner, ["i32"], run_shared, run)
    f.do(f"call void @ws_leave(i64 {saved})")
    return f.text(f"ret i64 {f.let(f'sext i32 {result} to i64')}")


def fork_join_functions(pause: str) -> list[str]:
    """Return all functions of this file; `pause` is the instruction of a thread that spins."""
    parallel = [wake_function(), spin_function(pause), join_function(pause), parallel_function(), rest_function()]
    return [*parallel, worker_function(pause), fail_function(pause), run_function()]
