import os
import subprocess
import sys
import time

import pytest

from pipeline.soak.processes import ProcessTree, group_of

_CHILD = "import time; held = bytearray(80 << 20); print(flush=True); time.sleep(60)"


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
    with subprocess.Popen([sys.executable, "-c", _CHILD], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        tree = ProcessTree(os.getpid())
        reading = tree.read()
        assert reading.processes >= 2
        assert reading.memory_bytes["driver"] > 1 << 20
        assert reading.memory_bytes["Ray's own"] >= 80 << 20  # whatever else this process started
        child.kill()
        child.wait()
        # What it took of the CPU is still counted, its memory is not.
        after = tree.read()
        assert after.cpu_s["Ray's own"] >= reading.cpu_s["Ray's own"]
        assert after.memory_bytes.get("Ray's own", 0) <= (
            reading.memory_bytes["Ray's own"] - (70 << 20)
        )
        assert reading.at <= after.at <= time.time()
