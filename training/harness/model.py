"""The model class `toolformer` of lm-evaluation-harness; importing this module registers it."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from tqdm import tqdm

from pipeline.engines.checkpoint import load_config
from pipeline.tokens import NotLossless, TokenCodec
from tools.base import ConfigError
from training.generate.config import load_generate_config
from training.generate.events import Generation
from training.generate.generator import Generator
from training.generate.params import GenerationParams
from training.generate.writer import tokens_needed
from training.harness.asking import GenKwargs, decoding, params_of, seeded, shortened
from training.harness.told import Told

if TYPE_CHECKING:
    from lm_eval.models.huggingface import HFLM

_SHOWN = "Texts with live tools"
_log = logging.getLogger(__name__)


@register_model("toolformer")
class ToolformerLM(LM):  # type: ignore[misc]
    """A model of `python -m training generate`, of whose configuration `config` is the file.

    It generates with live tools. Log-likelihoods are those of the harness's own `hf`: of plain
    text, with no calls. Each of the two loads the model when it is asked, and gives it up then.
    """

    def __init__(
        self,
        *,
        config: str | None = None,
        model: str | None = None,
        disabled: bool = False,
        batch_size: int | str = 1,
        max_batch_size: int = 64,
        device: str = "cuda:0",  # the CPU where there is none
        **changes: Any,
    ) -> None:
        """`changes` are to the section `decoding`; what a task asks for goes before them.

        Sizes of batches and `device` are of log-likelihoods: how texts are generated, and where,
        is in the section `engine`.

        Raises:
            ConfigError: no such configuration, or one that cannot be used.
        """
        super().__init__()
        if config is None:
            raise ConfigError("--model_args: expected config=FILE, a configuration of `generate`")
        if disabled:
            if "api_top_k" in changes:
                raise ConfigError("--model_args: disabled and api_top_k exclude each other")
            changes["api_top_k"] = 0
        self._config = load_generate_config(Path(config), model=model)
        self._defaults = decoding(self._config.decoding, changes, "--model_args")
        self._for_plain = {
            "batch_size": batch_size,
            "max_batch_size": max_batch_size,
            "device": device,
        }
        self._told = Told()

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """A text for each request, without its calls; "" where a prompt cannot be used.

        Raises:
            ToolformerError: the model or a tool cannot be loaded, or a task asks for what this
                system or the engine does not do.
        """
        asked = [request.args for request in requests]
        return asyncio.run(self._texts(asked, self._prompts(asked), disable_tqdm))

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """For each continuation its log p in nats, and whether it is what greedy decoding gives."""
        likelihoods: list[tuple[float, bool]] = self._plain().loglikelihood(requests, disable_tqdm)
        return likelihoods

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """For each text its log p in nats."""
        likelihoods: list[float] = self._plain().loglikelihood_rolling(requests, disable_tqdm)
        return likelihoods

    def get_model_info(self) -> dict[str, Any]:
        """What the harness adds to "config" of its results: the model, and the calls it made."""
        settings = {
            "path": self._config.model.path,
            "decoding": self._defaults.model_dump(mode="json"),
        }
        return {"toolformer": settings | self._told.fields()}

    def _plain(self) -> "HFLM":
        from lm_eval.models.huggingface import HFLM

        model = self._config.model
        plain = HFLM(
            pretrained=model.path,
            revision=model.revision or "main",
            dtype=model.dtype,
            **self._for_plain,
        )
        plain.set_cache_hook(self.cache_hook)
        return plain

    def _prompts(
        self, asked: Sequence[tuple[str, GenKwargs]]
    ) -> list[tuple[str, GenerationParams]]:
        """What the generator is asked: prompts that fit, with all that may be added to them."""
        model, max_result_tokens = self._config.model, self._config.max_result_tokens
        codec = TokenCodec.load(model.path, model.revision)
        context = load_config(model.path, model.revision).context_length - 1  # begin-of-text
        prompts = []
        for prompt, kwargs in asked:
            params = params_of(kwargs, self._defaults)
            room = context - tokens_needed(0, params, max_result_tokens)
            if room < 1:
                raise ConfigError(
                    f"max_gen_toks {params.max_new_tokens}, max_calls {params.max_calls} of "
                    f"max_call_tokens {params.max_call_tokens} and their results: leave no room "
                    f"for a prompt in the model's context of {context} tokens"
                )
            prompts.append((self._fitting(prompt, codec, room), params))
        return seeded(prompts)

    def _fitting(self, prompt: str, codec: TokenCodec, room: int) -> str:
        try:
            fitting = shortened(prompt, codec, room)
        except NotLossless:
            return prompt  # the generator says what is wrong with it
        if fitting != prompt:
            self._told.shortened(room)
        return fitting

    async def _texts(
        self,
        asked: Sequence[tuple[str, GenKwargs]],
        prompts: Sequence[tuple[str, GenerationParams]],
        disable_tqdm: bool,
    ) -> list[str]:
        texts: list[str] = []
        async with Generator(self._config) as generator:
            for params in dict.fromkeys(params for _, params in prompts):
                generator.check(params)
            async with aclosing(generator.generate_all(prompts)) as outcomes:
                with tqdm(
                    total=len(asked), disable=disable_tqdm, desc="Texts with live tools"
                ) as bar:
                    async for outcome in outcomes:
                        if isinstance(outcome, Generation):
                            text = outcome.text
                            self._told.add(outcome)
                        else:
                            text = ""
                            self._told.refused(str(outcome))
                        self.cache_hook.add_partial("generate_until", asked[len(texts)], text)
                        texts.append(text)
                        bar.update()
        _log.info("%s", self._told)
        return texts
