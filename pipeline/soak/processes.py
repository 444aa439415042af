"""What a command and the Ray it started take of the machine, by what the processes are for."""

import re
import time
from collections import defaultdict
from dataclasses import dataclass

import psutil

_STAGE = re.compile(r"\w*MapWorker\(.*MapBatches\((\w+)\)")
_ACTORS = {"LMHost": "replicas", "ToolHost": "tools", "Dispatcher": "dispatcher"}
_RAYS_OWN = "Ray's own"  # agents, log monitor, idle workers, Ray Data's actors
OBJECT_STORE = "object store"
DRIVER = "driver"
# Those of any run; of a dispatcher, or of Ray's own, there may be none.
EVERY_GROUP = (
    DRIVER, "GCS", "raylet", OBJECT_STORE, "replicas", "tools",
    "stage Read", "stage LM", "stage Execute", "stage Commit",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at the processes. Memory is what each holds for itself, in bytes by group.

    What processes share (libraries, the object store) is counted in none of them; of the object
    store it is what its owner, the raylet, has touched.
    """

    at: float  # Unix time
    memory_bytes: dict[str, int]
    cpu_s: dict[str, float]  # since the processes began, those that have ended included
    processes: int


class ProcessTree:
    """The process `pid` and all it started, read again and again."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._group_of: dict[psutil.Process, str] = {}
        self._cpu_s: dict[psutil.Process, float] = {}  # the last seen, also of those that ended

    def read(self) -> Reading:
        """What all of them take now; nothing of those that end meanwhile."""
        memory: dict[str, int] = defaultdict(int)
        processes = self._all()
        for process in processes:
            try:
                group = self._group(process)
                held, times = process.memory_info(), process.cpu_times()
            except psutil.Error:
                continue
            self._group_of[process] = group
            self._cpu_s[process] = times.user + times.system
            memory[group] += held.rss - held.shared
            if group == "raylet":
                memory[OBJECT_STORE] += held.shared
        cpu_s: dict[str, float] = defaultdict(float)
        for process, seconds in self._cpu_s.items():
            cpu_s[self._group_of[process]] += seconds
        return Reading(
            at=time.time(),
            memory_bytes=dict(memory),
            cpu_s=dict(cpu_s),
            processes=len(processes),
        )

    def _all(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:  # it has ended
            return []

    def _group(self, process: psutil.Process) -> str:
        if process == self._root:
            return DRIVER
        group = group_of(" ".join(process.cmdline()))
        known = self._group_of.get(process, group)
        # An idle worker takes a name when it becomes an actor, and never loses it.
        return known if group == _RAYS_OWN else group


def group_of(command_line: str) -> str:
    """What a process of Ray is for: a stage by its class, an actor, or a part of Ray."""
    stage = _STAGE.search(command_line)
    if stage is not None:
        return f"stage {stage[1].removesuffix('Stage')}"
    if command_line.startswith("ray::"):
        return _ACTORS.get(re.split(r"[:.\s(]+", command_line)[1], _RAYS_OWN)
    program = command_line.partition(" ")[0].rpartition("/")[2]
    return {"raylet": "raylet", "gcs_server": "GCS"}.get(program, _RAYS_OWN)
