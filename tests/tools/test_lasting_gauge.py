"""Gauges that many threads make at once."""

import subprocess
import sys

# A process of its own: nobody has made a gauge there yet.
_MAKE = """
import threading
from tools import lasting_gauge

start = threading.Barrier(8)


def make(number):
    start.wait()
    lasting_gauge.LastingGauge(f"gauge_{number}", "")


makers = [threading.Thread(target=make, args=(number,)) for number in range(8)]
for maker in makers:
    maker.start()
for maker in makers:
    maker.join()
print([thread.name for thread in threading.enumerate()].count("lasting gauges"))
"""


def test_one_thread_shows_the_gauges_that_many_threads_made() -> None:
    done = subprocess.run([sys.executable, "-c", _MAKE], capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr
