"""The endpoints: completions, models, health."""

import asyncio
import time
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from tools.base import InputError, one_line
from training.generate.generator import Generator
from training.serve.answer import CompletionAnswer
from training.serve.errors import ApiError, as_api_error, too_large
from training.serve.keys import ApiKey
from training.serve.limits import Admission, Limits
from training.serve.listening import check_host
from training.serve.request import read_request

# Of a body that is too large so much is still read: who writes all of it before reading the answer
# would else see a connection that breaks.
_READ_ON_BYTES = 16 << 20


def make_app(
    generator: Generator,
    *,
    model: str,
    limits: Limits,
    admission: Admission,
    key: ApiKey | None,
) -> FastAPI:
    """What answers; requests name `model`. All errors have OpenAI's form."""
    # No schema and no pages about it: those load scripts from elsewhere.
    # And no redirects, which are no errors in OpenAI's form.
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    the_model = {
        "id": model,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "toolformer",
    }
    v1 = APIRouter(prefix="/v1", dependencies=[Depends(check_host if key is None else key.check)])

    def check_name(asked: str) -> None:
        if asked != model:
            raise ApiError(
                404,
                f"the model {asked!r} does not exist; there is {model!r}",
                param="model",
                code="model_not_found",
            )

    @v1.post("/completions")
    async def completions(request: Request) -> Response:
        body = await _read_body(request, limits)
        asked = read_request(body, generator.defaults, limits)
        check_name(asked.model)
        try:
            generator.check(asked.params[0])  # they differ in their seeds alone
        except InputError as error:
            raise ApiError(400, one_line(error), code="unsupported_value") from None
        return CompletionAnswer(asked, generator, admission)

    @v1.get("/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [the_model]}

    @v1.get("/models/{name:path}")
    async def one_model(name: str) -> dict[str, Any]:
        check_name(name)
        return the_model

    @app.get("/health")
    async def health() -> JSONResponse:
        state = {
            "status": "ending" if admission.is_ending else "ok",
            "running": admission.num_running,
            "waiting": admission.num_waiting,
        }
        return JSONResponse(state, status_code=503 if admission.is_ending else 200)

    app.include_router(v1)
    app.add_exception_handler(ApiError, _in_openais_form)
    app.add_exception_handler(HTTPException, _in_openais_form)
    return app


async def _read_body(request: Request, limits: Limits) -> bytes:
    """The body, which may come in chunks of any size.

    Raises:
        ApiError: 415 where it is not said to be JSON, as a web page of elsewhere may not say
            without being asked first; 413 where it is too large, 408 where it takes too long.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "the body has to be application/json", code="unsupported_media_type")
    parts, num_bytes = [], 0
    try:
        async with asyncio.timeout(limits.timeout_s):
            async for part in request.stream():
                num_bytes += len(part)
                if num_bytes <= limits.max_body_bytes:
                    parts.append(part)
                elif num_bytes > limits.max_body_bytes + _READ_ON_BYTES:
                    break
    except TimeoutError:
        raise ApiError(
            408, f"no whole body within {limits.timeout_s:g} s", code="timeout"
        ) from None
    if num_bytes > limits.max_body_bytes:
        raise too_large(f"the body has more than {limits.max_body_bytes:,} bytes")
    return b"".join(parts)


async def _in_openais_form(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):  # no such path, or not with this method
        reason = HTTPStatus(error.status_code).phrase
        message = f"{request.method} {request.url.path}: {reason}"
        error = ApiError(error.status_code, message, headers=error.headers)
    told = as_api_error(error)
    return Response(told.body(), told.status, told.headers, media_type="application/json")
