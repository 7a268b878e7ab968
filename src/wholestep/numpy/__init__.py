"""NumPy as a namespace that also takes traced arrays where NumPy itself cannot dispatch: `np.array([x, y])`."""

from __future__ import annotations
