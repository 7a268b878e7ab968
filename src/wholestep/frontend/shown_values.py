"""The text of a traced value, which is no number again: that would lose the derivative without a word."""

from __future__ import annotations

from typing import Any, NoReturn

from wholestep.errors import ConversionError


class ShownValue(str):
    """The text that `str(x)` and `f"{x:.3f}"` give of a traced x; `float` and `int` of it are errors."""

    __slots__ = ()

    def refuse(self) -> NoReturn:
        """Refused: a number that is read from the text of a traced array. Raises ConversionError."""
        raise ConversionError(
            f"text: {str.__str__(self)!r} is the text of a traced array, and a number read from it would have no "
            "derivative",
            hint="x itself is the number, np.round(x, n) a rounded one, ws.stop_gradient(x) one with no derivative",
        )

    __float__ = __int__ = __complex__ = refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)
