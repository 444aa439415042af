"""Perplexity of checkpoints on texts, with its interval over documents."""

import logging
import math

import numpy as np
import pytest

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO
from tests.pipeline.tiny_checkpoints import save_checkpoint
from tools.base import ConfigError, InputError
from training.evaluate.corpus import CorpusConfig, corpus_texts
from training.evaluate.perplexity import mean_interval, text_perplexity

TINY = "The city of Bologna lies in the north (see [1])."


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
        text_perplexity(
            ModelConfig(path=str(DEMO / model)), texts, name=model, corpus="demo", seed=0
        )
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
    of_each = [text_perplexity(tiny, [text], name="tiny", corpus="c", seed=0) for text in texts]
    with caplog.at_level(logging.INFO):
        got = text_perplexity(tiny, texts, name="tiny", corpus="c", seed=0)
    assert 'tiny on c: 4 tokens are " [" and do not count' in caplog.messages
    nats = sum(one.num_tokens * math.log(one.perplexity) for one in of_each)
    assert got.num_tokens == sum(one.num_tokens for one in of_each)
    assert got.perplexity == pytest.approx(math.exp(nats / got.num_tokens), rel=1e-4)
    for one in of_each:
        assert (one.low, one.high) == pytest.approx((one.perplexity, one.perplexity))


def test_texts_that_are_no_text_are_left_out(
    tiny: ModelConfig, caplog: pytest.LogCaptureFixture
) -> None:
    got = text_perplexity(tiny, [TINY, "\ud800", "["], name="tiny", corpus="c", seed=0)
    assert got.num_documents == 1
    assert "1 of 3 texts are left out: the tokenizer changes them" in caplog.messages
    with pytest.raises(InputError, match="c: none of its 2 texts has a token that counts"):
        text_perplexity(tiny, ["\ud800", "["], name="tiny", corpus="c", seed=0)


def test_a_model_that_is_split_is_refused(tiny: ModelConfig) -> None:
    engine = EngineConfig(name="vllm", tensor_parallel_size=2)
    with pytest.raises(ConfigError, match=r"engine\.tensor_parallel_size is 2, expected 1"):
        text_perplexity(tiny, [TINY], name="tiny", corpus="c", seed=0, engine=engine)


def test_the_interval_is_that_of_all_resamples() -> None:
    """Two documents have four resamples: the short one twice, both (in two orders), the long."""
    nats_N, tokens_N = np.array([10.0, 90.0]), np.array([10, 30])
    means = [1.0, 100 / 40, 100 / 40, 3.0]
    expected = np.percentile(np.repeat(means, 1000), (2.5, 97.5))
    assert mean_interval(nats_N, tokens_N, seed=0) == pytest.approx(tuple(expected))


def test_the_interval_is_as_wide_as_the_spread_of_documents_says() -> None:
    """1.96 standard errors of a ratio to each side, where long documents have lower losses."""
    draw = np.random.default_rng(1)
    tokens_N = draw.integers(20, 200, size=400)
    nats_N = tokens_N * (4 - tokens_N / 100 + draw.normal(0, 0.4, size=400))
    low, high = mean_interval(nats_N, tokens_N, seed=0)
    mean = nats_N.sum() / tokens_N.sum()
    error = math.sqrt(((nats_N - mean * tokens_N) ** 2).sum()) / tokens_N.sum()
    assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=0.1 * error)
    assert mean_interval(nats_N, tokens_N, seed=0) == (low, high)
    assert mean_interval(nats_N, tokens_N, seed=1) != (low, high)
