"""`wholestep depth`: its measurements of stacks, and the plan of a deep GPT."""

import io

from wholestep.cli import main
from wholestep_tools import depth
from wholestep_tools.depth import Size


def test_a_whole_run(capsys, monkeypatch):
    tiny = Size(layers=2, width=8, heads=2, time=8, batch=2)
    monkeypatch.setattr(depth, "MODES", ("all", "inputs"))
    monkeypatch.setattr(depth, "command", lambda options: depth.depth(options.depths, 1, 1, tiny, tiny, io_out))
    io_out = io.StringIO()
    assert main(["depth", "--depths", "2,4", "--rounds", "1"]) == 0
    head, two, four, _, about, _, every, inputs = io_out.getvalue().splitlines()
    assert head.split() == "layers compile s operations kernels LLVM text code bytes parameters MB".split()
    assert two.split()[0] == "2" and four.split()[0] == "4" and two.split()[2:4] == four.split()[2:4]
    assert about == "2 layers, width 8, 2 texts of 8"
    assert every.split()[0] == "all" and inputs.split()[0] == "inputs" and every.split()[-1] == inputs.split()[-1]
    assert main(["depth", "--depths", "4,none"]) == 2
    assert "'none' is not an integer" in capsys.readouterr().err
    assert main(["depth", "--width", "3"]) == 2
    assert "--width: must be even, not 3" in capsys.readouterr().err


def test_the_plan_of_a_deep_gpt():
    arena = {keep: depth.planned(Size(), keep).arena for keep in ("all", "inputs", "sqrt")}
    assert arena["all"] < 1.6e9 and arena["inputs"] < 0.25 * arena["all"] and arena["sqrt"] < 0.95 * arena["inputs"]
