"""Planted faults: each breaks one rule in a copy of the source, and the tests must notice.

    make mutate                            every fault
    python tests/mutants.py scan contract  those whose name holds one of these words

A fault is (file, old text, new text, what is wrong). An old text that no longer occurs exactly once is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
WORKERS = 2
KILLED_AT_LEAST = 0.95
TESTS = (
    "tests/laws/test_decisions.py",
    "tests/laws/test_exact.py",
    "tests/structure",
    "tests/laws/test_primitives.py",
    "tests/programs/test_programs.py",
)


class Mutant(NamedTuple):
    file: str
    old: str
    new: str
    name: str


FAMILY, LOGIC, ARITHMETIC = "primitives/family.py", "primitives/logic.py", "primitives/arithmetic.py"
FUNCTIONS, CREATION, CONTRACTION = "primitives/functions.py", "primitives/creation.py", "primitives/contraction.py"
MOVEMENT, REDUCTION, INDEXING = "primitives/movement.py", "primitives/reduction.py", "primitives/indexing.py"
ORDER, MARKS, STRUCTURE = "primitives/order.py", "primitives/marks.py", "primitives/structure.py"
LOOPS, FORWARD, REVERSE = "primitives/loops.py", "transforms/forward.py", "transforms/reverse.py"
VMAP, BUILD, ANALYSIS, TEXT = "transforms/vmap.py", "ir/build.py", "ir/analysis.py", "ir/text.py"

MUTANTS = [
    Mutant(FAMILY, "out[i] = scaled(gy, conj(partial))", "out[i] = scaled(gy, partial)", "a conj dropped in reverse mode"),
    Mutant(FAMILY, "return -g if factor == -1 else g * factor", "return g * factor if factor != -1 else g", "the sign of a partial of -1 lost"),
    Mutant(FAMILY, "found = term if found is None else found + term", "found = term", "product rule keeps its last term"),
    Mutant(FAMILY, "first = None if dx is None else self(dx, y, **node.params)", "first = None if dx is None else self(dx, x, **node.params)", "a bilinear tangent with the wrong operand"),
    Mutant(FAMILY, "axes=tuple(range(1, x.ndim + 1)))", "axes=tuple(range(x.ndim)))", "expand puts the batch last"),
    Mutant(ARITHMETIC, "sub = Elementwise(\"sub\", np.subtract, 1, -1,", "sub = Elementwise(\"sub\", np.subtract, 1, 1,", "the sign of sub's second operand"),
    Mutant(ARITHMETIC, "lambda z, x, y: y, lambda z, x, y: x, takes", "lambda z, x, y: x, lambda z, x, y: y, takes", "mul's partials swapped"),
    Mutant(ARITHMETIC, "lambda z, x, y: -z / y", "lambda z, x, y: -x / y", "div's second partial"),
    Mutant(ARITHMETIC, "lambda z, x, y: -floor_divide(x, y)", "lambda z, x, y: floor_divide(x, y)", "the sign of remainder's second partial"),
    Mutant(ARITHMETIC, "return (real(gy) if wrt[0] else None, imag(gy) if wrt[1] else None)", "return (real(gy) if wrt[0] else None, -imag(gy) if wrt[1] else None)", "make_complex transposed with a conjugate"),
    Mutant(ARITHMETIC, "if self.lift == 1 else make_complex(gy * 0, gy)", "if self.lift == 1 else make_complex(gy, gy * 0)", "imag transposed into the real part"),
    Mutant(LOGIC, "(x > y) + 0.5 * (x == y)", "(x >= y) * 1.0", "a tie given to one side"),
    Mutant(LOGIC, "self(condition, nothing, gy) if wrt[2] else None,", "self(condition, gy, nothing) if wrt[2] else None,", "select's branches swapped in reverse mode"),
    Mutant(FUNCTIONS, "lambda y, x: -sin(x))", "lambda y, x: sin(x))", "the sign of cos's derivative"),
    Mutant(FUNCTIONS, "lambda y, x: 1 - y * y)", "lambda y, x: 1 - y)", "tanh's derivative"),
    Mutant(FUNCTIONS, "lambda y, x: 0.5 / y,", "lambda y, x: 0.5 / x,", "sqrt's derivative"),
    Mutant(FUNCTIONS, "lambda y, x: y * digamma(x)", "lambda y, x: digamma(x)", "gamma's derivative"),
    Mutant(FUNCTIONS, "lambda z, y, x: -y / (x * x + y * y)", "lambda z, y, x: y / (x * x + y * y)", "the sign of arctan2's second partial"),
    Mutant(FUNCTIONS, "lambda z, s, q: -s * zeta(s + 1, q)", "lambda z, s, q: -s * zeta(s, q)", "zeta's derivative"),
    Mutant(FUNCTIONS, "select(nothing, ones(y.type), y - 1)", "select(nothing, ones(y.type), y)", "pow's exponent not lowered"),
    Mutant(FUNCTIONS, "lambda y, x: j0(x) - _over(y, x)", "lambda y, x: j0(x) + _over(y, x)", "j1's derivative"),
    Mutant(FUNCTIONS, "lambda y, x: (1 / _LN10) / x", "lambda y, x: (1 / _LN2) / x", "log10's factor"),
    Mutant(CREATION, "gy = OPS[\"real\"](gy)", "gy = OPS[\"imag\"](gy)", "a cast to complex transposed into the imaginary part"),
    Mutant(CREATION, "return self(expand(xs[0], n, on[0]), dtype=dtype)", "return self(self(expand(xs[0], n, on[0]), dtype=dtype), dtype=xs[0].dtype)", "a batched cast cast back"),
    Mutant(CONTRACTION, "spec=f\"{out},{b}->{a}\")", "spec=f\"{b},{out}->{a}\")", "contract's operands in the wrong order"),
    Mutant(CONTRACTION, "return self(conj(x), gy, spec=f\"{a},{out}->{b}\")", "return self(x, gy, spec=f\"{a},{out}->{b}\")", "contract's conj dropped"),
    Mutant(CONTRACTION, "{new * on[0]}{a},{new * on[1]}{b}->{new}{out}", "{new * on[0]}{a},{b}{new * on[1]}->{new}{out}", "contract's batch axis last"),
    Mutant(CONTRACTION, "sizes = node.inputs[0].shape[node.inputs[0].ndim - len(size) :]", "sizes = node.inputs[0].shape[: len(size)]", "window's sizes from the wrong axes"),
    Mutant(CONTRACTION, "slice(o * d, o * d + spread(p, s), s)", "slice(o, o + spread(p, s), s)", "unwindow forgets the dilation"),
    Mutant(MOVEMENT, "tuple([i for i in range(len(shape)) if i not in kept]))", "tuple([i for i in range(len(shape)) if i in kept][: len(shape) - len(kept)]))", "broadcast transposed over the wrong axes"),
    Mutant(MOVEMENT, "shape=(n, *shape), axes=(0, *[a + 1 for a in axes]))", "shape=(n, *shape), axes=(0, *[a for a in axes]))", "broadcast's axes unshifted in a batch"),
    Mutant(MOVEMENT, "back[a] = i\n", "back[i] = a\n", "permute transposed by itself"),
    Mutant(MOVEMENT, "return self(xs[0], axes=(0, *[a + 1 for a in axes]))", "return self(xs[0], axes=(*[a + 1 for a in axes], 0))", "permute moves the batch"),
    Mutant(MOVEMENT, "return self(xs[0], axes=tuple([a + 1 for a in axes]))", "return self(xs[0], axes=axes)", "flip's axes unshifted in a batch"),
    Mutant(MOVEMENT, "return self(gy, axes=axes)\n", "return gy\n", "flip's transpose does nothing"),
    Mutant(MOVEMENT, "after = [n - a - spread(m, s) for", "after = [n - a - m for", "slice's transpose ignores the step"),
    Mutant(MOVEMENT, "interior=tuple([s - 1 for s in step]))", "interior=tuple([s for s in step]))", "slice's transpose pads one too many"),
    Mutant(MOVEMENT, "stop = [b + spread(n, i + 1) for n, b, i", "stop = [b + spread(n, i) for n, b, i", "pad's transpose stops early"),
    Mutant(MOVEMENT, "start=(0, *start), stop=(n, *stop), step=(1, *step))", "start=(0, *start), stop=(1, *stop), step=(1, *step))", "slice cuts the batch"),
    Mutant(MOVEMENT, "            at = end\n", "            at = at + 0\n", "concat's parts all cut from the start"),
    Mutant(MOVEMENT, "gx = self(gy, zeros(u.type), start=start, step=step) if wrt[0] else None", "gx = gy if wrt[0] else None", "an overwritten element keeps its cotangent"),
    Mutant(MOVEMENT, "return self(*both, start=(0, *start), step=(1, *step))", "return self(*both, start=(0, *start), step=(1, *[1 for _ in step]))", "update_slice forgets its step in a batch"),
    Mutant(REDUCTION, "return (sum_(dxs[0] * hit, axes=axes) / sum_(hit, axes=axes),)", "return (sum_(dxs[0] * hit, axes=axes),)", "ties of max counted in full"),
    Mutant(REDUCTION, "right = shifted(cumprod(x, axis=x.ndim - 1, reverse=True), -1)", "right = shifted(cumprod(x, axis=x.ndim - 1, reverse=True), 1)", "prod's products from the right shifted the wrong way"),
    Mutant(REDUCTION, "return self(gy, axis=axis, reverse=not reverse)", "return self(gy, axis=axis, reverse=reverse)", "cumsum's transpose runs the same way"),
    Mutant(REDUCTION, "return self(xs[0], axis=axis + 1, reverse=reverse)", "return self(xs[0], axis=axis + 1, reverse=False)", "a batched running sum forgets to run back"),
    Mutant(REDUCTION, "d = d + a * shifted(d, step, fill=0)", "d = d + shifted(d, step, fill=0)", "cumprod's recurrence loses its factor"),
    Mutant(REDUCTION, "return self(xs[0], axes=tuple([a + 1 for a in axes]))", "return self(xs[0], axes=axes)", "a reduction's axes unshifted in a batch"),
    Mutant(INDEXING, "return scatter_add(zeros(x.type), gy, *indices, axes=axes)", "return scatter(zeros(x.type), gy, *indices, axes=axes)", "gather's transpose overwrites instead of adding"),
    Mutant(INDEXING, "axes=(k, *range(k), *range(k + 1, out.ndim)))", "axes=(*range(k), k, *range(k + 1, out.ndim)))", "gather leaves the batch inside"),
    Mutant(INDEXING, "(0, *[a + 1 for a in axes])\n", "(0, *[a + 1 for a in reversed(axes)])\n", "batched indices in another order"),
    Mutant(INDEXING, "return (gx, select(self.stays(node, axes), gu, zeros(gu.type)))", "return (gx, gu)", "an overwritten write gets a cotangent"),
    Mutant(INDEXING, "gx = self(gy, zeros(u.type), *indices, axes=axes) if wrt[0] else None", "gx = gy if wrt[0] else None", "scatter keeps the cotangent of what it overwrites"),
    Mutant(ORDER, "order = x.shape[axis] - 1 - np.flip(", "order = np.flip(", "top_k's places counted from the wrong end"),
    Mutant(ORDER, "return self(xs[0], axis=axis + 1, **params)", "return self(xs[0], axis=axis, **params)", "sort's axis unshifted in a batch"),
    Mutant(ORDER, "return (take_along(dxs[0], node.outputs[1], node.params[\"axis\"]), None)", "return (dxs[0] if node.op.name == \"sort\" else take_along(dxs[0], node.outputs[1], node.params[\"axis\"]), None)", "sort's tangent unsorted"),
    Mutant(ORDER, "new = self.better(moved[k], seen[k - 1])", "new = ~self.better(seen[k - 1], moved[k])", "the last of equals wins in cummax"),
    Mutant(STRUCTURE, "chosen = xs[0] <= i", "chosen = xs[0] < i", "a batched cond takes the next branch"),
    Mutant(STRUCTURE, "on = [any(marks) for marks in zip(*[reach(b, active) for b in branches], strict=True)]", "on = reach(branches[0], active)", "cond's tangents by its first branch alone"),
    Mutant(STRUCTURE, "return [choose(wants, a, c) for a, c in zip(after, now, strict=True)]", "return after", "a batched while goes on for rows that are done"),
    Mutant(STRUCTURE, "if after == marks:\n                return marks", "return after", "while's marks spread one step only"),
    Mutant(STRUCTURE, "seeds = [(dy, gy) for dy, gy in zip(dys, gys, strict=True) if dy is not None and gy is not None]", "seeds = [(dy, gy) for dy, gy in zip(dys, gys, strict=True) if dy is not None and gy is not None][:0]", "custom_jvp loses its cotangents"),
    Mutant(LOOPS, "            reverse=not reverse,\n", "            reverse=reverse,\n", "scan's way back runs forward"),
    Mutant(LOOPS, "added = [a + g for a, g in zip(so_far, outs[:m], strict=True)]", "added = list(outs[:m])", "scan's constants not accumulated"),
    Mutant(LOOPS, "reverse=node.params[\"reverse\"],", "reverse=False,", "scan's tangent forgets to run back"),
    Mutant(LOOPS, "found = filled(active, [*outs[n : n + m], *outs[:n], *outs[n + m :]])", "found = filled(active, [*outs[:n], *outs[n : n + m], *outs[n + m :]])", "scan's constants and carries swapped"),
    Mutant(LOOPS, "        marks[c : c + k] = new\n", "        return [*marks[:c], *new, *marks[c + k :]]\n", "scan's marks spread one step only"),
    Mutant(LOOPS, "return [*outs[:k], *ys], out_marks", "return list(outs), out_marks", "scan's stacked outputs keep the batch on axis 1"),
    Mutant(LOOPS, "for x, o in zip(xs[c + k :], on[c + k :], strict=True)", "for x, o in zip(xs[c + k :], [False] * len(xs[c + k :]), strict=True)", "scan's rows keep the batch in front"),
    Mutant(LOOPS, "    needed.update({v: None for v in gxs if v not in late})\n", "", "a cotangent that is a constant is not kept"),
    Mutant(FORWARD, "if dy is not None and v.type.inexact:", "if dy is not None and v.type.inexact and v not in tangents and len(node.outputs) < 3:", "tangents of many outputs dropped"),
    Mutant(FORWARD, "from_outside = [fresh(v) for v in values]", "from_outside = list(values)", "a value given twice is one variable"),
    Mutant(FORWARD, "tangents[i] = instantiate(out[i], tangents[i])", "tangents[i] = instantiate(out[i], None)", "instantiated tangents are zero"),
    Mutant(REVERSE, "                known = cotangents.get(v)\n                cotangents[v] = g if known is None else known + g\n    return", "                cotangents[v] = g\n    return", "fan-out keeps its last cotangent"),
    Mutant(REVERSE, "            known = cotangents.get(v)\n            cotangents[v] = g if known is None else known + g\n    kept", "            cotangents[v] = g\n    kept", "an output returned twice is seeded once"),
    Mutant(REVERSE, "for node in reversed(nodes):", "for node in sorted(reversed(nodes), key=lambda node: node.op.name == \"mul\"):", "the walk back out of order"),
    Mutant(VMAP, "if wanted and not found[i]:", "if wanted and found[i] is None:", "an output that must carry the batch does not"),
    Mutant(ANALYSIS, "if not found.isdisjoint(node.inputs):\n            found.update(node.outputs)", "if not found.isdisjoint(node.inputs[:1]):\n            found.update(node.outputs)", "dependence seen through the first operand only"),
    Mutant(TEXT, "return f\"({inner[0]},)\" if len(inner) == 1", "return f\"({inner[0]})\" if len(inner) == 1", "a tuple of one printed as its item"),
]


def problems() -> list[str]:
    """Mutants whose old text does not occur exactly once."""
    found = []
    for m in MUTANTS:
        count = (SOURCE / "wholestep" / m.file).read_text(encoding="utf-8").count(m.old)
        if count != 1:
            found.append(f"{m.file}: {m.name}: {m.old!r} occurs {count} times")
    return found


def survives(mutant: Mutant) -> bool:
    """Plant one fault in a copy of the source, run the tests, and say whether all of them passed."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source / "wholestep" / mutant.file
        file.write_text(file.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(source), "PROGRAMS_COUNT": "40", "PROGRAMS_SEED": "1"}
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command = [sys.executable, "-m", "pytest", *options, *TESTS]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def main(words: list[str]) -> int:
    """Run the mutants, print each fate, and fail below the mark."""
    stale = problems()
    if stale:
        print("stale mutants:", *stale, sep="\n  ")
        return 2
    chosen = [m for m in MUTANTS if not words or any(w in m.name or w in m.file for w in words)]
    alive = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for m, survived in zip(chosen, pool.map(survives, chosen), strict=True):
            print(f"{'SURVIVED' if survived else 'killed  '}  {m.file:28} {m.name}", flush=True)
            alive += [m] if survived else []
    share = 1 - len(alive) / max(len(chosen), 1)
    print(f"{len(chosen) - len(alive)} of {len(chosen)} killed ({share:.0%})")
    return 0 if share >= KILLED_AT_LEAST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
