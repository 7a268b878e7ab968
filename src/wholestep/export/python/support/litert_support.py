"""Functions of TensorFlow's tensors for LiteRT, which has no bits, branches by number and products of integers."""

import numpy as np
import tensorflow as tf

from wholestep.export.python.support.tensorflow_support import integer_remainders


def choose_by_tests(branches, index, xs):
    """The results of the function that an index names, clipped to those that there are: one test inside the other."""
    if len(branches) == 1:
        return tuple(branches[0](*xs))
    others = branches[1:]
    return tuple(tf.cond(index <= 0, lambda: tuple(branches[0](*xs)), lambda: choose_by_tests(others, index - 1, xs)))


def infinity(sign):
    """An infinite number by a loop, since the converter makes the largest finite one of a constant."""
    _, found = tf.while_loop(
        lambda i, x: i < 1, lambda i, x: (i + 1, x * 10), (0, tf.constant(sign * 3e38, tf.float32))
    )
    return found


def with_infinities(x):
    """An array that the program holds, of float32."""
    found = tf.constant(np.where(np.isinf(x), np.float32(0), x))
    for sign in (1, -1):
        there = np.isinf(x) & (np.sign(x) == sign)
        found = tf.where(tf.constant(there), infinity(sign), found) if there.any() else found
    return found


def alike(i, *xs):
    """The operand at a place in the shape that all broadcast to: few axes broadcast by themselves."""
    shape = xs[0].shape
    for x in xs[1:]:
        shape = tf.broadcast_static_shape(shape, x.shape)
    return xs[i] if xs[i].shape == shape else tf.broadcast_to(xs[i], shape)


def by_words(f, x, y):
    """A function of the bits of two arrays of integers, which it is given as one row of words."""
    x, y = alike(0, x, y), alike(1, x, y)
    wide = x.dtype == tf.int64
    rows = [tf.reshape(v, [-1]) for v in (x, y)]
    rows = [tf.reshape(tf.bitcast(v, tf.int32), [-1]) for v in rows] if wide else rows
    found = f(*rows)
    return tf.reshape(tf.bitcast(tf.reshape(found, [-1, 2]), tf.int64) if wide else found, x.shape)


def common_bits(x, y):
    """The bits that two words have both, by halves of them: x + y is (x ^ y) + 2 (x & y)."""
    count, one = (tf.fill(x.shape, tf.constant(n, tf.int32)) for n in (16, 1))
    high = [tf.bitwise.right_shift(v, count) for v in (x, y)]
    low = [v - h * 65536 for v, h in zip((x, y), high)]
    twice = [a + b - tf.bitwise.bitwise_xor(a, b) for a, b in (high, low)]
    above, below = [tf.bitwise.right_shift(v, one) for v in twice]
    return above * 65536 + below


def bits_in_both(x, y):
    """The bits that two integers have both."""
    return by_words(common_bits, x, y)


def bits_in_one(x, y):
    """The bits that are in one of two integers and not in the other."""
    return by_words(tf.bitwise.bitwise_xor, x, y)


def times_power(x, count):
    """Bits moved up, as a product with a power of two; all of them gone where the count is their number or more."""
    bits = 8 * x.dtype.size
    powers = [1 << i for i in range(bits - 1)] + [-1 << (bits - 1), 0]
    at = tf.cast(tf.minimum(count, tf.constant(bits, count.dtype)), tf.int32)
    return x * tf.gather(tf.constant(powers, x.dtype), at)


def moved_down(x, count):
    """Bits of integers of 32 bits moved down; the sign alone is left where the count is their number or more."""
    shape, most = alike(0, x, count).shape, 31
    x, count = (tf.reshape(alike(i, x, count), [-1]) for i in range(2))
    wide = tf.cast(count, tf.int64)
    near = tf.bitwise.right_shift(x, tf.cast(tf.minimum(wide, most), x.dtype))
    if x.dtype.is_unsigned:
        near = tf.cast(tf.where(wide > most, tf.constant(0, tf.int64), tf.cast(near, tf.int64)), x.dtype)
    return tf.reshape(near, shape)


def pair_moved_down(x, count, signed):
    """Bits of integers of 64 bits moved down, by words."""
    shape = alike(0, x, count).shape
    x, count = (tf.reshape(alike(i, x, count), [-1]) for i in range(2))
    n = tf.cast(tf.where((count < 0) | (count > 63), tf.constant(64, count.dtype), count), tf.int32)
    words = tf.bitcast(x, tf.int32)
    low, high = tf.cast(words[:, 0], tf.uint32), words[:, 1]
    top = high if signed else tf.cast(high, tf.uint32)
    few, rest = tf.minimum(n, 32), tf.maximum(n - 32, 0)
    joined = tf.cast(moved_down(low, few), tf.int32) + times_power(high, 32 - few)
    low = tf.where(n < 32, joined, tf.cast(moved_down(top, rest), tf.int32))
    pairs = tf.stack([low, tf.cast(moved_down(top, n), tf.int32)], -1)
    return tf.reshape(tf.bitcast(pairs, tf.int64), shape)


def signed_remainders(x, y):
    """Remainders of integers with the sign of the dividend; 0 where the divisor is 0."""
    found = integer_remainders(x, y)
    return tf.where((found != 0) & ((x < 0) != (y < 0)), found - y, found)


def in_order(x, axes):
    """Axes in another order; those that stay beside each other move as one, since few axes can be moved."""
    shape, groups = [int(n) for n in x.shape], []
    for axis in axes:
        if groups and groups[-1][-1] + 1 == axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ranked = sorted(groups)
    merged = tf.reshape(x, [int(np.prod([shape[a] for a in group])) for group in ranked])
    moved = tf.transpose(merged, [ranked.index(group) for group in groups]) if len(groups) > 1 else x
    return tf.reshape(moved, [shape[a] for a in axes])


def cut_parts(x, spans):
    """Parts of axes, one axis after the other, since few axes can be cut at once."""
    shape = [int(n) for n in x.shape]
    for axis, (start, stop, step) in enumerate(spans):
        if (start, stop, step) != (0, shape[axis], 1):
            ends = [int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))]
            x = tf.reshape(x, ends)[:, start:stop:step]
            shape[axis] = len(range(start, stop, step))
    return tf.reshape(x, shape)


def zeros_around(x, before, after, interior):
    """Zeros before, after and between elements, axis by axis; fewer than none cut elements off."""
    shape = [int(n) for n in x.shape]
    for axis, (first, last, between) in enumerate(zip(before, after, interior)):
        lead, n, rest = int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))
        if between and n > 1:
            x = tf.pad(tf.reshape(x, [lead * n, 1, rest]), [(0, 0), (0, between), (0, 0)])
            n = n * (between + 1) - between
            x = tf.reshape(x, [lead, n + between, rest])[:, :n]
        if first > 0 or last > 0:
            x = tf.pad(tf.reshape(x, [lead, n, rest]), [(0, 0), (max(first, 0), max(last, 0)), (0, 0)])
            n += max(first, 0) + max(last, 0)
        if first < 0 or last < 0:
            x = tf.reshape(x, [lead, n, rest])[:, max(-first, 0) : n - max(-last, 0)]
            n -= max(-first, 0) + max(-last, 0)
        shape[axis] = n
    return tf.reshape(x, shape)


def parts_written(x, u, start, step):
    """A copy with other values at slices."""
    spans = [(n - 1) * s + 1 for n, s in zip(u.shape, step)]
    after = [n - a - m for n, a, m in zip(x.shape, start, spans)]
    there = np.zeros(x.shape, bool)
    there[tuple([slice(a, a + m, s) for a, m, s in zip(start, spans, step)])] = True
    return tf.where(tf.constant(there), zeros_around(u, start, after, [s - 1 for s in step]), x)


def along(f, x, axis):
    """A function of an array and an axis, of a view of three axes: kernels that compare take few."""
    shape = [int(n) for n in x.shape]
    found = f(tf.reshape(x, [int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))]), 1)

    def whole(y):
        return tf.reshape(y, [*shape[:axis], *y.shape[1:-1], *shape[axis + 1 :]])

    return tuple(map(whole, found)) if isinstance(found, tuple) else whole(found)


def flat_places(indices, shape):
    """Indices of the first axes, those from behind counted from the front, as one in a row."""
    found = None
    for index, n in zip(indices, shape):
        index = tf.cast(tf.reshape(index, [-1]), tf.int32)
        index = tf.where(index < 0, index + n, index)
        found = index if found is None else found * n + index
    return found


def rows_read(x, indices):
    """Elements at indices of the first axes."""
    rest = [int(n) for n in x.shape[len(indices) :]]
    found = tf.gather(tf.reshape(x, [-1, int(np.prod(rest))]), flat_places(indices, x.shape))
    return tf.reshape(found, [*indices[0].shape, *rest])


def rows_added(x, u, indices):
    """A copy with values added at indices of the first axes."""
    rows, rest = int(np.prod(x.shape[: len(indices)])), int(np.prod(x.shape[len(indices) :]))
    at = flat_places(indices, x.shape)[:, None]
    return x + tf.reshape(tf.scatter_nd(at, tf.reshape(u, [-1, rest]), tf.constant([rows, rest])), x.shape)


def matrices_multiplied(x, y, turn_x, turn_y):
    """Products of matrices, of integers as products of all pairs, summed."""
    if x.dtype.is_floating:
        return tf.matmul(x, y, transpose_a=turn_x, transpose_b=turn_y)
    x = tf.linalg.matrix_transpose(x) if turn_x else x
    y = tf.linalg.matrix_transpose(y) if turn_y else y
    return tf.reduce_sum(x[..., :, :, None] * y[..., None, :, :], -2)


def contracted(spec, x, y):
    """A product summed over shared axes, as products of stacked matrices.

    A stack may have one matrix: of a product without a stack the converter drops a row's axis, and a relu of it.
    """
    a, b, out = spec.replace("->", ",").split(",")
    sizes = {c: int(n) for v, axes in ((x, a), (y, b)) for c, n in zip(axes, v.shape)}
    both = [c for c in a if c in b and c in out]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    summed = [c for c in a if c in b and c not in out]
    m, k, n, lead = [int(np.prod([sizes[c] for c in part])) for part in (rows, summed, columns, both)]
    turn_x, turn_y = [
        k > 1 and axes.index(first[0]) > axes.index(then[0]) if first and then else False
        for axes, first, then in ((a, rows, summed), (b, summed, columns))
    ]
    first, second = (summed, rows) if turn_x else (rows, summed), (columns, summed) if turn_y else (summed, columns)
    x = in_order(x, [a.index(c) for part in (both, *first) for c in part])
    y = in_order(y, [b.index(c) for part in (both, *second) for c in part])
    x = tf.reshape(x, [lead, k, m] if turn_x else [lead, m, k])
    y = tf.reshape(y, [lead, n, k] if turn_y else [lead, k, n])
    made = matrices_multiplied(x, y, turn_x, turn_y) if k > 1 else x * y
    order = [*both, *rows, *columns]
    return in_order(tf.reshape(made, [sizes[c] for c in order]), [order.index(c) for c in out])


def write_last_at(x, u, indices):
    """A copy with other values at indices of the first axes: of equal places, which LiteRT would add up, the last."""
    count = len(indices)
    rows = int(np.prod(x.shape[:count]))
    number, rest = flat_places(indices, x.shape), int(np.prod(x.shape[count:]))
    order = tf.argsort(number, stable=True)
    number = tf.gather(number, order)
    values = tf.gather(tf.reshape(u, [-1, rest]), order)
    last = tf.concat([number[1:] != number[:-1], tf.constant([True])], 0)[:, None]
    into = tf.constant([rows, rest])
    written = tf.scatter_nd(number[:, None], tf.where(last, values, tf.zeros_like(values)), into)
    there = tf.scatter_nd(number[:, None], tf.cast(last, tf.int32), tf.constant([rows, 1]))
    return tf.reshape(tf.where(there > 0, written, tf.reshape(x, [rows, rest])), x.shape)


def word_product(x, factor):
    """The low and the high word of the product of words, which are held as signed integers."""
    wide = tf.cast(x, tf.int64)
    pair = tf.bitcast(tf.where(wide < 0, wide + (1 << 32), wide) * tf.constant(factor, tf.int64), tf.int32)
    return pair[:, 0], pair[:, 1]


def philox_words(keys, places, data, stream, rounds):
    """Words of blocks by Philox 4x32, four along a new last axis: two key words, two of the place, data, each [n]."""
    c = [*places, data, tf.fill(data.shape, tf.constant(stream, tf.int32))]
    first, second = keys
    for _ in range(rounds):
        (low0, high0), (low1, high1) = word_product(c[0], 0xD2511F53), word_product(c[2], 0xCD9E8D57)
        xor = tf.bitwise.bitwise_xor
        c = [xor(xor(high1, c[1]), first), low1, xor(xor(high0, c[3]), second), low0]
        first, second = first + (0x9E3779B9 - (1 << 32)), second + (0xBB67AE85 - (1 << 32))
    return tf.stack(c, -1)


def words_of_blocks(key, places, data, stream, rounds):
    """Words of the blocks at places [rows, n] for keys [..., 2] of as many rows: [rows, 4 n], with data [rows]."""
    rows, n = [int(size) for size in places.shape]
    keys, pairs = tf.reshape(tf.cast(key, tf.int32), [rows, 2]), tf.bitcast(tf.reshape(places, [-1]), tf.int32)

    def for_each(v):
        return tf.reshape(tf.broadcast_to(v[:, None], [rows, n]), [-1])

    words = philox_words(
        (for_each(keys[:, 0]), for_each(keys[:, 1])), (pairs[:, 0], pairs[:, 1]), for_each(data), stream, rounds
    )
    return tf.reshape(words, [rows, 4 * n])


def random_words(key, data, shape, stream, rounds):
    """Random words of a shape for each key."""
    rows, count = int(np.prod(data.shape)), int(np.prod(shape))
    places = tf.constant(np.tile(np.arange(-(-count // 4)), [rows, 1]))
    words = words_of_blocks(key, places, tf.reshape(tf.cast(data, tf.int32), [rows]), stream, rounds)
    return tf.cast(tf.reshape(words[:, :count], [*data.shape, *shape]), tf.uint32)


def random_rows(key, first, blocks, stream, rounds):
    """Random words of blocks that are numbered from a first one."""
    rows = int(np.prod(first.shape))
    places = tf.reshape(first, [rows, 1]) + tf.constant(np.arange(blocks))
    words = words_of_blocks(key, places, tf.zeros([rows], tf.int32), stream, rounds)
    return tf.cast(tf.reshape(words, [*first.shape, 4 * blocks]), tf.uint32)
