"""The texts Atlas was trained on, and how they become tokens."""

from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BertTokenizer

from tests.tools.atlas.tiny_atlas import Published
from tools.atlas.formats import TEXT_MAXLENGTH, clean_question, query_of, reader_row
from tools.atlas.tokenization import TextTokenizer, load_bert_tokenizer, load_t5_tokenizer
from tools.base import InputError


def test_the_texts_are_those_of_the_training_of_atlas() -> None:
    query = query_of("where was joe biden born")
    assert query == "question: where was joe biden born answer: <extra_id_0>"
    assert reader_row(query, title="Joe Biden: Early life", text="Born in {Scranton}.") == (
        "question: where was joe biden born answer: <extra_id_0> "
        "title: Joe Biden: Early life context: Born in {Scranton}."
    )
    assert query_of("{question}?") == "question: {question}? answer: <extra_id_0>"
    assert TEXT_MAXLENGTH == 512


@pytest.mark.parametrize(
    ("text", "plain", "normalized"),
    [
        ('"Where was Joe Biden born?"', "Where was Joe Biden born?", "where was joe biden born"),
        ("\u201cWho?\u201d", "Who?", "who"),
        ("Who said 'no'", "Who said 'no", "who said 'no"),
        (" a\nb\t c ? ? ", "a b c ? ?", "a b c"),
        ('""', "", ""),
        ("?", "?", ""),
        ("lone \ud800 half", "lone ? half", "lone ? half"),
    ],
)
def test_a_question_loses_what_the_call_put_around_it(
    text: str, plain: str, normalized: str
) -> None:
    assert clean_question(text, normalize=False) == plain
    assert clean_question(text, normalize=True) == normalized


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.text("abcdehr tnumiv?.0123\u00e9\u212b", min_size=1), max_size=8))
def test_text_has_the_tokens_of_sentencepiece(published: Published, words: list[str]) -> None:
    tokenizer = load_t5_tokenizer(published.reader_tokenizer, max_length=512)
    reference = sentencepiece.SentencePieceProcessor(model_file=str(published.reader_tokenizer))
    text = " ".join(" ".join(words).split())
    assert tokenizer.encode([text]) == [[*reference.encode(text), 1]]


def test_the_space_before_a_sentinel_is_a_token_and_sentinels_count_down(
    published: Published,
) -> None:
    tokenizer = load_t5_tokenizer(published.reader_tokenizer, max_length=512)
    reference = sentencepiece.SentencePieceProcessor(model_file=str(published.reader_tokenizer))
    space = reference.piece_to_id("\u2581")
    first = tokenizer.vocab_size - 1
    assert tokenizer.vocab_size == reference.vocab_size() + 100
    (ids,) = tokenizer.encode(["answer: <extra_id_0> title: <extra_id_1>"])
    expected = [*reference.encode("answer:"), space, first, *reference.encode("title:"), space]
    assert ids == [*expected, first - 1, 1]
    assert tokenizer.decode([0, first, *reference.encode("the river"), 1, 0]) == "the river"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("St . Louis , Missouri", "St. Louis, Missouri"),
        ("Who ? Me !", "Who? Me!"),
        ("the king 's river", "the king's river"),
        ("rock ' n ' roll", "rock'n'roll"),
        ("I 'm , we 're , they 've", "I'm, we're, they've"),
        ("they do n't", "they don't"),
        ("the 're ' s", "the're's"),
        ("3.5 - 4 : 'near' ( city )", "3.5 - 4 : 'near' ( city )"),
    ],
)
def test_an_answer_is_cleaned_up_as_transformers_4_did(text: str, expected: str) -> None:
    vocabulary = {word: index for index, word in enumerate(text.split())}
    tokenizer = Tokenizer(WordLevel(vocabulary))
    ids = [vocabulary[word] for word in text.split()]
    assert tokenizer.decode(ids) == text
    assert TextTokenizer(tokenizer, max_length=9).decode(ids) == expected


def test_texts_are_cut_with_their_end_tokens_in_place(published: Published) -> None:
    reader = load_t5_tokenizer(published.reader_tokenizer, max_length=10)
    retriever = load_bert_tokenizer(published.retriever_vocab, max_length=10)
    (long,), (short,) = reader.encode(["river " * 50]), reader.encode(["river"])
    assert (len(long), long[-1], short[-1]) == (10, 1, 1)
    (long,), (short,) = retriever.encode(["river " * 50]), retriever.encode(["river"])
    assert (len(long), long[0], long[-1]) == (10, short[0], short[-1])
    assert len(short) == 3


def test_queries_have_the_tokens_of_bert(published: Published) -> None:
    tokenizer = load_bert_tokenizer(published.retriever_vocab, max_length=512)
    reference = BertTokenizer(vocab=str(published.retriever_vocab))
    texts = [query_of("Where is the R\u00cdVER?"), "the [SEP] kings, near\u4e2dwhat", "", "zebra"]
    assert tokenizer.encode(texts) == [reference(text).input_ids for text in texts]


def test_another_sentencepiece_model_is_refused(tmp_path: Path, published: Published) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(InputError, match="expected a unigram model with pieces <pad>, </s>, <unk>"):
        load_t5_tokenizer(tmp_path / "empty", max_length=512)
    with pytest.raises(InputError, match="cannot read"):
        load_t5_tokenizer(tmp_path / "missing", max_length=512)
