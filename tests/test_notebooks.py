"""The notebooks are the gallery's examples, cut into cells, with the outputs of a run."""

import json
import re

import pytest

from wholestep_tools.site import notebooks
from wholestep_tools.site.gallery import EXAMPLES, loaded


def test_eight_examples_are_notebooks_and_nothing_else_is():
    assert {file.stem for file in notebooks.FOLDER.iterdir()} == set(notebooks.CHOSEN)
    assert len(notebooks.CHOSEN) == 8


@pytest.mark.parametrize("name", notebooks.CHOSEN)
def test_a_notebook_is_its_example_and_was_run(name):
    text = (notebooks.FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    kept = json.loads(text)["cells"]
    assert [{key: cell[key] for key in ("cell_type", "source")} for cell in kept] == notebooks.cells(name)
    run = [cell for cell in kept if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in run] == list(range(1, len(run) + 1))
    outputs = [output for cell in run for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    (said,) = [output["text"] for output in outputs if output.get("name") == "stdout"]
    example = loaded(EXAMPLES / f"{name}.py")
    assert float(said.split()[0]) <= example.BOUND and example.QUANTITY in said
    assert not re.search(r"ipykernel|/home/|/tmp/|Users", text)
