# SPDX-License-Identifier: Apache-2.0
"""What a reader of CDI specs, version 0.6.0, requires; written from the specification, without code of the product."""
import json
import re

import jsonschema

VENDOR_OR_CLASS = r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
ABSOLUTE = "^/([^/]+/)*[^/]+$"
EDITS = {
    "type": "object", "additionalProperties": False, "minProperties": 1,
    "properties": {
        "env": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[^=]+="}},
        "deviceNodes": {"type": "array", "minItems": 1, "items": {
            "type": "object", "additionalProperties": False, "required": ["path"],
            "properties": {
                "path": {"type": "string", "pattern": ABSOLUTE}, "hostPath": {"type": "string", "pattern": ABSOLUTE},
                "permissions": {"type": "string", "pattern": "^[rwm]{1,3}$"}}}}}}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object", "additionalProperties": False, "required": ["cdiVersion", "kind", "devices"],
    "properties": {
        "cdiVersion": {"const": "0.6.0"},
        "kind": {"type": "string", "pattern": f"^{VENDOR_OR_CLASS}/{VENDOR_OR_CLASS}$"},
        "containerEdits": EDITS,
        "devices": {"type": "array", "minItems": 1, "items": {
            "type": "object", "additionalProperties": False, "required": ["name", "containerEdits"],
            "properties": {"name": {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$"},
                           "containerEdits": EDITS}}}}}


def nodes(edits):
    """{path in the container: path on the host}"""
    found = {}
    for node in edits.get("deviceNodes", []):
        assert node["path"] not in found, f"{node['path']} twice"
        found[node["path"]] = node.get("hostPath", node["path"])
    return found


def read(text):
    """Kind, nodes common to all, and {name: nodes} of a spec that is right; else an exception says what is wrong."""
    def once(pairs):
        assert len({key for key, _ in pairs}) == len(pairs), f"a key twice: {pairs}"
        return dict(pairs)
    spec = json.loads(text, object_pairs_hook=once)
    jsonschema.Draft202012Validator(SCHEMA).validate(spec)
    common, devices = nodes(spec.get("containerEdits", {})), {}
    for device in spec["devices"]:
        assert device["name"] not in devices, f"{device['name']} twice"
        devices[device["name"]] = nodes(device["containerEdits"])
        assert not set(common) & set(devices[device["name"]]), f"{device['name']} has what is common to all"
    return spec["kind"], common, devices


def inject(text, *full_names):
    """What a runtime gives a container that asks for these: {path in the container: path on the host}."""
    kind, common, devices = read(text)
    given = dict(common) if full_names else {}
    for full in full_names:
        match = re.fullmatch("(.+)=(.+)", full)
        assert match and match.group(1) == kind and match.group(2) in devices, f"unresolvable CDI device {full}"
        given.update(devices[match.group(2)])
    return given
