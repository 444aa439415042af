"""A built dataset and its card to where others find it."""

from dataclasses import dataclass
from enum import StrEnum

from pipeline.build.dataset import BUILD_MARK
from pipeline.build.mark import built_summary, read_build_mark
from pipeline.push.card import dataset_card
from pipeline.push.hub import push_to_hub
from pipeline.push.parcel import Parcel, shards_in
from pipeline.push.store import push_to_place
from pipeline.push.target import HubRepo
from pipeline.rundir import RunDir
from tools.base import ConfigError, InputError
from tools.places import Place, absolute, file_info, why


class Chosen(StrEnum):
    """Which of the two datasets of a build."""

    DATASET = "dataset"  # C*
    DATASET_PLAIN = "dataset_plain"  # C
    BOTH = "both"

    @property
    def names(self) -> tuple[str, ...]:
        return ("dataset", "dataset_plain") if self is Chosen.BOTH else (self.value,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What was done: `files` are there; not `changed` if they were before, just as they are."""

    where: str
    files: int
    changed: bool


def push(
    run: RunDir,
    target: HubRepo | Place,
    *,
    chosen: Chosen = Chosen.BOTH,
    private: bool = False,
    license_name: str | None = None,
) -> Pushed:
    """Puts the built dataset, its card and build.json to `target`.

    What is there already stays; shards of an earlier push that are no more are removed.

    Raises:
        ConfigError: the target cannot be meant, or would be public where `private` is asked for.
        InputError: nothing is built, or what is built cannot be read or changed meanwhile.
        OutputError: the target does not take it, or is not there.
    """
    if not isinstance(target, HubRepo):
        _check_place(run, target, private=private)
    built = read_build_mark(run)
    parcel = Parcel(
        shards={
            f"{name}/{shard.name}": shard
            for name in chosen.names
            for shard in _shards(run.path / name)
        },
        texts={
            BUILD_MARK: built.decode(),
            "README.md": dataset_card(
                run,
                built_summary(run, built),
                name=_name(target),
                configs=chosen.names,
                license_name=license_name,
            ),
        },
        still_whole=lambda: _still_built(run, built),
    )
    if isinstance(target, HubRepo):
        where, changed = push_to_hub(parcel, target, private=private)
    else:
        where, changed = str(target), push_to_place(parcel, target)
    return Pushed(where=where, files=len(parcel.shards) + len(parcel.texts), changed=changed)


def _check_place(run: RunDir, target: Place, *, private: bool) -> None:
    if private:
        raise ConfigError(
            f"{target}: --private is for the Hub; who may read a place is its owner's"
        )
    where, of_run = absolute(target), absolute(run.path)
    if where == of_run:
        raise ConfigError(f"{target}: is the run itself; choose another place")
    if of_run in where.parents:
        raise ConfigError(f"{target}: is inside the run; choose another place")
    above = _run_above(where)
    if above is not None:
        raise ConfigError(f"{target}: is inside the run {above}; choose another place")


def _run_above(place: Place) -> Place | None:
    """The run that `place` is inside, as far as we may look: a store may hide what is above."""
    try:
        for parent in place.parents:
            run = RunDir(parent)
            if file_info(run.record_path) is not None and file_info(run.manifest_path) is not None:
                return parent
    except OSError:
        pass  # what is wrong with the store is told when something is put there
    return None


def _still_built(run: RunDir, built: bytes) -> None:
    if read_build_mark(run) != built:
        raise InputError(f"{run.path}: was built again meanwhile; push again")


def _shards(directory: Place) -> list[Place]:
    try:
        return shards_in(directory)
    except OSError as error:
        raise InputError(f"{directory}: cannot be read: {why(error)}; build again") from None


def _name(target: HubRepo | Place) -> str:
    if isinstance(target, HubRepo):
        return target.repo_id.rpartition("/")[2]
    return absolute(target).name
