"""The card of a built dataset, and the dataset in a store and in a directory."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from upath import UPath

from pipeline.push import Chosen, HubRepo, Pushed, push, push_target
from pipeline.push.parcel import Parcel
from pipeline.push.store import push_to_place
from pipeline.rundir import RunDir
from pipeline.schemas import DATASET
from tests.pipeline.build.scored_units import candidate, row
from tests.pipeline.demo_runs import ROOT
from tests.pipeline.made_runs import built_run, commit, planned_run
from tests.pipeline.pushed import FILES, build_again, files_of, front_matter, loaded
from tools.atomic import write_text_atomically
from tools.base import ConfigError, InputError, OutputError
from tools.places import list_files, read_bytes


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return built_run(tmp_path / "run")


# The card.


def test_the_card_is_loaded_by_the_hubs_own_reader(run: RunDir, tmp_path: Path) -> None:
    push(run, tmp_path / "out", license_name="cc-by-4.0")
    card = (tmp_path / "out" / "README.md").read_text()
    data = front_matter(card)
    assert data["license"] == "cc-by-4.0"
    assert data["tags"] == ["toolformer", "tool-use"]
    assert data["size_categories"] == ["n<1K"]
    assert [each["config_name"] for each in data["configs"]] == ["dataset", "dataset_plain"]
    assert data["configs"][0]["default"] is True
    augmented = loaded(card, tmp_path / "out", "dataset")
    plain = loaded(card, tmp_path / "out", "dataset_plain")
    assert augmented.schema.equals(DATASET) and augmented.num_rows == plain.num_rows == 2
    assert sum(len(calls) for calls in augmented.column("calls").to_pylist()) == 4


def test_the_card_has_counts_calls_and_settings(run: RunDir, tmp_path: Path) -> None:
    push(run, tmp_path / "calls")
    card = (tmp_path / "calls" / "README.md").read_text()
    assert "# calls\n" in card and "license" not in front_matter(card)
    assert "No license was named." in card
    # tau_f, examples, calls, tried; then examples at 0.5, 1 and 2.
    assert "| Calculator | 0.5 | 2 | 2 | 8 | 2 | 2 | 1 |\n" in card
    assert "| Calendar | 1 | 1 | 2 | 2 | 1 | 1 | 1 |\n" in card
    assert "Calculator, +2.00 nats:\n\n    Café: 6 ÷ 3 = [Calculator(6 / 3) -> 2]2\n" in card
    assert "1 empty_text" in card and "torch 2.13.0" in card and "f" * 32 in card
    settings = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])
    assert (settings["model"]["name"], settings["seed"]) == ("model", 0)
    assert str(tmp_path) not in card


def test_the_card_counts_what_was_built_and_not_what_came_after(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 2, unit_documents=1)
    call = candidate("Calculator", 3, "1 + 1", "2", plus=0.5)
    parts = [row("a#1", "One and one.", [call]) | {"part": 1}, row("a#2", "More.") | {"part": 2}]
    commit(run, 0, parts)
    build_again(run)
    push(run, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| documents, or parts of long ones | 1 |\n" in card
    assert "| chosen from | 2, of 1 whole documents |\n" in card
    assert "| Calculator | 0 | 20 | 10 | 25,000 |\n" in card
    commit(run, 1, [row("b", "One and one.", [call])])
    assert not push(run, tmp_path / "out").changed


def test_a_build_of_another_version_is_named(run: RunDir, tmp_path: Path) -> None:
    write_text_atomically(run.path / "build.json", '{"documents": 2}')
    with pytest.raises(InputError, match=r"build.json: not written by this version; build again"):
        push(run, tmp_path / "out")


def test_texts_cannot_leave_their_place_in_the_card(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 1, unit_documents=1)
    hostile = "x\n---\n```\n# Not a heading\n<script>alert(1)</script>\x1b[2J y"
    commit(run, 0, [row("a", hostile, [candidate("Calculator", 3, "1 + 1", "2", plus=0.5)])])
    build_again(run)
    push(run, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    places = [line for line in card.splitlines() if "heading" in line or "script" in line]
    assert len(places) == 1 and places[0].startswith("    ") and "\x1b" not in card


def test_a_plain_dataset_alone_is_the_only_configuration(run: RunDir, tmp_path: Path) -> None:
    push(run, tmp_path / "out", chosen=Chosen.DATASET_PLAIN)
    card = (tmp_path / "out" / "README.md").read_text()
    (config,) = front_matter(card)["configs"]
    assert (config["config_name"], config["default"]) == ("dataset_plain", True)
    assert not (tmp_path / "out" / "dataset").exists()


# To a directory or a store.


def test_a_second_push_writes_nothing(run: RunDir, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    assert push(run, out) == Pushed(where=str(out), files=4, changed=True)
    before = files_of(out)
    assert set(before) == FILES | {"push.json"}
    assert push(run, out) == Pushed(where=str(out), files=4, changed=False)
    assert files_of(out) == before


def test_another_build_replaces_what_differs_and_removes_what_is_no_more(
    run: RunDir, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    build_again(run, shard_rows=1)
    push(run, out)
    assert (out / "dataset" / "part-00001.parquet").exists()
    before = files_of(out)
    (out / "dataset" / "part-00001.parquet").write_bytes(b"damaged")
    assert push(run, out).changed
    assert {name: content for name, (content, _) in files_of(out).items()} == {
        name: content for name, (content, _) in before.items()
    }
    build_again(run, shard_rows=100)
    assert push(run, out).changed
    assert set(files_of(out)) == FILES | {"push.json"}


def test_a_store_gets_the_files_and_then_nothing_more(
    run: RunDir, bucket: UPath, s3_server: Any
) -> None:
    target = bucket / "shared" / "calls"
    assert push(run, target).changed
    assert set(list_files(target)) == FILES | {"push.json"}
    for name in ("dataset/part-00000.parquet", "build.json"):
        assert read_bytes(target / name) == Path(str(run.path / name)).read_bytes()
    with s3_server.asked() as requests:
        assert not push(run, target).changed
    assert requests and not [line for line in requests if line.startswith(("PUT", "POST"))]


def test_a_run_in_a_store_is_pushed_from_there(bucket: UPath, tmp_path: Path) -> None:
    run = built_run(bucket / "run")
    push(run, tmp_path / "out")
    content = read_bytes(bucket / "run" / "dataset" / "part-00000.parquet")
    assert (tmp_path / "out" / "dataset" / "part-00000.parquet").read_bytes() == content


def test_what_another_wrote_is_not_replaced(run: RunDir, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds a README.md that no push wrote"):
        push(run, tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("build.json", "holds a build.json that no push wrote"),
        ("dataset/part-00007.parquet", "holds a dataset/part-00007.parquet that no push wrote"),
        ("run.json", "is a run"),
    ],
)
def test_data_of_another_is_not_touched(run: RunDir, tmp_path: Path, name: str, says: str) -> None:
    out = tmp_path / "out"
    (out / "dataset").mkdir(parents=True)
    (out / name).write_text("theirs")
    with pytest.raises(ConfigError, match=says):
        push(run, out)
    assert {file: content for file, (content, _) in files_of(out).items()} == {name: b"theirs"}


def test_a_run_is_no_target(run: RunDir, tmp_path: Path) -> None:
    another = built_run(tmp_path / "another")
    before = files_of(tmp_path)
    for target, says in [
        (run.path, "is the run itself"),
        (run.path / "dataset", "is inside the run"),
        (run.path / "new", "is inside the run"),
        (another.path / "dataset", f"is inside the run {another.path}"),
        (another.path / "new" / "deeper", f"is inside the run {another.path}"),
        (another.path, "is a run"),
    ]:
        with pytest.raises(ConfigError, match=says):
            push(run, target)
    assert files_of(tmp_path) == before


def test_what_else_lies_beside_the_shards_is_not_pushed(run: RunDir, tmp_path: Path) -> None:
    Path(str(run.path / "dataset" / "notes.txt")).write_text("mine")
    assert push(run, tmp_path / "out").files == 4
    assert set(files_of(tmp_path / "out")) == FILES | {"push.json"}


def test_a_push_that_broke_off_says_so_and_is_continued(run: RunDir, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "dataset_plain").mkdir(parents=True)
    (out / "dataset_plain" / "part-00000.parquet").mkdir()  # nothing can be put there
    with pytest.raises(OutputError, match=r"out: cannot be written: Is a directory"):
        push(run, out)
    assert '"complete": false' in (out / "push.json").read_text()
    first = (out / "dataset" / "part-00000.parquet").stat().st_mtime_ns
    (out / "dataset_plain" / "part-00000.parquet").rmdir()
    assert push(run, out).changed
    assert '"complete": true' in (out / "push.json").read_text()
    assert (out / "dataset" / "part-00000.parquet").stat().st_mtime_ns == first


def test_a_build_that_changes_meanwhile_leaves_an_incomplete_push(
    run: RunDir, tmp_path: Path
) -> None:
    def changed() -> None:
        raise InputError("was built again")

    shard = "dataset/part-00000.parquet"
    parcel = Parcel(shards={shard: run.path / shard}, texts={"README.md": "#"}, still_whole=changed)
    with pytest.raises(InputError, match="was built again"):
        push_to_place(parcel, tmp_path / "out")
    assert '"complete": false' in (tmp_path / "out" / "push.json").read_text()
    assert not (tmp_path / "out" / "README.md").exists()


def test_what_is_not_built_is_named(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 1)
    with pytest.raises(InputError, match=r"run: not built yet \(no build.json\)"):
        push(run, tmp_path / "out")
    with pytest.raises(InputError, match="no run here"):
        push(RunDir(tmp_path / "none"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user/name", HubRepo("user/name")),
        ("hub://user/my.name-2", HubRepo("user/my.name-2")),
        ("./user/name", Path("user/name")),
        ("/tmp/x", Path("/tmp/x")),
        ("exported", Path("exported")),
        ("s3://bucket/x", UPath("s3://bucket/x")),
    ],
)
def test_a_target_is_of_the_hub_or_a_place(text: str, expected: object) -> None:
    assert push_target(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hub://name", "expected hub://user/name"),
        ("tests/name", "write hub://tests/name for the Hub or ./tests/name"),
        ("hf://datasets/user/name", "hf:// is for input"),
        ("ftp://host/x", "not an address"),
    ],
)
def test_targets_that_cannot_be_meant_are_refused(
    text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(ConfigError, match=says):
        push_target(text)
