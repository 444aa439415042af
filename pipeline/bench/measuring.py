"""Seconds, memory and the hardware's own limits."""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

_CLEAR_PEAK = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@dataclass(slots=True, kw_only=True)
class Seconds:
    """CPU seconds of all threads of this process, and seconds on the clock."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    def __add__(self, other: "Seconds") -> "Seconds":
        return Seconds(cpu_s=self.cpu_s + other.cpu_s, wall_s=self.wall_s + other.wall_s)

    def on(self, device: str) -> float:
        """What a device is judged by: a CPU, which others may be using too, by CPU seconds."""
        return self.cpu_s if device == "cpu" else self.wall_s


@contextmanager
def timed(device: str) -> Iterator[Seconds]:
    """The seconds of the body, filled in when it ends and the device is done."""
    seconds = Seconds()
    _wait(device)
    wall, cpu = time.perf_counter(), time.process_time()
    yield seconds
    _wait(device)
    seconds.wall_s, seconds.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def memory_peak(device: str, run: Callable[[], object]) -> int:
    """Bytes `run` took at most beyond what was taken when it began.

    What was taken are the weights and whatever earlier work left: on a GPU what torch has
    allocated, on a CPU the resident memory of the process, with memory that was freed and not
    given back to the system. Where the system does not let a process reset its peak, the rise of
    the peak since the process began, which may be less.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    with suppress(OSError):
        _CLEAR_PEAK.write_text("5")  # Linux: the peak is now what is taken now
    before = _peak_resident_bytes()
    run()
    return _peak_resident_bytes() - before


def _peak_resident_bytes() -> int:
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class MatmulPeak:
    """FLOPs a second of a large square matrix product, the best of all times it was tried."""

    def __init__(self, *, size: int, dtype: str, device: str, threads: int) -> None:
        self._device, self._threads = device, threads
        kind = getattr(torch, dtype)
        self._a_NN = torch.randn(size, size, device=device, dtype=torch.float32).to(kind)
        self._b_NN = torch.randn(size, size, device=device, dtype=torch.float32).to(kind)
        self._out_NN = torch.empty_like(self._a_NN)
        self._flops = 2.0 * size**3
        self.flops_per_s = 0.0
        self._product()  # the first one may choose its kernel

    def try_again(self) -> None:
        with timed(self._device) as seconds:
            self._product()
        self.flops_per_s = max(self.flops_per_s, self._flops / self.busy_s(seconds))

    def busy_s(self, seconds: Seconds) -> float:
        """Seconds in which every thread worked: the neighbours' share of a CPU is not ours."""
        return seconds.cpu_s / self._threads if self._device == "cpu" else seconds.wall_s

    def _product(self) -> None:
        torch.mm(self._a_NN, self._b_NN, out=self._out_NN)


def copy_bandwidth(*, num_bytes: int, device: str, repeats: int = 5) -> float:
    """Bytes a second, read and written, of a large copy: the best of several."""
    source = torch.empty(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(repeats + 1):
        with timed(device) as seconds:
            target.copy_(source)
        best = max(best, 2 * num_bytes / seconds.wall_s)
    return best
