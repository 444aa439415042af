"""P and S for a unit: where a call is likely, and which calls (section 2, Sampling API Calls)."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engines.protocol import (
    LMEngine,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.failures import OUT_OF_MEMORY
from pipeline.jobs import NO_IDS, Job, groups_that_fit, jobs_of
from pipeline.look_ahead import LOOKS_AHEAD, looking_ahead
from pipeline.losses import WINDOW, weighted_loss
from pipeline.method import Method
from pipeline.positions import select_positions
from pipeline.schemas import IN_FLIGHT
from pipeline.seeds import sample_seed
from pipeline.tokens import TokenCodec
from tools.calls import CLOSE, ApiCall, may_be_call, parse_call


def sample_calls(unit: pa.Table, method: Method, codec: TokenCodec, engine: LMEngine) -> pa.Table:
    """The unit with `positions` and unexecuted `calls` filled in, rows and order unchanged.

    A position with L_i(eps) below every threshold of interest is not sampled from when
    `method.exact_reductions` is on: L- <= L_i(eps) and L+ >= 0, so nothing there can be kept.
    """
    rows = unit.to_pylist()
    jobs = jobs_of(rows, method, codec)
    for group in groups_that_fit(jobs, engine.kept_tokens):
        _find_positions(group, codec, engine)
        _loss_without_call(group, engine)
        for job in group:
            job.live = [
                int(i)
                for i in job.positions
                if not method.exact_reductions or job.loss_empty[int(i)] >= method.smallest_tau_f
            ]
        _draw(group, rows, method, codec, engine)
    for job in jobs:
        if not job.fits:
            rows[job.row]["dropped"] = OUT_OF_MEMORY
    for job in jobs:
        if rows[job.row]["dropped"] is None:
            _record(job, rows[job.row], codec)
    return pa.Table.from_pylist(rows, schema=IN_FLIGHT)


def _find_positions(jobs: Sequence[Job], codec: TokenCodec, engine: LMEngine) -> None:
    requests = [
        PositionRequest(
            prompt_ids=job.prompt_ids,
            x_ids=job.window.x_ids,
            header_len=job.header_len,
            floor=job.tool.tau_s,
        )
        for job in jobs
    ]
    logprobs = engine.position_logprobs(requests, codec.open_ids)
    for job, logprobs_nA in zip(jobs, logprobs, strict=True):
        if logprobs_nA is None:
            job.fits = False
            continue
        job.p_api_n = np.exp(logprobs_nA[:, 0].astype(np.float64))
        job.positions = select_positions(
            job.p_api_n, job.window.place_n >= 0, tau_s=job.tool.tau_s, k=job.tool.k
        )


def _loss_without_call(jobs: Sequence[Job], engine: LMEngine) -> None:
    """L_i(eps) of every selected position, one pass for each text whatever tools it is for."""
    wanted: dict[tuple[int, tuple[int, int]], set[int]] = defaultdict(set)
    x_ids = {}
    for job in jobs:
        if job.positions.size:
            wanted[job.row, job.window.span].update(job.positions.tolist())
            x_ids[job.row, job.window.span] = job.window.x_ids
    positions = {text: np.array(sorted(at), dtype=np.int32) for text, at in wanted.items()}
    requests = [
        LossRequest(z_ids=NO_IDS, x_ids=x_ids[text], positions=at) for text, at in positions.items()
    ]
    losses: dict[tuple[int, tuple[int, int]], dict[int, float]] = {}
    answers = engine.window_logprobs(requests, WINDOW)
    for (text, at), logprobs_QW in zip(positions.items(), answers, strict=True):
        if logprobs_QW is not None:
            losses[text] = dict(zip(at.tolist(), weighted_loss(logprobs_QW).tolist(), strict=True))
    for job in jobs:
        found = losses.get((job.row, job.window.span))
        if found is not None:
            job.loss_empty = {int(i): found[int(i)] for i in job.positions}
        elif job.positions.size:
            job.fits, job.positions = False, NO_IDS


def _draw(
    jobs: Sequence[Job],
    rows: Sequence[dict[str, Any]],
    method: Method,
    codec: TokenCodec,
    engine: LMEngine,
) -> None:
    live = [job for job in jobs if job.live]
    requests = [
        SampleRequest(
            prompt_ids=job.prompt_ids,
            x_ids=job.window.x_ids,
            positions=np.array(job.live, dtype=np.int32),
            open_ids=codec.open_ids,
            seeds_Km=_seeds(job, rows[job.row]["doc_id"], method.seed),
            header_len=job.header_len,
            may_be_call=partial(may_be_call, tool=job.tool.name),
        )
        for job in live
    ]
    params = SamplingParams(
        stop_ids=codec.close_ids,
        max_new_tokens=method.sampling.max_new_tokens,
        temperature=method.sampling.temperature,
        top_p=method.sampling.top_p,
    )
    for job, samples in zip(live, engine.sample(requests, params), strict=True):
        if samples is None:
            job.fits = False
        else:
            job.samples = samples


def _seeds(job: Job, doc_id: str, run_seed: int) -> NDArray[np.uint64]:
    return np.array(
        [
            [sample_seed(run_seed, doc_id, job.tool.name, place, j) for j in range(job.tool.m)]
            for place in job.window.place_n[job.live].tolist()
        ],
        dtype=np.uint64,
    )


def _record(job: Job, row: dict[str, Any], codec: TokenCodec) -> None:
    """Append to the row what was found, at positions of the document."""
    drawn = dict(zip(job.live, job.samples, strict=True))
    offsets = codec.insertion_offsets(row["text"], np.asarray(row["input_ids"], dtype=np.int32))
    for i in job.positions.tolist():
        samples = drawn.get(i, [])
        calls, not_ended, not_parsed = _distinct_calls(samples, job.tool.name, codec)
        place = int(job.window.place_n[i])
        byte_offset = int(offsets[place])
        position = {
            "tool": job.tool.name,
            "position": place,
            "byte_offset": byte_offset,
            "p_api": float(job.p_api_n[i]),
            "loss_empty": job.loss_empty[i],
        }
        counts = {"drawn": len(samples), "not_ended": not_ended, "not_parsed": not_parsed}
        row["positions"].append(position | {"pruned": i not in drawn} | counts)
        ahead = looking_ahead(calls, row["text"], byte_offset)
        row["calls"].extend(
            position
            | {
                "input": call.input,
                "samples": count,
                "dropped": LOOKS_AHEAD if call in ahead else None,
            }
            for call, count in calls.items()
        )


def _distinct_calls(
    samples: Sequence[Sample], tool: str, codec: TokenCodec
) -> tuple[Counter[ApiCall], int, int]:
    """The calls among `samples` in order of first appearance, and what was no call.

    A sample that can no longer become a call is not parsed, whether or not it went on to an end.
    """
    calls: Counter[ApiCall] = Counter()
    not_ended = not_parsed = 0
    for sample, times in Counter(samples).items():  # many are drawn more than once
        written = b"".join(codec.token_bytes(sample.token_ids)).partition(CLOSE.encode())[0]
        if not may_be_call(written, tool=tool):
            not_parsed += times
        elif not sample.ended:
            not_ended += times
        else:
            text = codec.decode_sample(sample.token_ids)
            call = None if text is None else parse_call(text, tool)
            if call is None:
                not_parsed += times
            else:
                calls[call] += times
    return calls, not_ended, not_parsed
