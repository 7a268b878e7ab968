"""The audit of pages finds nothing in a few correct trainings, and finds each planted fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wholestep_tools.audit.resumption import pages
from wholestep_tools.browser import CHROMIUM, MISSING

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


def audited(*names: str) -> Any:
    """The record of a few steps by their names."""
    cases = [(name, lambda name=name: pages.known(name)) for name in names]
    return pages.told([pages.there_and_back(cases, [(2, 3, 2)] * len(names))], len(names), 0)


def test_states_go_to_pages_and_back() -> None:
    """Steps with noise by keys, with branches and complex numbers, one that is refused, and a random one."""
    found = audited("VAE", "branches", "three steps a call")
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["trained in a page, and on here"] == 2 and found["checks"]["refused by pages"] == 1
    assert found["checks"]["checkpoints to a page"] == 4 and found["checks"]["checkpoints from a page"] == 2
    assert 0 < found["measured"]["WebGPU in Chromium"]["losses"] < 1e-6
    seen, _ = pages.there_and_back([("drawn", lambda: pages.drawn(0, 101))], [(1, 2, 1)])
    assert not seen.failures and seen.checks["trained in a page, and on here"] == 1


def test_losses_of_a_page_that_are_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    train = pages.PageAtWork.train
    monkeypatch.setattr(pages.PageAtWork, "train", lambda page, count: [1.0001 * x for x in train(page, count)])
    parts = ("there", "after the way back", "there again")
    assert audited("muon")["examples"] == [f"muon: losses {part} differ by 1.0e-04" for part in parts]


def test_a_state_that_came_back_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted faults: a page that trains one more step before it gives its state, and one whose file is truncated."""
    give = pages.PageAtWork.give

    def one_more(page: pages.PageAtWork) -> Path:
        page.train(1)
        return give(page)

    monkeypatch.setattr(pages.PageAtWork, "give", one_more)
    assert any("counters.step differs by inf" in failure for failure in audited("muon")["examples"])

    def cut(page: pages.PageAtWork) -> Path:
        file = give(page)
        file.write_bytes(file.read_bytes()[:-1])
        return file

    monkeypatch.setattr(pages.PageAtWork, "give", cut)
    (failure,) = audited("muon")["examples"]
    assert failure.startswith("muon: CheckpointError")


def test_losses_are_compared_with_the_largest() -> None:
    assert pages.far([1.0, 2.0], [1.0, 2.5]) == pytest.approx(0.2)
    assert pages.far([np.nan], [1.0]) == np.inf
