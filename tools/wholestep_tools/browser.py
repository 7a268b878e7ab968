"""A headless Chromium, driven by its DevTools protocol over two pipes, and a server for the pages that it opens."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "no Chromium here: pages are not opened in a browser"
FLAGS = (
    "--headless=new --no-sandbox --no-first-run --disable-gpu-sandbox --enable-unsafe-webgpu "
    "--use-webgpu-adapter=swiftshader --remote-debugging-pipe"
).split()
PIPES = (
    "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""The program that starts the browser: the protocol is on the descriptors 3 and 4."""
PATIENCE = 240.0
"""Seconds until a browser that says nothing is an error."""


class Chromium:
    """A browser; answers and events come in the order in which it writes them."""

    def __init__(self, folder: Path, *flags: str) -> None:
        assert CHROMIUM is not None
        ours, theirs = os.pipe(), os.pipe()
        inner = os.dup(ours[0]), os.dup(theirs[1])
        command = [sys.executable, "-c", PIPES, *map(str, inner), CHROMIUM, *FLAGS, f"--user-data-dir={folder}", *flags]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen([*command, "about:blank"], pass_fds=inner, stdout=quiet, stderr=quiet)
        for fd in (*inner, ours[0], theirs[1]):
            os.close(fd)
        self.into, self.out = ours[1], theirs[0]
        self.held, self.events, self.number = b"", deque[dict[str, Any]](maxlen=1000), 0

    def close(self) -> None:
        """End the browser."""
        self.call("Browser.close")
        self.process.wait(PATIENCE)
        os.close(self.into)
        os.close(self.out)

    def heard(self) -> dict[str, Any]:
        """The next message of the browser."""
        while b"\0" not in self.held:
            if not select.select([self.out], [], [], PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            read = os.read(self.out, 1 << 20)
            if not read:
                raise ConnectionError("the browser has ended")
            self.held += read
        one, _, self.held = self.held.partition(b"\0")
        found: dict[str, Any] = json.loads(one)
        return found

    def call(self, method: str, session: str | None = None, **given: Any) -> Any:
        """The result of a method of the protocol."""
        self.number += 1
        said = {"id": self.number, "method": method, "params": given} | ({"sessionId": session} if session else {})
        data = memoryview(json.dumps(said).encode() + b"\0")
        while data:
            data = data[os.write(self.into, data) :]
        while (found := self.heard()).get("id") != self.number:
            self.events.append(found)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']['message']}")
        return found["result"]

    def tab(self, url: str, before: str = "") -> Tab:
        """A new tab with a page, whose worker runs a script before its own."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        found = Tab(self, target, session)
        found.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=bool(before), flatten=True)
        found.call("Page.navigate", url=url)
        if before:
            found.evaluate(before, found.worker())
            self.call("Runtime.runIfWaitingForDebugger", found.worker())
        return found


class Tab:
    """A page in a tab of its own."""

    def __init__(self, browser: Chromium, target: str, session: str) -> None:
        self.browser, self.target, self.session = browser, target, session

    def call(self, method: str, **given: Any) -> Any:
        """The result of a method of the protocol for this page."""
        return self.browser.call(method, self.session, **given)

    def evaluate(self, script: str, session: str | None = None) -> Any:
        """The value of an expression in the page, once it is settled."""
        given = {"expression": script, "awaitPromise": True, "returnByValue": True}
        found = self.browser.call("Runtime.evaluate", session or self.session, **given)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression, once it is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := self.evaluate(script):
                return found
            time.sleep(0.02)
        raise TimeoutError(f"{script} stays false: {self.evaluate('document.body.innerText')}")

    def worker(self) -> str:
        """The session of the page's worker."""
        while True:
            for event in self.browser.events:
                if event["method"] == "Target.attachedToTarget" and event.get("sessionId") == self.session:
                    found: str = event["params"]["sessionId"]
                    return found
            self.evaluate("1")

    def upload(self, selector: str, file: Path) -> None:
        """Choose a file, as a person does."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def picture(self, width: int, height: int, scheme: str) -> bytes:
        """The page as a PNG, of so many pixels, "light" or "dark"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.evaluate("new Promise((done) => setTimeout(done, 300))")
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def close(self) -> None:
        """Close the tab."""
        self.browser.call("Target.closeTarget", targetId=self.target)


Open = Callable[..., Tab]
"""Exports a step, and opens its page."""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A handler that writes no log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of a folder."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
