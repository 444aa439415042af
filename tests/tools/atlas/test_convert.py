"""From published files to a converted directory."""

import errno
import json
import os
import pickle
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

from tests.tools.atlas.tiny_atlas import (
    HIDDEN,
    PASSAGES,
    Published,
    save_checkpoint,
    small_state,
)
from tools.atlas.convert import convert_atlas
from tools.atlas.models import build_reader, load_model
from tools.atlas.saved import FILES, hash_all, hash_file, open_meta
from tools.base import ConfigError, InputError, OutputError
from tools.cli import main


@pytest.fixture
def files(published: Published, tmp_path: Path) -> Published:
    """A copy of the published files, to be damaged."""
    shutil.copytree(published.checkpoint.parent, tmp_path / "in")
    return Published(
        **{key: tmp_path / "in" / path.name for key, path in asdict(published).items()}
    )


def convert(files: Published, out: Path, **options: object) -> None:
    convert_atlas(**asdict(files), out=out, **options)  # type: ignore[arg-type]


def error_of(files: Published, tmp_path: Path, **options: object) -> str:
    """The one line a conversion ends in, which leaves nothing behind."""
    before = set(tmp_path.iterdir())
    with pytest.raises((ConfigError, InputError)) as caught:
        convert(files, tmp_path / "out", **options)
    assert set(tmp_path.iterdir()) == before
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_weights_of_reader_and_output_layer_both_survive(atlas: Path) -> None:
    state = small_state()
    reader = load_model(
        build_reader, atlas / "reader", dtype=torch.float32, device=torch.device("cpu")
    ).state_dict()
    assert not torch.equal(reader["shared.weight"], reader["lm_head.weight"])
    for name, weight in reader.items():
        assert torch.equal(weight, state[f"reader.{name}"]), name
    assert torch.equal(reader["decoder.embed_tokens.weight"], reader["shared.weight"])


def test_row_i_of_the_index_is_passage_i_of_the_shards(
    atlas: Path, embeddings_nd: torch.Tensor
) -> None:
    saved_nd = np.load(atlas / "index" / "embeddings.npy")
    assert saved_nd.dtype == np.float16
    assert saved_nd.flags.c_contiguous
    assert np.array_equal(saved_nd, embeddings_nd.half().numpy())
    table = pa.ipc.open_file(pa.memory_map(str(atlas / "index" / "passages.arrow"))).read_all()
    assert table["text"].to_pylist() == [passage["text"] for passage in PASSAGES]
    assert table["title"].to_pylist() == [passage["title"] for passage in PASSAGES]


def test_a_bloated_shard_is_many_times_what_is_kept(published: Published, atlas: Path) -> None:
    bloated = sum(path.stat().st_size for path in published.index.glob("embeddings.*.pt"))
    kept = (atlas / "index" / "embeddings.npy").stat().st_size
    assert kept < 2 * len(PASSAGES) * HIDDEN + 200
    assert bloated > 3 * kept - 1000


def test_the_same_files_give_the_same_bytes_and_the_hashes_are_of_them(
    files: Published, atlas: Path, tmp_path: Path
) -> None:
    convert(files, tmp_path / "again")
    assert {str(p.relative_to(atlas)) for p in atlas.rglob("*") if p.is_file()} == {
        *FILES,
        "meta.json",
    }
    for name in (*FILES, "meta.json"):
        assert (tmp_path / "again" / name).read_bytes() == (atlas / name).read_bytes()
    meta = open_meta(atlas)
    assert meta.content_hash == hash_all({name: hash_file(atlas / name) for name in FILES})
    assert meta.num_passages == len(PASSAGES)


def test_an_untied_retriever_gives_what_embeds_questions(files: Published, tmp_path: Path) -> None:
    state = small_state(untied=True)
    save_checkpoint(files.checkpoint, state)
    convert(files, tmp_path / "out")
    kept = load_file(tmp_path / "out" / "retriever" / "model.safetensors")
    name = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(kept[name], state[f"retriever.query_contriever.{name}"])
    assert not torch.equal(kept[name], state[f"retriever.passage_contriever.{name}"])
    assert "embeddings.position_ids" not in kept


def test_names_of_a_distributed_checkpoint_are_the_same_weights(
    files: Published, atlas: Path, tmp_path: Path
) -> None:
    state = {key.replace("reader.", "reader.module.", 1): w for key, w in small_state().items()}
    save_checkpoint(files.checkpoint, state)
    convert(files, tmp_path / "out")
    assert open_meta(tmp_path / "out").content_hash == open_meta(atlas).content_hash


def test_the_heads_of_the_retriever_can_be_said(files: Published, tmp_path: Path) -> None:
    assert "num_attention_heads is 5" in error_of(files, tmp_path, num_attention_heads=5)
    convert(files, tmp_path / "out", num_attention_heads=3)
    config = json.loads((tmp_path / "out" / "retriever" / "config.json").read_text())
    assert (config["num_attention_heads"], config["hidden_size"]) == (3, HIDDEN)


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.mark,))


def test_malicious_passages_are_refused_and_run_nothing(files: Published, tmp_path: Path) -> None:
    mark = tmp_path / "in" / "mark"
    passages = [*PASSAGES[:89], {"title": "t", "text": Evil(mark)}]
    (files.index / "passages.0.pt").write_bytes(pickle.dumps(passages))
    assert "passages.0.pt: cannot read the passages: it names pathlib" in error_of(files, tmp_path)
    assert not mark.exists()


def test_a_malicious_checkpoint_needs_trust(files: Published, tmp_path: Path) -> None:
    mark = tmp_path / "in" / "mark"
    torch.save({"model": small_state(), "opt": Evil(mark)}, files.checkpoint)
    error = error_of(files, tmp_path)
    assert error.startswith(f"{files.checkpoint}: holds more than tensors and plain data")
    assert "--trust-checkpoint" in error
    assert not mark.exists()
    convert(files, tmp_path / "out", trust_checkpoint=True)
    assert mark.exists()


def test_malicious_embeddings_are_refused_even_with_trust(files: Published, tmp_path: Path) -> None:
    mark = tmp_path / "in" / "mark"
    torch.save(Evil(mark), files.index / "embeddings.1.pt")
    assert "embeddings.1.pt" in error_of(files, tmp_path, trust_checkpoint=True)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("no checkpoint", "model.pth.tar: no such file"),
        ("torn checkpoint", "model.pth.tar: not a whole file of torch.save"),
        ("no model", "holds no state dict `model`"),
        ("no reader", "the checkpoint has no reader.* weights, only retriever.contriever.*"),
        ("no retriever", "the checkpoint has no retriever.contriever.* or"),
        ("missing weight", "decoder.block.2.layer.0.layer_norm.weight: no such weight, expected"),
        ("other shape", "decoder.final_layer_norm.weight: (7,), expected (32,)"),
        ("other formats", "trained with encoder_format '{query} {text}'"),
        ("torn passages", "passages.1.pt: cannot read the passages"),
        ("passage without text", "passages.1.pt: passage 0 has no title and text"),
        ("torn embeddings", "embeddings.1.pt: not a whole file of torch.save"),
        ("no shard 1", "embeddings.1.pt: is missing"),
        ("lost passage", "passages.1.pt: 59 passages, but 60 embeddings in embeddings.1.pt"),
        ("row-major", "embeddings.1.pt: the shape (60, 24), expected 24 rows"),
        ("infinity", "embeddings.1.pt: an embedding holds NaN or infinity"),
        ("other spiece", "spiece.model: not a sentencepiece model"),
        ("other vocab", "vocab.txt: has no line [PAD]"),
        ("long vocab", "vocab.txt: 165 tokens, but the model has 64 embeddings"),
        ("no index", "index: no such directory"),
    ],
)
def test_bad_files_are_one_line_and_leave_nothing(
    damage: str, expected: str, files: Published, tmp_path: Path
) -> None:
    damage_files(damage, files)
    assert expected in error_of(files, tmp_path)


def damage_files(damage: str, files: Published) -> None:
    passages, embeddings = (files.index / f"{name}.1.pt" for name in ("passages", "embeddings"))
    state = small_state()
    match damage:
        case "no checkpoint":
            files.checkpoint.unlink()
        case "torn checkpoint" | "torn passages" | "torn embeddings":
            path = {"checkpoint": files.checkpoint, "passages": passages, "embeddings": embeddings}
            torn = path[damage.removeprefix("torn ")]
            torn.write_bytes(torn.read_bytes()[:-200])
        case "no model":
            torch.save({"state": state}, files.checkpoint)
        case "no reader" | "no retriever":
            lost = damage.removeprefix("no ")
            kept = {key: value for key, value in state.items() if not key.startswith(lost)}
            save_checkpoint(files.checkpoint, kept)
        case "missing weight":
            del state["reader.decoder.block.2.layer.0.layer_norm.weight"]
            save_checkpoint(files.checkpoint, state)
        case "other shape":
            state["reader.decoder.final_layer_norm.weight"] = torch.ones(7)
            save_checkpoint(files.checkpoint, state)
        case "other formats":
            save_checkpoint(files.checkpoint, state, encoder_format="{query} {text}")
        case "passage without text":
            passages.write_bytes(pickle.dumps([{"title": "t"}] * 60))
        case "no shard 1":
            embeddings.unlink()
        case "lost passage":
            passages.write_bytes(pickle.dumps(PASSAGES[:59]))
        case "row-major":
            torch.save(torch.zeros(60, HIDDEN), embeddings)
        case "infinity":
            torch.save(torch.full((HIDDEN, 60), 1e6), embeddings)
        case "other spiece":
            files.reader_tokenizer.write_bytes(b"\xff" * 50)
        case "other vocab":
            files.retriever_vocab.write_text("the\na\n")
        case "long vocab":
            with files.retriever_vocab.open("a") as stream:
                stream.writelines(f"word{number}\n" for number in range(128))
        case "no index":
            shutil.rmtree(files.index)


@pytest.mark.parametrize("name", ["checkpoint", "index", "reader_tokenizer", "retriever_vocab"])
def test_an_input_the_system_refuses_to_read_is_named(
    name: str, files: Published, tmp_path: Path
) -> None:
    path = tmp_path / ("n" * 300)  # any other refusal of the system but "no such file" would do
    assert error_of(replace(files, **{name: path}), tmp_path) == (
        f"{path}: cannot read: File name too long"
    )


@pytest.mark.parametrize("name", ["reader_tokenizer", "retriever_vocab"])
def test_an_input_that_breaks_while_it_is_copied_is_named(
    name: str, files: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = getattr(files, name)
    read_bytes = Path.read_bytes

    def read_again(self: Path) -> bytes:
        if self == path and (tmp_path / ".out.partial" / "reader" / "config.json").is_file():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read_bytes(self)

    monkeypatch.setattr(Path, "read_bytes", read_again)
    assert error_of(files, tmp_path) == f"{path}: cannot read: Input/output error"


def test_a_full_disk_is_one_line_and_leaves_nothing(files: Published, small_disk: Path) -> None:
    with pytest.raises(OutputError, match=r"out: cannot write: No space left on device"):
        convert(files, small_disk / "out")
    assert not list(small_disk.iterdir())


def test_what_a_killed_command_left_is_replaced(
    files: Published, atlas: Path, tmp_path: Path
) -> None:
    (tmp_path / ".out.partial" / "reader").mkdir(parents=True)
    (tmp_path / ".out.partial" / "reader" / "model.safetensors").write_bytes(b"torn")
    convert(files, tmp_path / "out")
    assert open_meta(tmp_path / "out") == open_meta(atlas)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out"}


def test_the_command_converts_and_says_what_it_wrote(
    files: Published,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(files: Published) -> int:
        options = [f"--{key.replace('_', '-')}={path}" for key, path in asdict(files).items()]
        out = f"--out={tmp_path / 'out'}"
        monkeypatch.setattr(sys, "argv", ["tools", "convert-atlas", *options, out])
        with pytest.raises(SystemExit) as caught:
            main()
        assert isinstance(caught.value.code, int)
        return caught.value.code

    assert run(files) == 0
    assert capsys.readouterr().out.startswith(
        f"{tmp_path / 'out'}: Atlas of step 4,000, reader of 73,056 parameters, "
        "198 passages of 24 dimensions, "
    )
    assert run(files) == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path / 'out'}: is there already; delete it or name another directory\n"
    )
    assert run(replace(files, reader_tokenizer=Path("nowhere"))) == 1
    assert capsys.readouterr().err == "error: nowhere: no such file\n"
