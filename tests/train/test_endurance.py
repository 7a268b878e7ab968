"""A step that is called very often takes no more memory, descriptors or threads than one that is called once.

`wholestep audit calls` makes a million calls, in a few seconds.
"""

import json
import subprocess
import sys

import pytest

from wholestep_tools.audit.endurance import calls


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts descriptors in /proc")
def test_many_steps_take_nothing() -> None:
    # In a process of its own: other tests leave memory behind that their threads and finalizers give back or take.
    program = f"import json; from {calls.__name__} import audit; print(json.dumps(audit(100_000, 0)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["failures"] == 0, found["examples"]


def test_what_is_held_beyond_what_may_be_is_said() -> None:
    before = calls.Held(100, 5, 2, 70, 1000)
    assert calls.more(before, before._replace(kilobytes=612), 512) == []
    after = calls.Held(613, 6, 3, 72, 1021)
    assert [line.split()[1] for line in calls.more(before, after, 512)] == [*calls.Held._fields]
