"""C identifiers for the names that users give: ASCII letters, digits and underscores, each used once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wholestep.errors import ParameterError

KEYWORDS = frozenset(
    "alignas alignof and asm auto bitand bitor bool break case catch char class compl concept const constexpr "
    "continue decltype default delete do double else enum explicit export extern false float for friend goto if "
    "inline int long main mutable namespace new noexcept not nullptr operator or private protected public register "
    "requires restrict return short signed sizeof static struct switch template this throw true try typedef typeid "
    "typename typeof union unsigned using virtual void volatile while xor".split()
)
"""Words of C and C++, none of which can be the name of a type, a function or a parameter."""
MACROS = frozenset(
    "BUFSIZ EOF HUGE_VAL I INFINITY NAN NULL complex errno i386 imaginary linux stderr stdin stdout unix".split()
)
"""Macros of headers and compilers, in whose place a compiler reads something else."""
MATH = (
    "acos acosh asin asinh atan atan2 atanh cabs cacos cacosh carg casin casinh catan catanh cbrt ccos ccosh ceil "
    "cexp cimag clog conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan ctanh erf erfc exp exp2 expm1 fabs "
    "fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint "
    "lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan "
    "tanh tgamma trunc"
).split()
LIBRARY = frozenset(
    "abort abs assert atexit atof atoi atol atoll bsearch calloc clearerr clock close connect ctime difftime div exit "
    "fclose feof ferror fflush fgetc fgets fopen fpclassify fprintf fputc fputs fread free freopen fscanf fseek ftell "
    "fwrite gamma getc getchar getenv gets gmtime index isalnum isalpha isblank iscntrl isdigit isfinite isgraph "
    "isgreater isinf isless islower isnan isnormal isprint ispunct isspace isunordered isupper isxdigit j0 j1 jn kill "
    "labs ldiv link llabs lldiv localtime longjmp malloc memchr memcmp memcpy memmove memset mktime offsetof open "
    "perror pipe printf putc putchar puts qsort raise rand read realloc remove rename rewind rindex scanf select send "
    "setbuf setjmp setvbuf signal signbit sleep snprintf sprintf srand sscanf strcat strchr strcmp strcoll strcpy "
    "strcspn strdup strerror strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof "
    "strtok strtol strtold strtoll strtoul strtoull strxfrm system time tmpfile tmpnam tolower toupper ungetc "
    "vfprintf vprintf vsnprintf vsprintf wait write y0 y1 yn".split()
) | {name + end for name in MATH for end in ("", "f", "l")}
"""Functions of C's library, and those of POSIX with everyday names: a program's own would take their place."""

OWN = frozenset(
    "init step load save file failure arrays shapes formats bytes instance constructor state_bytes no_state damaged h "
    "from_f16 to_f16 from_bf16 to_bf16 bits_f32 from_f32".split()
)
"""The words behind the prefix in a program's own names, and the names of its module for pages.

A function that a user names has none of these, in capitals neither."""


def c_identifier(path: str) -> str:
    """A path as a part of a name; letters beyond ASCII are written by their numbers.

    >>> c_identifier("params.layers[0].weight"), c_identifier("größe")
    ('params_layers_0_weight', 'gru00f6u00dfe')
    """
    words = re.findall(r"[^\W_]+", path)
    return "_".join(["".join([c if c.isascii() else f"u{ord(c):04x}" for c in word]) for word in words])


def prefix_of(stem: str, target: str = "c") -> str:
    """The prefix of all names in a program that is written to a file of this stem; raises ParameterError for none."""
    found = c_identifier(stem)
    taken = found in KEYWORDS | MACROS or found.endswith("_t") or found.partition("_")[0].lower() == "ws"
    if found in LIBRARY and target != "wasm":
        raise ParameterError(
            f"export: {stem!r} is a function of C's library, whose place a program of that name would take",
            hint=f"name it my_{found}, or otherwise",
        )
    if not found or found[0].isdigit() or taken:
        raise ParameterError(f"export: {stem!r} begins no name in C", hint="name the file by letters, as in model.o")
    return found


def parameter_name(path: str) -> str:
    """A path as the name of a parameter: an underscore follows a keyword or a macro of C.

    >>> parameter_name("params.w"), parameter_name("double"), parameter_name("0")
    ('params_w', 'double_', 'x0')
    """
    found = c_identifier(path) or "x"
    if found[0].isdigit():
        found = f"x{found}"
    return f"{found}_" if found in KEYWORDS | MACROS or found.lower().startswith("ws_") else found


def without_repeats(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Names with a number behind each that was there before or is taken.

    >>> without_repeats(["x", "x", "m"], ["m"])
    ['x', 'x_2', 'm_2']
    """
    known, found = set(taken), []
    for base in names:
        name, count = base, 1
        while name in known:
            count += 1
            name = f"{base}_{count}"
        known.add(name)
        found.append(name)
    return found


def check_function_name(name: str) -> None:
    """Raise ParameterError for a name that no function beside the step can have."""
    if c_identifier(name) != name or name.lower() in OWN or name.startswith("run_"):
        raise ParameterError(
            f"export: no function beside the step can be called {name!r} in C", hint="attach it by another name"
        )


class CNames:
    """Names behind a prefix, each given once."""

    def __init__(self, prefix: str, taken: tuple[str, ...]) -> None:
        self.prefix = prefix
        self.taken = {f"{prefix}_{name}" for name in taken} | {f"{prefix}_{name}".upper() for name in taken}

    def new(self, *parts: str) -> str:
        """A name of these parts that nothing else has."""
        (name,) = without_repeats(["_".join([self.prefix, *[p for p in map(c_identifier, parts) if p]])], self.taken)
        self.taken.add(name)
        return name
