import asyncio

import httpx

from pipeline.config import ModelConfig
from tests.training.generate.reciting import MODEL, Reciting
from training.generate.config import GenerateConfig
from training.generate.generator import Generator
from training.serve.app import make_app
from training.serve.limits import Admission, Limits

HERE = "http://localhost"


def test_what_the_engine_cannot_choose_like_is_the_fault_of_the_request() -> None:
    config = GenerateConfig(model=ModelConfig(path=MODEL), tools={})

    async def asked(api_top_k: int) -> httpx.Response:
        body = {"model": "m", "prompt": "a", "api_top_k": api_top_k, "stream": True}
        async with Generator(config, engine=Reciting([], most_likely=20)) as generator:
            limits = Limits()
            app = make_app(
                generator, model="m", limits=limits, admission=Admission(limits), key=None
            )
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                return await client.post("/v1/completions", json=body)

    assert asyncio.run(asked(20)).status_code == 200
    answer = asyncio.run(asked(21))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith("api_top_k: got 21") and error["param"] is None
