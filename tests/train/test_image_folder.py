"""Images of a folder as a loader's items: their number and classes, their pixels, and refused files and options."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import DtypeError, MissingExtraError, ParameterError

PIL = pytest.importorskip("PIL", reason="Pillow is an extra; not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is an extra; not installed")
RNG = np.random.default_rng(2)


def saved(folder, name, height=30, width=40, mode="RGB", **options):
    """A file of random pixels, and the pixels."""
    channels = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
    pixels = RNG.integers(0, 256, (height, width, *channels)).astype(np.uint8)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return pixels


@pytest.fixture
def photos(tmp_path):
    for name in ("b/2.png", "b/1.png", "a/x/deep.png", "a/small.PNG", "c/grey.png"):
        saved(tmp_path, name)
    (tmp_path / "a" / "notes.txt").write_text("no image")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "list.csv").write_text("x\n1\n")
    return tmp_path


def test_classes_are_folders_in_order_and_files_below_them_are_found(photos):
    images = ws.ImageFolder(str(photos), (8, 10))
    assert images.classes == ("a", "b", "c") and images.labels.tolist() == [0, 0, 1, 1, 2]
    assert [str(path.relative_to(photos)) for path in images.files] == [
        "a/small.PNG", "a/x/deep.png", "b/1.png", "b/2.png", "c/grey.png",
    ]  # fmt: skip
    item = images[2]
    assert item["x"].shape == (3, 8, 10) and item["x"].dtype == np.uint8 and item["y"] == 1
    assert "5 images of 3 classes" in repr(images)


def test_pixels_of_an_image_of_this_size_are_those_of_the_file(tmp_path):
    for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4)):
        pixels = saved(tmp_path / mode, "k/a.png", 6, 9, mode)
        found = ws.ImageFolder(tmp_path / mode, (6, 9), channels=channels)[0]["x"]
        np.testing.assert_array_equal(found, pixels.reshape(6, 9, channels).transpose(2, 0, 1))


def test_crop_pad_and_stretch(tmp_path):
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 200  # the middle, which a crop keeps
    (tmp_path / "k").mkdir()
    Image.fromarray(pixels).save(tmp_path / "k" / "a.png")
    crop, pad, stretch = [ws.ImageFolder(tmp_path, 30, fit=fit)[0]["x"][0] for fit in ("crop", "pad", "stretch")]
    assert (crop[:, 2:-2] == 200).all()
    assert not pad[:9].any() and not pad[-9:].any() and (pad[12:18, 12:18] == 200).all() and not pad[:, :8].any()
    assert (stretch[:, 12:18] == 200).all() and not stretch[:, :8].any()


def test_an_image_is_turned_as_its_camera_says(tmp_path):
    pixels = np.zeros((8, 12, 3), np.uint8)
    pixels[:, :6] = 255
    (tmp_path / "k").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise
    Image.fromarray(pixels).save(tmp_path / "k" / "a.png", exif=exif)
    found = ws.ImageFolder(tmp_path, (12, 8))[0]["x"][0]
    assert (found[:5] == 255).all() and not found[7:].any()


@pytest.mark.parametrize("threads", [1, 4])
def test_a_loader_reads_them_and_resumes(photos, threads):
    images = ws.ImageFolder(photos, 8, threads=threads)
    loader = ws.Loader(images, 2, key=3)
    epoch = list(loader)
    assert [batch["x"].shape for batch in epoch] == [(2, 3, 8, 8), (2, 3, 8, 8), (1, 3, 8, 8)]
    assert epoch[0]["y"].dtype == np.int64
    again = ws.Loader(ws.ImageFolder(photos, 8, threads=1), 2, key=3)
    for a, b in zip(epoch, again, strict=True):
        np.testing.assert_array_equal(a["x"], b["x"])
        np.testing.assert_array_equal(a["y"], b["y"])
    weighted = ws.Loader(images, 5, weights=1 / np.bincount(images.labels)[images.labels], key=0)
    assert next(iter(weighted))["x"].shape == (5, 3, 8, 8)


def test_a_damaged_file_is_named(photos):
    (photos / "b" / "1.png").write_bytes((photos / "b" / "1.png").read_bytes()[:200])
    (photos / "c" / "grey.png").write_bytes(b"nothing of the kind")
    images = ws.ImageFolder(photos, 8)
    for i, name in ((2, "1.png"), (4, "grey.png")):
        with pytest.raises(DtypeError, match=f"{name} is no image that Pillow reads"):
            images[i]
    with pytest.raises(DtypeError, match="is no image that Pillow reads"):
        list(ws.Loader(images, 5))
    (photos / "a" / "small.PNG").unlink()
    with pytest.raises(OSError, match=r"small\.PNG"):
        images[0]


def test_more_than_8_bits_are_not_cut_off(tmp_path):
    (tmp_path / "k").mkdir()
    Image.fromarray(np.full((4, 4), 3000, np.uint16)).save(tmp_path / "k" / "a.png")
    with pytest.raises(DtypeError, match="more than 8 bits a channel"):
        ws.ImageFolder(tmp_path, 4, channels=1)[0]


def test_what_makes_no_sense_is_refused(photos, tmp_path_factory, monkeypatch):
    empty = tmp_path_factory.mktemp("empty")
    for call, words in (
        (lambda: ws.ImageFolder(photos / "nowhere", 8), "is no folder"),
        (lambda: ws.ImageFolder(empty, 8), "holds no folders"),
        (lambda: ws.ImageFolder(photos, 0), "size is 0"),
        (lambda: ws.ImageFolder(photos, (8,)), r"size is \(8,\)"),
        (lambda: ws.ImageFolder(photos, 8, channels=2), "channels is 2"),
        (lambda: ws.ImageFolder(photos, 8, fit="best"), "fit 'best'"),
        (lambda: ws.ImageFolder(photos, 8, threads=0), "image folder: threads"),
    ):
        with pytest.raises(ParameterError, match=words):
            call()
    (empty / "none").mkdir()
    with pytest.raises(ParameterError, match="there are no images in none"):
        ws.ImageFolder(empty, 8)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="PIL is not installed"):
        ws.ImageFolder(photos, 8)
