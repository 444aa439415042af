"""The annotation of a corpus, from plan to last commit; continued where it was interrupted."""

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import ray
from rich.console import Console

from pipeline.config import RunConfig
from pipeline.engine_config import Kind
from pipeline.engines.describe import describe_engines, engines_line, shortest_context
from pipeline.engines.load import with_chosen_engines
from pipeline.engines.protocol import EngineInfo
from pipeline.fingerprint import changes, digest, fingerprint_of, package_versions
from pipeline.graph import Work, run_graph
from pipeline.limits import FailureLimits, TooManyFailures
from pipeline.method import Method, resolve_method
from pipeline.metrics import ShownProgress
from pipeline.missing_replicas import tell_of_missing
from pipeline.pools import kill_pools, start_pools, stop_pools, wait_for_pools
from pipeline.progress import unit_progress
from pipeline.ray_session import our_error, ray_session, short_text
from pipeline.resources import shortage
from pipeline.rundir import Lock, RunDir, RunRecord
from pipeline.tokens import TokenCodec
from pipeline.units import Plan, Unit, plan_input, write_manifest
from tools.atomic import remove_leftovers, write_text_atomically
from tools.base import ConfigError, ToolformerError
from tools.places import absolute
from tools.registry import build_tool


class Resume(StrEnum):
    """Whether a run directory that holds a run already is continued."""

    NEVER = "never"  # refuse
    ALWAYS = "always"  # continue; refuse when there is nothing to continue
    IF_POSSIBLE = "if-possible"  # begin or continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one call of `annotate` did."""

    units_before: int  # finished when it began
    units_done: int  # finished by it
    documents_done: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRun:
    """What a configuration comes to on this machine, before anything is loaded."""

    plan: Plan
    method: Method
    engines: Mapping[Kind, EngineInfo]
    tool_versions: Mapping[str, str]
    record: RunRecord  # with `auto` decided

    @property
    def config(self) -> RunConfig:
        return self.record.config


def annotate(
    config: RunConfig,
    console: Console,
    *,
    resume: Resume = Resume.IF_POSSIBLE,
    only_failed: bool = False,
    address: str | None = None,
    fixed_cluster: bool = False,
    dashboard: bool = True,
) -> Outcome:
    """Annotate every document of `config.input` into the run directory `config.run`.

    With `only_failed` instead try again, in finished units, the documents that failed. The cluster
    at `address` is waited for where it is too small, unless it is a `fixed_cluster`.

    Raises:
        ConfigError, InputError: the run cannot begin or be continued as configured.
        OutputError: the disk is full; finished units stay.
        ContractError: a stage or tool broke its contract.
        TooManyFailures: more failed than the configuration allows; finished units stay.
    """
    started = time.perf_counter()
    run = RunDir(config.run)
    check_resume(run, Resume.ALWAYS if only_failed else resume)
    plan = plan_input(config.input, config.unit_documents)
    resolved = resolve_run(config, plan)
    with run.lock() as held:
        _begin_or_continue(run, resolved.record, plan.units)
        work, units_before = _left_to_do(run, plan.units, only_failed=only_failed)
        if work.units:
            try:
                _annotate_units(
                    work, run, held, resolved, console, address, fixed_cluster, dashboard
                )
            finally:
                _clear(run)  # where one unit failed, writers of others were ended with it
    return Outcome(
        units_before=units_before,
        units_done=len(work.units),
        documents_done=sum(unit.num_documents for unit in work.units),
        seconds=time.perf_counter() - started,
    )


def resolve_run(config: RunConfig, plan: Plan) -> ResolvedRun:
    """The method, the engines, the tool versions and the record of a run.

    Reads the model's description, not its weights; builds the tools, but loads none.
    """
    config = with_chosen_engines(config)
    codec = TokenCodec.load(config.model.path, revision=config.model.revision)
    engines = describe_engines(config)
    method = resolve_method(config, codec, context=shortest_context(engines))
    tool_versions = {
        name: build_tool(name, factory=tool.factory, options=tool.options).version
        for name, tool in config.tools.items()
    }
    values = fingerprint_of(config, method, engines, tool_versions, plan.stamp)
    record = RunRecord(
        config=config,
        fingerprint=digest(values),
        fingerprint_of=values,
        versions=package_versions(),
    )
    return ResolvedRun(
        plan=plan, method=method, engines=engines, tool_versions=tool_versions, record=record
    )


def _left_to_do(run: RunDir, units: Sequence[Unit], *, only_failed: bool) -> tuple[Work, int]:
    """What this command annotates, and how many units are finished already."""
    finished: set[str] = set()
    retried: set[str] = set()
    for mark in run.finished(units):
        finished.add(mark.unit_id)
        if only_failed and mark.failed:
            retried.add(mark.unit_id)
    todo = [
        unit
        for unit in units
        if (unit.unit_id in retried if only_failed else unit.unit_id not in finished)
    ]
    work = Work(units=todo, retried=frozenset(retried), run_path=absolute(run.path))
    return work, len(finished)


def check_resume(run: RunDir, resume: Resume) -> None:
    """Refuse before anything is loaded what `resume` rules out."""
    if resume is Resume.NEVER and run.exists():
        raise ConfigError(
            f"{run.path}: there is a run already and --resume never was asked for; "
            "choose another --run or remove the directory"
        )
    if resume is Resume.ALWAYS and not run.exists():
        raise ConfigError(f"{run.path}: there is no run to continue")


def _clear(run: RunDir) -> None:
    """Remove what writers left that were ended in the middle of a file."""
    for directory in (run.path, run.path / "units", run.path / "_done"):
        remove_leftovers(directory)


def _begin_or_continue(run: RunDir, record: RunRecord, units: Sequence[Unit]) -> None:
    _clear(run)
    # Where no unit is finished, other settings spoil nothing: the run begins anew.
    if run.marked_units():
        before = run.record()
        if before.fingerprint != record.fingerprint:
            raise ConfigError(
                f"{run.path}: was begun with other settings and cannot be continued with these "
                f"({'; '.join(_changes(before, record))}); restore them or choose another --run"
            )
    else:
        write_manifest(run.manifest_path, units)
    write_text_atomically(run.record_path, record.model_dump_json(indent=1))


def _changes(before: RunRecord, after: RunRecord) -> list[str]:
    """What differs, with the models by name: their hash, which counts, tells nobody which."""
    models = (before.config.model.path, after.config.model.path)
    named = [f"model: {models[0]} -> {models[1]}"] if models[0] != models[1] else []
    return named + changes(before.fingerprint_of, after.fingerprint_of)


def _annotate_units(
    work: Work,
    run: RunDir,
    held: Lock,
    resolved: ResolvedRun,
    console: Console,
    address: str | None,
    fixed_cluster: bool,
    dashboard: bool,
) -> None:
    # The Ray of a process that has joined one is not ours either.
    can_grow = (address is not None or ray.is_initialized()) and not fixed_cluster
    with ray_session(address, dashboard=dashboard) as dashboard_url:
        if dashboard_url:
            console.print(f"Ray dashboard: http://{dashboard_url}")
        try:
            _check_resources(resolved.config, console, can_grow=can_grow)
            committed = _run_in_pools(work, held, resolved, console)
        except TooManyFailures as error:
            raise TooManyFailures(
                f"{run.path}: {error}; finished units stay: when the cause is mended, the same "
                "command continues, and --only-failed tries again what failed"
            ) from None
        except Exception as error:
            raise _in_our_words(error, run) from None
    missing = {unit.unit_id for unit in work.units} - committed
    if missing:
        raise ToolformerError(
            f"{run.path}: {len(missing)} of {len(work.units)} units were not committed "
            f"(first: {min(missing)}); run the same command again"
        )


def _run_in_pools(work: Work, held: Lock, resolved: ResolvedRun, console: Console) -> set[str]:
    """The ids of the units that were committed; what tools warned of is told at the end."""
    config = resolved.config
    _tell(console, engines_line(config, resolved.engines))
    pools = start_pools(config)
    replicas = sum(pool.engine.replicas for pool in config.pools)
    limits = FailureLimits(
        max_failed_documents=config.max_failed_documents,
        max_failed_calls=config.max_failed_calls,
    )
    committed: set[str] = set()
    try:
        with console.status(f"loading {config.model.path} x {replicas}"):
            wait_for_pools(
                pools,
                resolved.engines,
                resolved.tool_versions,
                lambda line: _tell(console, line),
            )
        with (
            unit_progress(work.units, console) as advance,
            tell_of_missing(pools.dispatcher, lambda line: _tell(console, line)),
        ):
            # Of units that are tried again, how many have been; others may be left by themselves.
            planned = work.units if work.retried else resolved.plan.units
            shown = ShownProgress(planned, work.units)
            for mark in run_graph(work, config, resolved.method, pools):
                committed.add(mark.unit_id)
                advance(mark.documents)
                shown.committed(mark.documents)
                limits.count(mark)
                held.check()
    except BaseException:
        # The traceback, which a notebook keeps, holds them.
        kill_pools(pools)
        raise
    finally:
        stop_pools(pools)
    for usage in limits.tools.values():
        for warning in usage.warnings:
            _tell(console, warning)
    return committed


def _check_resources(config: RunConfig, console: Console, *, can_grow: bool) -> None:
    """Say before anything is started that it cannot be; a cluster of others may still grow."""
    missing = shortage(config)
    if missing is not None and not can_grow:
        raise ConfigError(missing)
    if missing is not None:
        _tell(console, f"{missing}; waiting for the cluster to grow")


def _tell(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _in_our_words(error: Exception, run: RunDir) -> ToolformerError:
    """The error of this system behind what Ray raised, or one line about it and a file for more."""
    ours = our_error(error)
    if ours is not None:
        return ours
    write_text_atomically(run.error_path, "".join(traceback.format_exception(error)))
    return ToolformerError(
        f"{run.path}: a worker failed: {short_text(error)}; finished units stay, the same command "
        f"continues; the whole traceback is in {run.error_path}"
    )
