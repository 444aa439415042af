import pickle

import pytest

from tools import base
from tools.base import (
    ConfigError,
    ContractError,
    InputError,
    OutputError,
    ToolformerError,
    ToolResult,
    ToolStatus,
)


def test_only_an_ok_result_has_a_text() -> None:
    assert ToolResult.ok("7") == ToolResult(status=ToolStatus.OK, result="7")
    assert ToolResult.ok("").result == ""
    for result in (ToolResult.invalid("a"), ToolResult.empty("a"), ToolResult.failed("a")):
        assert (result.result, result.error) == (None, "a")
    with pytest.raises(ValueError, match="status ok with result None"):
        ToolResult(status=ToolStatus.OK)
    with pytest.raises(ValueError, match="status timeout with result '7'"):
        ToolResult(status=ToolStatus.TIMEOUT, result="7")


def test_only_a_failure_can_be_worth_asking_again() -> None:
    assert ToolResult.failed("a", retryable=True).retryable
    assert not ToolResult.failed("a").retryable
    with pytest.raises(ValueError, match="status empty cannot be retryable"):
        ToolResult(status=ToolStatus.EMPTY, retryable=True)


def test_every_error_of_this_system_has_one_root() -> None:
    errors = {
        value
        for value in vars(base).values()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert errors == {ToolformerError, ConfigError, InputError, OutputError, ContractError}
    assert all(issubclass(error, ToolformerError) for error in errors)


def test_a_contract_error_says_where_what_and_what_instead() -> None:
    error = ContractError(stage="sample", doc_id="d7", got=3, expected="4 rows")
    assert str(error) == "sample: document d7: got 3, expected 4 rows"


def test_a_contract_error_survives_the_way_between_processes() -> None:
    error = ContractError(stage="sample", doc_id="d7", got=[3], expected={"a": 1})
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, ContractError)
    assert str(copy) == str(error)
    assert (copy.stage, copy.doc_id) == ("sample", "d7")
