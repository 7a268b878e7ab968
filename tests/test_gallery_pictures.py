"""Each example of the gallery has a small picture, drawn from its present text, and the page shows all of them."""

import io

import pytest

from wholestep_tools.site import drawn, gallery, pages

pytest.importorskip("matplotlib", reason="matplotlib draws the pictures; not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow makes the files small; not installed")


@pytest.mark.parametrize("file", gallery.files(), ids=lambda file: file.stem)
def test_an_example_has_a_small_picture_of_its_present_text(file):
    picture = gallery.picture_of(file)
    assert picture.stat().st_size <= drawn.MOST
    assert drawn.source(picture) == drawn.digest(file), "`make pictures` draws what has changed"
    assert f"(pictures/gallery/{picture.name})" in gallery.page()
    assert f"(../../pictures/gallery/{picture.name})" in pages.example(file)


def test_no_picture_is_left_of_an_example_that_is_gone():
    assert {path.stem for path in gallery.PICTURES.iterdir()} == {file.stem for file in gallery.files()}


@pytest.mark.parametrize("name", ["finite_elements", "molecules"])
def test_a_picture_is_drawn_with_words_on_its_axes(name):
    figure = drawn.blank_figure(*drawn.SIZE)
    gallery.loaded(gallery.EXAMPLES / f"{name}.py").picture(figure)
    panels = figure.axes[:2]
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.get_title() for axes in panels)


def test_a_picture_says_of_which_text_it_is():
    file = gallery.EXAMPLES / "finite_elements.py"
    made = drawn.drawn(file)
    with Image.open(io.BytesIO(made)) as image:
        assert image.info["Source"] == drawn.digest(file) and image.size == (660, 450)


def test_the_page_is_that_of_the_examples():
    assert (gallery.ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == gallery.page()


def test_a_picture_that_is_not_current_is_drawn_again(tmp_path, monkeypatch, capsys):
    file = gallery.EXAMPLES / "finite_elements.py"
    monkeypatch.setattr(gallery, "PICTURES", tmp_path)
    monkeypatch.setattr(drawn, "PICTURES", tmp_path)
    monkeypatch.setattr(drawn, "ROOT", tmp_path)
    monkeypatch.setattr(drawn, "files", lambda: [file])
    drawn.write([])
    assert capsys.readouterr().out.startswith("finite_elements.png: ")
    drawn.write([])
    assert capsys.readouterr().out == ""
