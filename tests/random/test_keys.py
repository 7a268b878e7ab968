"""Keys: seeds of every kind, splitting and folding without collisions, and refused arguments."""

import numpy as np
import pytest
from scipy import stats

import wholestep as ws
from wholestep import random
from wholestep.errors import DtypeError, ShapeError

KEY = random.key(42)


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31, 2**32, -(2**63), 2**64 - 1])
def test_a_seed_is_its_two_words(seed):
    low, high = random.key(seed).tolist()
    assert (high << 32 | low) == seed % 2**64


def test_equal_integers_give_equal_keys_whatever_their_dtype():
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
        assert np.array_equal(random.key(np.dtype(dtype).type(7)), random.key(7))
    for dtype in ("i1", "i2", "i4", "i8"):
        assert np.array_equal(random.key(np.dtype(dtype).type(-7)), random.key(-7))
        assert np.array_equal(random.fold_in(KEY, np.dtype(dtype).type(-7)), random.fold_in(KEY, -7))
    seeds = np.arange(-3, 3)
    assert np.array_equal(ws.vmap(random.key)(seeds), np.stack([random.key(int(s)) for s in seeds]))


def test_large_seeds_have_keys_of_their_own():
    keys = {tuple(random.key(s).tolist()) for s in (0, 2**64, 2**65, 2**200, 10**40, 10**40 + 1)}
    assert len(keys) == 6


def test_folding_by_a_traced_integer_is_folding_by_its_value():
    for data in (0, 3, 2**32 - 1, 2**32, 2**40 + 3, -1, -(2**40)):
        assert np.array_equal(ws.jit(random.fold_in)(KEY, np.int64(data)), random.fold_in(KEY, data))


def test_a_hundred_thousand_keys_do_not_meet():
    """64-bit keys: 1e5 of them meet by chance once in 3.7e9 runs."""
    for keys in (random.split(KEY, 100_000), ws.vmap(lambda i: random.fold_in(KEY, i))(np.arange(100_000))):
        assert len(np.unique(keys, axis=0)) == 100_000


def test_a_tree_of_splits_does_not_meet():
    level = KEY[None]
    seen = [level]
    for _ in range(4):
        level = ws.vmap(lambda k: random.split(k, 8))(level).reshape(-1, 2)
        seen.append(level)
    keys = np.concatenate([*seen, ws.vmap(lambda i: random.fold_in(KEY, i))(np.arange(100))])
    assert len(np.unique(keys, axis=0)) == len(keys)


def test_split_shapes_and_prefixes():
    assert random.split(KEY).shape == (2, 2)
    assert random.split(KEY, (3, 4)).shape == (3, 4, 2)
    assert np.array_equal(random.split(KEY, 5)[:3], random.split(KEY, 3))
    assert random.split(KEY, 0).shape == (0, 2)


def test_numbers_of_split_keys_are_not_correlated():
    """Correlations of 200 streams of 1000: largest of 19 900 normal deviates, above 6 once in 25 000 runs."""
    x = ws.vmap(lambda k: random.normal(k, (1000,)))(random.split(KEY, 200))
    r = np.corrcoef(x)[np.triu_indices(200, 1)] * np.sqrt(1000)
    assert np.abs(r).max() < 6
    assert stats.kstest(r, "norm").pvalue > 1e-4


def test_neighbouring_seeds_and_a_key_and_its_children_are_not_correlated():
    """Largest of 45 and of 3 normal deviates: above 5 once in 37 000 runs."""
    neighbours = np.stack([random.normal(random.key(i), (4000,)) for i in range(10)])
    family = np.stack([random.normal(k, (4000,)) for k in (KEY, *random.split(KEY))])
    for x in (neighbours, family):
        n = len(x)
        assert np.abs(np.corrcoef(x)[np.triu_indices(n, 1)]).max() * np.sqrt(4000) < 5


@pytest.mark.parametrize(
    ("key", "error", "says"),
    [
        (0, DtypeError, "ws.random.key"),
        ([1, 2], DtypeError, "ws.random.key"),
        (np.zeros(2), DtypeError, "not uint32"),
        (np.zeros(2, np.int64), DtypeError, "not uint32"),
        (np.zeros((5, 2), np.uint32), ShapeError, "ws.vmap"),
        (np.zeros(3, np.uint32), ShapeError, r"not \(2,\)"),
    ],
)
@pytest.mark.parametrize("name", ["normal", "uniform", "split", "bits", "bernoulli", "gumbel"])
def test_what_is_no_key_is_refused(name, key, error, says):
    with pytest.raises(error, match=says):
        getattr(random, name)(key)


@pytest.mark.parametrize("seed", [1.5, "a", np.float32(2), True])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(DtypeError):
        random.key(seed)


def test_an_array_of_seeds_is_refused():
    with pytest.raises(ShapeError, match=r"ws\.vmap"):
        random.key(np.arange(3))


def test_negative_sizes_are_refused():
    with pytest.raises(ShapeError, match="negative"):
        random.normal(KEY, (3, -1))
    with pytest.raises(ShapeError, match="integers"):
        random.normal(KEY, 2.5)
