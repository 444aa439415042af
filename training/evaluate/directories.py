"""Directories of models: by what they are, and not by what a configuration calls them."""

import re
from pathlib import Path

from pipeline.config import ModelConfig
from training.generate.identity import digest_of

_NO_SLUG = re.compile(r"[^a-z0-9]+")


class Directories:
    """Those below `root`, where the same identity has the same, whatever it was called first."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._by_digest = {path.name.rpartition("-")[2]: path for path in root.glob("*-*")}

    def of(self, name: str, identity: object) -> Path:
        """The directory of `identity`; a new one is called by `name`, too."""
        digest = digest_of(identity)
        return self._by_digest.setdefault(digest, self._root / f"{slug(name)}-{digest}")


def name_of(checkpoint: ModelConfig) -> str:
    """What its directory is called by: the end of its path."""
    return "-".join(Path(checkpoint.path).parts[-2:])


def slug(name: str) -> str:
    """A name as that of a file or a directory."""
    return _NO_SLUG.sub("-", name.lower()).strip("-")
