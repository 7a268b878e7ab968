"""LLVM text to machine code: every target, refusals, loading and unloading."""

import ctypes
from pathlib import Path

import pytest
from tests.runtime.test_forks import script

from wholestep.backends.cpu.cpu_features import LEVELS, host_target, named_target, target_from_features
from wholestep.backends.cpu.llvm_jit import CodeError, LinkedCode, assembly, object_code
from wholestep.backends.cpu.support_ir import support
from wholestep.errors import UnsupportedError

GOOD = "define i32 @good(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
EXTERNAL = """
declare i32 @elsewhere(i32)
define i32 @calls(i32 %x) {
  %y = call i32 @elsewhere(i32 %x)
  ret i32 %y
}
"""
WIDE = """
define void @wide(ptr %a) {
  %x = load <16 x float>, ptr %a, align 4
  %y = fmul <16 x float> %x, splat (float 2.0)
  store <16 x float> %y, ptr %a, align 4
  ret void
}
"""
INT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)


@pytest.mark.parametrize("name", LEVELS)
def test_support_and_wide_vectors_become_an_object_for_every_target(name):
    made = named_target(name)
    code = object_code(support.support_module(made) + WIDE, made)
    machine = int.from_bytes(code[18:20], "little")
    assert code[:4] == b"\x7fELF" and machine == {"x86_64": 62, "aarch64": 183}[made.arch]


@pytest.mark.parametrize(
    ("name", "register"), [("x86-64-v2", "xmm"), ("x86-64-v3", "ymm"), ("x86-64-v4", "zmm"), ("aarch64-neon", "v0.4s")]
)
def test_vectors_have_the_width_of_the_target(name, register):
    assert register in assembly(WIDE, named_target(name))


def test_the_host_is_described():
    found = host_target()
    assert found.vector_bytes in (16, 32, 64) and found.registers in (16, 32) and found is host_target()
    assert hash(found) == hash(host_target())


AVX512 = {"avx512f": True, "avx512bw": True, "avx512dq": True, "avx512vl": True}


@pytest.mark.parametrize(
    ("features", "width", "registers", "fma"),
    [
        ({"sse2": True}, 16, 16, False),
        ({"avx2": True, "fma": True}, 32, 16, True),
        ({"avx2": True, "fma": True, "avx512f": True}, 32, 16, True),
        ({"avx2": True, "fma": True, **AVX512}, 64, 32, True),
        ({"avx2": True, "fma": True, **AVX512, "avx512vl": False}, 32, 16, True),
    ],
)
def test_features_decide_on_registers(features, width, registers, fma):
    found = target_from_features("x86_64-unknown-linux-gnu", "any", features)
    assert (found.vector_bytes, found.registers, found.fma) == (width, registers, fma)


def test_features_are_in_the_target_whole():
    on = target_from_features("x86_64-unknown-linux-gnu", "any", {"fma": True, "avx2": True})
    assert on.features == "+avx2,+fma" and on != target_from_features("x86_64-unknown-linux-gnu", "any", {"fma": True})
    assert target_from_features("x86_64-pc-linux", "a", {"amx-bf16": True, "amx-tile": True}).amx_bf16
    assert target_from_features("arm64-apple-darwin", "a", {}).arch == "aarch64"


def test_an_unknown_processor_or_target_is_refused():
    with pytest.raises(UnsupportedError, match="riscv64"):
        target_from_features("riscv64-unknown-linux-gnu", "any", {})
    with pytest.raises(UnsupportedError, match="x86-64-v9"):
        named_target("x86-64-v9")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("  ret i64 3\n", "doesn't match function result type"),
        ("entry:\n  br label %a\na:\n  %y = add i32 %z, 1\n  %z = add i32 %y, 1\n  ret i32 %y\n", "does not dominate"),
    ],
    ids=["parse", "verify"],
)
def test_a_fault_names_the_function(body, reason):
    bad = "define i32 @bad(i32 %x) {\n" + body + "}\n"
    with pytest.raises(CodeError, match=reason) as caught:
        object_code(GOOD + bad + GOOD.replace("good", "better"), host_target())
    assert bad.strip() in str(caught.value) and "@good" not in str(caught.value)


def test_code_is_loaded_with_its_symbols():
    with LinkedCode([object_code(GOOD, host_target())], {}, ["good"]) as first:
        linked = LinkedCode([object_code(EXTERNAL, host_target())], {"elsewhere": first.address("good")}, ["calls"])
        assert INT(linked.address("calls"))(41) == 42
        linked.close()
        linked.close()
        with pytest.raises(KeyError):
            first.address("calls")


def test_functions_of_the_system_are_found():
    text = EXTERNAL.replace("elsewhere", "abs")
    with LinkedCode([object_code(text, host_target())], {}, ["calls"]) as linked:
        assert INT(linked.address("calls"))(-42) == 42


def test_a_missing_symbol_is_refused():
    with pytest.raises(CodeError, match=r"does not link.*calls"):
        LinkedCode([object_code(EXTERNAL, host_target())], {}, ["calls"])


GROWTH = """
from pathlib import Path

from tests.runtime.test_code import GOOD, INT, WIDE, LinkedCode, host_target, object_code

code = object_code(GOOD + WIDE, host_target())

def cycles(n):
    for _ in range(n):
        with LinkedCode([code], {}, ["good"]) as linked:
            assert INT(linked.address("good"))(1) == 2
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

before = cycles(300)
print(cycles(2000) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_loading_and_unloading_does_not_grow():
    assert int(script(GROWTH)) < 2**20  # in a process of its own, where no other test's threads allocate
