import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tools.calls import ApiCall, pieces_with_result
from training.world.corpus import held_out_corpus
from training.world.examples import (
    IGNORED,
    TOOLS,
    ExampleSource,
    annotated_text,
    annotated_tokens,
    encode_pieces,
    encode_text,
    training_documents,
)

MODEL = Path("pipeline/demo/model")
PROMPTS = Path("pipeline/configs/demo_prompts")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    loaded = AutoTokenizer.from_pretrained(MODEL)
    assert isinstance(loaded, PreTrainedTokenizerFast)
    return loaded


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=60).filter(lambda text: "<|" not in text))
def test_every_text_comes_back(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(" " + text)) == " " + text


@pytest.mark.parametrize(
    "text",
    ["e\u0301 \u00e9", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "a\x00b", "\u202eabc\u202c",
     "\t \n\r\n  x", "\uff11\uff12 \u0663", "\u200b\ufeff", "([)]->[[", "\ufffd"],
)  # fmt: skip
def test_odd_unicode_comes_back(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(" " + text)) == " " + text


def test_markers_are_single_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = [tokenizer.encode(marker) for marker in (" [", "]", " ->", "[")]
    assert [len(each) for each in ids] == [1, 1, 1, 1]
    assert len({each[0] for each in ids}) == 4


@pytest.mark.parametrize("text", [' ("a")]', " U.S.]", " 3]]", " x]y", " []", " a]\n"])
def test_the_closing_marker_never_fuses(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    (close,) = tokenizer.encode("]")
    assert tokenizer.encode(text).count(close) == text.count("]")
    assert [token for token in tokenizer.get_vocab() if "]" in token] == ["]"]


def test_digits_stand_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    pieces = [tokenizer.decode([token]) for token in tokenizer.encode(" 1234 + 56")]
    assert pieces == [" 1", "2", "3", "4", " +", " 5", "6"]


def test_a_call_in_running_text_has_the_tokens_of_its_pieces(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    pieces = pieces_with_result(ApiCall("WikiSearch", '"mayor of Velwick"'), "Velwick > Mayor.")
    assert tokenizer.encode("".join(pieces)) == encode_pieces(tokenizer, pieces)


@pytest.mark.parametrize("held_out", [False, True])
def test_arguments_fit_what_is_sampled_and_prompts_twice_with_documents_fit_the_model(
    tokenizer: PreTrainedTokenizerFast, held_out: bool
) -> None:
    """sampling.max_new_tokens is 64 and the model has 1024 positions."""
    stream = training_documents(random.Random(6))
    documents = held_out_corpus().documents if held_out else [next(stream) for _ in range(500)]
    longest = max(len(encode_text(tokenizer, document.text)[0]) for document in documents)
    prompts = [path.read_text(encoding="utf-8") for path in PROMPTS.glob("*.txt")]
    longest_prompt = max(len(tokenizer.encode(prompt)) for prompt in prompts)
    assert longest_prompt + 2 * longest + 64 + 100 < 1024
    for document in documents:
        for mark in document.marks:
            call = f"{mark.right.call}]"
            assert len(tokenizer.encode(call)) <= 64, call


def test_prompts_are_short(tokenizer: PreTrainedTokenizerFast) -> None:
    for path in PROMPTS.glob("*.txt"):
        assert len(tokenizer.encode(path.read_text(encoding="utf-8"))) <= 130


def test_annotated_tokens_decode_to_the_annotated_text(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    stream = training_documents(random.Random(3))
    for document in (next(stream) for _ in range(100)):
        for tool in TOOLS:
            marks = tuple(mark for mark in document.marks if mark.right.call.tool == tool)
            tokens = annotated_tokens(tokenizer, document, tool)
            assert tokenizer.decode(tokens) == " " + annotated_text(document.text, marks)


def test_documents_are_short_in_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    stream = training_documents(random.Random(4))
    lengths = [len(encode_text(tokenizer, next(stream).text)[0]) for _ in range(300)]
    assert 30 < sorted(lengths)[150] < 110
    assert max(lengths) <= 200


def test_examples_learn_the_document_and_never_the_result(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    prompts = {path.stem: path.read_text(encoding="utf-8") for path in PROMPTS.glob("*.txt")}
    stream = iter(ExampleSource(tokenizer, prompts, seed=5))
    (arrow,) = tokenizer.encode(" ->")
    with_results = 0
    for example in (next(stream) for _ in range(300)):
        assert len(example.input_ids) == len(example.labels)
        assert example.input_ids[0] == tokenizer.bos_token_id
        learned = [token for token in example.labels if token != IGNORED]
        said_twice = example.input_ids[1 : 1 + len(learned)] == learned
        assert said_twice or learned[-1] == tokenizer.eos_token_id
        assert arrow not in example.labels
        with_results += arrow in example.input_ids
    assert with_results > 60
