"""The ownership of source files: those of the user's are rewritten, those of Python and of installed packages never."""

from __future__ import annotations

import functools

from wholestep.errors import is_internal

INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages; an editable installation elsewhere counts as the user's own."""


@functools.cache
def of_the_user(filename: str) -> bool:
    """Return whether functions of a file are the user's own: no part of Python, of this library or of a package.

    >>> of_the_user("/home/me/model.py"), of_the_user(functools.__file__)
    (True, False)
    """
    if filename == "<string>" or is_internal(filename):
        return False
    parts = filename.replace("\\", "/").split("/")
    return not any(folder in parts for folder in INSTALLED)
