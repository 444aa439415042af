"""Where a dataset goes, as the user names it."""

import re
from dataclasses import dataclass
from pathlib import Path

from tools.base import ConfigError
from tools.places import Place, check_output, place

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB = "hub://"


@dataclass(frozen=True, slots=True)
class HubRepo:
    """A dataset repository of the Hugging Face Hub."""

    repo_id: str

    def __str__(self) -> str:
        return _HUB + self.repo_id


def push_target(text: str) -> HubRepo | Place:
    """The repository or place that `text` names: hub://user/name or user/name is of the Hub, all
    else a place (tools.places).

    Raises:
        ConfigError: it is neither, or user/name could as well be a directory.
    """
    if text.startswith(_HUB):
        repo_id = text.removeprefix(_HUB).rstrip("/")
        if not _REPO.fullmatch(repo_id):
            raise ConfigError(f"{text}: not a repository; expected hub://user/name")
        return HubRepo(repo_id)
    if _REPO.fullmatch(text):
        if Path(text).parent.is_dir():
            raise ConfigError(
                f"{text}: {Path(text).parent} is a directory here; write hub://{text} for the Hub "
                f"or ./{text} for the directory"
            )
        return HubRepo(text)
    target = place(text)
    check_output(target)
    return target
