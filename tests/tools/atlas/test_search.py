"""Exact search, compared with sorting all scores in float64."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tools.atlas.search import FlatIndex, merge, rows_of
from tools.atlas.shapes import IndexShapes

CPU = torch.device("cpu")
NUM_ROWS = 700


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small integers, so that scores are exact in any order of summation and ties abound."""
    rows_nd = np.random.default_rng(0).integers(-2, 3, size=(NUM_ROWS, 8)).astype(np.float16)
    path = tmp_path_factory.mktemp("index") / "embeddings.npy"
    np.save(path, rows_nd)
    return path


def queries(num: int, *, size: int = 8) -> torch.Tensor:
    return torch.randint(-3, 4, (num, size), generator=torch.Generator().manual_seed(num)).float()


def flat(path: Path, rows: tuple[int, int] | None = None, *, resident: bool = False) -> FlatIndex:
    shapes = IndexShapes(num_rows=len(np.load(path, mmap_mode="r")))
    return FlatIndex(path, shapes=shapes, rows=rows, device=CPU, resident=resident)


def best_rows(path: Path, queries_QD: torch.Tensor, k: int) -> list[list[int]]:
    """Rows by falling score, equal scores by rising row."""
    rows_nd = np.load(path).astype(np.float64)
    scores_QN = queries_QD.double().numpy() @ rows_nd.T
    order = [np.lexsort((np.arange(len(rows_nd)), -scores_N))[:k] for scores_N in scores_QN]
    return [[int(row) for row in rows] for rows in order]


@pytest.mark.parametrize("k", [1, 7, 40])
def test_the_best_rows_come_first_and_ties_stand_in_order(path: Path, k: int) -> None:
    queries_QD = queries(35)
    scores_QN = queries_QD @ torch.from_numpy(np.load(path)).float().T
    assert len(set(scores_QN[0].tolist())) < NUM_ROWS / 5  # ties abound
    found = rows_of(flat(path).search(queries_QD, k)).tolist()
    assert found == best_rows(path, queries_QD, k)
    assert rows_of(flat(path, resident=True).search(queries_QD, k)).tolist() == found


@pytest.mark.parametrize("num_shards", [1, 2, 3, 5, 50])
def test_merged_shards_are_the_flat_index(path: Path, num_shards: int) -> None:
    queries_QD, k = queries(9), 40
    ranges = IndexShapes(num_rows=NUM_ROWS).shard_ranges(num_shards)
    assert len(ranges) == min(num_shards, 6)  # 700 rows are 6 chunks of 128
    shards = [flat(path, rows).search(queries_QD, k) for rows in ranges]
    assert torch.equal(merge(shards, k), flat(path).search(queries_QD, k))


def test_the_ranges_of_shards_are_all_rows_once_and_begin_at_chunks() -> None:
    for num_rows in (1, 63, 64, 65, 5000, 32_100_000):
        shapes = IndexShapes(num_rows=num_rows)
        for num_shards in (1, 3, 8, 128):
            ranges = shapes.shard_ranges(num_shards)
            assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
            assert ranges[-1][1] == num_rows
            assert all(start < stop and start % shapes.chunk_rows == 0 for start, stop in ranges)


def test_a_query_has_the_same_bits_alone_in_a_batch_and_in_shards(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    rows_nd = torch.randn((1500, 96), generator=generator)
    path = tmp_path / "embeddings.npy"
    np.save(path, rows_nd.half().numpy())
    queries_QD = torch.randn((50, 96), generator=generator)
    together = flat(path).search(queries_QD, 20)
    for index in (0, 17, 49):
        assert torch.equal(flat(path).search(queries_QD[index : index + 1], 20)[0], together[index])
    order = torch.randperm(50, generator=generator)
    assert torch.equal(flat(path).search(queries_QD[order], 20), together[order])
    ranges = IndexShapes(num_rows=1500).shard_ranges(4)
    shards = [flat(path, rows).search(queries_QD, 20) for rows in ranges]
    assert torch.equal(merge(shards, 20), together)


def test_fewer_rows_than_asked_for_are_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "embeddings.npy"
    np.save(path, np.array([[1.0], [-0.0], [3.0], [0.0]], dtype=np.float16))
    keys_QK = flat(path).search(torch.tensor([[1.0], [-1.0]]), 40)
    assert rows_of(keys_QK).tolist() == [[2, 0, 1, 3], [1, 3, 0, 2]]
    assert flat(path).search(torch.empty(0, 1), 40).shape == (0, 4)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_map_of_an_index_cannot_be_written_so_that_it_takes_no_memory(path: Path) -> None:
    index = flat(path)
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    assert [fields[1] for fields in maps if fields[-1] == str(path)] == ["r--s"]
    assert index.search(queries(1), 1).shape == (1, 1)
