"""The commands that cluster/README.md tells."""

import re
import shlex
from pathlib import Path

from tests.pipeline.demo_runs import ROOT

_TEXT = (ROOT / "cluster" / "README.md").read_text(encoding="utf-8")


def section_of(heading: str) -> str:
    return _TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def lines_of(heading: str) -> list[str]:
    """The lines of the first bash block below a heading."""
    block = re.search(r"```bash\n(.*?)```", section_of(heading), re.DOTALL)
    assert block is not None
    return block.group(1).splitlines()


def arguments_of(heading: str, config: Path, line: int = 0) -> list[str]:
    """What follows `python -m cluster` in a line, for the run that `config` describes."""
    python, m, room, *arguments = shlex.split(lines_of(heading)[line], comments=True)
    assert (python, m, room) == ("python", "-m", "cluster")
    return [str(config) if word == "my.yaml" else word for word in arguments]
