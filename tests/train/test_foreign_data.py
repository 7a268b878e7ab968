"""Loaders read the data sets and the tokenizers of Hugging Face's libraries as they stand."""

import numpy as np
import pytest

import wholestep as ws

REASON = "an outside library; not installed"


@pytest.fixture
def rows():
    datasets = pytest.importorskip("datasets", reason=REASON)
    columns = {"text": ["a b", "b", "a a b", "b a"], "x": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]}
    return datasets.Dataset(datasets.table.InMemoryTable.from_pydict(columns), fingerprint="few")


@pytest.mark.filterwarnings("ignore")
def test_columns_of_a_data_set_are_stacked(rows):
    (first, second) = ws.Loader(rows.remove_columns("text"), 2, shuffle=False)
    assert first["x"].tolist() == [[0, 1], [2, 3]] and second["x"].tolist() == [[4, 5], [6, 7]]


@pytest.mark.filterwarnings("ignore")
def test_a_tokenizer_makes_batches_of_texts(rows):
    tokenizers = pytest.importorskip("tokenizers", reason=REASON)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[PAD]": 0, "a": 1, "b": 2}, unk_token="[PAD]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.enable_padding(length=3)

    def encoded(items):
        return np.array([e.ids for e in words.encode_batch([item["text"] for item in items])])

    batches = list(ws.Loader(rows, 2, shuffle=False, collate=encoded))
    assert [b.tolist() for b in batches] == [[[1, 2, 0], [2, 0, 0]], [[1, 1, 2], [2, 1, 0]]]
