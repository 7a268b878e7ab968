"""Scripts run as JavaScript by Node, or by a headless Chromium where there is no Node."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from wholestep_tools.browser import CHROMIUM, Chromium

NODE = shutil.which("node")
NO_JAVASCRIPT = "no Node and no Chromium here: JavaScript is not run"


def is_run() -> bool:
    """Test whether there is something that runs scripts."""
    return bool(NODE or CHROMIUM)


def script_value(script: str, expression: str, given: Any) -> Any:
    """The value of an expression behind a script, where `given` is this; as JSON holds both."""
    if NODE is None:
        return value_in_chromium(f"(() => {{ {script}\nconst given = {json.dumps(given)};\nreturn {expression}; }})()")
    read = 'const given = JSON.parse(require("fs").readFileSync(0));\n'
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.js"
        file.write_text(f"{script}\n{read}console.log(JSON.stringify({expression}));\n", encoding="utf-8")
        done = subprocess.run([NODE, str(file)], input=json.dumps(given), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def value_in_chromium(expression: str) -> Any:
    """The value of an expression in an empty page."""
    with tempfile.TemporaryDirectory() as profile:
        browser = Chromium(Path(profile))
        try:
            return browser.tab("about:blank").evaluate(expression)
        finally:
            browser.close()
