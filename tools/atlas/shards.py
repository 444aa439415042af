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
_PLACE_S = 60.0
_BESIDE_THE_SEARCH = "beside the search"  # a thread that answers while the rows are opened

_logger = logging.getLogger(__name__)


class _Shard(NamedTuple):
    name: str
    rows: tuple[int, int]


class IndexShard:
    """Searches a range of rows. Built by a call: errors of a constructor come as text."""

    def __init__(self, path: str, num_rows: int, rows: tuple[int, int], on_gpu: bool) -> None:
        self._path, self._rows, self._on_gpu = Path(path), rows, on_gpu
        self._shapes = IndexShapes(num_rows=num_rows)
        self._index: FlatIndex | None = None

    def ping(self) -> None:
        """Answers as soon as the actor has a place, whatever else it does."""

    def load(self) -> None:
        """Open the rows, on a GPU copy them there; repeating it does nothing.

        Raises:
            InputError: they cannot be read here.
        """
        self._open()

    def search(self, queries_QD: Any, k: int) -> Any:
        """The keys [Q, k] of the best rows (search.py), as numpy arrays both ways."""
        use_one_thread()
        return self._open().search(torch.tensor(queries_QD), k).numpy()

    def _open(self) -> FlatIndex:
        if self._index is None:
            self._index = FlatIndex(
                self._path,
                shapes=self._shapes,
                rows=self._rows,
                device=torch.device("cuda" if self._on_gpu else "cpu"),
                resident=self._on_gpu,
            )
        return self._index


# num_cpus=0: as for the tool's own actor, Ray Data would wait for CPUs it does not see.
_ShardActor = ray.remote(  # type: ignore[call-overload]
    num_cpus=0, concurrency_groups={_BESIDE_THE_SEARCH: 1}
)(IndexShard)


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
        self._path, self._num_rows = path.resolve(), num_rows
        self._num_actors, self._num_gpus = num_actors, num_gpus
        self._actors: dict[str, Any] = {}
        self._placed: set[str] = set()
        self._dead: set[Any] = set()
        self._shards = [
            _Shard(f"atlas-index-{content_hash[:16]}-{num_gpus:g}-{start}-{stop}", (start, stop))
            for start, stop in IndexShapes(num_rows=num_rows).shard_ranges(num_actors)
        ]

    def load(self) -> None:
        """Have every shard open its rows, and wait for it as long as that takes.

        Raises:
            ConfigError: an actor finds no place in the cluster, or dies again and again.
            ToolformerError: as `search`.
        """
        try:
            self._ask("load")
        except IndexGoneError as error:
            raise ConfigError(f"QA: {error}") from None

    def search(self, queries_QD: torch.Tensor, k: int) -> torch.Tensor:
        """As FlatIndex.search.

        Raises:
            IndexGoneError: actors died again and again, or one that died finds no place.
            ToolformerError: a shard cannot be read where its actor runs.
        """
        found = self._ask("search", queries_QD.cpu().numpy(), k)
        return merge([torch.tensor(found[shard.name]) for shard in self._shards], k)

    def _ask(self, method: str, *arguments: Any) -> dict[str, Any]:
        """What `method` of each shard returns. A shard that dies is made again and asked again."""
        found: dict[str, Any] = {}
        for _ in range(MAX_ATTEMPTS):
            actors = {
                shard.name: self._actor(shard) for shard in self._shards if shard.name not in found
            }
            self._wait_for_places(actors)
            asked = {
                name: getattr(actor, method).remote(*arguments) for name, actor in actors.items()
            }
            for name, reference in asked.items():
                try:
                    found[name] = ray.get(reference)
                except RayActorError as error:
                    _logger.warning("QA: %s: %s; making it again", name, type(error).__name__)
                    self._forget(name)
                except ray.exceptions.RayTaskError as error:
                    cause = error.cause
                    raise cause if isinstance(cause, ToolformerError) else error from None
            if len(found) == len(self._shards):
                return found
        raise IndexGoneError(f"the actors of the index died {MAX_ATTEMPTS} times in one {method}")

    def _wait_for_places(self, actors: dict[str, Any]) -> None:
        """Return when all `actors` run; what they do then may take any time, this may not."""
        pings = {
            actor.ping.options(concurrency_group=_BESIDE_THE_SEARCH).remote(): name
            for name, actor in actors.items()
            if name not in self._placed
        }
        if not pings:
            return
        ready, waiting = ray.wait(list(pings), num_returns=len(pings), timeout=_PLACE_S)
        self._placed |= {pings[reference] for reference in ready}
        if waiting:
            free = ray.available_resources().get("GPU", 0)  # type: ignore[no-untyped-call]
            raise IndexGoneError(
                f"{len(waiting)} of {len(self._shards)} actors of the index got no place in "
                f"{_PLACE_S:g} s: index_actors is {self._num_actors} and index_num_gpus "
                f"{self._num_gpus:g}, but {free:g} GPUs of the cluster are free"
            )

    def _actor(self, shard: _Shard) -> Any:
        # Kept, since an actor ends when its maker forgets it.
        if shard.name not in self._actors:
            self._actors[shard.name] = self._find_or_make(shard)
        return self._actors[shard.name]

    def _forget(self, name: str) -> None:
        dead = self._actors.pop(name)
        self._placed.discard(name)
        self._dead.add(dead)
        # Killing the dead has Ray forget its name here: a process remembers the names it asked for.
        ray.kill(dead)

    def _find_or_make(self, shard: _Shard) -> Any:
        make = _ShardActor.options(name=shard.name, num_gpus=self._num_gpus, get_if_exists=True)
        deadline = time.monotonic() + _NAME_FREED_S
        while time.monotonic() < deadline:
            actor = make.remote(str(self._path), self._num_rows, shard.rows, self._num_gpus > 0)
            if actor not in self._dead:
                return actor
            time.sleep(_POLL_S)
        raise IndexGoneError(f"{shard.name} died, and still has its name after {_NAME_FREED_S} s")
