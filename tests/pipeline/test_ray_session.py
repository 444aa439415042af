"""Errors as Ray hands them back, and what a user is told."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RayTaskError

from pipeline.ray_session import our_error, ray_session, short_text
from pipeline.stages.failure import StageFailure, carried
from tools.base import ConfigError, ContractError, InputError, ToolformerError

TRACEBACK = 'ray::Stage() (pid=1)\n  File "x.py", line 1\nValueError: the moon is\ndown'


def from_a_task(cause: Exception) -> RayTaskError:
    """What `ray.get` raises for a task that raised `cause`: of both classes."""
    make: Any = RayTaskError
    error = make("stage", TRACEBACK, cause, proctitle="ray::Stage", pid=1, ip="127.0.0.1")
    raised = error.as_instanceof_cause()
    assert isinstance(raised, RayTaskError)
    return raised


def test_our_error_is_found_in_rays_copy_and_not_mistaken_for_it() -> None:
    ours = ContractError(stage="score", doc_id="d", got=1, expected=2)
    found = our_error(from_a_task(ours))
    assert str(found) == "score: document d: got 1, expected 2"


def test_our_error_survives_a_stage_and_what_ray_data_appends() -> None:
    with pytest.raises(StageFailure) as caught, carried():
        raise from_a_task(InputError("a.parquet: torn"))
    failure = pickle.loads(pickle.dumps(caught.value))
    failure.args = (*failure.args, "Failed to apply UDF transform after 1/1 attempts")
    found = our_error(from_a_task(failure))
    assert type(found) is InputError and str(found) == "a.parquet: torn"


def test_another_error_is_none_of_ours_and_short() -> None:
    with pytest.raises(StageFailure) as caught, carried():
        raise ValueError("the moon is\ndown")
    for error in (from_a_task(ValueError("the moon is\ndown")), from_a_task(caught.value)):
        assert our_error(error) is None
        assert short_text(error) == "ValueError: the moon is down"


def test_without_a_cause_the_last_line_of_the_traceback_is_shown() -> None:
    make: Any = RayTaskError
    error = make("stage", "Traceback\n  File\nOSError: full\n", None, "p", 1, "ip")
    assert short_text(error) == "OSError: full"


def test_a_ray_that_does_not_start_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 30)  # the paths of its sockets would be too long
    place.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(place))
    started = ray_session(None, dashboard=False)
    with pytest.raises(ToolformerError, match=r"Ray does not start on this machine: .*AF_UNIX"):
        started.__enter__()


@pytest.mark.ray
def test_the_ray_of_this_process_is_used_and_left_running(local_ray: None) -> None:
    before = ray.get_runtime_context().get_job_id()
    with ray_session(None, dashboard=True) as dashboard:
        assert dashboard == ""
    assert ray.get_runtime_context().get_job_id() == before
    joining = ray_session("127.0.0.1:6379", dashboard=False)
    with pytest.raises(ConfigError, match="this process has a Ray already"):
        joining.__enter__()
