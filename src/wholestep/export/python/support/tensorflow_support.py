"""Functions of TensorFlow's tensors that printed sources use: loops, orders, operations with NumPy's semantics."""

import numpy as np
import tensorflow as tf

from wholestep.export.python.support.checkpoint_file import checkpoint_header, read_checkpoint, write_checkpoint


def scan_rows(f, fixed, carry, xs, length, reverse, kinds):
    """A loop that hands a carry on and stacks the other results, whose shapes and dtypes are known."""
    columns = tuple(tf.TensorArray(dtype, length, element_shape=shape[1:]) for shape, dtype in kinds)

    def body(i, carry, columns):
        at = length - 1 - i if reverse else i
        out = f(*fixed, *carry, *[x[at] for x in xs])
        rows = out[len(carry) :]
        return i + 1, tuple(out[: len(carry)]), tuple(ys.write(at, y) for ys, y in zip(columns, rows))

    _, carry, columns = tf.while_loop(lambda i, carry, columns: i < length, body, (0, tuple(carry), columns))
    return (*carry, *[ys.stack() for ys in columns])


def loop_while(test, body, for_test, for_body, carry):
    """A loop while a predicate of its carry holds."""
    return tuple(tf.while_loop(lambda *c: test(*for_test, *c)[0], lambda *c: tuple(body(*for_body, *c)), tuple(carry)))


def choose_branch(branches, index, xs):
    """The results of the function that an index names, clipped to those that there are."""
    last = len(branches) - 1
    index = tf.cast(tf.minimum(tf.maximum(index, tf.zeros_like(index)), tf.constant(last, index.dtype)), tf.int32)
    found = tf.switch_case(index, [lambda f=f: f(*xs) for f in branches])
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def counted_along(shape, axis, dtype):
    """0, 1, 2, … along an axis."""
    line = tf.cast(tf.range(shape[axis]), dtype)
    return tf.broadcast_to(tf.reshape(line, [-1 if i == axis else 1 for i in range(len(shape))]), shape)


def shift_left(x, y):
    """Bits moved up; all of them gone where the count is their number or more."""
    return tf.where(y < tf.constant(8 * x.dtype.size, x.dtype), tf.bitwise.left_shift(x, y), tf.zeros_like(x))


def shift_right(x, y):
    """Bits moved down; the sign alone is left where the count is their number or more."""
    most = tf.constant(8 * x.dtype.size - 1, x.dtype)
    found = tf.bitwise.right_shift(x, tf.minimum(y, most))
    return tf.where(y > most, tf.zeros_like(x), found) if x.dtype.is_unsigned else found


def plain_divisors(y):
    """Divisors with 1 where they are 0 or -1, of which processors have no quotient, and the places of those two."""
    none, minus = y == 0, y == -1 if not y.dtype.is_unsigned else tf.zeros_like(y, tf.bool)
    return tf.where(none | minus, tf.ones_like(y), y), none, minus


def floor_quotients(x, y):
    """Quotients of integers rounded down; 0 where the divisor is."""
    divisors, none, minus = plain_divisors(y)
    found = tf.math.floordiv(x, divisors)
    found = found if x.dtype.is_unsigned else tf.where(minus, -x, found)
    return tf.where(none, tf.zeros_like(found), found)


def integer_remainders(x, y):
    """Remainders of integers of the divisor's sign; 0 where the divisor is."""
    return tf.math.floormod(x, plain_divisors(y)[0])


def truncated_remainders(x, y):
    """Remainders of integers with the sign of the dividend; 0 where the divisor is 0."""
    if x.dtype.is_unsigned:
        return integer_remainders(x, y)
    wide = tf.truncatemod(tf.cast(x, tf.int64), tf.cast(plain_divisors(y)[0], tf.int64))
    return tf.cast(wide, x.dtype)


def inverse_erf(x):
    """The inverse of the error function; of small numbers, whose digits the library's loses, by a step of Newton's."""
    y = tf.math.erfinv(x)
    small = tf.where(tf.abs(x) < 0.5, y, 0)
    return tf.where(tf.abs(x) < 0.5, small - (tf.math.erf(small) - x) * tf.exp(small * small) * 0.886226925452758, y)


def pad_between(x, before, after, interior):
    """Zeros before, after and between elements."""
    for axis, zeros in enumerate(interior):
        shape = [int(n) for n in x.shape]
        if zeros and shape[axis] > 1:
            rows, width = (int(np.prod(part)) for part in (shape[: axis + 1], shape[axis + 1 :]))
            x = tf.pad(tf.reshape(x, [rows, 1, width]), [(0, 0), (0, zeros), (0, 0)])  # it takes 8 axes at most
            shape[axis] *= zeros + 1
            x = tf.reshape(x, shape)[(*[slice(None)] * axis, slice(0, shape[axis] - zeros))]
    return tf.pad(x, tuple(zip(before, after))) if before else x


def write_slices(x, u, start, step):
    """A copy with other values at slices."""
    if not start or 0 in u.shape:
        return x if start else u
    spans = [(n - 1) * s + 1 for n, s in zip(u.shape, step)]
    after = [n - a - m for n, a, m in zip(x.shape, start, spans)]
    inside = [s - 1 for s in step]
    there = pad_between(tf.ones(u.shape, tf.bool), start, after, inside)
    return tf.where(there, pad_between(u, start, after, inside), x)


def product(spec, x, y):
    """A contraction, of short and unsigned integers in 64 bits and of halves in float32."""
    dtype = x.dtype
    if (dtype.is_integer and dtype.size < 4) or dtype.is_unsigned or dtype == tf.bool:
        return tf.cast(tf.einsum(spec, tf.cast(x, tf.int64), tf.cast(y, tf.int64)), dtype)
    if dtype.size == 2:
        return tf.cast(tf.einsum(spec, tf.cast(x, tf.float32), tf.cast(y, tf.float32)), dtype)
    return tf.einsum(spec, x, y)


def first_place(x, axis, largest):
    """The first place of the largest or smallest element; NaN counts as both."""
    x = tf.cast(x, tf.int32) if x.dtype == tf.bool else x
    if 0 in x.shape:
        return tf.zeros(x.shape[:axis] + x.shape[axis + 1 :], tf.int64)
    odd = x != x
    nan = tf.reduce_any(odd, axis, keepdims=True)
    best = (tf.reduce_max if largest else tf.reduce_min)(x, axis, keepdims=True)
    return tf.argmax(tf.cast(tf.where(nan, odd, x == best), tf.uint8), axis)


def places(indices, shape):
    """Indices of the first axes, those from behind counted from the front, as rows of one tensor."""
    counted = [tf.cast(index, tf.int64) for index in indices]
    return tf.stack([tf.where(i < 0, i + n, i) for i, n in zip(counted, shape)], -1)


def read_at(x, indices):
    """Elements at indices of the first axes."""
    at = places(indices, x.shape)
    if 0 in x.shape:
        return tf.zeros([*at.shape[:-1], *x.shape[len(indices) :]], x.dtype)
    return tf.gather_nd(x, at)


def in_rows(at, u):
    """Indices and their updates, both with a first axis."""
    return (at, u) if len(at.shape) > 1 else (at[None], u[None])


def write_at(x, u, indices):
    """A copy with other values at indices of the first axes; the last of equal ones stays."""
    return tf.tensor_scatter_nd_update(x, *in_rows(places(indices, x.shape), u))


def add_at(x, u, indices):
    """A copy with values added at indices of the first axes; halves are added in float32."""
    wide = tf.float32 if x.dtype.is_floating and x.dtype.size == 2 else x.dtype
    at, u = in_rows(places(indices, x.shape), tf.cast(u, wide))
    return tf.cast(tf.tensor_scatter_nd_add(tf.cast(x, wide), at, u), x.dtype)


def last_axis(f, x, axis):
    """A function of the last axis along another one."""
    order = [i for i in range(len(x.shape)) if i != axis] + [axis]
    found = f(tf.transpose(x, order))
    back = np.argsort(order)
    return tuple(tf.transpose(y, back) for y in found) if isinstance(found, tuple) else tf.transpose(found, back)


def rows_in_order(x):
    """Rows sorted, NaN last, and where each element came from; equal ones stay in order."""
    keys = tf.cast(x, tf.uint8) if x.dtype == tf.bool else x
    if x.dtype.is_floating:
        keys = tf.where(x != x, tf.constant(float("inf"), x.dtype), x)
    order = tf.argsort(keys, stable=True)
    if x.dtype.is_floating:
        odd = tf.cast(tf.gather(x != x, order, batch_dims=len(x.shape) - 1), tf.int32)
        order = tf.gather(order, tf.argsort(odd, stable=True), batch_dims=len(x.shape) - 1)
    return tf.gather(x, order, batch_dims=len(x.shape) - 1), tf.cast(order, tf.int64)


def sort_rows(x, axis):
    """Sorted values, and where each came from; equal ones stay in order."""
    return last_axis(rows_in_order, x, axis)


def largest(x, axis, k):
    """The k largest, the first of equal ones first, and where they came from."""

    def rows(x):
        values, order = rows_in_order(tf.reverse(x, [-1]))
        return tf.reverse(values, [-1])[..., :k], x.shape[-1] - 1 - tf.reverse(order, [-1])[..., :k]

    return last_axis(rows, x, axis)


def running(x, axis, upward):
    """The largest, or smallest, so far, and where it was first; NaN stays."""
    if x.dtype == tf.bool:
        values, seen = running(tf.cast(x, tf.uint8), axis, upward)
        return tf.cast(values, tf.bool), seen
    rows = tf.unstack(x, axis=axis)
    values, seen = rows[:1], [tf.zeros(row.shape, tf.int64) for row in rows[:1]]
    for k, now in enumerate(rows[1:], 1):
        new = (now > values[-1] if upward else now < values[-1]) | (now != now)
        values.append(tf.where(new, now, values[-1]))
        seen.append(tf.where(new, tf.constant(k, tf.int64), seen[-1]))
    if not rows:
        return x, tf.zeros(x.shape, tf.int64)
    return tf.stack(values, axis), tf.stack(seen, axis)


def fourier(x, axes, inverse):
    """A complex transform without a factor."""
    for axis in axes:
        x = last_axis(tf.signal.ifft if inverse else tf.signal.fft, x, axis)
        x = x * tf.constant(x.shape[axis], x.dtype) if inverse else x
    return x


def solve_triangle(a, b, lower, unit, trans):
    """A triangular solve that reads one triangle of a, without its diagonal where that counts as ones."""
    a = tf.linalg.set_diag(a, tf.ones(a.shape[:-1], a.dtype)) if unit else a
    a = tf.linalg.matrix_transpose(a) if trans == 1 else a
    return tf.linalg.triangular_solve(a, b, lower=lower != (trans == 1), adjoint=trans == 2)


def sign_and_logarithm(x):
    """The sign of a determinant, and the logarithm of its size."""
    sign, size = tf.linalg.slogdet(x)
    return sign, tf.math.real(size)


def symmetric_parts(x, lower):
    """Eigenvalues, which are real, and eigenvectors of matrices of which one triangle is read."""
    values, vectors = tf.linalg.eigh(x if lower else tf.linalg.adjoint(x))
    return tf.math.real(values), vectors


def factors(x, mode):
    """The factors of a QR decomposition, or the second one alone."""
    q, r = tf.linalg.qr(x, full_matrices=mode == "complete")
    return r if mode == "r" else (q, r)


def singular_parts(x, full_matrices):
    """Singular vectors on the left, singular values, and those on the right as rows."""
    s, u, v = tf.linalg.svd(x, full_matrices=full_matrices)
    return u, s, tf.linalg.adjoint(v)


def on_host(f, kinds, *xs):
    """Tensors of these shapes and dtypes from a function of NumPy arrays; without kinds, one elementwise like xs."""
    if kinds is None:
        shape = xs[0].shape
        for x in xs[1:]:
            shape = tf.broadcast_static_shape(shape, x.shape)
        kinds = ((shape, xs[0].dtype),)

    def call(*arrays):
        with np.errstate(all="ignore"):
            found = f(*arrays)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(np.asarray(y, dtype.as_numpy_dtype) for y, (_, dtype) in zip(found, kinds))

    if tf.executing_eagerly():
        found = tuple(tf.constant(y) for y in call(*[x.numpy() for x in xs]))
    else:
        found = tf.numpy_function(call, xs, [dtype for _, dtype in kinds])
        found = found if isinstance(found, (tuple, list)) else (found,)
    found = tuple(tf.ensure_shape(y, shape) for y, (shape, _) in zip(found, kinds))
    return found[0] if len(found) == 1 else found


def load(path):
    """The state in a checkpoint: tensors by path."""
    header, _, _ = checkpoint_header(path)
    found = read_checkpoint(path)
    halves = [name for name in found if header[name]["dtype"] == "BF16"]
    found |= {name: found[name].view(tf.bfloat16.as_numpy_dtype) for name in halves}
    return {name: tf.constant(x) for name, x in found.items()}


def save(path, state, like):
    """Write a state for `step.load` to take back; `like` is the checkpoint that it began with."""
    write_checkpoint(path, {name: tf.convert_to_tensor(x).numpy() for name, x in state.items()}, like)
