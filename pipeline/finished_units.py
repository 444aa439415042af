"""The finished units of a run for the commands that read them."""

from collections.abc import Iterator, Sequence

from pipeline.commandline import stderr
from pipeline.rundir import DoneMark, RunDir
from pipeline.units import Unit
from tools.places import Place


class FinishedUnits:
    """The finished units of a run: a mark has kilobytes, so each is given out once, not kept."""

    def __init__(self, directory: RunDir, units: Sequence[Unit]) -> None:
        self._directory, self._units = directory, units
        self._ids: list[str] = []

    def __len__(self) -> int:
        """Units whose marks were given out."""
        return len(self._ids)

    def marks(self) -> Iterator[DoneMark]:
        """The mark of each, in the order of the manifest."""
        for mark in self._directory.finished(self._units):
            self._ids.append(mark.unit_id)
            yield mark

    def files(self) -> Iterator[Place]:
        """The files of the units whose marks were given out."""
        for unit_id in self._ids:
            yield self._directory.unit_path(unit_id)

    def tell_what_is_left(self) -> None:
        """Says so where not all units are finished."""
        if len(self._ids) < len(self._units):
            stderr.print(
                f"{self._directory.path}: {len(self._ids)} of {len(self._units)} units are "
                "finished; using these",
                markup=False,
            )
