"""The figures that are aimed at, each with the audit whose record has it, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Promise(NamedTuple):
    """A promise and its size; the audit and the counts of its record that tell how far it was tested; or why there is
    no record, or one that is smaller."""

    what: str
    stated: str
    audit: str = ""
    counts: tuple[str, ...] = ()
    remark: str = ""


CORRECTNESS = (
    Promise(
        "a compiled training step is as close to float64 as NumPy, to a small factor",
        "10,000 random steps",
        "steps",
        ("training steps",),
    ),
    Promise(
        "primitives on a card give the CPU's results, by OpenCL on PoCL",
        "all primitives that no library computes",
        "opencl",
        ("primitives", "results of the same bits", "results to rounding"),
    ),
    Promise(
        "primitives on a card give the CPU's results, by WebGPU on lavapipe",
        "all primitives that no library computes, in float32",
        "webgpu",
        ("primitives", "results of the same bits", "results to rounding"),
    ),
    Promise(
        "training steps on a card are as close to float64 as NumPy, by OpenCL on an NVIDIA H200",
        "2,000 steps",
        "openclsteps",
        ("training steps",),
        "limited to 75 seconds on a card",
    ),
    Promise(
        "training steps on a card are as close to float64 as NumPy, by WebGPU on an NVIDIA H200",
        "2,000 steps",
        "webgpusteps",
        ("training steps",),
        "limited to 24 seconds on a card",
    ),
    Promise(
        "kernels compile for NVIDIA cards, and those of a step spill no register",
        "all of the laws and workloads, for three architectures",
        "cudakernels",
        ("kernels of primitives", "kernels of workloads"),
    ),
    Promise(
        "primitives by CUDA on an NVIDIA H200 give the CPU's results",
        "all primitives that no library computes, on an NVIDIA card",
        "cuda",
        ("primitives", "results of the same bits", "results to rounding"),
    ),
    Promise(
        "training steps by CUDA are as close to float64 as NumPy",
        "5,000 steps on an NVIDIA card",
        "cudasteps",
        ("training steps",),
        "limited to 30 seconds on an H200",
    ),
    Promise(
        "random programs and their gradients give JAX's results", "2,000 programs", "jax", ("of them agreed with JAX",)
    ),
    Promise(
        "derivatives of every primitive satisfy all laws",
        "150 primitives, 20,000 checks",
        "gradients",
        (
            "primitives",
            "checks",
        ),
    ),
    Promise("invalid calls raise documented errors", "5,000 calls", "refusals", ("calls", "functions")),
    Promise(
        "results are the same for every way to compile and run a program",
        "1,000 programs, 12 ways",
        "ways",
        (
            "programs",
            "runs",
        ),
    ),
    Promise(
        "calls that other libraries computed wrongly are right here",
        "60 public reports",
        "reports",
        ("reports",),
    ),
    Promise(
        "the tests detect planted faults",
        "500 faults, 95% of them detected",
        "mutants",
        ("faults planted", "of them noticed"),
    ),
    Promise(
        "the tests of the Array API standard pass",
        "all of them, 500 examples each",
        remark="these tests are no installable package, and need a library with arrays of its own: programs here "
        "call NumPy, each covered call of which the tests compare with it",
    ),
    Promise("micro-batches give the result of the whole batch", "1,000 configurations", "accumulation", ("settings",)),
    Promise(
        "operators of ONNX give the numbers of the onnx package, or are refused",
        "1,500 cases",
        "onnx",
        ("passed", "refused", "cases"),
    ),
    Promise(
        "networks that PyTorch exports as ONNX give ONNX Runtime's numbers, and train",
        "8 networks",
        "onnxmodels",
        ("models", "trained"),
    ),
    Promise(
        "primitives that are written for another library compute the same there, or are refused",
        "all samples of all primitives",
        "exports",
        tuple(
            [
                f"{fate} {target}"
                for target in ("numpy", "jax", "torch", "tensorflow", "onnx")
                for fate in ("right in", "refused by")
            ]
        ),
    ),
    Promise(
        "programs that are printed as C have the same bits, those by formulas the same numbers, or are refused",
        "all samples of all primitives",
        "csource",
        ("samples", "programs of the same bits"),
        "the others are by formulas or need a library",
    ),
    Promise(
        "exported programs give the same numbers",
        "30 models on each target",
        "parity",
        (
            "training steps",
            *[
                f"{fate} {target}"
                for target in ("numpy", "jax", "torch", "tensorflow", "onnx", "c", "object", "wasm")
                for fate in ("trained in", "refused by")
            ],
        ),
        "Core ML itself runs on machines of Apple alone",
    ),
    Promise(
        "a graph means the same after each pass",
        "all steps of the first line",
        "passes",
        (
            "programs",
            "passes over them",
        ),
    ),
)
NUMERICS = (
    Promise(
        "float32 functions are within 2 units in the last place",
        "20 functions on all inputs",
        "functions",
        ("functions", "of them on all inputs"),
        "the failures are functions of larger errors, of which docs/accuracy.md has a table",
    ),
    Promise(
        "float64 functions by ball arithmetic",
        "1,000 worst inputs of each, 100,000,000 points",
        "functions",
        ("points of float64",),
        "with a search uphill from the worst; the failures are those of the line above",
    ),
    Promise(
        "losses in float32 stay close to those in float64",
        "1,000 steps of 5 models",
        "drift",
        ("trainings", "steps of each"),
    ),
    Promise(
        "functions have the same bits on other devices",
        "10,000,000 inputs of each",
        remark="devices are promised the bits of the CPU for integers alone; samples of all primitives are compared "
        "above, and the page on accuracy says what WebGPU computes otherwise",
    ),
    Promise(
        "a page's script computes the host's numbers with the bits of the interpreter",
        "1,000,000 numbers",
        "hostnumbers",
        ("numbers", "programs"),
    ),
    Promise("errors of sums, products and norms stay within a bound", "10,000 hostile operands", "sums", ("operands",)),
    Promise(
        "training in half precision reaches the loss of float32",
        "1,000 steps of 5 models",
        "precision",
        ("steps in each precision",),
        "of one model",
    ),
    Promise("the processor's rounding mode stays unchanged", "every load and call", "modes", ("programs loaded",)),
    Promise("interval arithmetic encloses compiled results", "500 programs", remark="there is no interval mode"),
)
RESUMPTION = (
    Promise(
        "training has the same bits for any number of threads and of steps a call, in every mode",
        "30 models, threads and steps to 16",
        "bits",
        ("random trainings of fifty steps", "ways to train them, each with the same bits"),
        "threads to 4, steps to 10",
    ),
    Promise(
        "training has the same bits in another process",
        "30 models, 1,000 steps",
        "twins",
        (
            "trainings",
            "processes",
        ),
    ),
    Promise("interrupted training resumes to the same bits", "1,000 interruptions", "resume", ("interruptions",)),
    Promise("a process that is killed loses nothing that was saved", "2,000 kills", "kill", ("kills",)),
    Promise(
        "a failure of any file system call during a save is survived",
        "each call in each way",
        "kill",
        (
            "saves with: error",
            "saves with: interrupted",
            "saves with: full",
            "saves with: crash",
            "saves with: power cut",
        ),
    ),
    Promise("each flipped bit and each cut in a checkpoint is detected", "100,000 files", "damage", ("damages",)),
    Promise(
        "a state can be moved to a browser and back",
        "5 models",
        "pages",
        ("trained in a page, and on here", "checkpoints to a page", "checkpoints from a page", "refused by pages"),
        "by SwiftShader, without a card; modules of WebAssembly run in Node with the tests",
    ),
    Promise(
        "Ctrl-C and SIGTERM end training in order",
        "1,000 signals",
        "resume",
        ("of them by SIGINT", "of them by SIGTERM"),
    ),
)
HOSTILE = (
    Promise("a checkpoint with any contents loads or raises a CheckpointError", "200,000 files", "files", ("files",)),
    Promise(
        "a header with any contents is parsed or refused by one error", "5,000,000 headers", "headers", ("headers",)
    ),
    Promise("whatever an ONNX file holds, reading ends in one error", "500,000 files", "onnxfiles", ("damaged files",)),
    Promise(
        "whatever a file of an exported program holds, reading it ends in one refusal",
        "2,000 files",
        "exportfiles",
        ("damaged files",),
    ),
    Promise("whatever the text of a graph holds, parsing ends in one error", "500,000 texts", "texts", ("texts",)),
    Promise("no file leads out of its folder", "2,000 names of files", "paths", ("names",)),
    Promise("names of users never become part of code", "100,000 names", "names", ("names",)),
    Promise("names of users never become part of markup", "1,000 names", "markup", ("names",)),
    Promise("exported sources hold names only as data", "5,000 names", "exportednames", ("names",)),
)
CACHING = (
    Promise("a damaged entry is never loaded", "20,000 entries", "entries", ("entries",)),
    Promise(
        "a cache stays sound when processes that fill it together are killed", "500 rounds of 32", "rivals", ("rounds",)
    ),
    Promise(
        "the key contains everything that the code depends on",
        "each input, 10,000 pairs of graphs",
        "keys",
        (
            "programs",
            "things that a key depends on, changed one at a time",
        ),
    ),
    Promise("an unusable folder causes a warning and no error", "every fault", "folders", ("kinds of trouble",)),
)
ENDURANCE = (
    Promise("the memory of a step does not grow with its calls", "1,000,000 calls", "calls", ("calls",)),
    Promise("released programs free their memory", "5,000 programs", "shapes", ("programs",)),
    Promise(
        "threads share steps and programs",
        "16 threads, 10,000 calls each",
        "threads",
        (
            "threads on one step",
            "calls of each",
        ),
        "without a thread sanitizer and without a free-threaded interpreter",
    ),
    Promise("a forked child works or is refused, and never hangs", "1,000 forks", "fork", ("forks",)),
    Promise(
        "an allocation that fails leaves the state as it was",
        "every allocation",
        "allocations",
        ("allocations that failed",),
        "those of the runtime",
    ),
    Promise(
        "a program uses the predicted memory",
        "2,000 programs",
        "memory",
        ("programs run in guarded memory", "of them within a budget"),
    ),
    Promise("a stack in files trains to the same bits", "60 stacks", "stream", ("stacks compared",)),
    Promise(
        "the loss of a device is reported",
        "every device",
        remark="the loss of a WebGPU device is planted in its calls by the tests; OpenCL has no such event",
    ),
)
GUARDS = (
    Promise("the first operation that makes nan or infinity is named", "3,000 places", "origins", ("faults",)),
    Promise("a step that overflows changes nothing but its scale", "1,000 trainings", "scales", ("trainings",)),
    Promise("trainings without a fault raise no alarm", "1,000 trainings", "alarms", ("trainings",)),
)
WORKERS = (
    Promise(
        "several workers give the result of one worker on the joined batch",
        "200 configurations of 8 workers",
        "workers",
        ("configurations",),
        "of 1 to 4 processes, and of 8 threads in the place of processes",
    ),
    Promise(
        "faults of workers are survived or reported",
        "1,000 faults",
        "lostworkers",
        ("kills",),
        "SIGKILL alone, of one in two",
    ),
    Promise(
        "malicious messages are refused",
        "500,000 messages",
        remark="there is no format of messages to be parsed: MPI or PyTorch moves arrays whose sizes both sides know",
    ),
)
ROOMS: Mapping[str, tuple[Promise, ...]] = {
    "Correctness": CORRECTNESS,
    "Numerics": NUMERICS,
    "Determinism and resumption": RESUMPTION,
    "Hostile files, texts and names": HOSTILE,
    "The cache of compiled code": CACHING,
    "Endurance, threads, forks and memory": ENDURANCE,
    "Guards and loss scales": GUARDS,
    "Workers": WORKERS,
}
