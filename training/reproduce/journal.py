"""What of a reproduction is finished, and that only one process is at work on it."""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.fingerprint import changes
from tools.atomic import write_text_atomically
from tools.base import ConfigError, InputError, OutputError
from tools.places import why
from training.reproduce.config import ReproduceConfig
from training.reproduce.plan import Step

_CONFIG, _LOCK = "reproduce.json", ".lock"
_PATIENCE_S, _POLL_S = 60.0, 0.2


class Done(BaseModel):
    """A step that is finished: `digest` is of what it was asked, times are Unix times."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: str
    digest: str
    begun: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


class Journal:
    """The marks of finished steps in `out`; a mark is written last, whole or not at all."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def log_of(self, step: Step) -> Path:
        """Where what a step says is written."""
        return self._out / "logs" / f"{step.name}.log"

    def done(self, step: Step) -> Done | None:
        """The mark of a step; None where it has none, or was asked something else."""
        try:
            mark = Done.model_validate_json(self._mark(step).read_bytes())
        except (OSError, ValidationError):
            return None
        return mark if mark.digest == _digest(step) else None

    def finish(self, step: Step, *, begun: float) -> None:
        """Writes the mark of a step that began at `begun`.

        Raises:
            OutputError: it cannot be written.
        """
        mark = Done(step=step.name, digest=_digest(step), begun=begun, ended=time.time())
        write_text_atomically(self._mark(step), mark.model_dump_json(indent=1) + "\n")

    def begin(self, config: ReproduceConfig) -> None:
        """Notes what is measured here.

        Raises:
            ConfigError: something else is.
            InputError: the note is not readable.
        """
        path, now = self._out / _CONFIG, dict(config.what_it_measures())
        if path.exists():
            try:
                before = json.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                raise InputError(f"{path}: cannot be read: {error}") from None
            if differences := changes(before, now):
                raise ConfigError(
                    f"{self._out} is of another configuration: {'; '.join(differences)}; name "
                    "another `out`, or remove it"
                )
            return
        write_text_atomically(path, json.dumps(now, indent=1) + "\n")

    @contextmanager
    def lock(self) -> Iterator[int]:
        """Holds the directory; yields what a process that is started has to inherit.

        So the steps of one that was killed hold it until they have ended.

        Raises:
            ConfigError: another process is at work in the directory.
            OutputError: it cannot be written.
        """
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._out / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise OutputError(f"{self._out}: cannot write: {why(error)}") from None
        try:
            self._take(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        """Waits a little: the steps of a reproduction that was killed end on their own."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 20, 0).decode()
                if time.monotonic() > until or _is_alive(holder):
                    raise ConfigError(
                        f"{self._out}: process {holder or '?'} is at work there"
                    ) from None
                time.sleep(_POLL_S)
            else:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return

    def _mark(self, step: Step) -> Path:
        return self._out / "_done" / f"{step.name}.json"


def _digest(step: Step) -> str:
    files = {str(path): settings for path, settings in step.files.items()}
    copied = {str(path): str(to) for path, to in step.copied.items()}
    asked = json.dumps([step.argv, files, copied], sort_keys=True)
    return hashlib.blake2b(asked.encode(), digest_size=16).hexdigest()


def _is_alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
