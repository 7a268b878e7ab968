"""`wholestep export` writes the step of a script, and runs the written file before it reports success."""

import importlib.util
import json
import shutil
import sys
import textwrap

import numpy as np
import pytest

from wholestep.cli import export, main, run_exports

SCRIPT = """
import sys
import numpy as np
import wholestep as ws

rng = np.random.default_rng(0)
params, x = {"w": rng.normal(size=(4, 3))}, rng.normal(size=(10, 4))
trained = ws.compile(lambda p, x: np.mean(np.tanh(x @ p["w"]) ** 2), params, optimizer=ws.optim.adam(0.1), batch=x)
if "idle" not in sys.argv:
    trained(x)
if "save" in sys.argv:
    trained.save("kept.safetensors")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "training.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    return tmp_path / "training.py"


def test_a_step_is_written_and_compared(script, capsys):
    assert main(["export", "--to", "numpy", "--out", "line.py", "--step", "trained", str(script)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["wrote line.py", "wrote line.safetensors"]
    assert said[2].startswith("compared: the losses of 3 calls differ by ")


@pytest.mark.parametrize(
    ("target", "file", "needs"),
    [
        ("onnx", "line.onnx", "onnxruntime"),
        ("c", "line.c", "cc"),
        ("object", "line.o", "cc"),
        ("wasm", "line.wasm", "node"),
        ("coreml", "line.mlpackage", "coremltools"),
        ("litert", "line.tflite", "tensorflow"),
        ("tf", "line.py", "tensorflow"),
        ("jax", "line.py", "jax"),
        ("torch", "line.py", "torch"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_each_file_is_run_where_something_runs_it(script, capsys, target, file, needs):
    if shutil.which(needs) is None and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs}, which runs the file, is not installed")
    narrow = ["--narrow"] if target in ("coreml", "litert") else []
    assert main(["export", "--to", target, *narrow, "--out", file, "--step", "trained", str(script)]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("compared: the losses of 3 calls differ by ")
    assert ("Core ML itself was not run" in said) == (target == "coreml")


@pytest.mark.parametrize(("target", "file"), [("page", "line.html"), ("module", "line.mjs"), ("npm", "line")])
def test_what_runs_in_a_browser_is_written_and_not_compared(script, capsys, target, file):
    script.write_text(SCRIPT.replace("rng.normal(size=", "np.ones(dtype='f', shape="), encoding="utf-8")
    assert main(["export", "--to", target, "--out", file, "--step", "trained", str(script)]) == 0
    *wrote, last = capsys.readouterr().out.splitlines()
    assert all([line.startswith("wrote line") for line in wrote]) and last.startswith("not compared: ")


def test_a_step_of_symbolic_rows_runs_in_onnx_runtime(script, capsys):
    pytest.importorskip("onnxruntime")
    text = script.read_text(encoding="utf-8")
    symbolic = text.replace("batch=x)", 'batch=ws.ShapeDtype((ws.Dim("rows"), 4), "float64"))\nbatch = x')
    script.write_text(symbolic, encoding="utf-8")
    assert main(["export", "--to", "onnx", "--out", "line.onnx", "--step", "trained", str(script)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("compared: the losses of 3 calls differ by ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("trained(x)", "trained(x)\nfor batch in np.split(x, [6]):\n    np.mean(batch)"),
        ("trained(x)", "trained(x)\nbatch = 'a name of something else'"),
        ("trained(x)", "trained(x * np.nan)\nbatch = x * np.nan"),
        ("batch=x)", 'batch=ws.ShapeDtype((ws.Dim("rows"), 4), "float64"))'),
        ("batch=x)", "batch=np.stack([x, x]), steps_per_call=2)\nx = batch = np.stack([x, x])"),
    ],
)
def test_the_batch_is_one_that_the_step_takes(script, capsys, before, after):
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace(before, after), encoding="utf-8")
    assert main(["export", "--to", "numpy", "--out", "line.py", "--step", "trained", str(script)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("compared: the losses of 3 calls differ by ")


def test_batches_of_bfloat16_go_to_pytorch(script, capsys):
    pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace("trained = ", 'x = x.astype("bfloat16")\ntrained = '), encoding="utf-8")
    assert main(["export", "--to", "torch", "--out", "line.py", "--step", "trained", str(script)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("compared: the losses of 3 calls differ by ")


@pytest.mark.parametrize(
    ("target", "file", "says"), [("c", "line.c", "no C compiler here"), ("wasm", "line.wasm", "no node here")]
)
def test_what_is_not_run_says_why(script, capsys, monkeypatch, target, file, says):
    monkeypatch.setattr(run_exports.shutil, "which", lambda name: None)
    assert main(["export", "--to", target, "--out", file, "--step", "trained", str(script)]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("not compared: ") and says in said


def test_a_source_whose_library_is_not_here_says_so(script, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["export", "--to", "torch", "--out", "line.py", "--step", "trained", str(script)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("not compared: what it imports is not here")


def test_c_that_no_compiler_takes_is_no_success(script, capsys, monkeypatch):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(run_exports, "DRIVER", run_exports.DRIVER.replace("return 0;", "return zero;"))
    assert main(["export", "--to", "c", "--out", "line.c", "--step", "trained", str(script)]) == 1
    assert "the C compiler refuses it" in capsys.readouterr().err


def test_a_checkpoint_is_taken_over(script, capsys):
    words = ["--to", "numpy", "--step", "trained"]
    assert main(["export", *words, "--out", "a.py", str(script), "save"]) == 0
    assert main(["export", *words, "--out", "b.py", "--load", "kept.safetensors", str(script), "idle"]) == 0
    assert capsys.readouterr().out.endswith(
        "not compared: the script never calls the step, and has no variable 'batch' to call it with\n"
    )
    assert (script.parent / "b.safetensors").read_bytes() == (script.parent / "a.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "numpy", "--out", "training.py"], "is the script itself"),
        (["--to", "numpy", "--out", "a.py"], "defines no step 'step'"),
        (["--out", "a.py"], "may be for jax"),
    ],
)
def test_what_cannot_be_done_is_said(script, capsys, words, said):
    assert main(["export", *words, str(script)]) == 1
    assert said in capsys.readouterr().err
    assert not (script.parent / "a.py").exists()


def test_a_file_that_computes_something_else_is_no_success(script, capsys, monkeypatch):
    monkeypatch.setitem(
        export.RUNNERS, "numpy", lambda path, given, calls, after: [float(np.mean(given["batch"]))] * calls
    )
    assert main(["export", "--to", "numpy", "--out", "line.py", "--step", "trained", str(script)]) == 1
    assert "the losses of the file are" in capsys.readouterr().err


def test_the_page_of_digits_has_its_data_and_a_field_to_draw_on(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="the digits are those of scikit-learn")
    monkeypatch.chdir(tmp_path)
    assert main(["export", "digits", "--page"]) == 0
    assert capsys.readouterr().out.startswith("wrote digits.html\n")
    text = (tmp_path / "digits.html").read_text(encoding="utf-8")
    program = json.loads(text.partition('<script id="program" type="application/json">')[2].partition("</script>")[0])
    (drawn,) = program["functions"].values()
    assert [x["shape"] for x in (*drawn["inputs"], *drawn["outputs"])] == [[8, 8], [10]]
    assert program["rows"]["count"] > 1000 and len(program["rows"]["data"]) == 2
    with pytest.raises(SystemExit):
        main(["export", "digits"])
