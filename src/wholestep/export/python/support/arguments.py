"""The check of the arrays that a printed program is given."""


def arrays_of(given, inputs):
    """The arrays that a program reads, in its order; raises ValueError for one of another dtype or shape."""
    sizes, found = {}, []
    for path, (dtype, shape) in inputs.items():
        x = given[path]
        own = getattr(x, "shape", ())
        if own != shape and not has_sizes(own, shape, sizes):
            raise ValueError(f"{path} has the shape {tuple(own)}, and the program was written for {shape}")
        if getattr(x, "dtype", dtype) != dtype:
            wanted = getattr(dtype, "__name__", dtype)
            raise ValueError(f"{path} has the dtype {x.dtype}, and the program was written for {wanted}")
        found.append(x)
    return found


def has_sizes(own, shape, sizes):
    """True for a shape with the sizes of another one, of which some are names, or None for any; names are noted."""
    like = [sizes.setdefault(n, m) if isinstance(n, str) else n for n, m in zip(shape, own)]
    return len(own) == len(shape) and all([n is None or m is None or m == n for n, m in zip(like, own)])
