"""The settings of the method in the form the stages use: plain, resolved, picklable."""

from dataclasses import dataclass

from pipeline.config import MT, MtFilterConfig, RunConfig, SamplingConfig
from pipeline.tokens import TokenCodec
from tools.base import ConfigError
from tools.prompt import load_prompt, render
from tools.translation.language_id import LanguageIdentifier

# Tokens a rendered prompt may have beyond its header and the document: tokenizers that merge
# across "Input: " and the text.
_PROMPT_SLACK = 16
# " [", " ->", "]" and the parenthesis pieces around a sampled input and its result.
_CALL_OVERHEAD = 8
_SMALLEST_DOCUMENT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMethod:
    """One tool's prompt and thresholds (Appendix A)."""

    name: str
    template: str
    tau_s: float
    tau_f: float
    k: int
    m: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Everything that decides which calls are sampled and how they are scored."""

    tools: dict[str, ToolMethod]
    seed: int
    sampling: SamplingConfig
    max_document_tokens: int
    max_document_bytes: int
    max_result_tokens: int
    exact_reductions: bool
    smallest_tau_f: float  # below it no gain can ever matter
    mt_filter: MtFilterConfig | None = None  # which paragraphs MT is offered; None without MT
    language_id: str | None = None  # version of the classifier it uses

    def __getitem__(self, tool: str) -> ToolMethod:
        return self.tools[tool]


def resolve_method(config: RunConfig, codec: TokenCodec, *, context: int) -> Method:
    """The method of a run for a model whose context holds `context` tokens.

    Documents are capped so that the longest prompt with the document in it twice, and a call
    with its result before the document, both fit.

    Raises:
        ConfigError: a prompt is missing or wrong, or leaves no room for a document; or there is no
            classifier of languages for the filter of MT.
    """
    tools = {
        name: ToolMethod(
            name=name,
            template=load_prompt(tool.prompt if tool.prompt is not None else name),
            tau_s=tool.tau_s,
            tau_f=tool.tau_f,
            k=tool.k,
            m=tool.m,
        )
        for name, tool in sorted(config.tools.items())  # their order decides bytes
    }
    header, longest = max(
        (len(codec.prompt_ids(render(t.template, ""))), t.name) for t in tools.values()
    )
    new_tokens = config.sampling.max_new_tokens
    room_prompt = (context - 1 - header - _PROMPT_SLACK - 1 - new_tokens) // 2
    room_call = context - 1 - new_tokens - config.max_result_tokens - _CALL_OVERHEAD
    room = min(room_prompt, room_call)
    if room < _SMALLEST_DOCUMENT:
        raise ConfigError(
            f"the prompt of {longest} has {header} tokens and sampling adds {new_tokens}: no room "
            f"for a document in a context of {context} tokens; shorten the prompt or "
            "sampling.max_new_tokens"
        )
    mt_filter = config.mt_filter if MT in tools else None
    return Method(
        tools=tools,
        seed=config.seed,
        sampling=config.sampling,
        max_document_tokens=min(config.max_document_tokens, room),
        max_document_bytes=config.max_document_bytes,
        max_result_tokens=config.max_result_tokens,
        exact_reductions=config.exact_reductions,
        smallest_tau_f=config.smallest_tau_f,
        mt_filter=mt_filter,
        language_id=None if mt_filter is None else _language_id(mt_filter),
    )


def _language_id(mt_filter: MtFilterConfig) -> str:
    return LanguageIdentifier(mt_filter.language_id).version
