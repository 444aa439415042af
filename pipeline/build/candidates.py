"""The candidates of one committed unit as flat arrays, and what becomes of each of them.

Shape suffix: C candidates, in the order of the rows and of their `calls`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.look_ahead import LOOKS_AHEAD
from tools.base import ContractError, InputError, ToolStatus
from tools.places import NUM_THREADS, Place, in_order, is_remote, read_bytes, why


class Fate(StrEnum):
    """Why a candidate stands in C*, or why it does not."""

    KEPT = "kept"
    BELOW_TAU_F = "below_tau_f"
    NO_RESULT = "no_result"  # the tool gave no answer
    NOT_SCORED = "not_scored"  # there is a result, but no loss with it
    DUPLICATE_POSITION = "duplicate_position"  # a better call of the tool stands there
    LOOKS_AHEAD = "looks_ahead"  # its input stands only after it: it was not executed
    OVER_CAP = "over_cap"  # the tool has its max_examples documents without this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """All candidates of a unit. Losses and gains in nats, NaN where not known.

    `bound_C` is L_i(eps) - L_plus: the gain is never more, whatever L_i(e(c, eps)) is.
    """

    row_C: NDArray[np.int64]  # row of the unit the candidate belongs to
    tool_C: NDArray[np.object_]
    looks_ahead_C: NDArray[np.bool_]  # dropped when it was sampled
    ok_C: NDArray[np.bool_]  # the tool answered
    gain_C: NDArray[np.float64]
    bound_C: NDArray[np.float64]
    calls: pa.StructArray  # [C] schemas.CANDIDATE

    def __len__(self) -> int:
        return len(self.row_C)

    def where(self, chosen_C: NDArray[np.bool_]) -> "Candidates":
        """Those that are chosen."""
        return Candidates(
            row_C=self.row_C[chosen_C],
            tool_C=self.tool_C[chosen_C],
            looks_ahead_C=self.looks_ahead_C[chosen_C],
            ok_C=self.ok_C[chosen_C],
            gain_C=self.gain_C[chosen_C],
            bound_C=self.bound_C[chosen_C],
            calls=self.calls.filter(pa.array(chosen_C)),
        )


def read_unit(path: Place, columns: Sequence[str]) -> pa.Table:
    """The named columns of a committed unit, each in one chunk.

    Raises:
        InputError: the file is missing, torn, or lacks a column.
    """
    try:
        # Most of a unit's bytes are wanted: of a store they come in one request.
        source = pa.BufferReader(read_bytes(path)) if is_remote(path) else path
        with pq.ParquetFile(source) as unit:
            missing = set(columns) - set(unit.schema_arrow.names)
            if missing:
                raise InputError(f"{path}: not a unit file: no column {', '.join(sorted(missing))}")
            return unit.read(columns=list(columns)).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: cannot be read: {why(error)}; delete it and its mark in "
            "_done, then annotate again"
        ) from None


def read_units(
    unit_files: Iterable[Place], columns: Sequence[str]
) -> Iterator[tuple[Place, pa.Table]]:
    """Each unit file with what `read_unit` gives of it, in order; those of a store some ahead.

    Raises:
        InputError: as `read_unit`.
    """
    files = list(unit_files)
    read = partial(read_unit, columns=columns)
    remote = any(map(is_remote, files))
    units = in_order(read, files, threads=NUM_THREADS) if remote else map(read, files)
    return zip(files, units, strict=True)


def candidates_of(unit: pa.Table) -> Candidates:
    """The column `calls` of a unit, flattened."""
    column = unit.column("calls")
    calls = _one_chunk(pc.list_flatten(column))
    loss_empty_C, loss_plus_C = (
        _float64(calls.field("loss_empty")),
        _float64(calls.field("loss_plus")),
    )
    return Candidates(
        row_C=_one_chunk(pc.list_parent_indices(column)).to_numpy(zero_copy_only=False),
        tool_C=calls.field("tool").to_numpy(zero_copy_only=False),
        looks_ahead_C=pc.fill_null(pc.equal(calls.field("dropped"), LOOKS_AHEAD), False).to_numpy(
            zero_copy_only=False
        ),
        ok_C=pc.fill_null(pc.equal(calls.field("status"), ToolStatus.OK.value), False).to_numpy(
            zero_copy_only=False
        ),
        gain_C=_float64(calls.field("gain")),
        bound_C=loss_empty_C - loss_plus_C,
        calls=calls,
    )


def decide(
    candidates: Candidates, tau_f: Mapping[str, float], *, unit: Place
) -> NDArray[np.object_]:
    """The Fate of each candidate [C], before any cap (section 2, Filtering API Calls).

    Kept is a call with a result and L_minus - L_plus >= tau_f of its tool; of several such calls
    of one tool at one position, the one with the highest gain, of equal ones the first input.

    Differs from the paper: it does not say what happens when several calls of a tool pass the
    filter at one position; one position gets one call of a tool.
    """
    fate_C = np.full(len(candidates), Fate.NO_RESULT, dtype=object)
    fate_C[candidates.looks_ahead_C] = Fate.LOOKS_AHEAD
    scored_C = candidates.ok_C & ~np.isnan(candidates.bound_C)
    fate_C[candidates.ok_C] = Fate.NOT_SCORED
    fate_C[scored_C] = Fate.BELOW_TAU_F
    fate_C[scored_C & (candidates.gain_C >= _tau_f_C(candidates, tau_f, unit))] = Fate.KEPT
    kept = np.flatnonzero(fate_C == Fate.KEPT)
    inputs = candidates.calls.field("input").take(kept).to_pylist()
    positions = candidates.calls.field("position").take(kept).to_pylist()
    best_first = sorted(
        (int(candidates.row_C[c]), position, candidates.tool_C[c], -candidates.gain_C[c], text, c)
        for c, position, text in zip(kept, positions, inputs, strict=True)
    )
    taken = None
    for *place, _, _, c in best_first:
        if place == taken:
            fate_C[c] = Fate.DUPLICATE_POSITION
        taken = place
    return fate_C


def _tau_f_C(
    candidates: Candidates, tau_f: Mapping[str, float], unit: Place
) -> NDArray[np.float64]:
    unknown = set(candidates.tool_C) - set(tau_f)
    if unknown:
        raise ContractError(
            stage="build",
            doc_id=f"(in {unit})",
            got=f"calls of {', '.join(sorted(map(str, unknown)))}",
            expected=f"only tools of the configuration: {', '.join(tau_f)}",
        )
    return np.array([tau_f[tool] for tool in candidates.tool_C], dtype=np.float64)


def _float64(array: pa.Array) -> NDArray[np.float64]:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def _one_chunk(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
