"""Modules compiled beside their writer: the same objects in the same order, and no thread that stays."""

import os
import threading

import pytest
from tests.runtime.test_forks import script

from wholestep.backends.cpu import object_compiler
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.llvm_jit import CodeError, object_code
from wholestep.backends.cpu.object_compiler import ObjectCompiler

MODULES = [f"define i32 @f{n}(i32 %x) {{\n  %y = add i32 %x, {n}\n  ret i32 %y\n}}\n" for n in range(6)]
BAD = "define i32 @bad(i32 %x) {\n  ret i64 %x\n}\n"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wholestep compiler"]


def test_objects_come_in_the_order_of_their_modules() -> None:
    with ObjectCompiler(host_target()) as compiler:
        for n, text in enumerate(MODULES):
            compiler.add(text, n % 2 * 3)
        assert len(threads()) == 1
        made = compiler.objects()
    assert made == [object_code(text, host_target(), opt=n % 2 * 3) for n, text in enumerate(MODULES)]
    assert not threads()


def test_the_first_module_that_is_refused_is_the_error() -> None:
    with pytest.raises(CodeError, match="@bad"), ObjectCompiler(host_target()) as compiler:
        for text in (MODULES[0], BAD, BAD.replace("bad", "worse"), MODULES[1]):
            compiler.add(text)
        compiler.objects()
    assert len(compiler.made) == 1
    assert not threads()


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
        "with ObjectCompiler(host_target()) as compiler:\n"
        "    for text in MODULES[:3]:\n"
        "        compiler.add(text)\n"
        "    child = os.fork()\n"
        "    for text in MODULES[3:]:\n"
        "        compiler.add(text)\n"
        "    assert compiler.objects() == [object_code(text, host_target()) for text in MODULES]\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
    )
