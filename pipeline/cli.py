"""The command line. Every command reads or writes a run directory and says what it did."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from upath import UPath

from pipeline.annotate import Outcome, Resume, annotate
from pipeline.bench.command import bench_command
from pipeline.build.dataset import build
from pipeline.build.summary import BuildSummary
from pipeline.commandline import run_app, stdout
from pipeline.config import load_config
from pipeline.finished_units import FinishedUnits
from pipeline.ingest.command import DEFAULT_MAX_BYTES, ingest
from pipeline.ingest.sources import SourceFormat
from pipeline.inspect_run import inspect_table, summary_table, top_calls_table
from pipeline.plan import plan_table
from pipeline.preview import preview
from pipeline.push import Chosen, push, push_target
from pipeline.report.calls import CallFilter, best_calls
from pipeline.report.command import report_command
from pipeline.report.stats import collect_stats
from pipeline.rundir import RunDir
from pipeline.soak.command import soak_command
from pipeline.status import status_table, watch
from pipeline.tokens import TokenCodec
from tools.places import Place, place

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Toolformer's data generation: plain text -> scored API calls -> C*.",
)

app.command("bench")(bench_command)
app.command("soak")(soak_command)

Config = Annotated[Path, typer.Argument(help="A run configuration (YAML).")]
Model = Annotated[
    str | None,
    typer.Option(help="Another language model: a directory, or a name on the Hub.", metavar="PATH"),
]
Run = Annotated[UPath, typer.Argument(parser=place, help="A run directory.", metavar="RUN")]

# Beyond so many units `annotate` leaves reading them all again to `report`.
_SUMMARISED_UNITS = 2_000


@app.command("ingest")
def ingest_command(
    inputs: Annotated[
        list[UPath],
        typer.Argument(parser=place, help="Files, or directories of them.", metavar="INPUTS"),
    ],
    out: Annotated[
        UPath,
        typer.Option(parser=place, help="Directory for the DOCUMENTS Parquet.", metavar="PATH"),
    ],
    source_format: Annotated[
        SourceFormat | None, typer.Option("--format", help="Instead of detecting it by file.")
    ] = None,
    max_bytes: Annotated[
        int, typer.Option(help="Reject documents of more bytes.")
    ] = DEFAULT_MAX_BYTES,
    allow_truncated: Annotated[
        bool, typer.Option(help="Accept gzip files that end before their end.")
    ] = False,
) -> None:
    """Turn CCNet, RedPajama-V2, C4-like JSONL, WET or Parquet into DOCUMENTS Parquet."""
    ingest(
        inputs,
        out,
        source_format=source_format,
        max_bytes=max_bytes,
        allow_truncated=allow_truncated,
        console=stdout,
    )


@app.command("annotate")
def annotate_command(
    config: Config,
    run: Annotated[
        UPath | None, typer.Option(parser=place, help="Another run directory.", metavar="PATH")
    ] = None,
    model: Model = None,
    resume: Annotated[Resume, typer.Option(help="Continue a run that is there?")] = (
        Resume.IF_POSSIBLE
    ),
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Try again what failed in finished units.")
    ] = False,
    address: Annotated[
        str | None, typer.Option(help="A running Ray cluster (host:port or auto).")
    ] = None,
    fixed_cluster: Annotated[
        bool,
        typer.Option("--fixed-cluster", help="Refuse what does not fit: the cluster cannot grow."),
    ] = False,
    dashboard: Annotated[bool, typer.Option(help="Start Ray's dashboard with a local Ray.")] = True,
) -> None:
    """Sample, execute and score API calls for every document of the input."""
    settings = load_config(config, run=run, model=model)
    outcome = annotate(
        settings,
        stdout,
        resume=resume,
        only_failed=only_failed,
        address=address,
        fixed_cluster=fixed_cluster,
        dashboard=dashboard,
    )
    _say(outcome, settings.run, only_failed=only_failed)
    directory = RunDir(settings.run)
    units = directory.units()
    if len(units) > _SUMMARISED_UNITS:
        _tell(f"`python -m pipeline report {settings.run}` counts what they came to")
        return
    finished = FinishedUnits(directory, units)
    stats = collect_stats(finished.files(), finished.marks(), directory.config())
    stdout.print(summary_table(stats))
    thresholds = {name: tool.tau_f for name, tool in settings.tools.items()}
    top = best_calls(finished.files(), thresholds, per_tool=2)
    if top:
        stdout.print(top_calls_table(top))


@app.command("build")
def build_command(
    run: Run,
    tau_f: Annotated[
        list[str] | None,
        typer.Option(help="A threshold for all tools (1.0) or for one (Calculator=0.5)."),
    ] = None,
) -> None:
    """Filter by tau_f, merge, cap, and write C* (dataset/) and C (dataset_plain/)."""
    directory = RunDir(run)
    config = directory.config()
    codec = TokenCodec.load(config.model.path, revision=config.model.revision)
    with directory.lock():
        finished = FinishedUnits(directory, directory.units())
        files = [directory.unit_path(mark.unit_id) for mark in finished.marks()]
        finished.tell_what_is_left()
        summary = build(files, config, codec, run, tau_f=parse_tau_f(tau_f or []))
    _say_built(summary, run)


app.command("report")(report_command)


@app.command("inspect")
def inspect_command(
    run: Run,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many calls.")] = 20,
    kept: Annotated[
        bool | None, typer.Option("--kept/--dropped", help="Only kept, or only dropped, calls.")
    ] = None,
    doc: Annotated[str | None, typer.Option(help="Only calls of this doc_id.")] = None,
) -> None:
    """Show candidates sorted by gain, kept or not."""
    directory = RunDir(run)
    where = CallFilter(tool=tool, kept=kept, doc_id=doc)
    stdout.print(
        inspect_table(directory.finished_unit_files(), directory.config(), limit=limit, where=where)
    )


@app.command("preview")
def preview_command(
    config: Config,
    documents: Annotated[int, typer.Option("-n", min=1, help="How many documents.")] = 3,
    model: Model = None,
) -> None:
    """Show P, S, tool results and losses for a few documents, without Ray or a run directory."""
    for shown in preview(load_config(config, model=model), documents):
        stdout.print(shown)


@app.command("plan")
def plan_command(config: Config, model: Model = None) -> None:
    """Count units and documents and estimate the model's work, without running it."""
    stdout.print(plan_table(load_config(config, model=model)))


@app.command("status")
def status_command(
    run: Run,
    watched: Annotated[bool, typer.Option("--watch", help="Until the run is finished.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 5.0,
) -> None:
    """Show how far a run is, from its done-marks: beside who annotates, or after it."""
    if not watched:
        stdout.print(status_table(RunDir(run)))
        return
    with suppress(KeyboardInterrupt):  # there is nothing to lose
        watch(RunDir(run), stdout, every_s=every)


@app.command("push")
def push_command(
    run: Run,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="user/name or hub://user/name of the Hub, else a directory or an address as s3://.",
        ),
    ],
    private: Annotated[bool, typer.Option("--private", help="A private repository.")] = False,
    chosen: Annotated[Chosen, typer.Option("--dataset", help="C*, C, or both.")] = Chosen.BOTH,
    license_name: Annotated[
        str | None, typer.Option("--license", help="As the Hub names it: cc-by-4.0, odc-by, ...")
    ] = None,
) -> None:
    """Put a built dataset with its card to the Hub, a store or a directory."""
    pushed = push(
        RunDir(run),
        push_target(target),
        chosen=chosen,
        private=private,
        license_name=license_name,
    )
    what = "are there now" if pushed.changed else "were there already; nothing to do"
    _tell(f"{pushed.where}: {pushed.files} files {what}")


def parse_tau_f(values: list[str]) -> float | dict[str, float] | None:
    """The thresholds named on the command line: none, one for all tools, or one for each."""
    if not values:
        return None
    by_tool: dict[str, float] = {}
    for value in values:
        tool, separator, number = value.rpartition("=")
        try:
            threshold = float(number)
        except ValueError:
            raise typer.BadParameter(f"{value!r} is neither 0.5 nor Tool=0.5") from None
        if not separator:
            if len(values) > 1:
                raise typer.BadParameter("one threshold for all tools excludes others")
            return threshold
        by_tool[tool] = threshold
    return by_tool


def _say(outcome: Outcome, run: Place, *, only_failed: bool) -> None:
    if only_failed:
        _tell(
            f"{run}: what failed in {outcome.units_done} of {outcome.units_before} finished units "
            f"was tried again, {outcome.seconds:.0f} s"
        )
        return
    if outcome.units_done == 0:
        _tell(f"{run}: all {outcome.units_before} units are done already; no model work to do")
        return
    continued = f" ({outcome.units_before} were done before)" if outcome.units_before else ""
    _tell(
        f"{run}: {outcome.documents_done} documents in {outcome.units_done} units{continued}, "
        f"{outcome.seconds:.0f} s"
    )


def _say_built(summary: BuildSummary, run: Place) -> None:
    _tell(
        f"{run / 'dataset'}: C* of {summary.documents} documents with {summary.calls} calls "
        f"({summary.tokens} tokens); {run / 'dataset_plain'}: the same without calls "
        f"({summary.tokens_plain} tokens)"
    )


def _tell(text: str) -> None:
    """One line, as it is: paths may hold what rich takes for markup."""
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    run_app(app)
