"""Kernel languages of graphics cards: the spellings by which one walk over a kernel writes its text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from wholestep.kernel.lang import Buffer, DType, Var

GROUP = "group"
"""The variable with the number of a workgroup."""
THREAD = "thread"
"""That with the number of a work item in its workgroup."""
MOST_SHARED = 8192
"""The bytes of shared memory that kernels beside each other have at most: a workgroup has twice as many everywhere."""


class KernelFrame(NamedTuple):
    """A kernel but for its statements: its name, the memory that it is given and its own, and the work items of a
    workgroup.

    Indices are `short` where 32 bits are enough for them. The kernel returns at once where one of the tests `unless`
    holds for its number; the addresses of these numbers are the first arguments.
    """

    name: str
    buffers: Sequence[Buffer]
    scratch: Sequence[Buffer]
    threads: int
    short: bool
    unless: Sequence[str]


class KernelLanguage(ABC):
    """The spellings of one language. Names are made by the walk; expressions are of names and constants alone."""

    name: ClassVar[str]
    relaxed: ClassVar[bool] = False
    """True where a compiler may treat float32 as real numbers: kernels then mark the values that it must round as
    `exact`."""
    nested: ClassVar[bool] = False
    """True where values that are used once are nested in the statement that uses them, which makes the text short."""
    chosen: ClassVar[bool] = False
    """True where the address of an array is a number, so that a group can select its arrays among several."""
    items: ClassVar[int] = 64
    """The work items of a workgroup of a kernel with many points."""
    short_integers: ClassVar[bool] = False
    """True where integers of 64 bits that provably fit 32 are computed in 32. Not for CUDA: a tile of a convolution
    would exceed the registers, and whether it is faster was never timed."""
    long_groups: ClassVar[bool] = False
    """True where a workgroup of a kernel with barriers takes long to begin, so that points beside such kernels run
    faster in fewer groups of many points each."""
    chained: ClassVar[bool] = True
    """True where kernels beside each other are the branches of one chain, which is the shortest text."""
    unrolled: ClassVar[str] = ""
    """The line before a loop whose body is to be written out for each step; empty where the language has none."""
    reserved: ClassVar[frozenset[str]] = frozenset()
    """Words of the language that names of values could be."""
    most_buffers: ClassVar[int]
    """The buffers that a kernel may have."""
    most_shared: ClassVar[int] = MOST_SHARED
    """The bytes of shared memory that kernels beside each other may have."""
    narrow_apart: ClassVar[bool] = False
    """True where a kernel with elements of fewer bytes than a word is slow, and shares no launch with other kernels."""
    joins_rows: ClassVar[bool] = True
    """True where a workgroup also runs its row of the kernels that read that row. Not for CUDA, where launches of a
    graph take little time: that was never timed."""
    conditional: ClassVar[bool] = False
    """True where a number in the card's memory can make a kernel return at once."""
    vectors: ClassVar[bool] = False
    """True where work items load and store vectors of 16 bytes, and warps multiply matrices of bfloat16 in shared
    memory, to which such vectors are copied meanwhile."""
    barrier: ClassVar[str]
    """The statement that all work items of a workgroup wait at."""

    @abstractmethod
    def number(self, value: object, dtype: DType) -> str:
        """A number of a dtype."""

    @abstractmethod
    def expression(self, v: Var, args: Sequence[str]) -> str:
        """The operation of a value on operands; raises UnsupportedError where the language has none for it."""

    @abstractmethod
    def combined(self, op: str, held: str, values: Sequence[str], dtype: DType) -> str:
        """The statement that combines a fold's accumulator with one more value."""

    @abstractmethod
    def declaration(self, name: str, dtype: DType, text: str, constant: bool = True) -> str:
        """The declaration of a value, or of a variable where it is not constant."""

    @abstractmethod
    def index_declaration(self, name: str, text: str) -> str:
        """The declaration of an integer of the width of indices."""

    def chosen_arrays(
        self, ends: Sequence[int], points: Sequence[int], buffers: Sequence[Buffer], first: int
    ) -> Iterator[str]:
        """The statements by which a group chooses among sets of arrays, whose groups end at `ends[1:]`: the number of
        groups `before` those of its set, the `points` of it, and its arrays p0, p1, ...; the arrays of the first set
        have the numbers from `first` on."""
        raise AssertionError(f"{self.name} has no arrays that are chosen")

    def points_head(self, name: str, first: str, end: str, pace: int) -> str:
        """The head of a loop over points from `first` up to but not including `end`, in steps of `pace`."""
        raise AssertionError(f"{self.name} has no groups that do many points")

    @abstractmethod
    def loop_head(self, name: str, steps: int) -> str:
        """The head of a loop from 0 to before `steps`."""

    @abstractmethod
    def as_index(self, name: str, dtype: DType) -> str:
        """An integer value in the width of indices."""

    @abstractmethod
    def index_value(self, text: str, dtype: DType) -> str:
        """An index as an int64 or an int32."""

    @abstractmethod
    def load(self, buffer: Buffer, name: str, index: str) -> str:
        """The expression of an element."""

    @abstractmethod
    def store(self, buffer: Buffer, name: str, index: str, value: str) -> str:
        """The statement that writes an element."""

    def array(self, dtype: DType, values: Sequence[str]) -> str:
        """The expression of an array of these elements; "" where a language has none, and stores them one at a time."""
        return ""

    def asked_for(self, scratch: Sequence[Buffer]) -> int:
        """The bytes of shared memory that a launch has to ask for, of a kernel with these buffers of its own."""
        return 0

    @abstractmethod
    def kernel(self, frame: KernelFrame, lines: Iterable[str]) -> str:
        """The text of a kernel; its buffers are b0, b1, ... and its scratch memory s0, s1, ..."""

    @abstractmethod
    def module(self, kernels: Sequence[str]) -> str:
        """The text of a module of kernels, with the definitions that they use."""
