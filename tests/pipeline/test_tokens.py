import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from pipeline.engines.checkpoint import load_tokenizer
from pipeline.tokens import NotLossless, TokenCodec, stripped_span
from tests.pipeline.tiny_checkpoints import END, byte_level_tokenizer, llama2_tokenizer
from tools.base import ConfigError

GPT2_FILES = Path(__file__).parents[3] / "shared" / "data" / "gpt2_bpe"
BYTE_LEVEL = TokenCodec(byte_level_tokenizer(), bos_id=0, eos_id=0)
LLAMA2 = TokenCodec(llama2_tokenizer(), bos_id=1, eos_id=2)
CODECS = pytest.mark.parametrize("codec", [BYTE_LEVEL, LLAMA2], ids=["byte-level", "llama2"])

# Texts with everything that has length in one encoding and not in another, and white space.
texts = st.text(st.sampled_from('ab []("é東🙂\u0301\u200d\n\t\u00a0')) | st.text()
calls = st.sampled_from([" [Calendar() -> Today is Friday]", ' [QA("é") ->]'])


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> TokenCodec:
    """GPT-2's own vocabulary under the names a checkpoint has."""
    if not GPT2_FILES.is_dir():
        pytest.skip("needs shared/data/gpt2_bpe beside the checkout")
    directory = tmp_path_factory.mktemp("gpt2")
    shutil.copy(GPT2_FILES / "encoder.json", directory / "vocab.json")
    shutil.copy(GPT2_FILES / "vocab.bpe", directory / "merges.txt")
    (directory / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    return TokenCodec.load(str(directory))


@pytest.mark.shared_data
def test_gpt2_markers_have_the_ids_they_are_known_by(gpt2: TokenCodec) -> None:
    assert gpt2.open_ids == (685,)
    assert len(gpt2.close_ids) == 53
    assert {60, 15437, 8973, 25295, 4357} < gpt2.close_ids
    assert gpt2.bos_id == gpt2.eos_id == 50256


@pytest.mark.shared_data
def test_gpt2_pieces_keep_the_markers_apart(gpt2: TokenCodec) -> None:
    ids = gpt2.encode_pieces((" [", 'QA("What")', " ->", " the U.S.", "]"))
    assert ids[:6].tolist() == [685, 48, 32, 7203, 2061, 4943]
    assert ids[6] == 4613
    assert ids[-1] == 60


@pytest.mark.shared_data
def test_gpt2_canonical_tokens_start_with_the_space_after_output(gpt2: TokenCodec) -> None:
    assert gpt2.token_bytes(gpt2.canonical("  Hello world\n")) == [b" Hello", b" world"]
    assert gpt2.prompt_ids("Hello world").tolist() == [15496, 995]
    assert gpt2.count(" Hello world ") == 2


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("begun", "on"),
    [
        ("One", " then"),
        ("One two.", " Then"),
        ("One two.", "\n\nThen"),
        ("One\n", "Then"),
        ("One\n\n", "Then"),
        ("One\n \n\n", "Then"),
    ],
)
def test_gpt2_tokens_of_a_beginning_are_those_of_the_whole_text(
    gpt2: TokenCodec, begun: str, on: str
) -> None:
    ids = gpt2.beginning(begun)
    assert b"".join(gpt2.token_bytes(ids)) == b" " + begun.encode()
    assert gpt2.canonical(begun + on)[: len(ids)].tolist() == ids.tolist()


@CODECS
def test_a_beginning_has_no_space_at_its_end_and_one_before_it(codec: TokenCodec) -> None:
    assert codec.beginning("\n One \t").tolist() == codec.canonical("One").tolist()
    assert b"".join(codec.token_bytes(codec.beginning("One\n\t "))) == b" One\n"
    assert codec.beginning(" \n").tolist() == []


def test_byte_level_tokens_of_a_split_character_are_its_bytes() -> None:
    ids = BYTE_LEVEL.canonical("é x")
    assert BYTE_LEVEL.token_bytes(ids) == [b" ", b"\xc3", b"\xa9", b" ", b"x"]
    assert BYTE_LEVEL.byte_offsets(ids).tolist() == [0, 1, 2, 3, 4, 5]
    assert BYTE_LEVEL.legal_positions(ids).tolist() == [True, True, False, True, True]


def test_sentencepiece_tokens_are_bytes_without_the_dummy_space() -> None:
    ids = LLAMA2.canonical("é x")
    assert LLAMA2.token_bytes(ids) == [b" ", b"\xc3", b"\xa9", b" ", b"x"]
    assert LLAMA2.legal_positions(ids).tolist() == [True, True, False, True, True]
    assert LLAMA2.token_bytes(LLAMA2.encode_pieces(("]",))) == [b"]"]


def test_sentencepiece_prompts_keep_the_dummy_space_the_model_knows() -> None:
    assert b"".join(LLAMA2.token_bytes(LLAMA2.prompt_ids("Input: a"))) == b" Input: a"


def test_byte_level_prompts_are_their_own_bytes() -> None:
    assert b"".join(BYTE_LEVEL.token_bytes(BYTE_LEVEL.prompt_ids("Input: a"))) == b"Input: a"


@CODECS
def test_markers(codec: TokenCodec) -> None:
    assert codec.token_bytes(codec.open_ids) == [b" ["]
    closing = codec.token_bytes(sorted(codec.close_ids))
    assert len(closing) > 1 and all(b"]" in token for token in closing)
    everything = codec.token_bytes(range(500))
    assert sum(b"]" in token for token in everything) == len(closing)


@CODECS
def test_samples_are_read_up_to_the_first_closing_bracket(codec: TokenCodec) -> None:
    ids = codec.encode_pieces(("QA(x)", "]", " and ]"))
    assert codec.decode_sample(ids.tolist()) == "QA(x)"
    assert (codec.decode_sample(ids[:1].tolist()) or "").startswith("Q")


def test_ids_without_a_token_read_as_replacement_characters() -> None:
    assert BYTE_LEVEL.decode_sample([BYTE_LEVEL.open_ids[0], 5000]) == " [\ufffd"


def test_half_a_character_in_a_sample_is_no_text() -> None:
    ids = BYTE_LEVEL.encode_pieces(("é", "]")).tolist()
    assert BYTE_LEVEL.decode_sample(ids) == "é"
    assert BYTE_LEVEL.decode_sample([ids[0], ids[-1]]) is None


def test_the_name_of_a_special_token_in_a_text_is_plain_text() -> None:
    ids = BYTE_LEVEL.canonical(f"before {END} after")
    assert BYTE_LEVEL.bos_id not in ids
    assert b"".join(BYTE_LEVEL.token_bytes(ids)).decode() == f" before {END} after"


def test_bos_falls_back_to_the_end_of_text() -> None:
    assert TokenCodec(byte_level_tokenizer(), bos_id=None, eos_id=0).bos_id == 0
    assert TokenCodec(byte_level_tokenizer(), bos_id=None, eos_id=None).bos_id is None


def test_a_text_the_tokenizer_normalises_is_not_lossless() -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.normalizer = normalizers.NFC()
    codec = TokenCodec(tokenizer, bos_id=0, eos_id=0)
    assert codec.canonical("\u00e9").size
    with pytest.raises(NotLossless):
        codec.canonical("e\u0301")


def test_the_space_mark_itself_is_not_lossless_in_sentencepiece() -> None:
    with pytest.raises(NotLossless):
        LLAMA2.canonical("a\u2581b")


def test_half_a_surrogate_pair_is_not_lossless() -> None:
    with pytest.raises(NotLossless):
        BYTE_LEVEL.canonical("a \ud83d b")


def test_white_space_around_a_text_is_no_part_of_its_tokens() -> None:
    assert stripped_span("\u2003 a b\n") == (2, 5)
    assert stripped_span(" \n") == (2, 2)


def test_insertion_offsets_count_bytes_of_the_original_text() -> None:
    text = "\u2003é x\n"  # a white space of three bytes, then "é x"
    ids = BYTE_LEVEL.canonical(text)  # " ", C3, A9, " ", "x"
    assert BYTE_LEVEL.insertion_offsets(text, ids).tolist() == [3, 3, 4, 5, 6]


def test_splice_keeps_the_order_of_inserts_at_one_position() -> None:
    ids = np.array([1, 2, 3], dtype=np.int32)
    inserts = [(3, [8]), (1, [5, 6]), (0, [4]), (1, [7])]
    arrays = [(position, np.array(insert, dtype=np.int32)) for position, insert in inserts]
    spliced = TokenCodec.splice(ids, arrays)
    assert spliced.tolist() == [4, 1, 5, 6, 7, 2, 3, 8]
    assert spliced.dtype == np.int32


def test_a_call_before_the_first_word_takes_the_space_after_it() -> None:
    text = "\na é"
    ids = BYTE_LEVEL.canonical(text)
    assert BYTE_LEVEL.token_bytes(ids) == [b" ", b"a", b" ", b"\xc3", b"\xa9"]
    annotated, spans = BYTE_LEVEL.spliced_text(text, ids, [(2, " [B]"), (0, " [A]"), (0, " [C]")])
    assert annotated == "\n[A] [C] a [B] é"
    assert spans == [(10, 14), (1, 5), (5, 9)]


@CODECS
@given(text=texts)
def test_canonical_tokens_spell_the_text(codec: TokenCodec, text: str) -> None:
    if "\u2581" in text:
        return
    ids = codec.canonical(text)
    assert b"".join(codec.token_bytes(ids)) == (" " + text.strip()).encode()
    assert codec.byte_offsets(ids)[-1] == len((" " + text.strip()).encode())
    assert codec.count(text) == len(ids)


@CODECS
@given(text=texts, data=st.data())
def test_removing_the_spans_gives_the_text_back(
    codec: TokenCodec, text: str, data: st.DataObject
) -> None:
    if "\u2581" in text:
        return
    ids = codec.canonical(text)
    legal = st.sampled_from(np.flatnonzero(codec.legal_positions(ids)).tolist())
    inserts = data.draw(st.lists(st.tuples(legal, calls), max_size=4))
    annotated, spans = codec.spliced_text(text, ids, inserts)
    remaining = annotated.encode()
    for (begin, end), (_, call) in sorted(zip(spans, inserts, strict=True), reverse=True):
        assert remaining[begin:end].strip() == call.strip().encode()
        remaining = remaining[:begin] + remaining[end:]
    assert remaining == text.encode()


@CODECS
@given(text=texts, data=st.data())
def test_spliced_tokens_spell_the_spliced_text(
    codec: TokenCodec, text: str, data: st.DataObject
) -> None:
    if "\u2581" in text:
        return
    ids = codec.canonical(text)
    legal = st.sampled_from(np.flatnonzero(codec.legal_positions(ids)).tolist())
    inserts = data.draw(st.lists(st.tuples(legal, calls), max_size=4))
    annotated, _ = codec.spliced_text(text, ids, inserts)
    spliced = codec.splice(ids, [(i, codec.encode_pieces((call,))) for i, call in inserts])
    start, end = stripped_span(text)
    tail = len(text) - end
    assert (
        b"".join(codec.token_bytes(spliced)).decode()
        == " " + annotated[start : len(annotated) - tail]
    )


def test_a_tokenizer_that_splits_the_marker_is_refused() -> None:
    tokenizer = byte_level_tokenizer(num_tokens=257)  # the bytes and the end of text
    with pytest.raises(ConfigError, match=r'tiny: .* splits " \[" into 2 tokens'):
        TokenCodec(tokenizer, bos_id=0, eos_id=0, name="tiny")


def test_a_tokenizer_of_another_family_is_refused() -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(ConfigError, match="words: its tokenizer is not supported"):
        TokenCodec(tokenizer, bos_id=0, eos_id=0, name="words")


@pytest.mark.parametrize("name", ["/nowhere/model", "./model", "a/b/c"])
def test_a_missing_directory_is_one_clear_line(name: str) -> None:
    with pytest.raises(ConfigError, match="no such model directory") as error:
        TokenCodec.load(name)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_a_directory_without_a_model_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config\.json"):
        TokenCodec.load(str(tmp_path))


def test_a_directory_without_a_tokenizer_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gptj"}))
    with pytest.raises(ConfigError, match="no tokenizer") as error:
        TokenCodec.load(str(tmp_path))
    assert "\n" not in str(error.value)


def test_a_plain_tokenizer_is_the_one_transformers_loads() -> None:
    from transformers import AutoTokenizer

    path = str(Path(__file__).parents[2] / "pipeline" / "demo" / "model")
    theirs = AutoTokenizer.from_pretrained(path)
    ours = load_tokenizer(path, None)
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)
    assert json.loads(ours.backend.to_str()) == json.loads(theirs.backend_tokenizer.to_str())


def test_loading_a_plain_tokenizer_needs_neither_torch_nor_transformers() -> None:
    program = (
        "import sys, pipeline.engines.load; from pipeline.tokens import TokenCodec; "
        "TokenCodec.load('pipeline/demo/model'); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, check=False).returncode == 0
