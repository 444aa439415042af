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
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (
    Tokenizer,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import NllbTokenizer

_READER_SEEDS = 720  # what of them no segmentation uses is left out: some 450 pieces stay
_RETRIEVER_PIECES = 720
_TRANSLATOR_PIECES = 1600
_METASPACE = "\u2581"
_BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_NLLB_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
_ASCII = string.ascii_letters + string.digits + string.punctuation


def write_spiece(texts: Sequence[str], path: Path) -> None:
    """A unigram sentencepiece model with T5's ids: pad 0, </s> 1, <unk> 2.

    Its candidates come from merging pairs: those that sentencepiece looks for itself are made of
    what several words share, which are the names and not the words of the questions.
    """
    splits = [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    counts = _merged_pieces(texts, splits, _READER_SEEDS)
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".tsv") as seeds:
        for piece, count in counts.items():
            seeds.write(f"{piece}\t{1 + count}\n")
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
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(model.getvalue())
    proto.trainer_spec.ClearField("seed_sentencepieces_file")  # another name each time
    path.write_bytes(proto.SerializeToString(deterministic=True))


def write_wordpiece(texts: Iterable[str], path: Path) -> None:
    """A lower-case WordPiece vocabulary, one piece per line; every ASCII character is a piece.

    The pieces come from merging pairs: the trainer of WordPiece does not make the same twice.
    """
    splits = [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Metaspace()]
    merged = _merged_pieces([text.lower() for text in texts], splits, _RETRIEVER_PIECES)
    pieces = {*_ASCII.lower(), *(f"##{character}" for character in _ASCII.lower())}
    for piece in merged:
        word = piece.removeprefix(_METASPACE)
        pieces.add(word if piece.startswith(_METASPACE) else f"##{word}")
    lines = [*_BERT_SPECIALS, *sorted(pieces - {""})]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _merged_pieces(
    texts: Sequence[str], splits: list[pre_tokenizers.PreTokenizer], size: int
) -> dict[str, int]:
    """`size` pieces with their counts in `texts`; one that begins a word begins with _METASPACE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    trainer = trainers.BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=list(_ASCII)
    )
    tokenizer.train_from_iterator(texts, trainer)
    counts = Counter(piece for each in tokenizer.encode_batch(texts) for piece in each.tokens)
    return {piece: counts[piece] for piece in sorted(tokenizer.get_vocab())}


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
