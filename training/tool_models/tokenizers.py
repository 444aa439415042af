"""The three tokenizers, in the files that the real models bring: T5, BERT and NLLB.

The first two cut an invented name into its syllables: the vocabularies are too small to hold
whole names, so that a name never seen before is made of pieces seen many times.
"""

import io
import json
import string
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
from tokenizers import (
    BertWordPieceTokenizer,
    Tokenizer,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import NllbTokenizer

_READER_SEEDS = 720  # what of them no segmentation uses is left out: some 450 pieces stay
_RETRIEVER_PIECES = 720
_TRANSLATOR_PIECES = 1600
_BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_NLLB_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
_ASCII = string.ascii_letters + string.digits + string.punctuation


def write_spiece(texts: Sequence[str], path: Path) -> None:
    """A unigram sentencepiece model with T5's ids: pad 0, </s> 1, <unk> 2.

    Its candidates come from merging pairs: those that sentencepiece looks for itself are made of
    what several words share, which are the names and not the words of the questions.
    """
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".tsv") as seeds:
        for piece, count in _merged_pieces(texts).items():
            seeds.write(f"{piece}\t{count}\n")
        seeds.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            seed_sentencepieces_file=seeds.name,
            vocab_size=_READER_SEEDS,
            hard_vocab_limit=False,
            model_type="unigram",
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            character_coverage=1.0,
            required_chars=_ASCII,
            num_threads=1,
            minloglevel=2,
        )
    path.write_bytes(model.getvalue())


def _merged_pieces(texts: Sequence[str]) -> dict[str, int]:
    """Pieces of words and how often they stand in `texts`, at least once each."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=_READER_SEEDS, show_progress=False, initial_alphabet=list(_ASCII)
    )
    tokenizer.train_from_iterator(texts, trainer)
    counts = Counter(piece for each in tokenizer.encode_batch(texts) for piece in each.tokens)
    return {piece: 1 + counts[piece] for piece in sorted(tokenizer.get_vocab())}


def write_wordpiece(texts: Iterable[str], path: Path) -> None:
    """A lower-case WordPiece vocabulary, one piece per line; every ASCII character is a piece."""
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(
        texts,
        vocab_size=_RETRIEVER_PIECES,
        min_frequency=1,
        show_progress=False,
        special_tokens=_BERT_SPECIALS,
        initial_alphabet=list(_ASCII.lower()),
    )
    vocab = tokenizer.get_vocab()
    pieces = sorted(vocab, key=vocab.__getitem__)
    path.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")


def nllb_tokenizer(texts: Iterable[str]) -> NllbTokenizer:
    """A BPE tokenizer with NLLB's ids: <s> 0, <pad> 1, </s> 2, <unk> 3, pieces, 202 languages."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=_TRANSLATOR_PIECES,
        show_progress=False,
        special_tokens=_NLLB_SPECIALS,
        initial_alphabet=list(_ASCII),
    )
    tokenizer.train_from_iterator(texts, trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(pair) for pair in trained["merges"]]
    return NllbTokenizer(vocab=trained["vocab"], merges=merges)  # type: ignore[arg-type]
