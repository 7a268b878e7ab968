"""Pages of LLVM's code are handed back, and come again when they are wanted."""

import sys

import llvmlite.binding as llvm
import pytest

from wholestep.backends.cpu import code_pages, llvm_jit
from wholestep.backends.cpu.cpu_features import host_target


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists its mappings in /proc")
def test_code_is_handed_back_and_compiling_goes_on() -> None:
    text = "define i64 @one() {\n  ret i64 1\n}\n"
    first, name = llvm_jit.object_code(text, host_target()), llvm.ffi.get_library_name()
    spans = list(code_pages.code_ranges(name))
    before = resident(spans)
    code_pages.release_code_pages(name)
    assert before > 2 << 20 and resident(spans) < before / 2
    assert llvm_jit.object_code(text, host_target()) == first


def test_a_library_that_is_not_loaded_has_no_code() -> None:
    assert list(code_pages.code_ranges("libnothing.so")) == []


def resident(spans: list[tuple[int, int]]) -> int:
    """Bytes of these stretches of the process that are in memory."""
    starts, found, inside = {start for start, _ in spans}, 0, False
    for line in (code_pages.MAPS.parent / "smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        word = line.split()[0]
        if "-" in word and not word.endswith(":"):
            inside = int(word.split("-")[0], 16) in starts
        elif inside and word == "Rss:":
            found += int(line.split()[1]) << 10
    return found
