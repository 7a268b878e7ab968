"""The corpus: the same text for the same files on every machine, split by file, nothing held out that is trained on."""

import doctest
import zlib

import numpy as np
import pytest

from wholestep.errors import ParameterError
from wholestep.train.data import text_corpus as module
from wholestep.train.data.text_corpus import CHARACTERS, corpus, decode, encode, text_windows


@pytest.fixture(scope="module")
def library():
    return corpus()


def folder(root, **files):
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return root


def name_that_is(held_out):
    return next(f"m{i}" for i in range(99) if (zlib.crc32(f"m{i}.py".encode()) % 16 == 0) == held_out)


def test_the_library_is_there_and_large(library):
    assert len(library.train) > 3_000_000 and len(library.test) > 100_000 and min(library.files) > 10
    assert library.train.dtype == library.test.dtype == np.uint8
    assert max(library.train.max(), library.test.max()) < len(CHARACTERS) == 96
    assert library.train.nbytes + library.test.nbytes <= module.LARGEST
    again = corpus()
    assert np.array_equal(again.train, library.train) and np.array_equal(again.test, library.test)


def test_what_is_held_out_is_not_trained_on(library):
    piece = decode(library.test[1000:1400])
    assert piece.strip() and piece not in decode(library.train)


def test_a_file_is_held_out_for_its_name_and_tests_are_not_read(tmp_path):
    mine, held = name_that_is(False), name_that_is(True)
    texts = {mine: b"mine = 1\n", held: b"held = 2\n", "test__x": b"no", "pkg__tests__y": b"no", "encodings__z": b"no"}
    found = corpus(folder(tmp_path, **texts, _sysconfigdata_here=b"no"))
    assert (decode(found.train), decode(found.test), found.files) == ("mine = 1\n", "held = 2\n", (1, 1))


def test_what_is_read_does_not_depend_on_line_ends_or_on_what_cannot_be_decoded(tmp_path):
    mine, held = name_that_is(False), name_that_is(True)
    found = corpus(folder(tmp_path, **{mine: b"a\r\n\tb \xff \xc3\xa9 \x0c", held: b"c"}))
    assert decode(found.train) == "a\n        b ? ? ?"


def test_it_ends_where_it_is_large_enough(tmp_path, monkeypatch):
    mine, held = name_that_is(False), name_that_is(True)
    monkeypatch.setattr(module, "LARGEST", 12)
    found = corpus(folder(tmp_path, **{held: b"12345", f"{mine}": b"1234567890"}))
    assert len(found.train) + len(found.test) == 12


def test_a_folder_without_python_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="no Python source to train and to test on in"):
        corpus(tmp_path)


def test_every_character_comes_back():
    assert decode(encode(CHARACTERS)) == CHARACTERS
    assert encode(CHARACTERS).tolist() == list(range(96))


@pytest.mark.parametrize("length", [1, 4, 9])
def test_windows_predict_each_character_once(length):
    text = np.arange(37, dtype=np.uint8)
    rows = text_windows(text, length)
    targets = rows[:, 1:].reshape(-1)
    assert rows.shape[1] == length + 1 and np.array_equal(targets, np.arange(1, len(targets) + 1))
    assert len(text) - 1 - len(targets) < length
    with pytest.raises(ParameterError, match="holds no piece of 40"):
        text_windows(text, 40)


def test_examples_run():
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
