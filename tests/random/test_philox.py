"""The generator against its published answers, and the primitive's counter against the generator, word by word."""

import numpy as np
import pytest

from wholestep import random
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.build import build
from wholestep.ir.types import array_type
from wholestep.primitives.random import CHUNK, philox, random_bits, words

FULL = 2**32 - 1
# kat_vectors of Random123, "philox4x32 10": counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((FULL,) * 4, (FULL,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def by_hand(counter, key):
    """Ten rounds in Python integers, as the paper writes them."""
    (x0, x1, x2, x3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = p1 >> 32 ^ x1 ^ k0, p1 & FULL, p0 >> 32 ^ x3 ^ k1, p0 & FULL
        k0, k1 = (k0 + 0x9E3779B9) & FULL, (k1 + 0xBB67AE85) & FULL
    return x0, x1, x2, x3


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_published_answers(counter, key, expected):
    found = philox([np.array([c], np.uint64) for c in counter], [np.array([k], np.uint64) for k in key])
    assert tuple(int(w[0]) for w in found) == expected == by_hand(counter, key)


def test_every_word_has_the_counter_that_is_promised():
    key, data, stream = np.array([0xDEADBEEF, 7], np.uint32), np.uint32(5), 3
    found = words(key[None], np.array([data]), 4 * CHUNK + 9, stream)[0]
    for i in (0, 1, 5, 4 * CHUNK - 1, 4 * CHUNK, 4 * CHUNK + 8):
        assert found[i] == by_hand((i // 4, 0, 5, stream), (0xDEADBEEF, 7))[i % 4]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1000])
def test_many_keys_are_as_many_calls(count):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**32, (2 * CHUNK // 250 + 3, 2), dtype=np.uint32)
    data = rng.integers(0, 2**32, len(keys), dtype=np.uint32)
    whole = words(keys, data, count, 9)
    assert whole.shape == (len(keys), count)
    for row in (0, 1, len(keys) - 1):
        assert np.array_equal(whole[row], words(keys[row : row + 1], data[row : row + 1], count, 9)[0])


def test_keys_words_are_those_of_the_primitive():
    bits = random.bits(random.key(0), (4,))
    assert [int(w) for w in bits] == list(KNOWN[0][2])
    assert bits.dtype == np.uint32


@pytest.mark.parametrize(
    ("types", "error"),
    [
        ([((2,), "u4"), ((), "i4")], DtypeError),
        ([((3,), "u4"), ((), "u4")], ShapeError),
        ([((2, 2), "u4"), ((3,), "u4")], ShapeError),
    ],
)
def test_wrong_operands_are_refused(types, error):
    with pytest.raises(error, match="random_bits"):
        build(
            lambda k, d: [random_bits(k, d, shape=(3,), stream=0)],
            [array_type(shape, np.dtype(dtype)) for shape, dtype in types],
        )


def test_flipping_any_bit_of_a_key_or_counter_flips_half_of_the_words_bits():
    """Each mean is over 64 x 128 bits: its deviation is 0.0055, and 6 of them are exceeded once in 5e8 means."""
    rng = np.random.default_rng(2)
    inputs = rng.integers(0, 2**32, (6, 64), dtype=np.uint64)
    base = np.stack(philox(inputs[:4], inputs[4:]))
    for word in range(6):
        for bit in range(32):
            other = inputs.copy()
            other[word] ^= np.uint64(1 << bit)
            flipped = np.bitwise_count(base ^ np.stack(philox(other[:4], other[4:]))).sum() / (64 * 128)
            assert abs(flipped - 0.5) < 6 * 0.0055
