"""Places on this machine and in a store answer alike."""

import pickle
from pathlib import Path

import pytest
from upath import UPath

from pipeline.config import load_config
from pipeline.ingest.command import ingest
from tests.object_store import Server
from tools.base import ConfigError
from tools.places import (
    change_stamp,
    file_info,
    in_order,
    is_remote,
    list_files,
    open_to_read,
    place,
    put_bytes,
    put_file,
    read_bytes,
    read_if_there,
    remove,
)


def test_only_an_address_with_a_scheme_is_not_of_this_machine(tmp_path: Path) -> None:
    assert place("a/b") == Path("a/b")
    assert place(f"file://{tmp_path}") == tmp_path
    assert place("/a::b/c://d") == Path("/a::b/c:/d")
    assert not is_remote(place("s3:/a/b"))
    for address in ("s3://a/b", "s3a://a/b", "memory://a/b", "hf://datasets/o/a/b", "http://a/b"):
        assert is_remote(place(address)) and str(place(address) / "c") == f"{address}/c"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("gs://b/a", r"pip install '\.\[gs\]'"),
        ("gopher://b/a", "expected .*, s3:// or s3a://; a path of this machine"),
        ("S3://b/a", "not an address that can be used"),
        ("hdfs://h:9000/a", "not an address that can be used"),
        ("webhdfs://h/a", "not an address that can be used"),
        ("simplecache::s3://b/x", "not an address that can be used"),
        ("s3://b/x::y", "not an address that can be used"),
        ("a::b", "not an address that can be used"),
        ("file://h/a", "not an address that can be used"),
        ("memory:///a/b", "would be taken for memory://a/b"),
        ("s3:////a", "cannot be used as a place"),
    ],
)
def test_what_cannot_be_used_as_an_address_is_one_clear_line(address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        place(address)
    assert str(refused.value).startswith(f"{address}: ")


@pytest.mark.parametrize("address", ["hf://datasets/o/a/run", "http://h/run"])
def test_nothing_is_written_where_files_appear_in_parts(address: str, tmp_path: Path) -> None:
    path = place(address)
    assert is_remote(path)
    (tmp_path / "file").touch()
    says = f"{address}: .* is for input, .*expected a directory of this machine or abfs"
    with pytest.raises(ConfigError, match=says):
        put_bytes(path, b"")
    with pytest.raises(ConfigError, match=says):
        put_file(tmp_path / "file", path)
    with pytest.raises(ConfigError, match=says):
        ingest([tmp_path], path)
    (tmp_path / "config.yaml").write_text(
        f"{{run: {address}, input: {address}, model: {{path: m}}, tools: {{Calculator: {{}}}}}}"
    )
    with pytest.raises(ConfigError, match=rf"config\.yaml: run: .*{says}") as refused:
        load_config(tmp_path / "config.yaml")
    assert "input:" not in str(refused.value)


def test_a_file_of_a_web_server_is_read_by_ranges(bucket: UPath, s3_server: Server) -> None:
    put_bytes(bucket / "public", b"0123456789")
    bucket.fs.chmod(f"{bucket.path}public", acl="public-read")
    path = place(f"http://127.0.0.1:{s3_server.port}/{bucket.path}public")
    info = file_info(path)
    assert info is not None and (info["type"], info["size"]) == ("file", 10)
    with open_to_read(path) as file:
        file.seek(4)
        assert file.read(2) == b"45"
    put_bytes(bucket / "public", b"9876543210")
    bucket.fs.chmod(f"{bucket.path}public", acl="public-read")
    changed = file_info(path)
    assert changed is not None and change_stamp(changed) != change_stamp(info)


def test_what_another_process_wrote_is_seen(bucket: UPath) -> None:
    other = type(bucket.fs)(skip_instance_cache=True)
    directory = bucket / "seen"
    assert list_files(directory) == {} and file_info(directory / "a") is None
    for name in ("a", "b"):
        other.pipe_file(f"{directory.path}/{name}", b"12")
        assert file_info(directory / name) is not None
    assert [(name, info["size"]) for name, info in list_files(directory).items()] == [
        ("a", 2), ("b", 2)
    ]  # fmt: skip
    other.rm_file(f"{directory.path}/a")
    assert list(list_files(directory)) == ["b"] and read_if_there(directory / "a") is None


def test_files_are_listed_as_a_disk_is_walked(tmp_path: Path, bucket: UPath) -> None:
    names = ["b/c.parquet", "b.parquet", "a/d", "a b"]
    for name in names:
        put_bytes(bucket / "walked" / name, b"")
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    walked = [str(p.relative_to(tmp_path)) for p in sorted(tmp_path.rglob("*")) if p.is_file()]
    assert list(list_files(bucket / "walked")) == walked


def test_the_stamp_of_a_file_changes_with_its_content(bucket: UPath) -> None:
    stamps = []
    for content in (b"1", b"2", b"1"):
        put_bytes(bucket / "stamped" / "file", content)
        [listed] = list_files(bucket / "stamped").values()
        info = file_info(bucket / "stamped" / "file")
        assert info is not None and change_stamp(info) == change_stamp(listed)
        stamps.append(change_stamp(info))
    assert stamps[0] == stamps[2] != stamps[1]


def test_only_the_bytes_that_are_asked_for_come(bucket: UPath, s3_server: Server) -> None:
    put_bytes(bucket / "large", bytes(range(256)) * 4096)
    with s3_server.asked() as requests, open_to_read(bucket / "large") as file:
        file.seek(256 * 1000 + 7)
        assert file.read(2) == b"\x07\x08"
    assert requests == [f"HEAD /{bucket.path}large", f"GET /{bucket.path}large"]


def test_removing_what_is_not_there_is_no_error(tmp_path: Path, bucket: UPath) -> None:
    remove(tmp_path / "nothing")
    remove(bucket / "nothing")


def test_a_missing_file_and_a_missing_bucket_are_told_apart(bucket: UPath) -> None:
    assert file_info(bucket / "nothing") is None
    with pytest.raises(FileNotFoundError, match="The specified key does not exist"):
        read_bytes(bucket / "nothing")
    with pytest.raises(FileNotFoundError, match="The specified bucket does not exist"):
        file_info(UPath("s3://no-such-bucket/nothing"))


def test_a_place_can_be_sent_to_another_process(bucket: UPath) -> None:
    put_bytes(bucket / "sent", b"here")
    assert read_bytes(pickle.loads(pickle.dumps(place(str(bucket / "sent"))))) == b"here"


def test_results_come_in_the_order_of_their_items_and_errors_too() -> None:
    assert list(in_order(abs, range(-100, 0), threads=4)) == list(range(100, 0, -1))

    def reciprocal(number: int) -> float:
        return 1 / number

    results = in_order(reciprocal, [2, 1, 0, 4], threads=2)
    assert [next(results), next(results)] == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)
