"""A built dataset at the Hub."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import huggingface_hub.constants
import pytest

from pipeline.build import build
from pipeline.push import Chosen, Pushed, push
from pipeline.rundir import RunDir
from tests.hub_server import READER, WRITER, Hub, Repository, running_hub
from tests.object_store import free_port
from tests.pipeline.build.scored_units import byte_codec
from tests.pipeline.demo_runs import ROOT
from tests.pipeline.made_runs import built_run
from tests.pipeline.pushed import FILES, REPO, build_again, loaded
from tools.base import ConfigError, InputError, OutputError
from tools.places import read_bytes

# huggingface_hub uploads by LFS in a way that its HTTP library wants to be rid of.
by_lfs = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return built_run(tmp_path / "run")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that this process takes for the Hub, as one who may write there."""
    with running_hub() as hub:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.url)
        # The protocol of today's Hub for large files; LFS is what it understands beside it.
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", WRITER)
        yield hub


@by_lfs
def test_a_repository_holds_what_was_built(run: RunDir, hub: Hub, tmp_path: Path) -> None:
    pushed = push(run, REPO, private=True)
    assert pushed == Pushed(where=f"{hub.url}/datasets/me/calls", files=4, changed=True)
    repository = hub.repositories["me/calls"]
    assert repository.private and set(repository.files) == FILES | {"push.json"}
    for name, content in repository.files.items():
        (tmp_path / "hub" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hub" / name).write_bytes(content)
    card = repository.files["README.md"].decode()
    assert loaded(card, tmp_path / "hub", "dataset").num_rows == 2
    for name in ("dataset", "dataset_plain"):
        shard = f"{name}/part-00000.parquet"
        assert repository.files[shard] == Path(str(run.path / shard)).read_bytes()


@by_lfs
def test_a_second_push_makes_no_commit(run: RunDir, hub: Hub) -> None:
    push(run, REPO)
    uploads = hub.uploads
    assert not push(run, REPO).changed
    assert (len(hub.repositories["me/calls"].commits), hub.uploads) == (1, uploads)


@by_lfs
def test_another_build_is_one_commit_that_removes_old_shards(run: RunDir, hub: Hub) -> None:
    build_again(run, shard_rows=1)
    push(run, REPO)
    hub.repositories["me/calls"].files["notes.txt"] = b"of somebody"
    build_again(run)
    assert push(run, REPO).changed
    repository = hub.repositories["me/calls"]
    assert set(repository.files) == FILES | {"notes.txt", "push.json"}
    assert sorted(repository.commits[1]) == [
        "+dataset/part-00000.parquet", "+dataset_plain/part-00000.parquet",
        "-dataset/part-00001.parquet", "-dataset_plain/part-00001.parquet",
    ]  # fmt: skip


@by_lfs
def test_a_build_during_the_upload_makes_no_commit(run: RunDir, hub: Hub) -> None:
    def built_again() -> None:
        hub.on_upload = lambda: None
        build(run.finished_unit_files(), run.config(), byte_codec(), run.path, tau_f=2.0)

    hub.on_upload = built_again
    with pytest.raises(InputError, match="was built again meanwhile; push again"):
        push(run, REPO, chosen=Chosen.DATASET)  # one shard: nothing else is being uploaded
    assert hub.repositories["me/calls"].commits == []
    push(run, REPO)
    shard = "dataset/part-00000.parquet"
    assert hub.repositories["me/calls"].files[shard] == read_bytes(run.path / shard)


@by_lfs
def test_a_commit_of_another_during_the_upload_is_not_overwritten(run: RunDir, hub: Hub) -> None:
    def committed_too() -> None:
        hub.repositories["me/calls"].commits = [["+README.md"]]

    hub.repositories["me/calls"] = Repository(private=True)
    hub.on_upload = committed_too
    with pytest.raises(OutputError, match="the Hub answered 412: A commit has happened since"):
        push(run, REPO)
    assert hub.repositories["me/calls"].files == {}


@pytest.mark.parametrize("name", ["README.md", "dataset/part-00007.parquet"])
def test_a_repository_of_another_is_not_touched(run: RunDir, hub: Hub, name: str) -> None:
    hub.repositories["me/calls"] = Repository(private=True, files={name: b"theirs"})
    with pytest.raises(ConfigError, match=f"me/calls: holds a {name} that no push wrote"):
        push(run, REPO)
    assert hub.repositories["me/calls"].files == {name: b"theirs"}


@by_lfs
def test_what_the_hub_puts_into_a_new_repository_is_no_hindrance(run: RunDir, hub: Hub) -> None:
    new = {".gitattributes": b"*.parquet filter=lfs"}
    hub.repositories["me/calls"] = Repository(private=True, files=new)
    push(run, REPO)
    assert set(new) == FILES | {"push.json", ".gitattributes"}


@by_lfs
def test_a_copy_of_a_repository_can_be_pushed_to(run: RunDir, hub: Hub, tmp_path: Path) -> None:
    push(run, REPO)
    for name, content in hub.repositories["me/calls"].files.items():
        (tmp_path / "calls" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "calls" / name).write_bytes(content)
    push(run, tmp_path / "calls")
    assert not push(run, tmp_path / "calls").changed


def test_a_public_repository_is_not_taken_for_a_private_one(run: RunDir, hub: Hub) -> None:
    hub.created("me/calls", False)
    with pytest.raises(ConfigError, match="is there and is public"):
        push(run, REPO, private=True)
    assert hub.repositories["me/calls"].files == {}


def refused(arguments: Sequence[object], **changes: str) -> str:
    """What `push` says on standard error, by the command line."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "push", *map(str, arguments)],
        cwd=ROOT, env=ours | changes, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_who_is_not_known_is_told_in_one_line(run: RunDir, hub: Hub, tmp_path: Path) -> None:
    home = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    said = refused([run.path, "me/calls"], **home)
    assert "hub://me/calls: cannot be pushed: the Hub does not know who asks" in said
    assert hub.repositories == {}


def test_who_may_not_write_is_told(run: RunDir, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", READER)
    with pytest.raises(OutputError, match="may not write there: You don't have the rights"):
        push(run, REPO)
    assert hub.repositories == {}


def test_a_hub_that_is_not_there_is_named(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", nowhere)
    with pytest.raises(OutputError, match=f"hub://me/calls: {nowhere} cannot be reached: "):
        push(run, REPO)
