"""What a run would cost, counted before anything is started."""

from rich.table import Table

from pipeline.config import RunConfig
from pipeline.documents.language import english_or_not
from pipeline.engines.describe import describe_engines, shortest_context
from pipeline.engines.load import with_chosen_engines
from pipeline.method import resolve_method
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.tokens import TokenCodec
from pipeline.units import plan_units
from pipeline.windows import windows_of
from tools.places import place
from tools.prompt import render

_SAMPLED_UNITS = 8


def plan_table(config: RunConfig) -> Table:
    """Units, documents, and for each tool the documents offered and the tokens of P and S.

    Tokens are counted on a few units spread over the input and scaled up. S is an upper bound:
    every text uses all k positions, m samples and max_new_tokens. L depends on what is
    sampled; `preview` shows it.

    Raises:
        ConfigError, InputError: as `annotate` would.
    """
    units = plan_units(config.input, config.unit_documents)
    codec = TokenCodec.load(config.model.path, revision=config.model.revision)
    context = shortest_context(describe_engines(with_chosen_engines(config)))
    method = resolve_method(config, codec, context=context)
    documents = sum(unit.num_documents for unit in units)
    identify = english_or_not(method.mt_filter)
    looked_at = units[:: max(1, len(units) // _SAMPLED_UNITS)]
    offered = dict.fromkeys(method.tools, 0)
    texts = dict.fromkeys(method.tools, 0)  # that M reads: documents, or single paragraphs
    prefill = dict.fromkeys(method.tools, 0)
    sample_size = 0
    for unit in looked_at:
        rows = prepare(
            read_rows(place(unit.file), unit.row_start, unit.num_documents),
            unit.unit_id,
            method,
            codec,
            identify,
        ).to_pylist()
        sample_size += unit.num_documents
        for row in rows:
            for offer in row["offers"]:
                offered[offer["tool"]] += 1
                for window in windows_of(row, offer["tool"], codec):
                    prompt = render(method[offer["tool"]].template, window.text)
                    texts[offer["tool"]] += 1
                    prefill[offer["tool"]] += codec.count(prompt) + len(window.x_ids)
    scale = documents / sample_size
    table = Table(
        title=f"{documents:,} documents in {len(units):,} units",
        title_justify="left",
        caption=f"from {sample_size:,} documents; documents over "
        f"{method.max_document_tokens} tokens are split",
        caption_justify="left",
    )
    for heading in ("tool", "documents offered", "P tokens", "S tokens, at most"):
        table.add_column(heading, justify="left" if heading == "tool" else "right")
    for name, tool in method.tools.items():
        sampled = texts[name] * tool.k * tool.m * method.sampling.max_new_tokens
        counts = (offered[name], prefill[name], sampled)
        table.add_row(name, *(f"{round(count * scale):,}" for count in counts))
    return table
