"""Gauges that last: Ray shows a gauge for two of its reports after it was set, and no longer."""

import threading
import time
from collections.abc import Callable, Mapping

import ray
from ray.util.metrics import Gauge

_SHORTEST_REPORT_S = 1.0  # Ray takes a shorter interval for this
_kept: list["LastingGauge"] = []
_starting = threading.Lock()  # threads of an actor may make its first gauges at once


class LastingGauge:
    """A gauge of Ray's that shows its last values as long as Ray runs in this process.

    With `read` it shows what that says now, in a thread of its own; None is not shown.
    """

    def __init__(
        self,
        name: str,
        description: str,
        tag_keys: tuple[str, ...] = (),
        *,
        read: Callable[[], float | None] | None = None,
    ) -> None:
        self._gauge = Gauge(name, description, tag_keys)
        self._read = read
        self._values: dict[tuple[tuple[str, str], ...], float] = {}
        self._lock = threading.Lock()  # else an old value could be shown again after a new one
        _keep(self)

    def set(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Show `value` from now on."""
        key = tuple((tags or {}).items())
        with self._lock:
            self._values[key] = value
            self._gauge.set(value, dict(key))

    def show_again(self) -> None:
        """Show the values once more, or those of now; where Ray has ended, forget them."""
        with self._lock:
            if not ray.is_initialized():
                self._values.clear()
                self._read = None
            value = None if self._read is None else self._read()
            if value is not None:
                self._values[()] = value
            for key, value in self._values.items():
                self._gauge.set(value, dict(key))


def _keep(gauge: LastingGauge) -> None:
    """The first gauge of this process starts the thread that shows all of them again."""
    with _starting:
        if not _kept:
            threading.Thread(target=_show_again, name="lasting gauges", daemon=True).start()
        _kept.append(gauge)


def _show_again() -> None:
    while True:
        time.sleep(max(ray._config.metrics_report_interval_ms() / 1000, _SHORTEST_REPORT_S) / 2)
        for gauge in list(_kept):
            gauge.show_again()
