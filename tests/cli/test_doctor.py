"""The output of `wholestep doctor`, also in environments with faults."""

import io
import os
import re
import subprocess
import sys

import pytest

from wholestep import config
from wholestep.cli import doctor, main


@pytest.fixture(autouse=True)
def afresh(monkeypatch, tmp_path):
    for name in config.in_force():
        monkeypatch.delenv(name)
    monkeypatch.setenv("WHOLESTEP_CACHE", str(tmp_path / "cache"))
    config.reread()
    yield
    monkeypatch.undo()
    config.reread()


def told():
    """The exit code, each finding with its meaning, and the verdict."""
    out = io.StringIO()
    code = doctor.doctor(out)
    first, *lines, verdict = out.getvalue().splitlines()
    assert first == "wholestep doctor"
    names = [line[2:14].strip() for line in lines[::2]]
    pairs = zip((line[15:] for line in lines[::2]), (line[17:] for line in lines[1::2]), strict=True)
    return code, dict(zip(names, pairs, strict=True)), verdict


def test_every_finding_has_a_meaning_and_code_works():
    code, findings, verdict = told()
    assert (code, verdict) == (0, "compiled code works")
    assert list(findings) == list(doctor.LOOKS)
    assert all(found and meaning for found, meaning in findings.values())
    patterns = {
        "vectors": r"\d+ bits, \d+ registers, ",
        "threads": r"\d+ of \d+ logical processors",
        "memory": r"[\d.]+ GiB",
        "compiler": r"llvmlite [\d.]+\S*, LLVM \d+\.\d+\.\d+",
        "BLAS": r"SciPy \d",
    }
    assert [name for name, pattern in patterns.items() if not re.match(pattern, findings[name][0])] == []


def test_the_command_exists(capsys):
    assert main(["doctor"]) == 0
    assert "compiled code works" in capsys.readouterr().out


@pytest.mark.parametrize(("script", "found"), [("print(*range(9**5))", 141), ("print('\\u2588')", 0)])
def test_output_that_nobody_reads_or_no_terminal_can_show_is_no_traceback(script, found):
    run = f"from wholestep import cli; cli.run_command = lambda words: {script}; raise SystemExit(cli.main())"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", run], env=environment, **pipes) as process:
        if found:
            process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (found, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_output_on_a_full_disk_is_no_traceback():
    with open("/dev/full", "w") as full:
        run = [sys.executable, "-m", "wholestep", "doctor"]
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "wholestep: the output cannot be written: No space left on device\n"


def test_the_environment_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("WHOLESTEP_THREADS", "3")
    config.reread()
    _, findings, _ = told()
    assert findings["environment"] == (
        f"WHOLESTEP_CACHE={tmp_path / 'cache'}, WHOLESTEP_THREADS=3",
        "these override the defaults",
    )
    assert findings["threads"][1].startswith("decided by WHOLESTEP_THREADS")


def test_variables_that_nothing_reads_are_told(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_THREAD", "1")
    found, meaning = told()[1]["environment"]
    assert "WHOLESTEP_THREAD=1" in found
    assert meaning.startswith("nothing reads WHOLESTEP_THREAD; the variables are WHOLESTEP_THREADS, WHOLESTEP_CACHE")


def test_a_wrong_environment_is_a_finding(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_THREADS", "lots")
    config.reread()
    _, findings, _ = told()
    assert findings["threads"] == (
        "could not be found out",
        "ParameterError: WHOLESTEP_THREADS is 'lots': it must be a whole number from 1 to 256",
    )


@pytest.mark.parametrize(
    ("mode", "found", "meaning"),
    [(None, "0 entries, 0.0 of 256 MiB", "not made yet;"), (0o700, "0 entries", "private to this user;")],
)
def test_the_cache_is_judged(tmp_path, mode, found, meaning):
    if mode is not None:
        (tmp_path / "cache").mkdir(mode=mode)
    finding = told()[1]["cache"]
    assert found in finding[0] and finding[1].startswith(meaning)


def test_a_cache_that_others_can_read_is_named(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o755)
    found, meaning = told()[1]["cache"]
    assert found == "cannot be used" and "its mode must be 700; every process compiles again" in meaning


def test_a_cache_that_is_off_is_told(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_CACHE", "off")
    config.reread()
    assert told()[1]["cache"] == ("off", "every process compiles again")


def test_code_that_does_not_work_is_exit_code_1(monkeypatch):
    monkeypatch.setattr(doctor, "TRIAL", doctor.TRIAL.replace("fadd float %x, %x", "fadd float %x, 1.0"))
    code, _, verdict = told()
    assert code == 1 and "WRONG numbers" in verdict
    monkeypatch.setattr(doctor, "TRIAL", "define nonsense")
    code, _, verdict = told()
    assert code == 1 and verdict.startswith("compiled code does not work: CodeError: compile: LLVM refuses")
