"""JAX with numbers of 64 bits, which exported files turn on, for these tests alone; a browser, and pages in it."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from wholestep_tools.browser import Chromium, Open, Tab, served


@pytest.fixture
def jax() -> Iterator[ModuleType]:
    module = pytest.importorskip("jax", reason="JAX is an outside oracle; not installed")
    before = module.config.jax_enable_x64
    module.config.update("jax_enable_x64", True)
    yield module
    module.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser with WebGPU, which knows this machine as page.test too."""
    found = Chromium(tmp_path_factory.mktemp("profile"), "--host-resolver-rules=MAP page.test 127.0.0.1")
    folder = tmp_path_factory.mktemp("empty")
    (folder / "empty.html").write_text("<!doctype html><title>An empty page</title>")
    with served(folder) as address:
        # A browser that has only just been installed may take long to start its graphics process.
        tab = found.tab(f"{address}/empty.html")
        tab.wait("navigator.gpu.requestAdapter().then((adapter) => adapter !== null)")
        tab.close()
    yield found
    found.close()


@pytest.fixture
def opened(browser: Chromium, tmp_path: Path) -> Iterator[Open]:
    """Export a step, and open its page."""
    tabs = []
    with served(tmp_path) as address:

        def open_page(step: Any, data: Any, before: str = "", **options: Any) -> Tab:
            step.export(tmp_path / "train.html", data=data, **options)
            browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
            tabs.append(browser.tab(f"{address}/train.html", before))
            # The page's script runs some time after its text is there.
            said = "one('status').className === 'bad' || one('status').textContent.match(/Ready|[.] *$/)"
            tabs[-1].wait(f"typeof one === 'function' && ({said})")
            if not before:
                tabs[-1].wait("one('status').textContent.startsWith('Ready')")
            return tabs[-1]

        yield open_page
        for tab in tabs:
            tab.close()
