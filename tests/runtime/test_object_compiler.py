"""Modules compiled beside their writer: the same objects in the same order, and no thread that stays."""

import ctypes
import os
import threading
from typing import Any

import pytest
from tests.runtime.test_forks import script

from wholestep.backends.cpu import llvm_jit, object_compiler
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.llvm_jit import LANES, CodeError, object_code
from wholestep.backends.cpu.object_compiler import ObjectCompiler

MODULES = [f"define i32 @f{n}(i32 %x) {{\n  %y = add i32 %x, {n}\n  ret i32 %y\n}}\n" for n in range(6)]
BAD = "define i32 @bad(i32 %x) {\n  ret i64 %x\n}\n"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wholestep compiler"]


@pytest.fixture(autouse=True)
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile every module by LLVM, without objects of earlier tests."""
    monkeypatch.setattr(object_compiler, "object_code", object_code)


@pytest.mark.parametrize("most", [1, 3, 100])
def test_objects_come_in_the_order_of_their_modules(most: int) -> None:
    with ObjectCompiler(host_target(), most) as compiler:
        for n, text in enumerate(MODULES):
            compiler.add(text, n % 2 * 3)
        assert len(threads()) == min(most, len(LANES), len(MODULES))
        made = compiler.objects()
    assert made == [object_code(text, host_target(), opt=n % 2 * 3) for n, text in enumerate(MODULES)]
    assert not threads()


@pytest.mark.parametrize("most", [1, 4])
def test_the_first_module_that_is_refused_is_the_error(most: int) -> None:
    with pytest.raises(CodeError, match="@bad"), ObjectCompiler(host_target(), most) as compiler:
        for text in (MODULES[0], BAD, BAD.replace("bad", "worse"), MODULES[1]):
            compiler.add(text)
        compiler.objects()
    assert 0 in compiler.made and compiler.made.keys() <= {0, 3}
    assert most > 1 or len(compiler.made) == 1
    assert not threads()


def test_threads_are_in_the_code_generator_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=60)

    def waiting(maker: object, module: object, *, assembly: bool) -> bytes:
        both.wait()
        return b""

    monkeypatch.setattr(llvm_jit, "_machine_code", waiting)
    with ObjectCompiler(host_target(), 2) as compiler:
        for text in MODULES[:2]:
            compiler.add(text)
        assert compiler.objects() == [b"", b""]


def test_a_generator_that_fails_says_what_llvm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    words, freed = ctypes.create_string_buffer(b"no such kind of file"), []

    class Refusing:
        @staticmethod
        def LLVMPY_TargetMachineEmitToMemory(maker: object, module: object, kind: int, message: Any) -> None:
            message._obj.value = ctypes.addressof(words)

        @staticmethod
        def LLVMPY_DisposeString(message: ctypes.c_void_p) -> None:
            freed.append(message.value)

    monkeypatch.setattr(llvm_jit, "_library", Refusing)
    with pytest.raises(CodeError, match="no such kind of file"):
        object_code(MODULES[0], host_target())
    assert freed == [ctypes.addressof(words)]


def test_a_block_that_is_interrupted_leaves_no_thread() -> None:
    with pytest.raises(KeyboardInterrupt), ObjectCompiler(host_target()) as compiler:
        for text in MODULES:
            compiler.add(text)
        raise KeyboardInterrupt
    assert not threads()


def test_an_interrupt_within_llvm_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(object_compiler, "object_code", interrupted)
    with ObjectCompiler(host_target()) as compiler:
        compiler.add(MODULES[0])
        with pytest.raises(KeyboardInterrupt):
            compiler.objects()
    assert not threads()


def test_without_a_thread_the_caller_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with ObjectCompiler(host_target()) as compiler:
        for text in MODULES:
            compiler.add(text)
        assert compiler.objects() == [object_code(text, host_target()) for text in MODULES]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_forked_in_the_middle_compiles_what_is_left() -> None:
    script(
        "import os\n"
        "from tests.runtime.test_object_compiler import MODULES, ObjectCompiler, host_target, object_code\n"
        "with ObjectCompiler(host_target(), 2) as compiler:\n"
        "    for text in MODULES[:3]:\n"
        "        compiler.add(text)\n"
        "    child = os.fork()\n"
        "    for text in MODULES[3:]:\n"
        "        compiler.add(text)\n"
        "    assert compiler.objects() == [object_code(text, host_target()) for text in MODULES]\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
    )
