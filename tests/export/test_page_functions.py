"""Functions beside the step in pages, and captures: typed and dropped inputs, against the same calls in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep_tools.browser import CHROMIUM, MISSING, Open, Tab

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
Array = np.ndarray[Any, Any]
SHOWN = 5e-5
"""The rounding of the five digits that a page shows."""


def loss(params: Any, batch: Any) -> Any:
    hidden = np.tanh(batch["x"] @ params["w"])
    return np.mean((ws.capture("hidden", hidden) - batch["y"]) ** 2)


def predict(params: Any, x: Any) -> Any:
    hidden = np.tanh(x @ params["w"])
    return {"hidden": hidden, "signs": np.stack([hidden, -hidden, hidden**2], 1)}


def chosen(params: Any, batch: Any) -> Any:
    return params["w"][batch["place"]] * batch["factor"]


@pytest.fixture
def made() -> tuple[Any, dict[str, Array]]:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(16, 3)).astype("f"), "y": rng.normal(size=16).astype("f")}
    batch = {k: v[:8] for k, v in data.items()}
    step = ws.compile(loss, {"w": np.full(3, 0.5, "f")}, optimizer=ws.optim.adam(1e-1), batch=batch, captures="hidden")
    return step, data


@pytest.fixture
def page(opened: Open, made: Any) -> Tab:
    """A page with two functions on its parameters."""
    step, data = made
    one_row = step.attach(predict, batch=ws.ShapeDtype((1, 3), np.float32))
    place = {"place": ws.ShapeDtype((2,), np.int64), "factor": ws.ShapeDtype((), np.float32)}
    tab: Tab = opened(
        step, data, shuffle=False, attach={"predict": one_row, "chosen": step.attach(chosen, batch=place)}
    )
    return tab


def typed(tab: Tab, name: str, *texts: str) -> None:
    """Type into the inputs of a function."""
    for i, text in enumerate(texts):
        area = f"document.querySelectorAll('#function-{name} textarea')[{i}]"
        tab.evaluate(f"{area}.value = {json.dumps(text)}; {area}.dispatchEvent(new Event('input'))")


def values(tab: Tab, name: str) -> list[list[float]]:
    """The numbers that a function gave, one list for each result."""
    tab.wait(f"document.querySelector('#function-{name} .results').childElementCount && !panels.{name}.asked")
    lists = f"Array.from(document.querySelectorAll('#function-{name} .bars, #function-{name} pre'), "
    found: list[list[float]] = tab.evaluate(
        lists + "(x) => (x.localName === 'pre' ? x.textContent.split(/\\s+/) : "
        "Array.from(x.querySelectorAll('dd'), (dd) => dd.textContent)).map(Number))"
    )
    return found


def said(tab: Tab, name: str) -> str:
    """The error that the page shows for the inputs of a function."""
    tab.wait(f"document.querySelector('#function-{name} .said').className === 'said bad'")
    found: str = tab.evaluate(f"document.querySelector('#function-{name} .said').textContent")
    return found


def test_predictions_follow_the_parameters(page: Tab, made: Any) -> None:
    step, data = made
    x = np.array([[0.5, -1.0, 2.0]], "f")
    typed(page, "predict", "0.5, -1 2e0")
    for _ in range(3):
        wanted = step.attach(predict)(x)
        found = values(page, "predict")
        np.testing.assert_allclose(found[0], wanted["hidden"], rtol=SHOWN)
        np.testing.assert_allclose(found[1], wanted["signs"][0], rtol=SHOWN)
        before = page.evaluate("losses.length")
        batch = {k: v[8 * (before % 2) : 8 * (before % 2) + 8] for k, v in data.items()}
        page.evaluate("one('once').click()")
        page.wait(f"losses.length > {before} && panels.predict.asked === false")
        step(batch)


def test_rows_of_a_file_are_calls_one_after_another(page: Tab, made: Any, tmp_path: Path) -> None:
    step, data = made
    run = step.attach(predict)
    wanted = [float(run(x[None])["hidden"][0]) for x in data["x"]]
    for name in ("rows.npy", "rows.csv", "rows.json", "wide.npy"):
        file = tmp_path / name
        if name.endswith(".npy"):
            np.save(file, data["x"].astype("f8" if name == "wide.npy" else "f4"))
        elif name.endswith(".csv"):
            np.savetxt(file, data["x"], delimiter=",")
        else:
            file.write_text(json.dumps(data["x"].tolist()))
        page.evaluate("document.querySelector('#function-predict .results').replaceChildren()")
        page.upload("#function-predict input[type=file]", file)
        np.testing.assert_allclose(values(page, "predict")[0], wanted, rtol=SHOWN, err_msg=name)


def test_a_file_that_is_dropped_is_read(page: Tab, made: Any) -> None:
    page.evaluate("files = new DataTransfer(); files.items.add(new File(['1, 2, 3'], 'row.csv'))")
    event = "new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true })"
    page.evaluate(f"document.querySelector('#function-predict .field').dispatchEvent({event})")
    wanted = made[0].attach(predict)(np.array([[1, 2, 3]], "f"))["hidden"]
    np.testing.assert_allclose(values(page, "predict")[0], wanted, rtol=SHOWN)


def test_what_is_no_input_is_said(page: Tab, tmp_path: Path) -> None:
    typed(page, "predict", "1 2")
    assert said(page, "predict") == "batch takes 3 numbers, or rows of so many, and 2 are given."
    typed(page, "predict", "1 2 three")
    assert said(page, "predict") == '"three" is no number.'
    np.save(tmp_path / "big.npy", np.ones(3, ">f4"))
    page.upload("#function-predict input[type=file]", tmp_path / "big.npy")
    page.wait("document.querySelector('#function-predict .said').textContent.includes('little-endian')")
    typed(page, "chosen", "", "0 1.5")
    typed(page, "chosen", "2", "0 1.5")
    assert said(page, "chosen") == "batch.place takes whole numbers, and 1.5 is none."
    typed(page, "chosen", "2 3", "0 1")
    assert said(page, "chosen") == "The inputs have 2 and 1 rows."


def test_an_answer_that_comes_late_hides_no_error(page: Tab) -> None:
    """Numbers typed while a function is computed are judged by themselves."""
    typed(page, "predict", "0.5, -1 2e0")
    typed(page, "predict", "1 2 three")
    page.wait("!panels.predict.asked")
    assert said(page, "predict") == '"three" is no number.'
    assert page.evaluate("document.querySelector('#function-predict .results').childElementCount") == 0


def test_without_a_device_nothing_is_asked(opened: Open, made: Any) -> None:
    """The page says why it does not train, and takes no numbers and no drawing."""
    step, data = made
    image = step.attach(brightness, batch=ws.ShapeDtype((8, 8), np.float32))
    before = "Object.defineProperty(navigator, 'gpu', { value: undefined })"
    tab = opened(step, data, before=before, attach={"see": image})
    tab.wait("one('status').className === 'bad'")
    assert tab.evaluate("document.querySelector('#function-see textarea').matches(':disabled')")
    typed(tab, "see", "0 " * 64)
    tab.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert tab.evaluate("document.querySelector('#function-see .said').textContent") == ""


def test_an_index_out_of_bounds_is_said_and_training_goes_on(page: Tab, made: Any) -> None:
    typed(page, "chosen", "2", "0 7")
    assert "index 7 is out of bounds for axis 0 with size 3" in said(page, "chosen")
    assert 'params["w"][batch["place"]]' in said(page, "chosen")
    typed(page, "chosen", "2", "0 -1")
    np.testing.assert_allclose(values(page, "chosen")[0], [1.0, 1.0])
    page.evaluate("one('once').click()")
    page.wait("losses.length === 1")
    page.wait("!panels.chosen.asked")
    step, data = made
    step({k: v[:8] for k, v in data.items()})
    np.testing.assert_allclose(values(page, "chosen")[0], 2 * step.params["w"][[0, -1]], rtol=1e-4)


def test_captures_are_those_of_the_last_step(page: Tab, made: Any) -> None:
    step, data = made
    for i in range(2):
        page.evaluate("one('once').click()")
        page.wait(f"losses.length === {i + 1}")
        wanted = step({k: v[8 * i : 8 * i + 8] for k, v in data.items()}).captures["hidden"]
        found = page.evaluate("Array.from(captures.querySelectorAll('dd'), (x) => Number(x.textContent))")
        np.testing.assert_allclose(found, wanted, rtol=SHOWN)


def test_the_functions_of_a_page_fit_a_narrow_screen(page: Tab) -> None:
    typed(page, "predict", "0.5, -1 2e0")
    values(page, "predict")
    page.picture(360, 1400, "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_hint_of_a_field_is_legible(page: Tab, scheme: str) -> None:
    """A browser's own grey has a contrast of 2 on a dark field."""
    page.picture(360, 1400, scheme)
    field = "document.querySelector('.field textarea')"
    hint, text = [page.evaluate(f"getComputedStyle({field}, {of}).color") for of in ("'::placeholder'", "null")]
    assert hint == text


def pictured(params: Any, x: Any) -> Any:
    return np.stack([x * params["w"][0], -x])


def test_images_that_a_function_gives_are_pictures(opened: Open, made: Any) -> None:
    """The least number of all is black and the largest white; the numbers stand below."""
    step, data = made
    tab = opened(step, data, attach={"see": step.attach(pictured, batch=ws.ShapeDtype((4, 5), np.float32))})
    typed(tab, "see", " ".join(map(str, range(20))))
    (found,) = values(tab, "see")
    np.testing.assert_allclose(found, np.ravel(pictured(step.params, np.arange(20.0))), rtol=SHOWN)
    grey = "(x) => Array.from(x.getContext('2d').getImageData(0, 0, 5, 4).data).filter((_, i) => i % 4 === 0)"
    shown = tab.evaluate(f"Array.from(document.querySelectorAll('#function-see .picture'), {grey})")
    wanted = 255 * (np.array(found).reshape(2, 20) + 19) / (9.5 + 19)
    np.testing.assert_allclose(shown, wanted, atol=1)
    label = tab.evaluate("document.querySelector('#function-see .picture').getAttribute('aria-label')")
    assert label == "output, image 0: black is -19, and white 9.5000"


def brightness(params: Any, image: Any) -> Any:
    """The mean of each quarter of an image (8, 8), and the parameters."""
    quarters = image.reshape(2, 4, 2, 4).mean((1, 3)).reshape(4)
    return np.concatenate([quarters, params["w"]])


def test_an_image_is_drawn(opened: Open, made: Any) -> None:
    """A drawing changes the mean of its own quarter; the numbers of an image can be typed as well."""
    step, data = made
    image = step.attach(brightness, batch=ws.ShapeDtype((8, 8), np.float32))
    tab = opened(step, data, attach={"see": image})
    script = (
        "(() => { const x = document.querySelector('.drawing'); x.scrollIntoView(); const b = x.getBoundingClientRect()"
    )
    left, top, side = tab.evaluate(f"{script}; return [b.left, b.top, b.width]; }})()")

    def mouse(kind: str, x: float, y: float) -> None:
        place = {"x": left + x * side, "y": top + y * side}
        tab.call("Input.dispatchMouseEvent", type=kind, button="left", buttons=1, clickCount=1, **place)

    mouse("mousePressed", 0.6, 0.1)
    mouse("mouseMoved", 0.9, 0.4)
    mouse("mouseReleased", 0.9, 0.4)
    (found,) = values(tab, "see")
    assert 0.1 < found[1] < 0.5 and found[0] == found[2] == found[3] == 0
    np.testing.assert_allclose(found[4:], step.params["w"])
    tab.evaluate("Array.from(document.querySelectorAll('button')).at(-1).click()")
    assert tab.evaluate("document.querySelector('#function-see .results').childElementCount") == 0
    typed(tab, "see", "0 0 0 0 1 1 1 1 " * 4 + "0 " * 32)
    np.testing.assert_allclose(values(tab, "see")[0][:4], [0, 1, 0, 0])
    tab.picture(360, 1400, "dark")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
