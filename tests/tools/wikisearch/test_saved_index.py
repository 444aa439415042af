"""An index in a directory: the same when read, and never half there."""

import shutil
from pathlib import Path

import pytest

from tools.base import ConfigError, InputError, OutputError
from tools.wikisearch.bm25 import BM25Index, build_index
from tools.wikisearch.passages import Passage
from tools.wikisearch.saved import load_index, read_meta, save_index

PASSAGES = [
    Passage(title="Tide", section=("Moon", "Orbit"), text="It follows the moon."),
    Passage(title="Sun", section=(), text="It is bright \u2013 and hot."),
]


@pytest.fixture
def index() -> BM25Index:
    return build_index(PASSAGES, k1=1.2, b=0.75)


def test_a_saved_index_answers_as_the_one_in_memory(index: BM25Index, tmp_path: Path) -> None:
    save_index(index, tmp_path / "deep" / "idx")
    loaded = load_index(tmp_path / "deep" / "idx")
    for query in ("moon", "bright tide", "sun hot", "nothing"):
        assert loaded.search(query, 2) == index.search(query, 2)
    assert loaded.content_hash == index.content_hash
    meta = read_meta(tmp_path / "deep" / "idx")
    assert (meta.backend, meta.k1, meta.b, meta.num_passages) == ("memory", 1.2, 0.75, 2)


def test_what_a_killed_writer_left_is_replaced(index: BM25Index, tmp_path: Path) -> None:
    (tmp_path / ".idx.partial").mkdir()
    (tmp_path / ".idx.partial" / "half.npy").write_bytes(b"half")
    save_index(index, tmp_path / "idx")
    assert [path.name for path in tmp_path.iterdir()] == ["idx"]
    assert not (tmp_path / "idx" / "half.npy").exists()


def test_an_index_is_not_written_over_anything(index: BM25Index, tmp_path: Path) -> None:
    save_index(index, tmp_path)  # empty: fine
    with pytest.raises(ConfigError, match="is there already"):
        save_index(index, tmp_path)
    with pytest.raises(ConfigError, match="is there already"):
        save_index(index, tmp_path / "meta.json")
    with pytest.raises(OutputError, match="cannot write: "):
        save_index(index, tmp_path / "meta.json" / "idx")


def test_a_missing_directory_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such directory"):
        load_index(tmp_path / "nothing")


@pytest.mark.parametrize(
    "name", ["meta.json", "passages.arrow", "data.csc.index.npy", "vocab.index.json"]
)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_torn_index_is_one_clear_error(
    index: BM25Index, tmp_path: Path, name: str, damage: str
) -> None:
    save_index(index, tmp_path / "idx")
    path = tmp_path / "idx" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(b"" if damage == "empty" else content[: len(content) // 2])
    with pytest.raises(InputError, match="idx: not a whole WikiSearch index") as caught:
        load_index(tmp_path / "idx")
    assert "\n" not in str(caught.value)


def test_files_of_two_indexes_are_not_mixed(index: BM25Index, tmp_path: Path) -> None:
    save_index(index, tmp_path / "idx")
    save_index(build_index(PASSAGES[:1]), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "passages.arrow", tmp_path / "idx" / "passages.arrow")
    with pytest.raises(InputError, match="its files are of different indexes"):
        load_index(tmp_path / "idx")
