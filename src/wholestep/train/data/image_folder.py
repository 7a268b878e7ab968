"""A folder of images with one folder for each class, as items of a loader; Pillow reads the files."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.boundary.counts import is_integer, whole_number
from wholestep.boundary.public import bounded
from wholestep.errors import DtypeError, ParameterError
from wholestep.ir.graph import NDArray
from wholestep.train.data.datasets import need

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
"""The endings of the files that are images; others are left alone."""
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name of pixels with so many channels of 8 bits."""
WIDE = ("I", "F")
"""The first letters of Pillow's names of pixels of more than 8 bits, which it would cut off."""
FITS = ("crop", "pad", "stretch")
MOST_THREADS = 8


@bounded
class ImageFolder:
    """The images below `folder`, whose folders are the classes, as items {"x": image, "y": class} of one size.

    Classes are numbered in the order of their names, which `classes` lists; `files` lists the paths, ordered by class
    and path, and `labels` the class of each. An image is rotated by its EXIF orientation and resized to `size` pixels,
    an integer or (height, width): `fit="crop"` cuts both ends off a side that is too long, "pad" adds black bars, and
    "stretch" changes the proportions. `threads` images of a batch are read at a time; the default is the number of
    processors, and 8 at most.

    `ws.Loader(images, batch_size)` shuffles and stacks them. Pixels are 0 to 255: `x / 255` belongs in the loss, and so
    do `nn.random_flip` and `nn.random_crop`, which compile with it.

    Shapes: x uint8 [channels, height, width] with 1, 3 or 4 channels, y int64.
    Raises: ParameterError for a folder without folders, a class without images, and options that make no sense;
    MissingExtraError where Pillow is not installed; for an item DtypeError where its file is damaged or has more than 8
    bits a channel, and OSError where it cannot be opened.

    >>> import numpy as np, tempfile, pathlib, wholestep as ws
    >>> from PIL import Image
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, grey in (("cats", 10), ("dogs", 200)):
    ...     (folder / name).mkdir()
    ...     Image.new("RGB", (40, 30), (grey, grey, grey)).save(folder / name / "a.png")
    >>> images = ws.ImageFolder(folder, 16)
    >>> images.classes, len(images), images[1]["x"].shape, int(images[1]["x"].max())
    (('cats', 'dogs'), 2, (3, 16, 16), 200)
    """

    def __init__(
        self, folder: Any, size: Any, *, channels: int = 3, fit: str = "crop", threads: int | None = None
    ) -> None:
        need("PIL", extra="images")
        sides = (size, size) if is_integer(size) else tuple(size) if isinstance(size, tuple | list) else ()
        if len(sides) != 2 or not all(is_integer(n) and n > 0 for n in sides):
            raise ParameterError(f"image folder: size is {size!r}; it is a positive integer, or (height, width)")
        if channels not in MODES or fit not in FITS:
            raise ParameterError(
                f"image folder: channels is {channels!r} and fit {fit!r}", hint="1, 3, 4; crop, pad, stretch are known"
            )
        self.folder, self.size, self.channels, self.fit = Path(folder), sides, channels, fit
        most = min(os.cpu_count() or 1, MOST_THREADS)
        self.threads = whole_number("threads", most if threads is None else threads, "image folder")
        found = images_by_class(self.folder)
        self.classes = tuple(found)
        self.files = [path for paths in found.values() for path in paths]
        self.labels = np.repeat(np.arange(len(found)), [len(paths) for paths in found.values()])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"x": self.pixels(self.files[i]), "y": self.labels[i]}

    def __getitems__(self, which: list[int]) -> list[dict[str, Any]]:
        if self.threads == 1 or len(which) < 2:
            return [self[i] for i in which]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(self.__getitem__, which))

    def __repr__(self) -> str:
        return f"ImageFolder({str(self.folder)!r}: {len(self)} images of {len(self.classes)} classes)"

    def pixels(self, path: Path) -> NDArray:
        """The image of a file: [channels, height, width]."""
        from PIL import Image

        with path.open("rb") as file:
            try:
                with Image.open(file) as image:
                    mode = image.mode
                    pixels = None if mode.startswith(WIDE) else self.fitted(image)
            except MemoryError:
                raise
            except Exception as error:  # of any kind: readers of damaged files raise a dozen
                said = str(error) if str(error) and "BytesIO" not in str(error) else type(error).__name__
                raise DtypeError(f"image folder: {path} is no image that Pillow reads: {said}") from None
        if pixels is None:
            raise DtypeError(
                f"image folder: {path} has pixels of mode {mode}, more than 8 bits a channel, which would be cut off",
                hint="save it with 8 bits a channel, or read it yourself: a loader takes any object with items",
            )
        return pixels

    def fitted(self, image: Any) -> NDArray:
        """An open image in its mode and size."""
        from PIL import Image, ImageOps

        found = ImageOps.exif_transpose(image).convert(MODES[self.channels])
        height, width = self.size
        how = Image.Resampling.BILINEAR
        if self.fit == "stretch":
            found = found.resize((width, height), how)
        else:
            found = (ImageOps.fit if self.fit == "crop" else ImageOps.pad)(found, (width, height), how)
        return np.ascontiguousarray(np.asarray(found).reshape(height, width, self.channels).transpose(2, 0, 1))


def images_by_class(folder: Path) -> dict[str, list[Path]]:
    """The images below each folder of a folder; raises ParameterError where there are none."""
    if not folder.is_dir():
        raise ParameterError(f"image folder: {folder} is no folder")
    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    found = {
        each.name: sorted(path for path in each.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
        for each in classes
    }
    if not found:
        raise ParameterError(
            f"image folder: {folder} holds no folders", hint="each class is a folder of its own: cats/1.jpg, dogs/2.jpg"
        )
    empty = [name for name, paths in found.items() if not paths]
    if empty:
        raise ParameterError(
            f"image folder: there are no images in {', '.join(empty)}",
            hint=f"files end in {', '.join(sorted(ENDINGS))}",
        )
    return found
