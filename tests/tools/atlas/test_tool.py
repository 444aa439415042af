"""AtlasQA, from its options to its answers."""

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

from tests.tools.atlas.tiny_atlas import TOPICS
from tools.atlas.tool import AtlasQA
from tools.base import ConfigError, InputError, LoadingTool, ToolRequest, ToolResult, ToolStatus
from tools.registry import build_tool

ROOT = Path(__file__).resolve().parents[3]
QUESTIONS = [f"Where is the {topic} number {number}?" for number, topic in enumerate(TOPICS * 3)]


def ask(tool: AtlasQA, *questions: str) -> list[ToolResult]:
    return tool.run([ToolRequest(input=question) for question in questions])


@pytest.fixture(scope="module")
def tool(atlas: Path) -> AtlasQA:
    tool = AtlasQA(path=str(atlas), n_context=4, max_new_tokens=8)
    tool.load()
    return tool


def test_an_answer_does_not_depend_on_what_else_is_asked(tool: AtlasQA) -> None:
    together = ask(tool, *QUESTIONS)
    assert len({result.result for result in together}) > 5
    for index in (0, 13, 26):
        assert ask(tool, QUESTIONS[index]) == [together[index]]
    assert ask(tool, *reversed(QUESTIONS)) == together[::-1]
    assert ask(tool, *QUESTIONS[3:9], "?", *QUESTIONS[:3])[:6] == together[3:9]
    assert ask(tool) == []


def test_one_thread_computes_whatever_others_have_set(tool: AtlasQA) -> None:
    expected = ask(tool, *QUESTIONS)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert ask(tool, *QUESTIONS) == expected
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_quotes_around_a_question_are_not_part_of_it(tool: AtlasQA) -> None:
    plain, quoted = ask(tool, QUESTIONS[4], f'"{QUESTIONS[4]}"')
    assert plain == quoted
    assert plain.status is ToolStatus.OK


def test_a_question_that_is_none_is_invalid(tool: AtlasQA) -> None:
    results = ask(tool, "", '" "', "a" * 501, "\ud800 </s> <extra_id_3> \0 [MASK]", "a" * 500)
    assert [result.status for result in results[:3]] == [ToolStatus.INVALID] * 3
    assert results[2].error == "a question of 501 characters, expected at most 500"
    assert {result.status for result in results[3:]} <= {ToolStatus.OK, ToolStatus.EMPTY}


def test_an_answer_without_text_is_empty(atlas: Path) -> None:
    tool = AtlasQA(path=str(atlas), n_context=4, max_new_tokens=3)
    tool.load()
    assert tool._atlas is not None
    tool._atlas._reader._model.lm_head.weight.zero_()  # every token is padding
    assert ask(tool, QUESTIONS[0]) == [ToolResult.empty("no answer")]


def test_normalized_questions_are_lower_case_without_question_mark(
    atlas: Path, tool: AtlasQA
) -> None:
    normalizing = AtlasQA(path=str(atlas), n_context=4, max_new_tokens=8, normalize_question=True)
    normalized = [question.lower().removesuffix("?") for question in QUESTIONS]
    assert ask(normalizing, *QUESTIONS) == ask(tool, *normalized) != ask(tool, *QUESTIONS)


def test_the_version_tells_of_all_that_changes_an_answer(atlas: Path, tmp_path: Path) -> None:
    def version(**options: object) -> str:
        return build_tool("QA", factory=None, options={"path": str(atlas), **options}).version

    others: list[dict[str, object]] = [
        {"n_context": 20}, {"max_new_tokens": 15}, {"normalize_question": True},
        {"device": "cuda"}, {"dtype": "bfloat16"}, {"decoder_batch": 8},
        {"max_question_chars": 100}, {"index_actors": 2, "index_num_gpus": 1},
    ]  # fmt: skip
    assert len({version(), *(version(**options) for options in others)}) == 1 + len(others)
    assert version(index_actors=3) == version()
    assert f":torch={metadata.version('torch')}:" in version()
    assert f":transformers={metadata.version('transformers')}:" in version()
    shutil.copytree(atlas, tmp_path / "elsewhere" / "large")
    moved = build_tool(
        "QA", factory=None, options={"path": str(tmp_path / "elsewhere"), "size": "large"}
    )
    assert moved.version == version()
    assert isinstance(moved, LoadingTool)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dtype": "float16"}, "QA: dtype is float16, in which the activations of T5 overflow"),
        ({"device": "auto"}, "tool QA: option 'device' is 'auto'"),
        ({"dtype": "int8"}, "QA: dtype is int8, expected float32 or bfloat16"),
        ({"n_context": 0}, "QA: n_context is 0, expected at least 1"),
        ({"max_question_chars": 0}, "QA: max_question_chars is 0"),
        ({"index_actors": -1}, "QA: index_actors is -1, expected at least 0"),
        ({"index_num_gpus": 0.5}, "QA: index_num_gpus is for index_actors"),
        ({"index_num_gpus": float("nan")}, "QA: index_num_gpus is nan"),
        ({"size": "huge"}, "tool QA: option 'size' is 'huge'"),
        ({"size": "xxl"}, "/xxl: no such directory; make one with convert-atlas"),
        ({"path": "/nowhere"}, "/nowhere: no such directory"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, object], expected: str, atlas: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build_tool("QA", factory=None, options={"path": str(atlas), **options})
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        ("meta.json", None, "meta.json: cannot read: No such file"),
        ("meta.json", b"{}", "meta.json: not written by convert-atlas of this version"),
        ("index/embeddings.npy", None, "index/embeddings.npy: is missing"),
        ("reader/model.safetensors", b"torn", "model.safetensors: 4 bytes, expected 299512"),
    ],
)
def test_a_torn_directory_is_refused_before_anything_is_loaded(
    name: str, damage: bytes | None, expected: str, atlas: Path, tmp_path: Path
) -> None:
    shutil.copytree(atlas, tmp_path / "atlas")
    if damage is None:
        (tmp_path / "atlas" / name).unlink()
    else:
        (tmp_path / "atlas" / name).write_bytes(damage)
    with pytest.raises(InputError) as caught:
        AtlasQA(path=str(tmp_path / "atlas"))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "reader/config.json", "reader/model.safetensors", "reader/spiece.model",
        "retriever/config.json", "retriever/model.safetensors", "retriever/vocab.txt",
        "index/embeddings.npy", "index/passages.arrow", "index/meta.json",
    ],
)  # fmt: skip
def test_a_file_of_the_right_size_and_wrong_content_is_one_line_when_loaded(
    name: str, atlas: Path, tmp_path: Path
) -> None:
    shutil.copytree(atlas, tmp_path / "atlas")
    path = tmp_path / "atlas" / name
    path.write_bytes(b"\0" * path.stat().st_size)
    tool = AtlasQA(path=str(tmp_path / "atlas"))
    with pytest.raises(InputError) as caught:
        tool.load()
    assert str(tmp_path / "atlas" / Path(name).parent) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cuda_where_there_is_none_is_one_line(atlas: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ConfigError, match="device is cuda, but torch finds no CUDA device"):
        AtlasQA(path=str(atlas), device="cuda").load()


def test_constructing_needs_neither_torch_nor_transformers_nor_ray(atlas: Path) -> None:
    code = (
        "import sys; from tools.atlas.tool import AtlasQA; "
        f"AtlasQA(path={str(atlas)!r}); "
        "assert not {'torch', 'transformers', 'ray', 'numpy.random'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
