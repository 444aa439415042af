import gc
import subprocess
import sys
import threading
from functools import partial

import pytest

from pipeline.stages.own_thread import OwnThread


def test_everything_runs_in_one_thread_in_order() -> None:
    thread, order = OwnThread("own"), list[int]()
    futures = [thread.submit(partial(order.append, number)) for number in range(100)]
    assert [future.result(timeout=60) for future in futures] == [None] * 100
    assert order == list(range(100))
    names = {thread.submit(lambda: threading.current_thread().name).result(timeout=60)}
    assert names == {"own"}


def test_what_is_raised_comes_to_who_waits_and_the_thread_goes_on() -> None:
    thread = OwnThread("own")
    with pytest.raises(SystemExit):
        thread.submit(lambda: sys.exit(3)).result(timeout=60)
    assert thread.submit(lambda: 7).result(timeout=60) == 7


def test_it_ends_when_nobody_holds_it() -> None:
    thread = OwnThread("short lived")
    (running,) = [each for each in threading.enumerate() if each.name == "short lived"]
    assert thread.submit(lambda: 7).result(timeout=60) == 7
    del thread
    gc.collect()
    running.join(timeout=60)
    assert not running.is_alive()


def test_one_that_hangs_lets_its_process_end() -> None:
    hangs = (
        "import threading; from pipeline.stages.own_thread import OwnThread; "
        "OwnThread('own').submit(threading.Event().wait); print('the end')"
    )
    ended = subprocess.run([sys.executable, "-c", hangs], capture_output=True, timeout=60)
    assert ended.stdout.split() == [b"the", b"end"]
    assert ended.returncode == 0
