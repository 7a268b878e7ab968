"""Every deliberate error and warning, and the user's line it blames."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from types import CodeType, FrameType

from wholestep.words import printable

Where = tuple[CodeType, int] | None
"""A place in the user's program: a code object and an instruction in it, resolved to a line only when it is shown."""


class Indexed(tuple[CodeType, int]):
    """A place in the user's code that reads at a named index; `outside` is the message for an index out of bounds."""

    what: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indexed) and tuple(self) == tuple(other) and self.what == other.what

    def __hash__(self) -> int:
        return hash((*self, self.what))

    def outside(self, value: int, size: int) -> str:
        """The message for a value of the index outside [0, size); negative ones arrive below -size."""
        found = value + size if value < 0 else value
        return f"{self.what} {found}{bounds_text(self.what, size)}"

    @property
    def hint(self) -> str | None:
        """The rule that an index out of bounds breaks."""
        return bounds_hint(self.what)


class Demanded(Indexed):
    """A place in the user's code where something must hold; `what` is the message where it does not.

    A way out may follow in its second line.
    """

    def outside(self, value: int, size: int) -> str:
        return self.what.partition("\n")[0]

    @property
    def hint(self) -> str | None:
        return self.what.partition("\n")[2] or None


def bounds_text(what: str, size: int) -> str:
    """The end of the message for an index out of bounds; only labels of a loss count classes."""
    return f", but there are {size} classes (0 to {size - 1})" if what.endswith("label") else f", outside [0, {size})"


def bounds_hint(what: str) -> str | None:
    """The hint for an index out of bounds, where its kind has a rule of its own."""
    rule = "classes count from 0; ignore_index= names a label that counts for nothing"
    return rule if what.endswith("label") else None


def indexed(where: Where, what: str, kind: type[Indexed] = Indexed) -> Where:
    """A place whose index has a name, such as "cross_entropy: label"."""
    if where is None:
        return None
    made = kind(where)
    made.what = what
    return made


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = os.path.join(_STANDARD, "site-packages") + os.sep
_BETWEEN = ("numpy", "scipy", "optree", "opt_einsum", "einops", "torch", "jax", "pandas")
"""Packages that stand between the caller and this one."""
_internal: dict[str, bool] = {}


def is_own(filename: str) -> bool:
    """Return whether a file belongs to this package."""
    return filename.startswith(_PACKAGE)


def is_internal(filename: str) -> bool:
    """Return whether a file is ours, NumPy's or Python's own, and so never the line to blame.

    >>> is_internal("/home/me/model.py"), is_internal(linecache.__file__)
    (False, True)
    """
    if is_own(filename) or filename.startswith("<frozen"):
        return True
    if filename.startswith(_STANDARD) and not filename.startswith(_INSTALLED):
        return True
    return any(filename.startswith(folder + os.sep) for name in _BETWEEN for folder in folders(name))


def folders(package: str) -> list[str]:
    """The folders of an imported package, wherever they are, as systems have places of their own."""
    return list(getattr(sys.modules.get(package), "__path__", ()))


def here(above: int = 1) -> Where:
    """The innermost frame that is the user's own, `above` the caller or beyond: half a microsecond for each node.

    Python makes an object of each frame that is looked at, so that those known to be this package's are passed over.
    """
    frame: FrameType | None = sys._getframe(above)
    known = _internal
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        internal = known.get(name)
        if internal is None:
            internal = known[name] = is_internal(name)
        if not internal:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def line_of(where: Where) -> tuple[str, int]:
    """File and line number of a place; ("", 0) where it is unknown."""
    if where is None:
        return "", 0
    code, lasti = where
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
    return code.co_filename, line


def show(where: Where) -> str:
    """`demo.py:32:  return h @ w`, or the empty string where the place is unknown."""
    filename, line = line_of(where)
    if not filename:
        return ""
    text = linecache.getline(filename, line).strip()
    try:
        relative = os.path.relpath(filename) if os.path.isabs(filename) and _same_drive(filename) else filename
    except OSError:  # the working directory is gone
        relative = filename
    shown = filename if relative.startswith("..") else relative
    return f"{shown}:{line}:  {text}" if text else f"{shown}:{line}"


def _same_drive(filename: str) -> bool:
    return os.path.splitdrive(filename)[0] == os.path.splitdrive(os.getcwd())[0]


class WholestepError(Exception):
    """The root of every error that this library raises on purpose.

    The `message` has the form *operation: the fault: the types*. Below it stand the user's line, `where`, by default
    the one that is running, and a remedy, `hint`.
    """

    def __init__(self, message: str, *, where: Where = None, hint: str | None = None) -> None:
        self.where = where if where is not None else here()
        super().__init__(in_full(message, self.where, hint))


def in_full(message: str, where: Where, hint: str | None) -> str:
    """A message with the user's line and the way out below it."""
    place = show(where)
    parts = [message]
    if place:
        parts.append(f"  at {place}")
    if hint:
        parts.append(f"  hint: {hint}")
    return printable("\n".join(parts))


class ShapeError(WholestepError, ValueError):
    """Shapes that do not fit together."""


class AxisError(ShapeError, IndexError):
    """An axis that the array does not have."""


class NonScalarError(ShapeError, TypeError):
    """A loss that is not a scalar where a gradient was asked for."""


class DtypeError(WholestepError, TypeError):
    """A dtype that the operation does not take."""


class RangeError(WholestepError, OverflowError):
    """A Python integer that the dtype it is computed in cannot hold."""


class UnsupportedError(WholestepError, NotImplementedError, TypeError):
    """A call that is not covered, and for which there is no derivative."""


class ValueDependentError(WholestepError, TypeError):
    """A value that Python requires of an array that has none while it is traced."""


class ConversionError(WholestepError, TypeError):
    """A conversion of a traced array to a plain one, which would lose its derivative."""


class EscapedError(WholestepError, RuntimeError):
    """A traced array that is used after the end of its trace."""


class BoundsError(WholestepError, IndexError):
    """An index outside its axis."""


class MutationError(WholestepError, ValueError):
    """A change of a value that a compiled program holds as a constant."""


class ReadOnlyError(WholestepError, ValueError):
    """An assignment into an array that cannot be written."""


class StaticArgumentError(WholestepError, TypeError):
    """A static argument that cannot be a key."""


class TreeError(WholestepError, TypeError, ValueError):
    """Containers whose structures do not agree."""


class DerivativeError(WholestepError, TypeError):
    """A derivative that does not exist or that this transform cannot give."""


class GradientError(WholestepError, AssertionError):
    """A derivative that differs from the differences of the values."""


class VerificationError(WholestepError, AssertionError):
    """A step whose compiled numbers or derivatives differ from the reference by more than rounding."""


class ParameterError(WholestepError, ValueError):
    """An argument whose value is not allowed."""


class CheckpointError(WholestepError, ValueError):
    """A checkpoint that cannot be written or read, or that does not fit."""


class ExportError(WholestepError, ValueError):
    """A program that cannot be written as a file of another system, or that gives other numbers there."""


class ModelError(WholestepError, ValueError):
    """An error for a model of another library that is damaged, or whose nodes are not valid for their inputs."""


class BudgetError(WholestepError, MemoryError):
    """A program that does not fit into its memory budget."""


class StorageError(WholestepError, OSError):
    """A file for memory that cannot be made, or for which there is no room."""


class MissingExtraError(WholestepError, ImportError):
    """An optional package that this call needs is not installed."""


class CommandError(WholestepError, ValueError):
    """A command that cannot be carried out as it was given."""


class GraphError(WholestepError, ValueError):
    """A graph, or its text, that breaks the rules of the language."""


class KernelError(WholestepError, ValueError):
    """A kernel, its text or its arrays, that break the rules of the kernel language."""


class PlanError(WholestepError, AssertionError):
    """A plan of the compiler that breaks its own rules: a fault of the library."""


class ImpurityError(WholestepError, RuntimeError):
    """A random number drawn from a generator with a state, or a clock read, while a function is traced."""


class ReentrancyError(WholestepError, RuntimeError):
    """A call of a program, from a signal handler or a finalizer, inside a call of itself."""


class UnknownNameError(WholestepError, AttributeError):
    """A name that is not there, where the library has another one for it, or others like it."""


class ArgumentError(WholestepError, TypeError):
    """Arguments that are not those of the function that was called."""


class DeviceError(WholestepError, RuntimeError):
    """A device that is not there, or that does not take its kernels."""


class CommunicationError(WholestepError, ConnectionError):
    """Processes that train together cannot go on: one has ended, or they were given different programs or data."""


class ForkedError(WholestepError, RuntimeError):
    """State in a forked child that another thread was using during the fork, or that lies in the parent's files."""


class WholestepWarning(UserWarning):
    """The root of every warning that this library gives: the program runs, and probably not as it was meant."""


class UnusedParameterWarning(WholestepWarning):
    """A parameter on which the loss does not depend, so that it is never trained."""


class MixedPrecisionWarning(WholestepWarning):
    """Parameters of float32 and of float64 in one program, whose values are then mostly float64."""


class RepeatedKeyWarning(WholestepWarning):
    """Two parameters with equal random values, as twice the same key makes them."""


class FrozenValueWarning(WholestepWarning):
    """A number or an array that a function changes and reads while it is traced: its program has one value of it."""


class SkippedStepWarning(WholestepWarning):
    """Steps of training whose update was left out, since the loss or a gradient is not finite."""


class RecompilationWarning(WholestepWarning):
    """A program that is compiled again and again, for one shape after another."""


class BatchStatisticsWarning(WholestepWarning):
    """Micro-batches of a loss that takes statistics over its batch, which are those of each part then."""


class LostAssignmentWarning(WholestepWarning):
    """A buffer that the loss assigns in a copy of the model alone, so that the step keeps the old value."""


class LogWarning(WholestepWarning):
    """A log, or the progress of a run, that can no longer be written, as where a disk is full; the run goes on."""


def warn(message: str, category: type[WholestepWarning], *, where: Where = None, hint: str | None = None) -> None:
    """Give a warning that names the user's line and a way out, as an error does.

    Python shows it once for each line of the user, or raises it, as `warnings.simplefilter` says.
    """
    where = where if where is not None else here()
    filename, line = line_of(where)
    warnings.warn_explicit(in_full(message, where, hint), category, filename or "<unknown>", line)
