"""Environments of other versions, made from the package registry alone, and the tests in each of them.

    make versions                                 the lowest versions that pyproject.toml names, and each Python found
    python tests/versions.py lowest tests/nn      one of them, with some of the tests
    python tests/versions.py python3.13t

`lowest` is the lowest Python with the lowest version of each package; another Python gets the newest versions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.13t", "python3.14", "python3.14t")
UNBOUND = ("mypy", "ruff")
"""Tools that format and check the source: users do not install them, and their newest versions are taken."""


def lowest() -> list[str]:
    """Each requirement of the project with its lowest version: `numpy>=2.2` becomes `numpy==2.2`.

    >>> "llvmlite==0.46" in lowest()
    True
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["train"], *extras["notebook"], *extras["test"]]
    bounds = [re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement) for requirement in named]
    return [f"{b[1]}=={b[2]}" for b in bounds if b and b[1] not in UNBOUND]


def tried(name: str, tests: list[str]) -> int:
    """Make the environment of a name, run the tests in it, and give the exit status."""
    python = PYTHONS[0] if name == "lowest" else name
    with tempfile.TemporaryDirectory() as folder:
        home, bounds = Path(folder) / "env", Path(folder) / "bounds.txt"
        bounds.write_text("\n".join(lowest() if name == "lowest" else []) + "\n", encoding="utf-8")
        subprocess.run([python, "-m", "venv", str(home)], check=True)
        own = str(home / "bin" / "python")
        install = [own, "-m", "pip", "install", "-q", "-c", str(bounds), f"{ROOT}[test]", str(ROOT / "tools")]
        subprocess.run(install, check=True)
        return subprocess.run([own, "-m", "pytest", "-n", "2", *tests], cwd=ROOT, check=False).returncode


def main(words: list[str]) -> int:
    """Try each environment, and print one line for each at the end; 0 where all of them pass."""
    named = [word for word in words if word == "lowest" or word.startswith("python")]
    tests = [word for word in words if word not in named]
    found = named or [name for name in ("lowest", *PYTHONS) if name == "lowest" or shutil.which(name)]
    codes = {name: tried(name, tests) for name in found}
    for name, code in codes.items():
        print(f"{name}: {'passed' if not code else f'failed ({code})'}")
    absent = [name for name in PYTHONS if not named and name not in found]
    if absent:
        print(f"not installed, so not tried: {', '.join(absent)}")
    return max(codes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
