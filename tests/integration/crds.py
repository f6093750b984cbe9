# SPDX-License-Identifier: Apache-2.0
"""The custom resource definitions of this repository as JSON Schemas."""

import os

import yaml

CRDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../daemonset/crds")


def json_schema(openapi):
    """A structural schema as JSON Schema (draft 4), in which what the API server would prune is an error."""
    schema = {k: v for k, v in openapi.items() if not k.startswith("x-kubernetes") and k not in ("nullable", "format")}
    if "properties" in schema:
        schema["properties"] = {k: json_schema(v) for k, v in schema["properties"].items()}
        schema["additionalProperties"] = False
    if "items" in schema:
        schema["items"] = json_schema(schema["items"])
    if openapi.get("nullable"):
        schema["type"] = [schema["type"], "null"]
    return schema


def part_schema(plural, part):
    """Of the spec or the status."""
    with open(f"{CRDS}/{plural}.yaml", encoding="utf-8") as file:
        crd = yaml.safe_load(file)
    return json_schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part])


def status_schema(plural):
    return part_schema(plural, "status")
