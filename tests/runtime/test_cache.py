"""The cache on disk: damage, rivals, keys, and folders that cannot be trusted or written."""

import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from wholestep import config
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.backends.cpu.llvm_jit import code_identity
from wholestep.runtime.cache import code_cache, private_folder
from wholestep.runtime.cache.private_folder import CacheEntry, FolderUnusable, PrivateFolder
from wholestep_tools.audit.caching.entries import DAMAGE
from wholestep_tools.audit.caching.folders import TROUBLES, problem
from wholestep_tools.audit.caching.rivals import rivals

pytestmark = pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="the system has no such folders")

NAME = "0" * 64
ENTRY = CacheEntry((b"code" * 100, b"", bytes(range(256))), {"entry": "main", "slots": [1, 2]})
V3 = named_target("x86-64-v3")


@pytest.fixture
def place(tmp_path):
    return PrivateFolder(tmp_path / "a" / "b")


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Pretend that the sources are older than the process, so that entries are kept."""
    monkeypatch.setattr(code_cache, "_STARTED", time.time() + 1e9)
    code_cache.code_version.cache_clear()
    yield
    monkeypatch.undo()
    code_cache.code_version.cache_clear()


@pytest.fixture
def asked(monkeypatch):
    """A function that sets WHOLESTEP_CACHE, and resets the warnings that were given."""

    def ask(value):
        monkeypatch.setattr(code_cache, "_warned", [])
        monkeypatch.delenv("WHOLESTEP_CACHE", raising=False)
        if value is not None:
            monkeypatch.setenv("WHOLESTEP_CACHE", str(value))
        config.reread()

    yield ask
    monkeypatch.undo()
    config.reread()


class Maker:
    """Counts how often it is asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return ENTRY


def test_what_is_kept_comes_back(place):
    assert place.get(NAME) is None and place.usage() == (0, 0) and place.state() == "not made yet"
    place.put(NAME, ENTRY)
    assert place.get(NAME) == ENTRY and place.get("1" * 64) is None
    assert (
        place.usage() == (1, len(b"".join(private_folder.encode_entry(NAME, ENTRY))))
        and place.state() == "private to this user"
    )


def test_the_folder_and_its_files_are_private(place):
    place.put(NAME, ENTRY)
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in [*place.place.iterdir(), place.place, place.place.parent]
    }
    assert modes == {NAME + ".code": 0o600, "b": 0o700, "a": 0o700}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_never_believed(place, kind):
    draw = random.Random(kind)
    place.put(NAME, ENTRY)
    file = place.place / (NAME + ".code")
    whole = file.read_bytes()
    for _ in range(34):
        file.write_bytes(DAMAGE[kind](whole, draw))
        assert place.get(NAME) is None
    place.put(NAME, ENTRY)
    assert place.get(NAME) == ENTRY


def test_an_entry_that_is_no_plain_file_of_this_user_is_never_believed(place, monkeypatch):
    place.put(NAME, ENTRY)
    file, real = place.place / (NAME + ".code"), place.place / "real"
    file.rename(real)
    file.symlink_to(real)
    assert place.get(NAME) is None
    file.unlink()
    os.mkfifo(file)
    assert place.get(NAME) is None
    file.unlink()
    file.mkdir()
    assert place.get(NAME) is None
    file.rmdir()
    real.rename(file)
    assert place.get(NAME) == ENTRY
    file.chmod(0o622)
    assert place.get(NAME) is None
    file.chmod(0o600)
    monkeypatch.setattr(private_folder, "MAX_ENTRY_BYTES", 100)
    assert place.get(NAME) is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_refused(place):
    place.put(NAME, ENTRY)
    file = place.place / (NAME + ".code")
    os.chown(file, 12345, -1)
    assert place.get(NAME) is None
    os.chown(file, 0, -1)
    assert place.get(NAME) == ENTRY
    for path in (place.place, place.place.parent):
        os.chown(path, 12345, -1)
        for call in (lambda: place.get(NAME), lambda: place.put(NAME, ENTRY), place.state, place.usage):
            with pytest.raises(FolderUnusable, match="belongs to another user"):
                call()
        os.chown(path, 0, -1)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o740, 0o704])
def test_a_folder_that_is_open_to_others_is_refused(place, mode):
    place.put(NAME, ENTRY)
    place.place.chmod(mode)
    for call in (lambda: place.get(NAME), lambda: place.put(NAME, ENTRY)):
        with pytest.raises(FolderUnusable, match="open to other users; its mode must be 700"):
            call()


@pytest.mark.parametrize(("mode", "fine"), [(0o755, True), (0o1777, True), (0o775, False), (0o757, False)])
def test_a_parent_that_others_can_write_is_refused(place, mode, fine):
    place.put(NAME, ENTRY)
    place.place.parent.chmod(mode)
    if fine:
        assert place.get(NAME) == ENTRY
    else:
        with pytest.raises(FolderUnusable, match="other users can write"):
            place.get(NAME)


def test_a_folder_behind_a_symbolic_link_is_refused(place):
    place.put(NAME, ENTRY)
    link = place.place.parent / "link"
    link.symlink_to(place.place)
    with pytest.raises(FolderUnusable, match="link"):
        PrivateFolder(link).get(NAME)


def test_the_oldest_entries_go_when_the_folder_is_full(place):
    each = len(b"".join(private_folder.encode_entry(NAME, ENTRY)))
    place.cap = 3 * each
    for k in range(4):
        place.put(str(k) * 64, ENTRY)
        os.utime(place.place / (str(k) * 64 + ".code"), (k, k))
        if k == 2:
            assert place.get("0" * 64) == ENTRY  # used last, so that entry 1 is the oldest
    assert [place.get(str(k) * 64) is not None for k in range(4)] == [True, False, True, True]
    assert place.usage() == (3, 3 * each)
    place.cap = each - 1
    place.put("5" * 64, ENTRY)
    assert place.get("5" * 64) is None


def test_what_dead_writers_left_is_removed(place):
    place.put(NAME, ENTRY)
    left = [place.place / f"{k}.tmp" for k in range(2)]
    for file, age in zip(left, (10, 7200), strict=True):
        file.write_bytes(b"half")
        os.utime(file, (time.time() - age,) * 2)
    place.put(NAME, ENTRY)
    assert [file.exists() for file in left] == [True, False]


FACTS = {"text": "graph", "backend": code_identity(V3), "flags": {"fast": False}}


@pytest.mark.parametrize(
    "change",
    [
        {"text": "graph "},
        {"backend": code_identity(named_target("x86-64-v4"))},
        {"flags": {"fast": True}},
        {"flags": {}},
        {"flags": {"fast": "False"}},
        {"backend": code_identity(replace(V3, features="+avx2"))},
        {"backend": code_identity(V3) | {"llvm": "another"}},
    ],
)
def test_everything_that_code_depends_on_is_in_the_key(change):
    assert code_cache.cache_key(**FACTS) == code_cache.cache_key(**FACTS) != code_cache.cache_key(**FACTS | change)


@pytest.mark.parametrize("fact", ["code_version", "process_abi"])
def test_what_makes_the_code_is_in_the_key(fact, monkeypatch):
    before = code_cache.cache_key(**FACTS)
    monkeypatch.setattr(code_cache, fact, lambda: "another")
    assert code_cache.cache_key(**FACTS) != before


def test_flags_are_a_set():
    assert code_cache.cache_key("g", {}, {"a": 1, "b": 2}) == code_cache.cache_key("g", {}, {"b": 2, "a": 1})


def test_every_source_that_makes_code_is_in_its_version():
    root = Path(config.__file__).parent
    patterns = ("*.py", *[f"{name}/**/*.py" for name in code_cache.PACKAGES])
    files = [str(file.relative_to(root)) for pattern in patterns for file in root.glob(pattern)]
    assert code_cache.source_files(str(root)) == sorted(files)
    assert all(any(file.startswith(name) for file in files) for name in code_cache.PACKAGES)
    assert len(code_cache.code_version()) == 64


def test_a_flag_that_is_no_plain_value_is_refused():
    """An object without a stable value, such as the address of a function, would differ between processes."""
    with pytest.raises(TypeError):
        code_cache.cache_key("g", code_identity(V3), {"pass": object()})


def test_code_of_sources_that_changed_while_they_ran_is_not_kept(asked, tmp_path, monkeypatch):
    asked(tmp_path / "cache")
    monkeypatch.setattr(code_cache, "_STARTED", 0.0)
    make = Maker()
    for _ in range(2):
        assert code_cache.cached_code("g", {}, {}, make) == ENTRY
    assert make.calls == 2 and not (tmp_path / "cache").exists()


def test_a_program_is_made_once(asked, tmp_path):
    asked(tmp_path / "cache")
    make = Maker()
    for _ in range(3):
        assert code_cache.cached_code("g", {}, {}, make) == ENTRY
    assert make.calls == 1
    code_cache.cached_code("h", {}, {}, make)
    assert make.calls == 2


def test_the_cache_can_be_off(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked("off")
    make = Maker()
    for _ in range(2):
        code_cache.cached_code("g", {}, {}, make)
    assert make.calls == 2 and not list(tmp_path.iterdir())


def test_the_folder_is_where_the_user_keeps_such_things(asked, tmp_path, monkeypatch):
    asked(None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert code_cache.cache_folder().place == tmp_path / "xdg" / "wholestep"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert code_cache.cache_folder().place.parent.parent in (tmp_path, tmp_path / "Library")
    asked(tmp_path / "mine")
    assert code_cache.cache_folder().place == tmp_path / "mine"


@pytest.mark.parametrize("name", TROUBLES)
def test_whatever_the_system_refuses_is_one_warning(tmp_path, name):
    assert problem(name, tmp_path) == ""


def test_a_warning_that_does_not_come_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(code_cache, "_warn", lambda error: None)
    assert "warnings" in problem("a file in its place", tmp_path)


def test_rivals_that_are_killed_leave_nothing_wrong(tmp_path):
    found = rivals(tmp_path, rounds=2, children=8, seed=7)
    assert not found["failures"] and found["killed"] == 6
