"""Pages in a browser: everything that a person does with one, against the step in Python, and every way it can fail."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep_tools.browser import CHROMIUM, MISSING, Chromium, Open, Tab, served

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
Array = np.ndarray[Any, Any]


CUT_OFF = """navigator.storage.getDirectory().then(async (folder) => {
    const handles = await Array.fromAsync(folder.values()), files = await Promise.all(handles.map((x) => x.getFile()));
    const newest = handles[files[0].lastModified > files[1].lastModified ? 0 : 1];
    const out = await newest.createWritable({ keepExistingData: true });
    await out.truncate(500);
    await out.close();
})"""
"""A script that truncates the newest copy of the state that a page keeps."""


def loss(params: Any, batch: Any) -> Any:
    return np.mean((np.tanh(batch["x"] @ params["w"]) - batch["y"]) ** 2)


def rows(n: int) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(n, 3)).astype("f"), "y": rng.normal(size=n).astype("f")}


def small_step(batch: Any) -> Any:
    """A step with Adam; its batches are 8 rows."""
    batch = {k: v[:8] for k, v in batch.items()}
    return ws.compile(loss, {"w": np.full(3, 0.5, "f")}, optimizer=ws.optim.adam(1e-2), batch=batch)


def python_losses(step: Any, data: Any, n: int, first: int = 0) -> list[float]:
    """The losses of steps in Python on the batches in their order."""
    count = len(data["x"]) // 8
    batches = [{k: v[8 * i : 8 * i + 8] for k, v in data.items()} for i in range(count)]
    return [float(step(batches[(first + i) % count]).loss) for i in range(n)]


def run(tab: Tab, n: int) -> list[float]:
    """Train n steps one by one in the page; their losses."""
    before = tab.evaluate("losses.length")
    for i in range(n):
        tab.evaluate("one('once').click()")
        tab.wait(f"losses.length > {before + i} || one('status').className === 'bad'")
    found: list[float] = tab.evaluate(f"losses.slice({before})")
    return found


def status(tab: Tab) -> str:
    """The text of the page's status line."""
    found: str = tab.evaluate("one('status').textContent")
    return found


def file_at(path: Path) -> Path:
    """A file, once it is there."""
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return path


def test_a_page_trains_as_the_step_in_python_does(opened: Open) -> None:
    data = rows(40)
    step = small_step(data)
    tab = opened(step, data, shuffle=False)
    tab.evaluate("one('start').click()")
    tab.wait("losses.length >= 200")
    assert tab.evaluate("one('start').textContent") == "Pause"
    tab.evaluate("one('start').click()")
    tab.wait("one('status').textContent === 'Paused.'")
    found = tab.evaluate("losses")
    wanted = python_losses(step, data, len(found))
    assert np.abs(np.array(found[:20]) / wanted[:20] - 1).max() <= 1e-6
    assert np.abs(np.array(found) / wanted - 1).max() <= 1e-4
    assert float(tab.evaluate("one('rate').textContent")) > 0
    assert tab.evaluate("one('steps').textContent") == str(len(found)) == str(tab.evaluate("losses.length"))
    drawn = (
        "new Set(one('curve').getContext('2d').getImageData(0, 0, one('curve').width, one('curve').height).data).size"
    )
    assert tab.evaluate(drawn) > 4, "the curve is drawn"


def test_checkpoints_go_both_ways(opened: Open, tmp_path: Path) -> None:
    data = rows(40)
    step = small_step(data)
    tab = opened(step, data, shuffle=False)
    run(tab, 10)
    tab.evaluate("one('save').click()")
    file = file_at(tmp_path / "step.safetensors")
    assert step.load(file).missing == () and step.steps == 10
    onwards = run(tab, 5)
    np.testing.assert_allclose(python_losses(step, data, 5), onwards, rtol=1e-6)
    tab.upload("#load", file)
    tab.wait("one('status').textContent.startsWith('Loaded')")
    assert run(tab, 5) == onwards, "a page goes on from a file as it went on from there"
    step.save(tmp_path / "python.safetensors")
    tab.upload("#load", tmp_path / "python.safetensors")
    tab.evaluate("say('')")
    tab.wait("one('status').textContent.startsWith('Loaded')")
    np.testing.assert_allclose(run(tab, 5), python_losses(step, data, 5), rtol=1e-6)


@pytest.mark.parametrize("how", ["byte", "header", "short", "other"])
def test_a_damaged_checkpoint_changes_nothing(opened: Open, tmp_path: Path, how: str) -> None:
    data = rows(40)
    step = small_step(data)
    tab = opened(step, data, shuffle=False)
    step.save(tmp_path / "good.safetensors")
    whole = bytearray((tmp_path / "good.safetensors").read_bytes())
    if how == "other":
        whole = bytearray(b"no checkpoint at all")
    elif how == "short":
        del whole[-1]
    else:
        whole[-2 if how == "byte" else 40] ^= 4
    (tmp_path / "bad.safetensors").write_bytes(whole)
    run(tab, 2)
    tab.upload("#load", tmp_path / "bad.safetensors")
    tab.wait("one('status').className === 'bad'")
    assert status(tab) == (
        "This checkpoint is damaged." if how == "byte" else "This file is no checkpoint of this step."
    )
    tab.evaluate("say('')")
    wanted = python_losses(step, data, 5)
    np.testing.assert_allclose(run(tab, 3), wanted[2:], rtol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_rows_are_shuffled_as_by_run(opened: Open, tmp_path: Path, kind: type) -> None:
    """Rows of four bytes and of one; from a checkpoint a page trains like a run that begins a new epoch."""
    data = rows(45)
    if kind is np.int8:
        data["y"] = (3 * data["y"]).astype(kind)
    step = small_step(data)
    tab = opened(step, data)
    tab.evaluate("one('start').click()")
    tab.wait("losses.length >= 16")
    tab.evaluate("one('start').click()")
    tab.wait("one('status').textContent === 'Paused.'")
    found = tab.evaluate("losses")
    step.save(tmp_path / "python.safetensors")
    wanted = step.run(data, epochs=5 + len(found) // 5, drop_last=True).losses
    np.testing.assert_allclose(found, wanted[: len(found)], rtol=1e-5)
    step.load(tmp_path / "python.safetensors")
    step.run(data, epochs=2, drop_last=True)
    step.save(tmp_path / "python.safetensors")
    tab.upload("#load", tmp_path / "python.safetensors")
    tab.wait("one('status').textContent.startsWith('Loaded')")
    np.testing.assert_allclose(run(tab, 7), step.run(data, epochs=2, drop_last=True).losses[:7], rtol=1e-5)


def test_reset_is_the_beginning(opened: Open) -> None:
    data = rows(40)
    tab = opened(small_step(data), data, shuffle=False)
    first = run(tab, 7)
    tab.evaluate("one('reset').click()")
    tab.wait("losses.length === 0")
    assert run(tab, 7) == first


def opened_again(tab: Tab) -> None:
    """Load the page anew, until it trains."""
    tab.evaluate("globalThis.before = true; location.reload()")
    tab.wait("!globalThis.before && typeof one === 'function' && one('hyper').childElementCount > 0")


def test_a_page_that_is_opened_again_goes_on_where_it_was(opened: Open) -> None:
    """The page is reloaded in the middle of a shuffled epoch; a truncated copy is ignored, and a reset deletes all."""
    data = rows(45)
    step = small_step(data)
    tab = opened(step, data)
    first = run(tab, 7)
    opened_again(tab)
    assert "Goes on from step 7" in status(tab) and tab.evaluate("losses") == first
    onwards = run(tab, 2)
    wanted = step.run(data, epochs=2, drop_last=True).losses
    np.testing.assert_allclose([*first, *onwards], wanted[:9], rtol=1e-5)
    tab.evaluate(CUT_OFF)
    opened_again(tab)
    assert tab.evaluate("losses") == [*first, *onwards[:1]]
    assert run(tab, 1) == onwards[1:]
    tab.evaluate("one('reset').click()")
    tab.wait("losses.length === 0")
    opened_again(tab)
    assert status(tab).startswith("Ready") and run(tab, 7) == first


def test_a_page_goes_on_from_a_loss_that_is_not_finite(opened: Open) -> None:
    data = rows(24)
    data["x"][9] = np.nan
    tab = opened(small_step(data), data, shuffle=False)
    run(tab, 2)
    opened_again(tab)
    assert "Goes on from step 2" in status(tab) and tab.evaluate("one('loss').textContent") == "NaN"


def test_a_browser_that_keeps_nothing_says_so(opened: Open) -> None:
    before = "navigator.storage.getDirectory = async () => { throw Error('closed') }"
    tab = opened(small_step(rows(24)), rows(24), before=before)
    tab.wait("one('status').textContent.includes('keeps no copy of the state (closed)')")
    assert len(run(tab, 2)) == 2


def test_hyper_parameters_are_typed(opened: Open) -> None:
    data = rows(24)
    step = small_step(data)
    tab = opened(step, data, shuffle=False)
    tab.wait("one('hyper-lr')?.value === '0.01'")
    found = run(tab, 2)
    tab.evaluate("one('hyper-lr').value = '0.5'; one('hyper-lr').dispatchEvent(new Event('change'))")
    found += run(tab, 3)
    wanted = python_losses(step, data, 2)
    step.set(lr=0.5)
    np.testing.assert_allclose(found, wanted + python_losses(step, data, 3, 2), rtol=1e-5)
    tab.evaluate("one('reset').click()")
    tab.wait("one('hyper-lr')?.value === '0.01'")


def picked(params: Any, batch: Any) -> Any:
    return np.mean((params["table"][batch["label"]] - batch["y"]) ** 2)


def test_a_label_out_of_range_is_said_with_its_line_and_the_state_stays(opened: Open, tmp_path: Path) -> None:
    data = {"label": np.arange(24, dtype=np.int32) % 5, "y": rows(24)["y"]}
    data["label"][20] = 7
    batch = {k: v[:8] for k, v in data.items()}
    step = ws.compile(picked, {"table": np.ones((5,), "f")}, optimizer=ws.optim.adam(1e-2), batch=batch)
    tab = opened(step, data, shuffle=False)
    tab.evaluate("one('start').click()")
    tab.wait("one('status').className === 'bad'")
    assert "index 7 is out of bounds for axis 0 with size 5" in status(tab)
    assert 'params["table"][batch["label"]]' in status(tab) and "test_page_browser.py" in status(tab)
    assert tab.evaluate("one('start').textContent") == "Start", "the page has paused"
    found = tab.evaluate("losses")
    wanted = [float(step({k: v[8 * i : 8 * i + 8] for k, v in data.items()}).loss) for i in range(2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    tab.evaluate("one('save').click()")
    held = {k: np.array(v) for k, v in step.params.items()}
    assert step.load(file_at(tmp_path / "step.safetensors")).missing == () and step.steps == 2
    np.testing.assert_allclose(step.params["table"], held["table"], rtol=1e-6)


def test_a_step_that_is_not_finite_is_left_out_and_counted(opened: Open) -> None:
    data = rows(24)
    data["x"][9] = np.nan
    step = small_step(data)
    tab = opened(step, data, shuffle=False)
    found = run(tab, 5)
    wanted = python_losses(step, data, 5)
    assert np.isnan(wanted[1]) and found[1] is None, "NaN has no word in JSON"
    np.testing.assert_allclose([found[i] for i in (0, 2, 3)], [wanted[i] for i in (0, 2, 3)], rtol=1e-6)
    assert tab.evaluate("one('skipped').textContent") == "2"
    tab.evaluate("one('reset').click()")
    tab.wait("losses.length === 0")
    assert tab.evaluate("one('skipped').textContent") == "0"


def test_a_lost_device_is_said(opened: Open) -> None:
    data = rows(24)
    tab = opened(small_step(data), data, shuffle=False)
    run(tab, 1)
    tab.evaluate("training.device.destroy()", tab.worker())
    tab.evaluate("one('start').click()")
    tab.wait("one('status').className === 'bad'")
    assert "The device was lost" in status(tab) and "checkpoint" in status(tab)


def test_a_device_that_fails_is_said(opened: Open) -> None:
    """A device without memory for the heap reports it aside, and reads zeros: no step is made, which ends training."""
    data = rows(24)
    tab = opened(small_step(data), data, shuffle=False)
    tab.evaluate("training.heap.destroy()", tab.worker())
    tab.evaluate("one('start').click()")
    tab.wait("one('status').className === 'bad'")
    assert status(tab).startswith("The device failed: ") and "checkpoint" in status(tab)


def test_a_worker_that_breaks_is_said(opened: Open) -> None:
    data = rows(24)
    tab = opened(small_step(data), data, shuffle=False)
    tab.evaluate("setTimeout(() => { throw Error('broken') })", tab.worker())
    tab.wait("one('status').className === 'bad'")
    assert "broken" in status(tab)


def test_the_curve_follows_the_colour_scheme(opened: Open) -> None:
    data = rows(24)
    tab = opened(small_step(data), data, shuffle=False)
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    run(tab, 3)
    tab.evaluate("light = one('curve').toDataURL()")
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    tab.wait("one('curve').toDataURL() !== light")


def test_the_keyboard_is_enough(opened: Open) -> None:
    data = rows(24)
    tab = opened(small_step(data), data, shuffle=False)
    tab.press("Tab", 9)
    assert tab.evaluate("document.activeElement.id") == "start"
    tab.press("Enter", 13, "\r")
    tab.wait("losses.length > 3")
    tab.press("Enter", 13, "\r")
    tab.wait("one('status').textContent === 'Paused.'")


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("Object.defineProperty(navigator, 'gpu', { value: undefined })", "This browser has no WebGPU"),
        ("navigator.gpu.requestAdapter = async () => null", "no graphics adapter"),
        (
            "navigator.gpu.requestAdapter = async () => ({ limits: {}, requestDevice() { throw Error('busy') } })",
            "busy",
        ),
    ],
)
def test_a_browser_without_webgpu_is_told_why(opened: Open, before: str, reason: str) -> None:
    data = rows(24)
    tab = opened(small_step(data), data, before=before)
    tab.wait("one('status').className === 'bad'")
    assert reason in status(tab)
    assert tab.evaluate("one('start').matches(':disabled')")


def test_an_address_that_browsers_do_not_trust_is_said(browser: Chromium, tmp_path: Path) -> None:
    data = rows(24)
    small_step(data).export(tmp_path / "train.html", data=data)
    with served(tmp_path) as address:
        tab = browser.tab(f"{address.replace('127.0.0.1', 'page.test')}/train.html")
        tab.wait("document.querySelector('#status')?.className === 'bad'")
        assert "https" in status(tab) and "localhost" in status(tab)
        tab.close()


def test_a_narrow_screen_shows_the_whole_width(opened: Open) -> None:
    tab = opened(small_step(rows(8)), rows(8))
    tab.picture(360, 900, "dark")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


LIMITED = """const asked = navigator.gpu.requestAdapter.bind(navigator.gpu);
navigator.gpu.requestAdapter = async () => {
    const found = await asked(), limits = { maxStorageBufferBindingSize: LIMIT, maxBufferSize: 9e9 };
    return { info: found.info, limits, requestDevice: () => found.requestDevice() };
};"""
"""A script that lowers the adapter's limit on the size of a bound storage buffer."""


def sorted_loss(params: Any, batch: Any) -> Any:
    return np.mean(np.sort(batch["x"] @ params["w"], axis=0)[::2] ** 2)


def squared_loss(params: Any, batch: Any) -> Any:
    return np.sum(params["w"] ** 2) * np.mean(batch["x"])


@pytest.mark.parametrize(
    ("limit", "width", "f", "said"),
    [
        (2000, 300, squared_loss, r"of the step, whose largest array is params\.w, f32\[3, 300\]\."),
        (
            2000,
            300,
            sorted_loss,
            r"array is argsort i64\[300, 8\] at \S*test_page_browser.py:\d+:  return np\.mean\(np\.sort",
        ),
        (40_000, 1, sorted_loss, r"binds 40000 bytes at a time, not the 48000 of the rows of batch\.x\."),
    ],
)
def test_memory_beyond_the_limit_of_an_adapter_is_said_by_name(
    opened: Open, limit: int, width: int, f: Any, said: str
) -> None:
    data = {"x": rows(4000)["x"], "y": np.zeros((4000, 1), "f")}
    batch = {k: v[:8] for k, v in data.items()}
    step = ws.compile(f, {"w": np.ones((3, width), "f")}, optimizer=ws.optim.sgd(1e-2), batch=batch)
    tab = opened(step, data, before=LIMITED.replace("LIMIT", str(limit)), shuffle=False)
    tab.wait("one('status').className === 'bad'")
    assert re.search(said, status(tab)), status(tab)
