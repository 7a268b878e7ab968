"""`wholestep bench pages`: steps of pages beside tensorgrad's, in one browser, in turns, from the same numbers."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.page_models import MODELS, PageModel
from wholestep_tools.bench.table import columns, difference, duration
from wholestep_tools.browser import CHROMIUM, Chromium, Tab, served

PACKAGE = "tensorgrad@0.4.6"
PEER = Path(__file__).with_name("page_peer.mjs")
STEPS = 3
"""The first steps, whose losses are compared."""
NEAR = 1e-3
"""The largest relative difference of the losses of the first steps; the libraries add Adam's eps at other places."""
TURN = 1.0
"""Seconds of a turn, at least; a turn has one step at least."""
WAYS = ("wholestep", "tensorgrad")
PAGE = """\
<!doctype html><title>bench pages</title>
<script type="importmap">{"imports": {"tensorgrad": "./tensorgrad/index.js"}}</script>
<script type="module">
import { create } from "./train.mjs";
import { peer } from "./page_peer.mjs";
const losses = (model) => async (count) => (await model.run(count)).losses;
globalThis.failed = null;
try {
  const start = await (await fetch("start.json")).json();
  const theirs = await peer(start.name, start), ours = await create();
  const launches = ours.page.step.entries.filter(([kind]) => kind === "launch").length;
  globalThis.launches = { wholestep: launches, tensorgrad: theirs.launches };
  globalThis.ways = { wholestep: losses(ours), tensorgrad: theirs.run };
} catch (error) { globalThis.failed = String(error.stack ?? error); }
globalThis.timed = async (who, count) => {
  const before = performance.now(), found = await ways[who](count);
  return [(performance.now() - before) / 1000, found];
};
</script>
"""


class PageRow(NamedTuple):
    """A model: the seconds of a step of each library, one number a turn, launches of a step, and the first losses."""

    seconds: Mapping[str, Sequence[float]]
    launches: Mapping[str, int]
    losses: Mapping[str, Sequence[float]]
    asked: float

    @property
    def ratio(self) -> float:
        """The time of tensorgrad beside ours: the median of turns, each beside the one next to it."""
        ours, theirs = (self.seconds[who] for who in WAYS)
        return statistics.median([y / x for x, y in zip(ours, theirs, strict=True)])


def npm(package: str, folder: Path) -> Path:
    """The script of tensorgrad that npm installs in a folder; raises CommandError where it does not."""
    if shutil.which("npm") is None:
        raise CommandError("bench pages: there is no npm", hint="install Node.js, which brings it")
    order = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), package]
    done = subprocess.run(order, capture_output=True, text=True)
    script = folder / "node_modules" / "tensorgrad" / "dist" / "index.js"
    if done.returncode or not script.exists():
        reason = next((line for line in done.stderr.splitlines() if "error" in line), "it has no dist/index.js")
        hint = "--package names another version, or the file or folder of a built package"
        raise CommandError(f"bench pages: npm does not install {package}: {reason}", hint=hint)
    return script


def version(script: Path) -> str:
    """The package of a script, with its version."""
    about = json.loads((script.parents[1] / "package.json").read_text(encoding="utf-8"))
    return f"{about['name']}@{about['version']}"


@contextmanager
def opened(browser: Chromium, name: str, model: PageModel, script: Path) -> Iterator[Tab]:
    """A tab in which both libraries have a model, ready to train."""
    with tempfile.TemporaryDirectory(prefix="wholestep-bench-") as made:
        folder = Path(made)
        model.step().export(folder / "train.mjs", data=dict(model.batch), shuffle=False)
        (folder / "tensorgrad").mkdir()
        shutil.copy(script, folder / "tensorgrad")
        shutil.copy(PEER, folder)
        kept = {part: packed(getattr(model, part)) for part in ("params", "batch")}
        (folder / "start.json").write_text(json.dumps({"name": name, **kept}), encoding="utf-8")
        (folder / "page.html").write_text(PAGE, encoding="utf-8")
        with served(folder) as address:
            tab = browser.tab(f"{address}/page.html")
            tab.wait("globalThis.ways !== undefined || globalThis.failed")
            if failed := tab.evaluate("globalThis.failed"):
                raise CommandError(f"bench pages: {name}: {failed}")
            yield tab
            tab.close()


def packed(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as JSON has them."""
    return {name: [x.dtype.name, x.ravel().tolist()] for name, x in arrays.items()}


def measured(tab: Tab, rounds: int, asked: float) -> PageRow:
    """The steps of both libraries, in turns."""

    def timed(who: str, count: int) -> tuple[float, list[float]]:
        seconds, losses = tab.evaluate(f"timed('{who}', {count})")
        return seconds, losses

    losses = {who: timed(who, STEPS)[1] for who in WAYS}
    counts = {who: max(1, round(TURN * 2 / timed(who, 2)[0])) for who in WAYS}
    seconds: dict[str, list[float]] = {who: [] for who in WAYS}
    for i in range(rounds):
        for who in WAYS if i % 2 else WAYS[::-1]:
            seconds[who].append(timed(who, counts[who])[0] / counts[who])
    return PageRow(seconds, tab.evaluate("launches"), losses, asked)


def complaints(found: Mapping[str, PageRow]) -> list[str]:
    """The models whose losses are not the same in both libraries."""
    far = {name: max(map(difference, *[row.losses[who] for who in WAYS])) for name, row in found.items()}
    return [f"{name}: the losses of tensorgrad are others by {x:.1e}" for name, x in far.items() if not x <= NEAR]


HEAD = ("model", *WAYS, "launches", "tensorgrad's", "times faster", "asked")


def cells_of(name: str, row: PageRow) -> list[str]:
    """The cells of a model."""
    times = [duration(statistics.median(row.seconds[who])) for who in WAYS]
    return [name, *times, *[str(row.launches[who]) for who in WAYS], f"{row.ratio:.2f}", f"{row.asked:g}"]


def page_table(file: Path) -> list[str]:
    """The table of a record, for the documentation; none where there is no record."""
    if not file.exists():
        return []
    record = json.loads(file.read_text(encoding="utf-8"))
    lines = [f"| {' | '.join(HEAD)} |", f"|---|{'--:|' * (len(HEAD) - 1)}"]
    lines += [f"| {' | '.join(cells_of(name, PageRow(**row)))} |" for name, row in record["models"].items()]
    about = f"Measured on {record['processor']}, {record['browser']}, {record['package']}: the median of turns."
    return [about, "", *lines]


def chosen(names: str) -> list[str]:
    """The models to measure; raises CommandError for one that there is not."""
    asked = list(dict.fromkeys([name.strip() for name in names.split(",")]))
    for name in asked:
        if name not in MODELS:
            raise CommandError(f"there is no model {name!r}", hint=f"choose from {', '.join(MODELS)}")
    return asked


def bench(names: Sequence[str], package: str, rounds: int, file: Path | None, stream: TextIO) -> int:
    """Measure and print; 0 where the losses are the same in both libraries, else 1.

    Raises CommandError for a file that cannot be written, and where there is no Chromium, npm or tensorgrad.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    if CHROMIUM is None:
        raise CommandError("bench pages: there is no Chromium", hint="install chromium or google-chrome")
    kept = json.loads(file.read_text(encoding="utf-8"))["models"] if file is not None and file.exists() else {}
    found: dict[str, PageRow] = {}
    with tempfile.TemporaryDirectory(prefix="wholestep-bench-", ignore_cleanup_errors=True) as made:
        script = npm(package, Path(made, "npm"))
        used = version(script)
        browser = Chromium(Path(made, "profile"))
        about = browser.call("Browser.getVersion")["product"]
        for name in names:
            model = MODELS[name]()
            with opened(browser, name, model, script) as tab:
                row = found[name] = measured(tab, rounds, model.asked)
            print("\n".join(columns(HEAD, [cells_of(name, row)])), file=stream, flush=True)
            kept = {each: kept[each] if each != name else row._asdict() for each in MODELS if each in {*kept, name}}
        browser.close()
    if file is not None:
        record = {"bench": "pages", "processor": machine.processor_and_code(), "browser": about, "package": used}
        file.write_text(json.dumps({**record, "models": kept}, indent=1) + "\n", encoding="utf-8")
    wrong = complaints(found)
    print("\n".join(wrong or ["all losses agree"]), file=stream)
    return 1 if wrong else 0
