"""Errors as OpenAI's clients know them: {"error": {message, type, param, code}}."""

import json
import logging
from collections.abc import Mapping

from tools.base import InputError, ToolformerError, one_line

_logger = logging.getLogger(__name__)

_RETRY_AFTER = {"retry-after": "1"}  # seconds


class ApiError(Exception):
    """A request that is answered with an error: its status, and what the body says of it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        self.error = {"message": message, "type": type, "param": param, "code": code}

    def body(self) -> bytes:
        """The error as JSON, in one line."""
        return json.dumps({"error": self.error}).encode()


def wrong(param: str, message: str, code: str | None = None) -> ApiError:
    """A parameter that is not as it should be."""
    return ApiError(400, f"{param}: {message}", param=param, code=code)


def too_large(message: str) -> ApiError:
    """More bytes than a request may have."""
    return ApiError(413, message, code="request_too_large")


def busy(message: str) -> ApiError:
    """As many requests as there may be are running and waiting."""
    return ApiError(
        429, message, type="rate_limit_error", code="rate_limit_exceeded", headers=_RETRY_AFTER
    )


def timed_out(timeout_s: float) -> ApiError:
    """A request that took longer than it may."""
    message = f"not finished within {timeout_s:g} s"
    return ApiError(504, message, type="timeout_error", code="timeout")


def ending() -> ApiError:
    """The server is told to end."""
    message = "the server is ending; ask again elsewhere or later"
    return ApiError(503, message, type="server_error", code="ending", headers=_RETRY_AFTER)


def as_api_error(error: BaseException) -> ApiError:
    """What a request is told of an error; of one of ours that is not its fault, the log has all."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InputError):
        return ApiError(400, one_line(error), param="prompt")
    if isinstance(error, ToolformerError):
        _logger.error("%s", one_line(error))
        return ApiError(500, one_line(error), type="server_error", code="generation_failed")
    _logger.error("a request failed", exc_info=error)
    message = f"the server failed with {type(error).__name__}; its log says why"
    return ApiError(500, message, type="server_error", code="internal_error")
