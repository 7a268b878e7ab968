"""Symbolic sizes compute, compare and print as the integers they stand for."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, example, given, strategies as some

from wholestep.dims import Dim, bind, dim_product, greatest, least, names, spelled, substitute

B, C, D = Dim("B"), Dim("C"), Dim("D")
BINARY = ("+", "-", "*", "//", "%")

EXPRESSIONS = some.recursive(
    some.sampled_from(["B", "C", "D"]) | some.integers(-6, 6).map(lambda k: f"({k})"),
    lambda inner: some.builds("({} {} {})".format, inner, some.sampled_from(BINARY), inner),
    max_leaves=6,
)
SYMBOLS = {"B": B, "C": C, "D": D}


def value(text, sizes):
    """The value of an expression with these sizes, or None if it divides by zero."""
    try:
        return eval(text, dict(sizes))
    except ZeroDivisionError:
        return None


@given(EXPRESSIONS, some.fixed_dictionaries({name: some.integers(1, 9) for name in "BCD"}))
def test_an_expression_means_what_its_text_means(text, sizes):
    symbolic, wanted = value(text, SYMBOLS), value(text, sizes)
    assume(symbolic is not None and wanted is not None)
    assert substitute(symbolic, sizes) == wanted
    assert isinstance(symbolic, int) or names(symbolic)
    again = eval(repr(symbolic), dict(SYMBOLS))
    assert again == symbolic and hash(again) == hash(symbolic)
    assert pickle.loads(pickle.dumps(symbolic)) == symbolic


@given(EXPRESSIONS, EXPRESSIONS)
def test_what_is_decided_holds_for_all_sizes(left, right):
    x, y = value(left, SYMBOLS), value(right, SYMBOLS)
    assume(x is not None and y is not None)
    try:
        decided = x < y
    except ValueError:
        return
    for b, c, d in itertools.product((1, 2, 3, 7), repeat=3):
        sizes = {"B": b, "C": c, "D": d}
        a, z = value(left, sizes), value(right, sizes)
        assert a is None or z is None or (a < z) == decided


@given(EXPRESSIONS, EXPRESSIONS, some.integers(1, 4))
def test_equal_ways_are_equal(left, right, k):
    x, y = value(left, SYMBOLS), value(right, SYMBOLS)
    assume(x is not None and y is not None)
    assert x + y == y + x and x * y == y * x
    assert (x + y) * k == k * x + y * k
    assert (x * k) // k == x and (x * k + y) // k == x + y // k
    assert x - x == 0 and (x * B * C) // (B * C) == x
    assert (y // k) * k + y % k == y


def test_known_identities():
    assert (2 * B) // 2 == B and (B * C) // C == B and (B * C + C) // C == B + 1
    assert (B + 1) * 2 == 2 * B + 2
    assert B - B == 0 and type(B - B) is int and type(B // B) is int
    assert (B * C) % C == 0 and (B // 2) // 3 == B // 6 and (B * B - 1) // (B + 1) == B - 1
    assert (4 * B + 5) // 4 == B + 1 and B // (2 * B) == 0 and B % 2 != 0
    assert B != C and B != 3 and 3 != B and B != "B" and len({B, Dim("B"), B + 0}) == 1
    assert B**2 == B * B and +B == B and B // -2 == -B // 2


def test_it_prints_as_python():
    texts = {
        2 * B + 1: "2*B + 1",
        1 - B: "-B + 1",
        (B + 3) // 2: "(B + 3)//2",
        (B - 1) // 2 + 1: "(B + 1)//2",
        B // 2 + 1: "B//2 + 1",
        3 * (B // 2) + C: "C + 3*(B//2)",
        B * C * B - 2: "B**2*C - 2",
        B // (C + 1): "B//(C + 1)",
        B % 4: "B - 4*(B//4)",
    }
    assert {repr(size): text for size, text in texts.items()} == {text: text for text in texts.values()}


def test_comparisons_assume_sizes_of_at_least_one():
    assert B > 0 and B >= 1 and not B < 1 and 2 * B > B and B + 1 > 1 and B * C >= B
    assert B // 2 <= B and (B + 3) // 4 * 4 >= B and 0 <= B % 4 < 4
    assert max(B, 1) is B and min(B + C, B) is B and 0 < B and 0 <= B - 1
    assert bool(B) and bool(B + C - 1) and bool(-B)


def test_numpy_integers_and_products_work():
    assert np.int64(3) * B == 3 * B == B * np.int64(3) and np.int64(3) - B == 3 - B
    assert math.prod((2, B, 3)) == 6 * B == dim_product((2, B, 3)) and dim_product([2, 3]) == 6
    assert names(B * C // 2 + 1) == {"B", "C"} and names(3) == frozenset()
    with pytest.raises(TypeError):
        B + 1.5


def test_substitution_is_partial_and_simplifies():
    assert substitute(B * C + 1, {"B": 3}) == 3 * C + 1
    assert substitute(B // 2, {"B": 2 * C}) == C
    assert substitute(B, {"B": np.int64(4)}) == 4 and substitute(5, {"B": 1}) == 5
    assert substitute(B * C, {"B": C, "C": B}) == B * C
    assert substitute((B + 3) // C, {"B": 5, "C": 4}) == 2


def test_bind_solves_and_checks():
    found = {"D": 2}
    bind((B * C, B, 2 * C + 1, 7, D, C // 2), (12, 3, 9, 7, 2, 2), found)
    assert found == {"B": 3, "C": 4, "D": 2}
    bind((B, C + 1), (3, 5), found)
    symbolic = {}
    bind((2 * B, B), (2 * C, C), symbolic)
    assert symbolic == {"B": C}
    same = {}
    bind((B, B), (B, B), same)
    assert same == {"B": B}


def test_messages(golden):
    wrong = [
        lambda: B + 1 > C,
        lambda: B == 1 or B <= 1,
        lambda: bool(B - 1),
        lambda: range(B),
        lambda: int(2 * B + 1),
        lambda: float(B),
        lambda: B // 0,
        lambda: Dim("batch size"),
        lambda: Dim("class"),
        lambda: substitute(B + 1, {"B": 0}),
        lambda: bind((B, 3), (2,), {}),
        lambda: bind((B, 3), (2, 4), {}),
        lambda: bind((B, B), (2, 4), {}),
        lambda: bind((B, C, B * C + 1), (2, 4, 8), {}),
        lambda: bind((2 * B,), (5,), {}),
        lambda: bind((B,), (0,), {}),
        lambda: bind((B * C, 3), (6, 3), {}),
    ]
    messages = []
    for call in wrong:
        with pytest.raises((ValueError, TypeError, ZeroDivisionError)) as caught:
            call()
        messages.append(f"{caught.type.__name__}: {caught.value}")
    assert "\n".join(messages) == golden


def test_a_failed_bind_leaves_the_bindings():
    found = {}
    with pytest.raises(ValueError):
        bind((B, 3), (2, 4), found)
    assert found == {}


@example("(B - B)", "((B % (4)) // (3))", dict.fromkeys("BCD", 1))
@given(EXPRESSIONS, EXPRESSIONS, some.fixed_dictionaries({name: some.integers(1, 9) for name in "BCD"}))
def test_the_lesser_and_the_greater_are_sizes_too(left, right, sizes):
    x, y = value(left, SYMBOLS), value(right, SYMBOLS)
    a, b = value(left, sizes), value(right, sizes)
    assume(x is not None and y is not None and a is not None and b is not None)
    small, large = least(x, y), greatest(x, y)
    assert substitute(small, sizes) == min(a, b) and substitute(large, sizes) == max(a, b)
    assert small == least(y, x) and small + large == x + y
    assert spelled(repr(small)) == small
    two = small * 2 + large // 3
    assert substitute(two, sizes) == 2 * min(a, b) + max(a, b) // 3 and spelled(repr(two)) == two


def test_a_size_with_a_number_for_its_name():
    assert (2 * B * C + 1).at(B=3, C=4) == 25 and (B * C).at(B=3) == 3 * C
    with pytest.raises(ValueError, match="B cannot be 0"):
        B.at(B=0)
