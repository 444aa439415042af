"""The paper in miniature, from the invented world to its tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from training.reproduce.check import check
from training.reproduce.config import ReproduceConfig
from training.reproduce.journal import Done, Journal
from training.reproduce.plan import plan
from training.reproduce.run import run_steps


def reproduce(
    config: ReproduceConfig, samples: Mapping[str, Path], console: Console, *, command: str
) -> Path:
    """Runs what is not finished, and writes the tables; the path of reproduce.md.

    `samples` are files of the paper's benchmarks by name; `command` is what a reader runs to do
    the same.

    Raises:
        ConfigError: a section of the configuration is not what its command takes.
        ToolformerError: a step failed, another process is at work in `config.out`, or it is of
            another configuration.
    """
    rows, journal = plan(config, samples), Journal(config.out)
    check(rows)
    with journal.lock() as lock:
        journal.begin(config)
        run_steps(rows, journal, lock, console)
        done = [mark for row in rows for step in row if (mark := journal.done(step))]
        # They load torch, whose memory the steps need while they run.
        from training.reproduce.findings import findings
        from training.reproduce.tell import tell

        with console.status("") as status:
            found = findings(
                config,
                seconds=seconds_of(done),
                command=command,
                has_samples=bool(samples),
                on_size=lambda size: status.update(f"reading {size}"),
            )
        return tell(found, config.results)


def seconds_of(done: Sequence[Done]) -> float:
    """How long any of the steps ran: what ran beside each other counts once, pauses do not."""
    total, until = 0.0, float("-inf")
    for mark in sorted(done, key=lambda mark: mark.begun):
        total += max(0.0, mark.ended - max(mark.begun, until))
        until = max(until, mark.ended)
    return total
