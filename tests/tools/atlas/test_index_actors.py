"""The index in Ray actors: shared, merged, and made again when one dies."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from tests.tools.atlas.tiny_atlas import HIDDEN, PASSAGES
from tools.atlas import shards
from tools.atlas.options import IndexGoneError
from tools.atlas.search import FlatIndex
from tools.atlas.shapes import IndexShapes
from tools.atlas.shards import MAX_ATTEMPTS, IndexShard, ShardedIndex
from tools.atlas.tool import AtlasQA
from tools.base import ConfigError, InputError, ToolRequest, ToolResult, ToolStatus

pytestmark = pytest.mark.ray


def sharded(
    path: Path, *, num_actors: int = 2, content_hash: str = "0123456789", num_gpus: float = 0
) -> ShardedIndex:
    return ShardedIndex(
        path,
        content_hash=content_hash,
        num_rows=len(PASSAGES),
        num_actors=num_actors,
        num_gpus=num_gpus,
    )


def call(index: ShardedIndex, function: Callable[[Any], Any]) -> list[Any]:
    """References to what `function` of each shard returns; a shard not there is made."""
    actors: list[Any] = [index._actor(shard) for shard in index._shards]
    return [actor.__ray_call__.remote(function) for actor in actors]


def pids_of(index: ShardedIndex) -> list[int]:
    return list(ray.get(call(index, lambda shard: os.getpid())))


def are_open(index: ShardedIndex) -> list[bool]:
    return list(ray.get(call(index, lambda shard: shard._index is not None)))


def test_shards_give_what_one_index_gives_and_a_killed_one_is_made_again(
    local_ray: None, atlas: Path
) -> None:
    path = atlas / "index" / "embeddings.npy"
    flat = FlatIndex(path, shapes=IndexShapes(num_rows=len(PASSAGES)), device=torch.device("cpu"))
    queries_QD = torch.randn((21, HIDDEN), generator=torch.Generator().manual_seed(1))
    expected = flat.search(queries_QD, 40)
    first, second = sharded(path), sharded(path)
    assert torch.equal(first.search(queries_QD, 40), expected)
    assert torch.equal(second.search(queries_QD, 40), expected)
    pids = pids_of(first)
    assert pids_of(second) == pids  # shared by name
    assert len(set(pids)) == 2
    os.kill(pids[1], signal.SIGKILL)
    assert torch.equal(second.search(queries_QD, 40), expected)
    assert torch.equal(first.search(queries_QD, 40), expected)  # finds what the second made
    after = pids_of(first)
    assert pids_of(second) == after
    assert after[0] == pids[0]
    assert after[1] != pids[1]


def test_a_shard_computes_on_one_thread_whatever_others_have_set(atlas: Path) -> None:
    path, num_rows = str(atlas / "index" / "embeddings.npy"), len(PASSAGES)
    shard = IndexShard(path, num_rows, (0, num_rows), on_gpu=False)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        shard.search(torch.zeros(1, HIDDEN).numpy(), 4)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_answers_are_the_same_with_the_index_in_actors(local_ray: None, atlas: Path) -> None:
    questions = [ToolRequest(input=f"Where is the river number {n}?") for n in range(6)]
    settings: dict[str, Any] = {"path": str(atlas), "n_context": 4, "max_new_tokens": 6}
    in_actors = AtlasQA(**settings, index_actors=2)
    in_actors.load()
    assert in_actors._atlas is not None
    assert isinstance(in_actors._atlas._index, ShardedIndex)
    assert are_open(in_actors._atlas._index) == [True, True]
    assert in_actors.run(questions) == AtlasQA(**settings).run(questions)


def test_an_index_that_dies_again_and_again_fails_for_now(
    local_ray: None, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = AtlasQA(path=str(atlas), n_context=4, index_actors=1)
    tool.load()
    assert tool._atlas is not None
    index = tool._atlas._index
    assert isinstance(index, ShardedIndex)
    make, asked = index._actor, []

    def make_and_kill(shard: Any) -> Any:
        actor = make(shard)
        asked.append(shard)
        ray.kill(actor)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:  # until it has lost its name
            try:
                ray.get_actor(shard.name)
            except ValueError:
                break
            time.sleep(0.05)
        return actor

    monkeypatch.setattr(index, "_actor", make_and_kill)
    results = tool.run([ToolRequest(input="Where?"), ToolRequest(input="")])
    assert len(asked) == MAX_ATTEMPTS
    assert results[0] == ToolResult.failed(
        f"the actors of the index died {MAX_ATTEMPTS} times in one search", retryable=True
    )
    assert results[1].status is ToolStatus.INVALID


def test_an_index_the_actors_cannot_read_is_one_line(local_ray: None, tmp_path: Path) -> None:
    index = sharded(tmp_path / "embeddings.npy", content_hash="missing", num_actors=1)
    with pytest.raises(InputError, match=r"embeddings\.npy: cannot read"):
        index.search(torch.zeros(1, HIDDEN), 4)


def test_loading_waits_for_every_shard_also_for_one_that_died(local_ray: None, atlas: Path) -> None:
    index = sharded(atlas / "index" / "embeddings.npy", content_hash="loaded")
    assert are_open(index) == [False, False]
    index.load()
    assert are_open(index) == [True, True]
    os.kill(pids_of(index)[0], signal.SIGKILL)
    index.load()
    assert are_open(index) == [True, True]


def test_an_index_without_a_free_gpu_is_one_line(
    local_ray: None, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "_PLACE_S", 0.5)
    index = sharded(atlas / "index" / "embeddings.npy", content_hash="no GPU", num_gpus=0.5)
    message = (
        "2 of 2 actors of the index got no place in 0.5 s: index_actors is 2 and index_num_gpus "
        "0.5, but 0 GPUs of the cluster are free"
    )
    with pytest.raises(ConfigError) as caught:
        index.load()
    assert str(caught.value) == f"QA: {message}"
    with pytest.raises(IndexGoneError) as gone:  # in a search the place may come back
        index.search(torch.zeros(1, HIDDEN), 4)
    assert str(gone.value) == message


def test_a_busy_shard_has_a_place(
    local_ray: None, atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = atlas / "index" / "embeddings.npy"
    first = sharded(path, content_hash="busy", num_actors=1)
    pids_of(first)
    monkeypatch.setattr(shards, "_PLACE_S", 2.0)
    references = call(first, lambda shard: time.sleep(4))
    second = sharded(path, content_hash="busy", num_actors=1)
    started = time.monotonic()
    second.load()
    assert time.monotonic() - started > 2.5
    ray.get(references)


def test_actors_without_a_cluster_are_one_line(
    atlas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match="index_actors needs Ray"):
        AtlasQA(path=str(atlas), index_actors=1).load()
