"""The index in Ray actors: each holds a range of rows, the caller asks all of them and merges.

The actors have names, so that all processes that serve the tool share them. They end with the
process that made them; whoever misses one makes it again.
"""

import logging
import time
from pathlib import Path
from typing import Any, NamedTuple

import ray
import torch
from ray.exceptions import RayActorError

from tools.atlas.options import IndexGoneError
from tools.atlas.search import FlatIndex, merge, use_one_thread
from tools.atlas.shapes import IndexShapes
from tools.base import ConfigError, ToolformerError

MAX_ATTEMPTS = 4
_NAME_FREED_S = 60.0  # a dead actor keeps its name for a moment, on a busy machine for seconds
_POLL_S = 0.1

_logger = logging.getLogger(__name__)


class _Shard(NamedTuple):
    name: str
    rows: tuple[int, int]


class IndexShard:
    """Searches a range of rows. Built by its first call: errors of a constructor come as text."""

    def __init__(self, path: str, num_rows: int, rows: tuple[int, int], on_gpu: bool) -> None:
        self._path, self._rows, self._on_gpu = Path(path), rows, on_gpu
        self._shapes = IndexShapes(num_rows=num_rows)
        self._index: FlatIndex | None = None

    def search(self, queries_QD: Any, k: int) -> Any:
        """The keys [Q, k] of the best rows (search.py), as numpy arrays both ways."""
        use_one_thread()
        if self._index is None:
            self._index = FlatIndex(
                self._path,
                shapes=self._shapes,
                rows=self._rows,
                device=torch.device("cuda" if self._on_gpu else "cpu"),
                resident=self._on_gpu,
            )
        return self._index.search(torch.tensor(queries_QD), k).numpy()


class ShardedIndex:
    """Searches an index in `num_actors` actors; results are those of one FlatIndex.

    Raises:
        ConfigError: this process has no Ray cluster.
    """

    def __init__(
        self, path: Path, *, content_hash: str, num_rows: int, num_actors: int, num_gpus: float
    ) -> None:
        if not ray.is_initialized():
            raise ConfigError("QA: index_actors needs Ray; this process is connected to no cluster")
        self._path, self._num_rows, self._num_gpus = path.resolve(), num_rows, num_gpus
        self._actors: dict[str, Any] = {}
        self._dead: set[Any] = set()
        self._shards = [
            _Shard(f"atlas-index-{content_hash[:16]}-{num_gpus:g}-{start}-{stop}", (start, stop))
            for start, stop in IndexShapes(num_rows=num_rows).shard_ranges(num_actors)
        ]

    def search(self, queries_QD: torch.Tensor, k: int) -> torch.Tensor:
        """As FlatIndex.search.

        Raises:
            IndexGoneError: actors died again and again.
            ToolformerError: a shard cannot be read where its actor runs.
        """
        queries = queries_QD.cpu().numpy()
        found: dict[str, torch.Tensor] = {}
        for _ in range(MAX_ATTEMPTS):
            asked = {
                shard.name: self._actor(shard).search.remote(queries, k)
                for shard in self._shards
                if shard.name not in found
            }
            for name, reference in asked.items():
                try:
                    found[name] = torch.tensor(ray.get(reference))
                except RayActorError as error:
                    _logger.warning("QA: %s: %s; making it again", name, type(error).__name__)
                    self._forget(name)
                except ray.exceptions.RayTaskError as error:
                    cause = error.cause
                    raise cause if isinstance(cause, ToolformerError) else error from None
            if len(found) == len(self._shards):
                return merge([found[shard.name] for shard in self._shards], k)
        raise IndexGoneError(f"the actors of the index died {MAX_ATTEMPTS} times in one search")

    def _actor(self, shard: _Shard) -> Any:
        # Kept, since an actor ends when its maker forgets it.
        if shard.name not in self._actors:
            self._actors[shard.name] = self._find_or_make(shard)
        return self._actors[shard.name]

    def _forget(self, name: str) -> None:
        dead = self._actors.pop(name)
        self._dead.add(dead)
        # Killing the dead has Ray forget its name here: a process remembers the names it asked for.
        ray.kill(dead)

    def _find_or_make(self, shard: _Shard) -> Any:
        # num_cpus=0: as for the tool's own actor, Ray Data would wait for CPUs it does not see.
        options = {"num_cpus": 0, "num_gpus": self._num_gpus, "get_if_exists": True}
        make = ray.remote(IndexShard).options(name=shard.name, **options)
        deadline = time.monotonic() + _NAME_FREED_S
        while time.monotonic() < deadline:
            actor = make.remote(str(self._path), self._num_rows, shard.rows, self._num_gpus > 0)
            if actor not in self._dead:
                return actor
            time.sleep(_POLL_S)
        raise IndexGoneError(f"{shard.name} died, and still has its name after {_NAME_FREED_S} s")
