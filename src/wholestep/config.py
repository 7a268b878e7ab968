"""The only reader of the environment: debug output, checks, threads, the processor, and the cache's folder."""

import os
import sys
from functools import cache

from wholestep.errors import ParameterError

VARIABLES = ("THREADS", "CACHE", "TARGET", "DEBUG", "CHECK", "STRICT")
"""The environment's variables, without the WHOLESTEP_ before each."""
WORDS = ("ir", "passes", "kernel", "plan", "time", "nan", "traceback")
SWITCHES = frozenset("0 1 on off yes no true false none".split())
"""The words that mean on or off to other programs, and are the names of no folder here."""
MOST_THREADS = 256
"""More than this many threads are refused: the pool's memory is laid out once."""


def check_machine(byteorder: str = sys.byteorder, largest: int = sys.maxsize) -> None:
    """Raise ImportError on a machine whose numbers or addresses are not those that code is made for.

    >>> check_machine()
    """
    if byteorder != "little" or largest != 2**63 - 1:
        raise ImportError(
            f"wholestep runs on 64-bit little-endian machines, and this one is {largest.bit_length() + 1}-bit "
            f"{byteorder}-endian"
        )


check_machine()


def debug(word: str) -> bool:
    """Say whether WHOLESTEP_DEBUG, a comma-separated list of words, names this word.

    Raises ParameterError when `word` or the environment holds a word that is not in `WORDS`.

    >>> debug("ir") == ("ir" in os.environ.get("WHOLESTEP_DEBUG", "").split(","))
    True
    """
    return _known(word) in _asked()


@cache
def check() -> bool:
    """Say whether WHOLESTEP_CHECK is 1: verify every graph and compare every fast path with the reference.

    Raises ParameterError when the variable is neither 0 nor 1.

    >>> check() == (os.environ.get("WHOLESTEP_CHECK") == "1")
    True
    """
    return _flag("WHOLESTEP_CHECK")


@cache
def strict() -> bool:
    """Return whether WHOLESTEP_STRICT is 1: an optimization whose own checks fail is an error, and not left out.

    Raises ParameterError when the variable is neither 0 nor 1.

    >>> strict() == (os.environ.get("WHOLESTEP_STRICT") == "1")
    True
    """
    return _flag("WHOLESTEP_STRICT")


@cache
def threads() -> int | None:
    """The number of threads that WHOLESTEP_THREADS asks for; None where it is not set.

    Raises ParameterError when the variable is not a whole number from 1 to 256.

    >>> threads() is None or threads() >= 1
    True
    """
    value = os.environ.get("WHOLESTEP_THREADS", "").strip()
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= MOST_THREADS):
        raise ParameterError(f"WHOLESTEP_THREADS is {value!r}: it must be a whole number from 1 to {MOST_THREADS}")
    return int(value)


@cache
def cache_place() -> str | None:
    """The value of WHOLESTEP_CACHE: "off", the path of a folder, or None where it is not set.

    Raises ParameterError when the variable is another word of a switch, such as 0 or false.

    >>> cache_place() == (os.environ.get("WHOLESTEP_CACHE", "").strip() or None)
    True
    """
    value = os.environ.get("WHOLESTEP_CACHE", "").strip()
    if value != "off" and value.lower() in SWITCHES:
        raise ParameterError(f"WHOLESTEP_CACHE is {value!r}: it must be off, or the path of a folder, as ./{value} is")
    return value or None


@cache
def target_name() -> str | None:
    """The level of processor that WHOLESTEP_TARGET names, such as "x86-64-v3"; None for this processor's own.

    >>> target_name() == (os.environ.get("WHOLESTEP_TARGET", "").strip() or None)
    True
    """
    return os.environ.get("WHOLESTEP_TARGET", "").strip() or None


def unread() -> list[str]:
    """The variables that are set, and which nothing reads: their names are misspelled, or another program's.

    >>> "WHOLESTEP_CHECK" in unread()
    False
    """
    return [name for name in in_force() if name.removeprefix("WHOLESTEP_") not in VARIABLES]


def in_force() -> dict[str, str]:
    """The variables of this library that are set, with their values.

    >>> all(name.startswith("WHOLESTEP_") for name in in_force())
    True
    """
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith("WHOLESTEP_")}


def reread() -> None:
    """Clear the cached settings, so that the next question reads the environment again.

    >>> reread()
    """
    for question in (_asked, check, strict, threads, cache_place, target_name):
        question.cache_clear()


@cache
def _asked() -> frozenset[str]:
    words = (word.strip() for word in os.environ.get("WHOLESTEP_DEBUG", "").split(","))
    return frozenset(_known(word) for word in words if word)


def _flag(name: str) -> bool:
    value = os.environ.get(name, "").strip()
    if value not in ("", "0", "1"):
        raise ParameterError(f"{name} is {value!r}: it must be 0 or 1")
    return value == "1"


def _known(word: str) -> str:
    if word not in WORDS:
        raise ParameterError(f"WHOLESTEP_DEBUG: unknown word {word!r}; the known words are {', '.join(WORDS)}")
    return word
