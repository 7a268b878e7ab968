"""`wholestep bench links` counts bytes as they are predicted, and says where it cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wholestep.cli import main
from wholestep.errors import CommandError
from wholestep_tools.bench import links
from wholestep_tools.bench.links_worker import Counted, train


class Equals:
    """A communicator of three processes that all send the same."""

    rank, size = 0, 3

    def all_gather(self, send: Any, receive: Any) -> None:
        receive[:] = send

    def all_to_all(self, send: Any, receive: Any) -> None:
        receive[:] = send[self.rank]


def test_a_step_sends_the_bytes_that_are_predicted() -> None:
    found = train(Counted(Equals()), 20e6)
    assert found["bytes"] == found["predicted_bytes"] > 5_000_000
    assert found["predicted"] > found["bytes"] / 20e6, "frames are longer than what they hold"


def test_a_row_tells_how_far_the_prediction_is_off() -> None:
    row = links.Row(processes=2, predicted=0.2, measured=0.25, predicted_bytes=10, bytes=10, latency=1e-4)
    assert links.cells_of(row) == ["2", "10", "10", "200.0", "250.0", "1.25"]


def test_without_network_namespaces_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CommandError, match="there is no ip"), links.network(2, 1e6):
        pass


def test_a_record_that_cannot_be_written_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "links", "--json", str(tmp_path / "none" / "links.json")]) == 1
    assert "there is no folder" in capsys.readouterr().err
