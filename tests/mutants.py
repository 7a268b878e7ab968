"""Planted faults: each breaks one rule in a copy of the source, and the tests must notice.

    make mutate                            every fault
    python tests/mutants.py scan contract  those whose name holds one of these words
    wholestep audit mutants                some of them, with a record

The faults are in mutants/*.diff. An old text that no longer occurs exactly once is an error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from uuid import uuid4

from wholestep.primitives.family import Primitive
from wholestep_tools.audit.correctness.planted import SOURCES, Mutant, broken_file, plant, read

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
KILLED_AT_LEAST = 0.95
NOTHING_COLLECTED = 5
"""The exit status of pytest where a file asks for a library that is not installed."""
LONGEST = "tests/laws/test_primitives.py"
TESTS = (
    "tests/laws/test_decisions.py",
    "tests/laws/test_exact.py",
    "tests/structure",
    "tests/programs/test_programs.py",
    LONGEST,
)


COMPILED = (
    "tests/compiled/test_plans.py",
    "tests/compiled/test_files.py",
    "tests/train/test_stream.py",
    "tests/compiled/test_found.py",
    "tests/compiled/test_invariance.py",
    "tests/compiled/test_training.py",
    "tests/compiled/test_text.py",
)

COSTED = (
    "tests/lower/test_cost.py",
    "tests/train/test_symbolic_cost.py",
    "tests/runtime/test_rates.py",
    "tests/train/test_profile.py",
)
PRICED = (
    "lower/cost/roofline.py",
    "report/cost_table.py",
    "lower/cost/cache_reuse.py",
    "backends/cpu/profiled_entry.py",
    "runtime/cpu/machine_rates.py",
    "runtime/cpu/profiler.py",
    "train/calibrate.py",
    "train/inspect/perfetto.py",
)
"""Predictions and measurements, on which no result depends."""


SHORT_PASSES = ("tests/passes/test_rules.py", "tests/passes/test_passes.py", "tests/passes/test_optional.py")
"""The tests of passes that take no minute."""
BUDGET, SPILL = "tests/lower/test_budget.py", "tests/lower/test_spill.py"


TRAINED = {
    "train/step/unroll.py": "tests/train/test_unroll.py",
    "train/program/step_loops.py": "tests/train/test_hypergradients.py",
    "train/program/hyperparameters.py": "tests/optim/test_schedules.py",
    "train/program/resident_program.py": "tests/train/test_handle.py",
    "train/state/state_arrays.py": "tests/train/test_handle.py",
    "frontend/closure_reads.py": "tests/frontend/test_names.py",
    "nn/call_sites.py": "tests/nn/test_blame.py",
    "nn/windows.py": "tests/nn/test_layers_pooling.py",
    "nn/resampling.py": "tests/nn/test_layers_pooling.py",
}
"""Files that the laws of the language do not cover, and the tests that do."""
OWN = {
    "lower/buffers/allocate.py": ["tests/lower/test_offsets.py", "tests/train/test_symbolic.py"],
    "lower/buffers/task_order.py": [BUDGET, "-k", "not random"],
    "backends/cpu/target/prefetch_placement.py": [SPILL, "-k", "not random"],
    "lower/verify_program.py": [SPILL, "-k", "verifier or pieces"],
    "lower/compile.py": [SPILL, "-k", "not random"],
    "train/step/compile.py": ["tests/train/test_microbatches.py"],
    "train/program/microbatches.py": ["tests/train/test_microbatches.py"],
    "lower/fusion/fusion_groups.py": ["tests/lower/test_lowering.py"],
    "lower/fusion/operand_places.py": ["tests/lower/test_lowering.py", "tests/lower/test_operand_places.py"],
    "lower/kernels/scalar_codegen.py": ["tests/train/test_symbolic_cost.py"],
    "dims/layout.py": ["tests/floor0/test_dims.py"],
    "dims/size.py": ["tests/floor0/test_dims.py"],
    "train/step/attached.py": ["tests/train/test_symbolic.py"],
    "nn/stack.py": ["tests/nn/test_stack.py"],
    "nn/stack_loops.py": ["tests/nn/test_stack.py"],
    "primitives/checkpoint.py": ["tests/frontend/test_checkpoint.py", "tests/structure"],
    "primitives/min_cut.py": ["tests/golden/test_graphs.py", "tests/structure"],
}
"""Files with tests of their own that notice what the laws cannot, such as memory."""

REROLLED = {"lower/ops/control_flow.py", "train/state/state.py", "compiler/driver.py", "compiler/memory_report.py"}
"""Files beside those of rerolling whose faults its tests look for."""


MUTANTS = [m for file in sorted((ROOT / "tests" / "mutants").glob("*.diff")) for m in read(file)]


def problems() -> list[str]:
    """Mutants whose old text does not occur exactly once."""
    found = []
    for m in MUTANTS:
        count = broken_file(m, ROOT).read_text(encoding="utf-8").count(m.old)
        if count != 1:
            found.append(f"{m.file}: {m.name}: {m.old!r} occurs {count} times")
    return found


def stages(mutant: Mutant) -> list[list[str]]:
    """The tests to run, those likeliest to notice the fault first: the laws of the broken file's results."""
    if mutant.tests:
        return [[test] for test in mutant.tests]
    package, _, stem = mutant.file.removesuffix(".py").partition("/")
    if mutant.file in PRICED:
        return [[test] for test in COSTED]
    if mutant.file in TRAINED:
        return [[TRAINED[mutant.file]]]
    if stem.startswith("reroll/") or mutant.file in REROLLED:
        return [["tests/reroll"], list(COMPILED)]
    if mutant.file in OWN:
        return [OWN[mutant.file], *stages(mutant._replace(file=f"{package}/family.py"))]
    if package == "passes":
        return [list(SHORT_PASSES), ["tests/passes"], list(TESTS)]
    if stem.startswith("remat/"):
        return [[BUDGET, "-k", "not random"], [BUDGET], [SPILL]]
    if package in ("lower", "backends", "report"):
        return [[test] for test in COMPILED]
    if package == "kernel":
        return [["tests/kernel/test_index_arithmetic.py"], list(TESTS), ["tests/kernel"], *[[t] for t in COMPILED]]
    if package != "primitives" or stem in ("family", "structure", "loops"):
        return [list(TESTS)]
    made = vars(importlib.import_module(f"wholestep.primitives.{stem}")).values()
    names = sorted({x.name for x in made if isinstance(x, Primitive)})
    return [["tests/laws", "-k", " or ".join(names)], [t for t in TESTS if t != LONGEST], [COMPILED[0]]]


def survives(mutant: Mutant, whole: Path) -> bool:
    """Plant one fault in a copy of the source, run the tests, and say whether all of them passed.

    A test that fails on the whole source, too, has noticed nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        plant(mutant, ROOT, copy)
        for tests in stages(mutant):
            failed = failure(copy, tests)
            if failed and failure(whole, [failed]) is not None:
                print(f"{failed} fails without any fault, too", flush=True)
                return True
            if failed is not None:
                return False
    return True


def timed_fate(mutant: Mutant, whole: Path) -> tuple[bool, float]:
    """True if a fault survives, and the seconds that the tests took."""
    begun = time.perf_counter()
    return survives(mutant, whole), time.perf_counter() - begun


def failure(copy: Path, tests: list[str]) -> str | None:
    """The first of these tests that fails on a copy of the source; "" where none could begin or one hangs; or None."""
    sources = os.pathsep.join(str(copy / source) for source in SOURCES)
    environment = {**os.environ, "PYTHONPATH": sources, "WHOLESTEP_CACHE": "off"}
    environment |= {"PROGRAMS_COUNT": "40", "PROGRAMS_SEED": "1"}
    environment |= {"TRAINING_COUNT": "40", "TRAINING_SEED": "1"}
    environment |= {"BUDGET_COUNT": "40", "BUDGET_SEED": "1"}
    remembered = copy / f"cache-{uuid4()}"
    options = f"-x -q -p no:xdist -o pythonpath=. -o cache_dir={remembered}"
    command = [sys.executable, "-m", "pytest", *options.split(), *tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    if done.returncode < 0:  # a process that crashes has noticed
        return ""
    if done.returncode not in (0, 1, 2, NOTHING_COLLECTED):
        raise RuntimeError(f"pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    if done.returncode == 1:
        return next(iter(json.loads((remembered / "v/cache/lastfailed").read_text(encoding="utf-8"))))
    if done.returncode == NOTHING_COLLECTED:
        print("none of these tests can run here:", *tests, flush=True)
    return "" if done.returncode == 2 else None


def chosen(words: list[str], count: int | None, seed: int) -> list[Mutant]:
    """The mutants whose name or file holds one of these words; of them so many, drawn at random."""
    found = [m for m in MUTANTS if not words or any(w in m.name or w in m.file for w in words)]
    return found if count is None or count >= len(found) else random.Random(seed).sample(found, count)


def main(arguments: list[str]) -> int:
    """Run the mutants, print each fate, and fail below the mark; with --json only where nothing could be told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of those drawn that were planted before")
    parser.add_argument("--jobs", type=int, default=WORKERS, help="how many run at the same time")
    parser.add_argument("--json", action="store_true", help="a last line that says which survived")
    given = parser.parse_args(arguments)
    stale = problems()
    if stale:
        print("stale mutants:", *stale, sep="\n  ")
        return 2
    planted, alive = chosen(given.words, given.count, given.seed)[given.first :], []
    if not planted:
        print("no fault has one of these words in its name or in the file that it breaks:", *given.words)
        return 2
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        plant(None, ROOT, Path(folder))
        fates = pool.map(timed_fate, planted, repeat(Path(folder)))
        for m, (survived, seconds) in zip(planted, fates, strict=True):
            print(f"{'SURVIVED' if survived else 'killed  '} {seconds:4.0f} s  {m.file:28} {m.name}", flush=True)
            alive += [m] if survived else []
    share = 1 - len(alive) / max(len(planted), 1)
    print(f"{len(planted) - len(alive)} of {len(planted)} killed ({share:.0%})")
    if given.json:
        names = [f"{m.file}: {m.name}" for m in alive]
        print(json.dumps({"known": len(MUTANTS), "planted": len(planted), "survived": names}))
        return 0
    return 0 if share >= KILLED_AT_LEAST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
