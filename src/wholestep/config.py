"""The only reader of the environment: what to print and whether to check."""

import os
from functools import cache

WORDS = ("ir", "passes", "kernel", "plan", "time", "nan")


def debug(word: str) -> bool:
    """Say whether WHOLESTEP_DEBUG, a comma-separated list of words, names this word.

    Raises ValueError when `word` or the environment holds a word that is not in `WORDS`.

    >>> debug("ir") == ("ir" in os.environ.get("WHOLESTEP_DEBUG", "").split(","))
    True
    """
    return _known(word) in _asked()


@cache
def check() -> bool:
    """Say whether WHOLESTEP_CHECK is 1: verify every graph and compare every fast path with the reference.

    Raises ValueError when the variable is neither 0 nor 1.

    >>> check() == (os.environ.get("WHOLESTEP_CHECK") == "1")
    True
    """
    value = os.environ.get("WHOLESTEP_CHECK", "").strip()
    if value not in ("", "0", "1"):
        raise ValueError(f"WHOLESTEP_CHECK is {value!r}: it must be 0 or 1")
    return value == "1"


def reread() -> None:
    """Forget what was read, so that the next question looks at the environment again.

    >>> reread()
    """
    _asked.cache_clear()
    check.cache_clear()


@cache
def _asked() -> frozenset[str]:
    words = (word.strip() for word in os.environ.get("WHOLESTEP_DEBUG", "").split(","))
    return frozenset(_known(word) for word in words if word)


def _known(word: str) -> str:
    if word not in WORDS:
        raise ValueError(f"WHOLESTEP_DEBUG: unknown word {word!r}; the known words are {', '.join(WORDS)}")
    return word
