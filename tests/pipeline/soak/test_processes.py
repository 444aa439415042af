import subprocess
import sys
import time

import pytest

from pipeline.soak.processes import ProcessTree, group_of

_CHILD = "import time; held = bytearray(80 << 20); print(flush=True); time.sleep(60)"
# It ends its child at the first line, and itself at the end of what it is told.
_ROOT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {_CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(flush=True)
sys.stdin.readline()
child.kill()
child.wait()
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("command_line", "group"),
    [
        ("ray::MapWorker(MapBatches(ReadStage)).submit", "stage Read"),
        ("ray::MapWorker(MapBatches(LMStage))", "stage LM"),
        ("ray::LMHost.sample_unit", "replicas"),
        ("ray::LMHost", "replicas"),
        ("ray::ToolHost.__init__", "tools"),
        ("ray::Dispatcher", "dispatcher"),
        ("ray::IDLE", "Ray's own"),
        ("ray::_StatsActor.update_execution_metrics", "Ray's own"),
        ("/x/ray/core/src/ray/raylet/raylet --raylet_socket=/tmp/x", "raylet"),
        ("/x/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp/y", "GCS"),
        ("/x/bin/python -u /x/ray/_private/log_monitor.py", "Ray's own"),
    ],
)
def test_a_process_is_grouped_by_what_it_is_for(command_line: str, group: str) -> None:
    assert group_of(command_line) == group


def test_a_tree_is_its_root_and_all_it_started() -> None:
    root = [sys.executable, "-c", _ROOT]
    with subprocess.Popen(root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        tree = ProcessTree(process.pid)
        reading = tree.read()
        assert reading.processes == 2
        assert reading.memory_bytes["driver"] > 1 << 20
        assert 80 << 20 <= reading.memory_bytes["Ray's own"] < 160 << 20
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        # What it took of the CPU is still counted, its memory is not.
        after = tree.read()
        assert after.processes == 1
        assert after.cpu_s["Ray's own"] >= reading.cpu_s["Ray's own"] > 0
        assert "Ray's own" not in after.memory_bytes
        assert reading.at <= after.at <= time.time()
        process.stdin.close()
    assert tree.read().processes == 0
