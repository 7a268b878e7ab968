"""Stand-ins for objects of other libraries, with the behavior that matters where a batch or data is given."""

import numpy as np

from wholestep import dtypes


class Tensor:
    """A stand-in for torch's tensor; `__array__` raises if it requires a gradient, is bfloat16, or is on a device."""

    def __init__(self, values, requires_grad=False, device="cpu", dtype=None):
        self.values, self.requires_grad, self.device = np.asarray(values), requires_grad, device
        self.dtype = dtype or f"torch.{self.values.dtype}"
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values

    def __dlpack_device__(self):
        return (1 if self.device == "cpu" else 2, 0)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return Tensor(self.values[i], self.requires_grad, self.device)

    def detach(self):
        return Tensor(self.values, False, self.device, self.dtype)

    def float(self):
        return Tensor(self.values.astype(np.float32))


def bfloat16(values):
    return Tensor(np.asarray(values).astype(dtypes.from_short("bf16")), dtype="torch.bfloat16")


class Exported:
    """An object with `__dlpack__` alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Series:
    """An object with `to_numpy` alone."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


class DataLoader:
    """A stand-in for torch's loader: an iterable of lists of tensors, without items by number."""

    def __init__(self, *arrays, size):
        self.arrays, self.size = arrays, size

    def __len__(self):
        return -(-len(self.arrays[0]) // self.size)

    def __iter__(self):
        for i in range(0, len(self.arrays[0]), self.size):
            yield [Tensor(x[i : i + self.size]) for x in self.arrays]


class TensorDataset:
    """A stand-in for torch's data set: items by number, each a tuple of tensors."""

    def __init__(self, *arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays[0])

    def __getitem__(self, i):
        return tuple([Tensor(x[i]) for x in self.arrays])


class Rows:
    """A stand-in for a data set of Hugging Face: rows are dictionaries of lists and numbers, also several at a time."""

    def __init__(self, **columns):
        self.column_names, self.columns_, self.asked = list(columns), columns, []

    def __len__(self):
        return len(next(iter(self.columns_.values())))

    def __getitem__(self, i):
        return {name: column[i].tolist() for name, column in self.columns_.items()}

    def __getitems__(self, which):
        self.asked.append(which)
        return [self[i] for i in which]
