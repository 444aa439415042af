"""The demo tokenizer: byte-level BPE that keeps the markers of calls apart from their neighbours.

Digits stand alone, and " [", "]" and " ->" are pre-tokens of their own, so that no merge can
fuse them with what stands next to them. Every byte has a token: any UTF-8 text comes back.
"""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tools.calls import ARROW, CLOSE, OPEN

END_OF_TEXT = "<|endoftext|>"
VOCAB_SIZE = 1536
_PRE_TOKENS = (
    r" \[| ->|\]|\[| ?\p{N}| ?\p{L}\p{M}*(?:\p{L}|\p{M})*| ?[^\s\p{L}\p{N}\[\]]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer of VOCAB_SIZE pieces trained on `texts`; they must contain the markers."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PRE_TOKENS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )
    for marker in (OPEN, ARROW, CLOSE):
        assert len(fast.encode(marker)) == 1, f"{marker!r} is not one token"
    return fast
