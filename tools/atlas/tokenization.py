"""The tokenizers of Atlas, from the vocabularies of T5 and BERT.

They are built here, not by transformers, whose T5 tokenizer changed: Atlas was trained with the
fast tokenizer that transformers 4.18 made of spiece.model, which keeps the space before a sentinel
("answer: <extra_id_0>") as a token of its own; the one of transformers 5 drops it.
"""

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import Unigram, WordPiece
from tokenizers.processors import TemplateProcessing

from tools.base import InputError

NUM_SENTINELS = 100
_METASPACE = "\u2581"
_T5_SPECIAL = ("<pad>", "</s>", "<unk>")  # ids 0, 1 and 2
_BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_UNIGRAM = 1
# clean_up_tokenization_spaces, which transformers 4.18 did for every tokenizer; in this order.
_CLEAN_UP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


class TextTokenizer:
    """Texts to token ids of at most `max_length`, end tokens included, and back."""

    def __init__(self, tokenizer: Tokenizer, *, max_length: int) -> None:
        self._tokenizer = tokenizer
        tokenizer.enable_truncation(max_length)
        self.vocab_size: int = tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids` without special tokens, cleaned up as Atlas' answers were."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        for spaced, joined in _CLEAN_UP:
            text = text.replace(spaced, joined)
        return text.strip()


def load_t5_tokenizer(spiece: Path, *, max_length: int) -> TextTokenizer:
    """The reader's tokenizer: the pieces of `spiece`, then <extra_id_99> ... <extra_id_0>.

    Raises:
        InputError: it is not the sentencepiece model of a T5.
    """
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        proto.ParseFromString(spiece.read_bytes())
    except OSError as error:
        raise InputError(f"{spiece}: cannot read: {error.strerror or error}") from None
    except Exception as error:  # protobuf's DecodeError: its module moves between versions
        raise InputError(f"{spiece}: not a sentencepiece model: {error}") from None
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    if (
        proto.trainer_spec.model_type != _UNIGRAM
        or tuple(text for text, _ in pieces[: len(_T5_SPECIAL)]) != _T5_SPECIAL
    ):
        raise InputError(f"{spiece}: expected a unigram model with pieces {', '.join(_T5_SPECIAL)}")
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(NUM_SENTINELS))]
    pieces += [(sentinel, 0.0) for sentinel in sentinels]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=_T5_SPECIAL.index("<unk>")))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    tokenizer.normalizer = normalizers.Sequence(
        [
            *([normalizers.Precompiled(charsmap)] if charsmap else []),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_METASPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(_METASPACE, prepend_scheme="always")
    tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", _T5_SPECIAL.index("</s>"))]
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False) for token in (*_T5_SPECIAL, *sentinels)]
    )
    return TextTokenizer(tokenizer, max_length=max_length)


def load_bert_tokenizer(vocab: Path, *, max_length: int) -> TextTokenizer:
    """The retriever's tokenizer: word pieces in lower case between [CLS] and [SEP].

    Raises:
        InputError: it is not the vocabulary of a BERT.
    """
    try:
        words = vocab.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InputError(f"{vocab}: cannot read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{vocab}: not text in UTF-8; expected one token a line") from None
    ids = {word.removesuffix("\r"): index for index, word in enumerate(words) if word.strip()}
    for token in _BERT_SPECIAL:
        if token not in ids:
            raise InputError(f"{vocab}: has no line {token}; expected the vocab.txt of a BERT")
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in _BERT_SPECIAL])
    return TextTokenizer(tokenizer, max_length=max_length)
