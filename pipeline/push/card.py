"""The README.md of a dataset: what it holds, how it was made, and what the Hub reads of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline.build.summary import BuildSummary
from pipeline.config import RunConfig
from pipeline.inspect_run import printable
from pipeline.markdown import markdown_template
from pipeline.push.samples import sample_calls
from pipeline.rundir import RunDir, RunRecord

_TEMPLATE = Path(__file__).with_name("dataset_card.md.j2")
_SHOWN_CALLS = 3  # of each tool
# By the number of documents, as the Hub names them.
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B")


def dataset_card(
    run: RunDir,
    build: BuildSummary,
    *,
    name: str,
    configs: Sequence[str],
    license_name: str | None,
) -> str:
    """The card of a built run, whose build.json is `build`.

    All counts are of the build, whatever was annotated since: the same build gives the same text
    while the configuration of the run stays as it was. What a user may not want to publish is left
    out: paths of this machine, and the options of tools and engines. `configs` are the directories
    that are pushed, the first being the default.

    Raises:
        InputError: the run cannot be read.
    """
    record = run.record()
    return markdown_template(_TEMPLATE).render(
        metadata=yaml.safe_dump(
            _metadata(name, configs, build.documents, license_name), sort_keys=False
        ),
        name=printable(name),
        build=build,
        configs=configs,
        tools=_tools(record.config, build),
        report_tau_f=[float(at) for at in next(iter(build.tools.values())).examples_at],
        settings=yaml.safe_dump(_settings(record), sort_keys=False),
        record=record,
        calls=sample_calls(run.path / "dataset", tools=build.tools, of_each=_SHOWN_CALLS)
        if "dataset" in configs
        else [],
        has_license=license_name is not None,
    )


def _metadata(
    name: str, configs: Sequence[str], documents: int, license_name: str | None
) -> dict[str, Any]:
    """The front matter that the Hub reads."""
    license_of_it = {} if license_name is None else {"license": license_name}
    return license_of_it | {
        "pretty_name": name,
        "tags": ["toolformer", "tool-use"],
        "task_categories": ["text-generation"],
        "size_categories": [_size(documents)],
        "configs": [
            {"config_name": config, "data_files": f"{config}/*.parquet"}
            | ({"default": True} if config == configs[0] else {})
            for config in configs
        ],
    }


def _size(documents: int) -> str:
    digits = len(str(documents))  # 1,000 is the first with four
    return _SIZES[max(0, digits - 3)] if digits <= 9 else "n>1B"


def _tools(config: RunConfig, build: BuildSummary) -> list[dict[str, Any]]:
    """The tools of the build, with their settings and counts."""
    return [
        {"name": tool, "built": counts, "settings": config.tools[tool]}
        for tool, counts in build.tools.items()
    ]


def _settings(record: RunRecord) -> dict[str, Any]:
    """What else decides what is in the dataset."""
    config = record.config
    model = config.model
    return {
        "model": {
            # A path of this machine is nobody else's business.
            "name": Path(model.path).name if Path(model.path).is_absolute() else model.path,
            "revision": model.revision,
            "dtype": model.dtype,
        },
        "seed": config.seed,
        "sampling": config.sampling.model_dump(mode="json"),
        "max_document_tokens": config.max_document_tokens,
        "max_result_tokens": config.max_result_tokens,
        "exact_reductions": config.exact_reductions,
    }
