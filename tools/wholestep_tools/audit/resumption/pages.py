"""`wholestep audit pages`: a state goes to a page in a browser, trains there, comes back and trains on, and again."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.errors import CommandError, UnsupportedError
from wholestep.ir.graph import NDArray
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.foreign.parity import NEAR, TIMES, TRIES, apart, arrays_of, loss_of, rounded_aside
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.exported_steps import STEPS
from wholestep_tools.audit.trainings.programs import training
from wholestep_tools.browser import CHROMIUM, MISSING, Chromium, Tab, served

CLAIM = "A checkpoint that a page takes over trains on there, and one that it gives back trains on here"
MOST = 6
"""The steps in a row in one place, at most."""
ROLLS = 3
"""The batches of a random training: its rows, which move on by one."""
SECONDS = 240.0
"""The seconds until a file that does not come is an error."""
READY = "typeof one === 'function' && (!one('once').disabled || one('status').className === 'bad')"


class Trainee(NamedTuple):
    """A step, the data that it is trained on, and the batches of it in their order."""

    step: Any
    data: Any
    batches: Sequence[Any]

    def train(self, first: int, count: int) -> list[float]:
        """The losses of so many steps here, from the batch of this number on."""
        return [loss_of(self.step, self.batches[(first + i) % len(self.batches)]) for i in range(count)]


def known(name: str) -> Trainee:
    """One of the steps that are handed over to all targets, on one batch."""
    step, batch = STEPS[name]()
    return Trainee(step, batch, [batch])


def drawn(seed: int, i: int) -> Trainee:
    """A random training of this number, on some batches."""
    made = training(seed, i)._replace(steps=1)
    batches = [made.batches(k) for k in range(ROLLS)]
    data = {name: np.concatenate([batch[name] for batch in batches]) for name in made.rows}
    return Trainee(made.step(), data, batches)


class PageAtWork:
    """A page in a tab: it takes checkpoints, trains, and gives checkpoints back."""

    def __init__(self, tab: Tab, folder: Path) -> None:
        self.tab, self.folder = tab, folder

    def said(self, words: str) -> None:
        """Wait for a status of the page that begins with these words; raises RuntimeError with any other."""
        self.tab.wait(f"one('status').textContent.startsWith('{words}') || one('status').className === 'bad'")
        found = self.tab.evaluate("one('status').textContent")
        if not found.startswith(words):
            raise RuntimeError(f"the page says: {found}")

    def take(self, file: Path) -> None:
        """Give the page a checkpoint."""
        self.tab.evaluate("say('')")
        self.tab.upload("#load", file)
        self.said("Loaded")

    def train(self, count: int) -> list[float]:
        """The losses of so many steps."""
        before = self.tab.evaluate("losses.length")
        for i in range(count):
            self.tab.evaluate("one('once').click()")
            self.tab.wait(f"losses.length > {before + i} || one('status').className === 'bad'")
        found: list[float] = self.tab.evaluate(f"losses.slice({before})")
        if len(found) != count:
            raise RuntimeError(f"the page says: {self.tab.evaluate('one(`status`).textContent')}")
        return found

    def give(self) -> Path:
        """The file of a checkpoint that the page gives."""
        file, end = self.folder / "step.safetensors", time.monotonic() + SECONDS
        file.unlink(missing_ok=True)
        self.tab.evaluate("one('save').click()")
        while not file.exists():
            if time.monotonic() > end:
                raise TimeoutError("the page gives no checkpoint")
            time.sleep(0.02)
        return file


class Distances(NamedTuple):
    """The distances of losses in the page, of the state that came back, and of losses after each way, from ours."""

    losses: float = 0.0
    state: float = 0.0
    after: float = 0.0
    again: float = 0.0


def far(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """The largest difference of losses beside the largest of ours."""
    return apart(np.array(theirs), np.array(ours))


def moved_by_rounding(trainee: Trainee, start: Path, count: int, wanted: dict[str, NDArray]) -> float:
    """The distance of a state from itself where each parameter began a rounding up or down, at most."""
    found = 0.0
    for seed in range(TRIES):
        rng = np.random.default_rng(seed)
        trainee.step.load(start)
        trainee.step.set(params=tree.map(lambda x, rng=rng: rounded_aside(x, rng), trainee.step.params))
        trainee.train(0, count)
        found = max(found, *[apart(x, wanted[path]) for path, x in arrays_of(trainee.step).items()])
    return found


def round_trip(what: str, trainee: Trainee, page: PageAtWork, counts: Sequence[int], seen: Seen) -> Distances:
    """Train here, in the page and here, and in the page again, and compare each part with ours from the same state."""
    before, there, after = counts
    step, start, later = trainee.step, page.folder / "start.safetensors", page.folder / "later.safetensors"
    trainee.train(0, before)
    step.save(start)
    losses, state = trainee.train(0, there), arrays_of(step)
    page.take(start)
    in_page = page.train(there)
    step.load(page.give())
    came = arrays_of(step)
    seen.count("checkpoints from a page")
    back, on = trainee.train(there, after), page.train(after)
    step.save(later)
    page.take(later)
    seen.count("checkpoints to a page", 2)
    again = far(page.train(there), trainee.train(0, there))
    seen.count("steps in a page", 2 * there + after)
    states = {path: apart(x, state[path]) for path, x in came.items()}
    worst = max(states, key=states.__getitem__)
    found = Distances(far(in_page, losses), states[worst], far(on, back), again)
    for part, distance in (("there", found.losses), ("after the way back", found.after), ("there again", again)):
        seen.right(distance <= NEAR, f"{what}: losses {part} differ by {distance:.1e}")
    if found.state > NEAR:
        bound = TIMES * moved_by_rounding(trainee, start, there, state)
        seen.right(found.state <= bound, f"{what}: {worst} differs by {found.state:.1e}, beyond {bound:.1e}")
        seen.count("states further off, where a rounding moves ours as far")
    return found


@contextmanager
def opened(browser: Chromium, trainee: Trainee) -> Iterator[PageAtWork]:
    """The page of a step in a tab of its own."""
    with tempfile.TemporaryDirectory() as place, served(Path(place)) as address:
        trainee.step.export(Path(place) / "train.html", data=trainee.data, shuffle=False)
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=place)
        tab = browser.tab(f"{address}/train.html")
        try:
            tab.wait(READY)
            yield PageAtWork(tab, Path(place))
        finally:
            tab.close()


def check(what: str, make: Callable[[], Trainee], browser: Chromium, counts: Sequence[int], seen: Seen) -> Distances:
    """Count the outcome of a step in a page, and compare it."""
    seen.count("training steps")
    try:
        trainee = make()
        with opened(browser, trainee) as page:
            found = round_trip(what, trainee, page, counts, seen)
    except UnsupportedError:
        seen.count("refused by pages")
        return Distances()
    except Exception as error:
        seen.failures.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
        return Distances()
    seen.count("trained in a page, and on here")
    return found


def some_steps(numbers: range, count: int, seed: int) -> tuple[Seen, Distances]:
    """Some of the cases: those of all kinds in an order that the seed says, and then random ones."""
    names = np.random.default_rng(seed).permutation(list(STEPS))
    cases: list[tuple[str, Callable[[], Trainee]]] = []
    for i in numbers:
        if i < len(names):
            cases.append((str(names[i]), partial(known, str(names[i]))))
        else:
            cases.append((f"training {i} of seed {seed}", partial(drawn, seed, i)))
    return there_and_back(cases, [np.random.default_rng([seed, i]).integers(1, MOST + 1, 3) for i in numbers])


def there_and_back(cases: Sequence[tuple[str, Callable[[], Trainee]]], counts: Any) -> tuple[Seen, Distances]:
    """All these cases in one browser, with the steps of each in its places."""
    if CHROMIUM is None:
        raise CommandError(f"audit: {MISSING}", hint="install Chromium, or Google Chrome")
    seen, measured = Seen(), Distances()
    with tempfile.TemporaryDirectory() as profile, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        browser = Chromium(Path(profile))
        try:
            for (what, make), own in zip(cases, counts, strict=True):
                found = check(what, make, browser, list(map(int, own)), seen)
                measured = Distances(*map(max, measured, found))
        finally:
            browser.close()
    return seen, measured


def told(parts: Sequence[tuple[Seen, Distances]], count: int, seed: int) -> dict[str, Any]:
    """The record of all shares."""
    seen = joined_parts([part for part, _ in parts])
    measured = Distances(*map(max, *[found for _, found in (*parts, *parts[:1])]))
    shown = {"WebGPU in Chromium": measured._asdict()}
    return record("pages", CLAIM, dict(seen.checks), seen.failures, seed=seed, measured=shown)


AUDIT = Audit(
    "pages",
    Shares(some_steps, told),
    100,
    "take states to pages in a browser and back, and train on in both",
    """\
Steps of all kinds, the workloads of `wholestep bench` and one for each optimizer among them, and random trainings of
layers that are drawn one after another are written as pages, which headless Chromium opens; its WebGPU is
SwiftShader where there is no card. Each trains one to six steps here; a page takes the checkpoint over and trains
one to six; `step.load` takes the file that the page gives, and both train on; a checkpoint of ours goes to the page
once more. Losses must be ours to 1e-5 of the largest in each of these parts. The state that comes back is to be ours
to 1e-5 of the largest element of each array, counters and keys to the bit; where it is further off, it may be no
further than four times what a rounding up or down of each parameter makes of our own training. What pages refuse,
such as several steps a call, is counted. The table has the largest distances.""",
    shared=True,
)
