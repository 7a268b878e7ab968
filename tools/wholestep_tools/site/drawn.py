"""The pictures of the gallery: the result of each example, drawn by its own `picture` into a small file.

A file holds the fingerprint of its example's text, so that a test finds pictures of examples that have changed since.
"""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path

from wholestep.train.loop.loss_chart import blank_figure, finish_figure
from wholestep_tools.site.gallery import PICTURES, ROOT, files, loaded, picture_of

SIZE = (4.4, 3.0)
"""Inches of a picture."""
COLOURS = 128
"""Colours that a file keeps, which curves and fields are drawn with alike."""
MOST = 30_000
"""Bytes of a file, at most."""


def digest(file: Path) -> str:
    """The digest of the text of an example, the same on every system."""
    return hashlib.sha256(file.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def drawn(file: Path) -> bytes:
    """The picture of an example, as the bytes of a PNG."""
    from PIL import Image, PngImagePlugin

    figure = blank_figure(*SIZE)
    loaded(file).picture(figure)
    whole, small, facts = io.BytesIO(), io.BytesIO(), PngImagePlugin.PngInfo()
    finish_figure(figure, None).savefig(whole, format="png", dpi=150)
    facts.add_text("Source", digest(file))
    few = Image.open(whole).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(small, format="PNG", optimize=True, pnginfo=facts)
    return small.getvalue()


def source(picture: Path) -> str:
    """The digest of the example's text that a picture was drawn from."""
    from PIL import Image

    with Image.open(picture) as image:
        return str(image.info["Source"])


def write(names: list[str]) -> None:
    """Draw the pictures of these examples, or all that are not of their examples' text."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for file in files():
        path = picture_of(file)
        current = path.exists() and source(path) == digest(file)
        if file.stem in names or (not names and not current):
            path.write_bytes(drawn(file))
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    write(sys.argv[1:])
