"""A new project trains and passes its own tests, and shells complete commands and options."""

import os
import shutil
import subprocess
import sys
import tomllib

import pytest

from wholestep import cli
from wholestep.cli.completion import SHELLS, completed_words


def test_a_new_project_trains_resumes_and_passes_its_tests(tmp_path, capsys):
    project = tmp_path / "first-try"
    assert cli.main(["new", str(project)]) == 0
    assert "python train.py" in capsys.readouterr().out
    config = project / "config.toml"
    config.write_text(config.read_text().replace("epochs = 5", "epochs = 2"))
    assert tomllib.loads(config.read_text())["train"]["epochs"] == 2
    environment = {name: x for name, x in os.environ.items() if not name.startswith("PYTEST")}

    def run(*words):
        done = subprocess.run(
            [sys.executable, *words], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    first = run("train.py").splitlines()[-1]
    assert float(first.split()[-1]) > 0.8
    assert run("train.py").splitlines()[-1] == first
    assert "2 passed" in run("-m", "pytest", "-p", "no:cacheprovider")


@pytest.mark.parametrize(
    ("name", "message"), [("1st", "is no name of a project"), ("a b", "is no name"), ("full", "has files in it")]
)
def test_what_is_no_place_for_a_project_is_refused(name, message, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    assert cli.main(["new", str(tmp_path / name)]) == 1
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*.py")] == []


def test_a_project_is_made_in_the_present_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert cli.main(["new", "."]) == 0
    assert (tmp_path / "here" / "README.md").read_text().startswith("# here\n")


def test_an_option_that_a_command_lacks_gets_the_usage_of_the_command(capsys):
    assert cli.main(["train", "digits", "--lr", "x"]) == 2
    said = capsys.readouterr().err
    assert "usage: wholestep train digits" in said and "--epochs" in said and "unrecognized arguments: --lr x" in said


def test_the_version_is_told(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("wholestep ")


def script_of(shell, capsys):
    assert cli.main(["--completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_names_every_command_and_option(shell, capsys):
    script = script_of(shell, capsys)
    for at, said in completed_words(cli.parser()):
        for word in (*at.split(), *said):
            assert word.lstrip("-") in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to ask")
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("do", "doctor"),
        ("train dig", "digits"),
        ("export --o", "--out"),
        ("--ver", "--version"),
        ("new x --h", "--help"),
    ],
)
def test_bash_completes(typed, wanted, tmp_path, capsys):
    words = ["wholestep", *typed.split()]
    (tmp_path / "script").write_text(
        script_of("bash", capsys)
        + f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _wholestep; echo "${{COMPREPLY[@]}}"\n'
    )
    done = subprocess.run(["bash", str(tmp_path / "script")], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [wanted]
