"""Packages that convert programs for a target, which an extra installs."""

from __future__ import annotations

import importlib
from typing import Any

from wholestep.errors import UnsupportedError


def converter_module(name: str, target: str, role: str, extra: str) -> Any:
    """A module of a package with a role in an export; raises UnsupportedError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"export to {target}: {role}, which cannot be imported: {error}", hint=f"pip install 'wholestep[{extra}]'"
        ) from None
