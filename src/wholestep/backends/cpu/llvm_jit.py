"""Compilation of LLVM text to objects, and linking of objects into this process."""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from wholestep.backends.cpu.code_pages import release_code_pages
from wholestep.backends.cpu.cpu_features import CpuTarget, architecture, host_target
from wholestep.backends.cpu.gate import GATE
from wholestep.errors import WholestepError
from wholestep.exits import UNBROKEN
from wholestep.forks import Gate

LANES = tuple(Gate() for _ in range(4))
"""A lock for each thread that may be in LLVM's code generator at a time; a fork waits for all of them."""


class CodeError(WholestepError, RuntimeError):
    """Generated code that LLVM refuses: a fault of the compiler, never of the program that was compiled."""


@cache
def llvm_version() -> str:
    """The versions of llvmlite and of LLVM."""
    with GATE:
        import llvmlite
        import llvmlite.binding as llvm

    return f"{llvmlite.__version__} {'.'.join(map(str, llvm.llvm_version_info))}"


def code_identity(target: CpuTarget) -> dict[str, Any]:
    """The inputs of machine code beside its source, as JSON values: the target and the versions of LLVM."""
    return {"target": asdict(target), "llvm": llvm_version()}


@cache
def _initialized(own: bool) -> None:
    """Initialize LLVM for this process's own processor, or for all processors, which touches many more of its pages."""
    import llvmlite.binding as llvm

    if own:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    release_code_pages(llvm.ffi.get_library_name())


@cache
def target_machine(target: CpuTarget, opt: int = 3, lane: int = 0) -> Any:
    """LLVM's code generator for a target, in the small code model, and position independent where there is a loader;
    one for each lane, since two threads may not use the same one."""
    import llvmlite.binding as llvm

    _initialized(target.arch == architecture(llvm.get_process_triple()))
    options = {
        "cpu": target.cpu,
        "features": target.features,
        "opt": opt,
        "reloc": target.relocation,
        "codemodel": "small",
    }
    return llvm.Target.from_triple(target.triple).create_target_machine(**options)


def object_code(text: str, target: CpuTarget, *, opt: int = 3, lane: int = 0) -> bytes:
    """A relocatable object for LLVM text that names neither a triple nor a data layout.

    LLVM's passes before code generation do not run: the text is explicit about vectors and unrolling, so that none
    pays. The module is always verified; raises CodeError, with the function at fault, for text that LLVM refuses.
    Threads in different lanes generate code at the same time.
    """
    return _generated(text, target, opt, lane, assembly=False)


def linked_object(programs: Iterable[tuple[Sequence[str], Container[str]]], target: CpuTarget) -> bytes:
    """One relocatable object for several programs, each given by its modules and by the names that it exports.

    All other functions of a program have internal linkage, so that neither another program of the object nor the
    binary that the object is linked into can refer to them. Raises CodeError as `object_code` does.
    """
    with UNBROKEN, GATE:
        import llvmlite.binding as llvm

        maker = target_machine(target)
        head = f'target datalayout = "{maker.target_data}"\ntarget triple = "{target.triple}"\n'
        context = llvm.create_context()
        whole = llvm.parse_assembly(head, context)
        try:
            for texts, visible in programs:
                own = llvm.parse_assembly(head, context)
                for text in texts:
                    try:
                        own.link_in(llvm.parse_assembly(head + text, context))
                    except RuntimeError as error:
                        raise _refused(text, str(error), head.count("\n")) from None
                for function in own.functions:
                    if not function.is_declaration and function.name not in visible:
                        function.linkage = "internal"
                whole.link_in(own)
            whole.verify()
            made: bytes = maker.emit_object(whole)
            return made
        except RuntimeError as error:
            if isinstance(error, CodeError):
                raise
            raise _refused("", str(error), head.count("\n")) from None
        finally:
            whole.close()
            context.close()


def assembly(text: str, target: CpuTarget, *, opt: int = 3) -> str:
    """The code of `object_code` as assembly text; raises CodeError as it does."""
    return _generated(text, target, opt, 0, assembly=True).decode()


def _generated(text: str, target: CpuTarget, opt: int, lane: int, *, assembly: bool) -> bytes:
    # A fork takes the lanes before the gate, as this does.
    with UNBROKEN, LANES[lane]:
        with GATE:
            import llvmlite.binding as llvm

            maker = target_machine(target, opt, lane)
            head = f'target datalayout = "{maker.target_data}"\ntarget triple = "{target.triple}"\n'
            # A context of its own, so that types and constants go with the module, and no other thread has it.
            context = llvm.create_context()
            try:
                module = llvm.parse_assembly(head + text, context)
            except RuntimeError as error:
                context.close()
                raise _refused(text, str(error), head.count("\n")) from None
        try:
            with GATE:
                module.verify()
            return _machine_code(maker, module, assembly=assembly)
        except RuntimeError as error:
            raise _refused(text, str(error), head.count("\n")) from None
        finally:
            with GATE:
                module.close()
                context.close()


def _machine_code(maker: Any, module: Any, *, assembly: bool) -> bytes:
    """The object or assembly of a module; RuntimeError, with LLVM's message, for one that it refuses."""
    library, message = _library(), ctypes.c_void_p()
    made = library.LLVMPY_TargetMachineEmitToMemory(maker, module, int(not assembly), ctypes.byref(message))
    if not made:
        words = ctypes.string_at(message.value or b"").decode(errors="replace")
        library.LLVMPY_DisposeString(message)
        raise RuntimeError(words)
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(made), library.LLVMPY_GetBufferSize(made))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(made)


@cache
def _library() -> ctypes.CDLL:
    """llvmlite's library without the lock that it holds around each call: LLVM asks for none where threads share
    neither a context nor a target machine (LLVM Programmer's Manual, "Threads and LLVM")."""
    import llvmlite.binding as llvm

    library, pointer = ctypes.CDLL(llvm.ffi.lib._name), ctypes.c_void_p
    for name, result, *arguments in (
        ("TargetMachineEmitToMemory", pointer, pointer, pointer, ctypes.c_int, ctypes.POINTER(pointer)),
        ("GetBufferStart", pointer, pointer),
        ("GetBufferSize", ctypes.c_size_t, pointer),
        ("DisposeMemoryBuffer", None, pointer),
        ("DisposeString", None, pointer),
    ):
        function = getattr(library, f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _refused(text: str, message: str, shift: int) -> CodeError:
    """The error for text that LLVM refuses, with the function at fault."""
    return CodeError(f"compile: LLVM refuses generated code: {message.strip()}\n{_culprit(text, message, shift)}")


def _culprit(text: str, message: str, shift: int) -> str:
    """The function that a message of LLVM is about: by its line, or by an instruction that the message quotes."""
    functions = re.findall(r"^define[^\n]*\{\n.*?^\}", text, re.DOTALL | re.MULTILINE)
    place = re.search(r"<string>:(\d+):", message)
    if place:
        line = int(place[1]) - shift
        starts = {text[: text.index(f)].count("\n") + 1: f for f in functions}
        around = [f for first, f in starts.items() if first <= line <= first + f.count("\n")]
        return around[0] if around else "\n".join(text.splitlines()[line - 1 : line])
    quoted = {quote for quote in map(_squeezed, message.splitlines()) if len(quote) > 5}
    scores = [sum(_squeezed(line) in quoted for line in f.splitlines()) for f in functions]
    return functions[scores.index(max(scores))] if any(scores) else text


def _squeezed(line: str) -> str:
    return "".join(line.split())


class LinkedCode:
    """Machine code in this process; the addresses hold until `close`, or until the object is collected."""

    def __init__(self, objects: Iterable[bytes], symbols: Mapping[str, int], exports: Iterable[str]) -> None:
        """Load objects made for this process; raises CodeError for a symbol that is neither in `symbols` nor here."""
        with UNBROKEN, GATE:
            import llvmlite.binding as llvm

            builder = llvm.JITLibraryBuilder().add_current_process()
            for data in objects:
                builder.add_object_img(data)
            for name, address in symbols.items():
                builder.import_symbol(name, address)
            for name in exports:
                builder.export_symbol(name)
            # One engine for each library: a shared engine would keep 10 KB of every library that it has unloaded.
            engine = llvm.create_lljit_compiler(target_machine(host_target()), use_jit_link=True)
            try:
                self._library = builder.link(engine, "wholestep")
            except RuntimeError as error:
                engine.close()
                raise CodeError(f"compile: machine code does not link: {str(error).strip()}") from None
        self._unload = weakref.finalize(self, _unload, self._library, engine)
        self._unload.atexit = False  # a thread may still be running this code

    def address(self, name: str) -> int:
        """Return the address of an exported symbol; raises KeyError for one that was not requested."""
        return int(self._library[name])

    def close(self) -> None:
        """Unload the code; nothing may be running in it. Closing twice does nothing."""
        self._unload()

    def __enter__(self) -> LinkedCode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unload(library: Any, engine: Any) -> None:
    if UNBROKEN.closed:  # the process ends, and llvmlite may be half gone
        library.detach()
        engine.detach()
        return
    with UNBROKEN, GATE:
        library.close()
        engine.close()
