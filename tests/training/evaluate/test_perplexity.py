"""Perplexity of checkpoints on texts, with its interval over documents."""

import logging
import math

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO
from tests.pipeline.tiny_checkpoints import save_checkpoint
from tools.base import ConfigError, InputError
from training.evaluate.answers import TextPerplexity
from training.evaluate.corpus import CorpusConfig, corpus_texts
from training.evaluate.document_losses import document_losses
from training.evaluate.perplexity import DocumentLosses, perplexity_of, perplexity_ratio

TINY = "The city of Bologna lies in the north (see [1])."


def text_perplexity(
    model: ModelConfig, texts: list[str], *, name: str = "tiny", corpus: str = "c"
) -> TextPerplexity:
    return perplexity_of(document_losses(model, texts), name=name, corpus=corpus, seed=0)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    return ModelConfig(path=str(save_checkpoint(tmp_path_factory.mktemp("tiny"), "gptj")))


def test_tools_cost_no_perplexity_where_they_are_disabled() -> None:
    """The model finetuned with calls against that finetuned without, as in Table 8."""
    corpus = CorpusConfig.model_validate(
        {"name": "demo", "documents": DEMO / "documents.parquet", "max_documents": 24}
    )
    texts = corpus_texts(corpus, seed=0)
    codec = TokenCodec.load(str(DEMO / "model"))
    ids = np.concatenate([codec.canonical(text) for text in texts])
    with_calls, without = (
        text_perplexity(ModelConfig(path=str(DEMO / model)), texts, name=model, corpus="demo")
        for model in ("toolformer", "toolformer-plain")
    )
    assert with_calls.num_documents == without.num_documents == 24
    assert with_calls.num_tokens == without.num_tokens
    assert with_calls.num_tokens == int((ids != codec.open_ids[0]).sum())
    for perplexity in (with_calls, without):
        assert 1 < perplexity.low < perplexity.perplexity < perplexity.high < 200
    assert with_calls.perplexity < 1.1 * without.perplexity


def test_the_perplexity_is_of_all_tokens_and_not_of_documents(
    tiny: ModelConfig, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [TINY, "north", TINY * 3]
    of_each = [text_perplexity(tiny, [text]) for text in texts]
    with caplog.at_level(logging.INFO):
        got = text_perplexity(tiny, texts)
    assert 'tiny on c: 4 tokens are " [" and do not count' in caplog.messages
    nats = sum(one.num_tokens * math.log(one.perplexity) for one in of_each)
    assert got.num_tokens == sum(one.num_tokens for one in of_each)
    assert got.perplexity == pytest.approx(math.exp(nats / got.num_tokens), rel=1e-4)
    for one in of_each:
        assert (one.low, one.high) == pytest.approx((one.perplexity, one.perplexity))


def test_texts_that_are_no_text_are_left_out(
    tiny: ModelConfig, caplog: pytest.LogCaptureFixture
) -> None:
    got = text_perplexity(tiny, [TINY, "\ud800", "["])
    assert got.num_documents == 1
    assert "1 of 3 texts are left out: the tokenizer changes them" in caplog.messages
    with pytest.raises(InputError, match="c: none of its 2 texts has a token that counts"):
        text_perplexity(tiny, ["\ud800", "["])


def test_a_model_that_is_split_is_refused(tiny: ModelConfig) -> None:
    engine = EngineConfig(name="vllm", tensor_parallel_size=2)
    with pytest.raises(ConfigError, match=r"engine\.tensor_parallel_size is 2, expected 1"):
        document_losses(tiny, [TINY], engine=engine)


def test_the_losses_of_texts_are_in_their_order(tiny: ModelConfig) -> None:
    found = document_losses(tiny, ["north", "\ud800", TINY])
    [alone] = document_losses(tiny, [TINY]).nats
    assert found.nats[1:] == pytest.approx((0.0, alone), rel=1e-5)
    assert found.num_tokens[1] == 0 < found.num_tokens[0] < found.num_tokens[2]
    assert found.num_left_out == (0, 0, 1)
    assert (
        TypeAdapter(DocumentLosses).validate_json(TypeAdapter(DocumentLosses).dump_json(found))
        == found
    )


def test_the_threads_are_those_of_the_engine(tiny: ModelConfig) -> None:
    before = torch.get_num_threads()
    try:
        document_losses(tiny, ["north"], engine=EngineConfig(num_threads=before + 1))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_a_perplexity_without_a_float_is_infinite() -> None:
    found = perplexity_of(losses([8000.0], [10]), name="A", corpus="c", seed=0)
    assert (found.perplexity, found.low, found.high) == (math.inf,) * 3


def test_a_ratio_pairs_documents() -> None:
    """Documents differ much from each other, but each costs one model the same 5 % more."""
    nats, num_tokens = [10.0, 90.0, 0.0, 700.0], [10, 20, 0, 400]
    plain = losses(nats, num_tokens)
    more = [own + 0.05 * num for own, num in zip(nats, num_tokens, strict=True)]
    ratio = perplexity_ratio(losses(more, num_tokens), plain, seed=0)
    assert [ratio.ratio, ratio.low, ratio.high] == pytest.approx([math.exp(0.05)] * 3)
    assert ratio.num_documents == 3
    with pytest.raises(ValueError, match="same tokens"):
        perplexity_ratio(losses(more, [10, 20, 1, 400]), plain, seed=0)


def test_a_ratio_has_an_interval_where_documents_differ() -> None:
    """Two documents of 10 tokens: resamples cost 0, 0.1 (in two orders) and 0.2 nats a token."""
    ratio = perplexity_ratio(losses([9.0, 12.0], [10, 10]), losses([9.0, 10.0], [10, 10]), seed=0)
    assert ratio.ratio == pytest.approx(math.exp(0.1))
    assert (ratio.low, ratio.high) == pytest.approx((1.0, math.exp(0.2)))


def losses(nats: list[float], num_tokens: list[int]) -> DocumentLosses:
    return DocumentLosses(
        nats=tuple(nats), num_tokens=tuple(num_tokens), num_left_out=(0,) * len(nats)
    )
