"""Kubernetes' schemas of custom resources, as an API server with no patience would apply them."""

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

_DIRECTORY = Path(__file__).parents[3] / "shared" / "data" / "kuberay"


def problems(resource: dict[str, Any]) -> list[str]:
    """What KubeRay's schema has against `resource`, as "spec.field: why"."""
    validator = jsonschema.Draft7Validator(_schema(resource["kind"]))
    return sorted(
        f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in validator.iter_errors(resource)
    )


def type_of(kind: str, path: str) -> str:
    """The type of the field `path`, as spec.jobId."""
    schema = _schema(kind)
    for name in path.split("."):
        schema = schema["properties"][name]
    return str(schema["type"])


@cache
def _schema(kind: str) -> dict[str, Any]:
    path = _DIRECTORY / f"ray.io_{kind.lower()}s.yaml"
    if not path.exists():
        pytest.skip("needs shared/data/kuberay beside the checkout")
    definition = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    versions = {version["name"]: version for version in definition["spec"]["versions"]}
    schema: dict[str, Any] = versions["v1"]["schema"]["openAPIV3Schema"]
    _close(schema)
    return schema


def _close(schema: Any) -> None:
    """Unknown fields become errors: a server drops them without a word."""
    if isinstance(schema, list):
        for each in schema:
            _close(each)
    elif isinstance(schema, dict):
        for each in schema.values():
            _close(each)
        open_to_more = schema.get("x-kubernetes-preserve-unknown-fields", False)
        if isinstance(schema.get("properties"), dict) and not open_to_more:
            schema.setdefault("additionalProperties", False)
