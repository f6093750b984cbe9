#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What users of each kind of job get wrong, and the sentence that they read: at creation, where the API server asks the webhook,
and in the condition of the pods, where it did not ask. The mistakes are in refused.yaml, the sentences in refused.txt.

Usage: test_refused.py GPUTOPO_SCHEDULER [--write | unittest arguments]

With --write the sentences are recorded again: look at the difference.
"""

import base64
import contextlib
import copy
import difflib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import yaml

from api_double import StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import free_port, wait_for
from extender_driver import client, context_of
from kube_driver import kubeconfig, make_authority, make_certificate
from placement_driver import ATOMIC, GATE, GROUP, RESOURCE, apply_patch, gates, node_status, pod_spec, supernode_status, topology

SCHEDULER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
WRITE = "--write" in sys.argv[1:]
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXAMPLES = ROOT / "daemonset/examples"
TABLE = yaml.safe_load((HERE / "refused.yaml").read_text(encoding="utf-8"))
RECORD = HERE / "refused.txt"
OURS = "metax-tech.com/"


# ---- objects and changes ----

def merged(value, change):
    """As a JSON merge patch, but a list is changed by position."""
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    made = copy.deepcopy(value) if isinstance(value, (dict, list)) else {}
    for key, what in change.items():
        if isinstance(made, list):
            made[key:key + 1] = [merged(made[key] if key < len(made) else {}, what)]
        elif what is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), what)
    return made


def change_at(path, value):
    for key in reversed(path):
        value = {key: value}
    return value


def at(value, path):
    for key in path:
        value = value[key] if isinstance(value, list) else value.get(key, {})
    return value


def templates(value, path=()):
    """The paths of all pod templates below."""
    if isinstance(value, (dict, list)):
        if path and "containers" in at(value, ["spec"] if isinstance(value, dict) else []):
            yield path
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from templates(below, (*path, key))


def size_of(template, key=GROUP):
    return template.get("metadata", {}).get("annotations", {}).get(key)


def asks(template):
    return any(RESOURCE in c.get("resources", {}).get("limits", {}) for c in template["spec"]["containers"])


def good_object(section):
    """The object that a section's rows change; None where its pods have none."""
    found = section.get("object")
    if isinstance(found, str):
        found = next(yaml.safe_load_all((EXAMPLES / found).read_text(encoding="utf-8")))
    return found and merged(found, {"metadata": {"name": "demo", "uid": "uid-demo"}})


def common_rows(good, has_pods):
    """What is wrong in all kinds alike. `has_pods`: they are known as its own."""
    paths = [path for path in templates(good) if asks(at(good, path))]
    sized = next(path for path in paths if size_of(at(good, path)))

    def annotated(path, values):
        return change_at(path, {"metadata": {"annotations": values}})
    yield {"what": "a size that is no multiple of a pod's GPUs", "change": annotated(sized, {GROUP: "20"})}
    yield {"what": "a size that does not divide the job", "change": annotated(sized, {GROUP: "24"})}
    yield {"what": "a size that is no number", "change": annotated(sized, {GROUP: "32 GPUs"})}
    if len(paths) > 1:
        yield {"what": "two sizes", "change": annotated(next(path for path in paths if path != sized), {GROUP: "64"})}
    elif has_pods:
        yield {"what": "two sizes, of the template and a pod", "pods": [{"annotations": {GROUP: "64"}}]}
    yield {"what": "two sizes, of the object itself and a template", "change": {"metadata": {"annotations": {GROUP: "64"}}}}
    yield {"what": "atoms that do not divide a unit", "change": annotated(sized, {ATOMIC: "24"})}
    without = {}
    for path in paths:
        without = merged(without, change_at((*path, "spec", "containers"), {0: {"resources": {"limits": {RESOURCE: 0}}}}))
    yield {"what": "a size, and no GPUs", "change": without}
    yield {"what": "a mistyped key", "change": annotated(sized, {GROUP: None, OURS + "gpu-groupsize": "32"})}
    yield {"what": "the size as a label", "change": change_at(sized, {"metadata": {"annotations": {GROUP: None}, "labels": {GROUP: "32"}}})}


def pod_of(section, row_pod, obj):
    """A pod as its controller makes it."""
    meta = merged(merged({"name": "demo", "labels": {}, "annotations": {}}, section["pod"]), row_pod)
    gpus, node, made_by = (meta.pop(key, None) for key in ("gpus", "node", "owner"))
    spec = pod_spec(gpus, gated=False) if gpus else {"containers": [{"name": "main", "image": "none"}]}
    if obj and gpus is None:
        template = at(obj, next(path for path in templates(obj) if asks(at(obj, path))))
        spec = copy.deepcopy(template["spec"])
        meta["annotations"] = {**template.get("metadata", {}).get("annotations", {}), **meta["annotations"]}
    if node:
        spec["nodeName"] = node
    if obj and not made_by:
        made_by = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": "demo"}
    if made_by:
        made_by = {**({"apiVersion": "apps/v1", "kind": "StatefulSet"} if "kind" not in made_by else {}), **made_by}
        meta["ownerReferences"] = [{"uid": "uid-demo", "controller": True, **made_by}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


# ---- what the API server asks ----

HOOKS = [hook for document in yaml.safe_load_all((ROOT / "daemonset/components/placement/webhook.yaml").read_text(encoding="utf-8"))
         if document["kind"] == "ValidatingWebhookConfiguration" for hook in document["webhooks"]]


def plural(obj):
    return obj["kind"].lower() + "s"


def has_own_keys(obj):
    """As the conditions of the webhooks have it."""
    metas = [obj.get("metadata", {})] + [at(obj, path).get("metadata", {}) for path in templates(obj)]
    return any(key.startswith(OURS) for meta in metas for where in ("labels", "annotations") for key in meta.get(where, {}))


def is_asked(obj):
    group, _, version = obj["apiVersion"].rpartition("/")
    return any((not hook.get("matchConditions") or has_own_keys(obj) or "runtimeRef" in obj["spec"])
               for hook in HOOKS for rule in hook["rules"]
               if group in rule["apiGroups"] and version in rule["apiVersions"] and plural(obj) in rule["resources"])


def leaves(value, path=()):
    """Each with its path, as one reads it in the object."""
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" if path else key)
    else:
        yield f"{path} = {json.dumps(value)}" if value is not None else f"no {path}"


class Row:
    """One mistake: what is there, and what is said."""

    def __init__(self, number, section, row):
        self.what, self.change, self.changed_pods, self.namespace = row["what"], row.get("change"), row.get("pods"), f"case-{number}"
        good = good_object(row if "object" in row else section)
        self.object = merged(good, self.change or {})
        self.pods = [] if "object" in row or "pod" not in section else [pod_of(section, pod, self.object) for pod in ([{}] if self.changed_pods is None else self.changed_pods)]
        self.told = {"creation": [], "pods' creation": [], "waiting": []}  # where the sentences stand

    def warns(self):
        return any(text.startswith("warning") for said in self.told.values() for text in said)

    def wrong(self):
        """What is not as it has to be: one sentence, wherever it stands; the API server's Warning has no condition."""
        sentences = [text for said in self.told.values() for text in said]
        alike = {re.sub(r"size of [\w-]+:|within the job: .*|group [\w-]+: ", "", text) for text in sentences}  # where may be a template, or its pod
        return f"{self.what}: {self.told}" if len(alike) != 1 or "nothing" in alike else None

    def lines(self):
        yield f"  {self.what}"
        if self.change:
            yield from (f"      {line}" for line in leaves(self.change))
        for pod, change in zip(self.pods, self.changed_pods or []):
            yield f"      pod {pod['metadata']['name']}: {', '.join(leaves(change)) or 'as it is made'}"
        groups = {}
        for where, sentences in self.told.items():
            for sentence in sentences:
                groups.setdefault(sentence.replace(self.namespace, "ns"), []).append(where)
        for sentence, wheres in groups.items():
            yield f"    {sentence} ({', '.join(dict.fromkeys(wheres))})"


def all_kinds():
    kinds = re.findall(r"^    KIND\((\w+), \w+\)", (ROOT / "api/job_kind.h").read_text(encoding="utf-8"), re.M)
    others = re.findall(r"^    GT_JOB_(\w+),", (ROOT / "api/job_kind.h").read_text(encoding="utf-8"), re.M)
    return kinds + others


class Refused(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-refused-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        make_authority(cls.folder)
        make_certificate(cls.folder, "server", "/CN=server", "subjectAltName=IP:127.0.0.1")

    def setUp(self):
        self.api = StrictDouble(self.folder)
        self.addCleanup(self.api.stop)
        for rack in ("r1", "r2"):
            members = [f"{rack}-n{i:02}" for i in range(32)]
            for node in members:
                self.api.add(NODES, node, metadata={"labels": {"kubernetes.io/hostname": node}}, status=node_status())
                self.api.add(TOPOLOGIES, node, status=topology(node))
            self.api.add(SUPERNODES, rack, status=supernode_status(members))

    @contextlib.contextmanager
    def companion(self):
        https = free_port()
        config = kubeconfig(f"{self.folder}/config", self.api.url, f"certificate-authority: {self.folder}/ca.crt", "token: token-1")
        companion = Companion(SCHEDULER, "--only=placement", "--kubeconfig", config, "--namespace=gputopo-system", "--leader-elect=false",
                              "--https", f"127.0.0.1:{https}", "--tls-certificate", f"{self.folder}/server.crt", "--tls-key",
                              f"{self.folder}/server.key")
        try:
            self.assertTrue(wait_for(companion.is_ready), companion.lines)
            with client(https, context_of(f"{self.folder}/ca.crt")) as self.webhook:
                yield
        finally:
            self.assertEqual(companion.stop(), 0, companion.lines)

    def review(self, path, obj, namespace="ns"):
        """(what is said: [kind of sentence: sentence], the object as it is then)"""
        group, _, version = obj["apiVersion"].rpartition("/")
        code, body = self.webhook.ask(path, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "namespace": namespace, "object": obj,
            "kind": {"group": group, "version": version, "kind": obj["kind"]}}})
        self.assertEqual(code, 200, body)
        response = json.loads(body)["response"]
        if not response["allowed"]:
            return [f"refused: {response['status']['message']}"], None
        patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        return [f"warning: {text}" for text in response.get("warnings", [])], apply_patch(obj, patch)

    def review_pods(self, row):
        return [text for pod in row.pods for text in self.review("/webhook/mutate", pod, row.namespace)[0]]

    def add(self, row):
        """The object and its pods, as if nobody had been asked."""
        if row.object:
            self.api.add(f"/apis/{row.object['apiVersion']}/namespaces/{row.namespace}/{plural(row.object)}",
                         **{"name": "demo", **copy.deepcopy(row.object)})
        for pod in row.pods:
            spec = {**pod["spec"], **({} if "nodeName" in pod["spec"] else {"schedulingGates": [{"name": GATE}]})}
            self.api.add(f"/api/v1/namespaces/{row.namespace}/pods", pod["metadata"]["name"], kind="Pod",
                         metadata={"creationTimestamp": "2026-01-01T00:00:00Z", **pod["metadata"]}, spec=spec, status={"phase": "Pending"})

    def conditions(self, row):
        with self.api.lock:
            found = [self.api.objects[self.api.place(f"/api/v1/namespaces/{row.namespace}/pods/x")[0], pod["metadata"]["name"]]
                     for pod in row.pods]
        return [(gates(pod), next((c for c in pod["status"].get("conditions", []) if c["type"] == "GPUPlacement"), None)) for pod in found]

    def wait_refused(self, row):
        def told():
            return all(not has or (condition and condition["reason"] == "RuleBroken") for has, condition in self.conditions(row))
        wait_for(told)
        for has, condition in self.conditions(row):
            if not has:
                row.told["waiting"].append("nothing")
            elif condition and condition["reason"] == "RuleBroken":
                row.told["waiting"].append(f"refused: {condition['message']}")
            else:
                row.told["waiting"].append(f"{condition['reason']}: {condition['message']}" if condition else "nothing")

    def test_table(self):
        self.assertEqual(list(TABLE), all_kinds(), "refused.yaml needs a section with rows for each kind, in the order of api/job_kind.h")
        rows, number = {}, 0
        for name, section in TABLE.items():
            good = good_object(section)
            rows[name] = []
            for row in [*(common_rows(good, "pod" in section) if good else []), *section["rows"]]:
                number += 1
                rows[name].append(Row(number, section, row))
        every = [row for of_kind in rows.values() for row in of_kind]
        with self.companion():
            for row in every:
                if row.object and is_asked(row.object):
                    row.told["creation"] = self.review("/webhook/validate", row.object, row.namespace)[0]
                if not row.object:
                    row.told["pods' creation"] = self.review_pods(row)
        let_pass = [row for row in every if row.pods and not row.warns()]  # while no webhook answers, all is there before we see it
        for row in let_pass:
            self.add(row)
        with self.companion():
            for row in let_pass:
                self.wait_refused(row)
                row.told["pods' creation"] = self.review_pods(row)
        text = "".join(line + "\n" for name, of_kind in rows.items() for line in (name, *(line for row in of_kind for line in row.lines())))
        if WRITE:
            RECORD.write_text(text, encoding="utf-8")
        was = RECORD.read_text(encoding="utf-8") if RECORD.exists() else ""
        self.assertEqual("", "".join(difflib.unified_diff(was.splitlines(True), text.splitlines(True), "refused.txt", "now")))
        self.assertEqual([], [wrong for wrong in (row.wrong() for row in every) if wrong])

    def test_examples(self):
        """Each is accepted, and nothing is said of it; nor of the good objects of kinds without an example."""
        examples = {path.name: list(yaml.safe_load_all(path.read_text(encoding="utf-8"))) for path in sorted(EXAMPLES.glob("*.yaml"))}
        asked = {name: [obj for obj in objects if "metadata" in obj and is_asked(obj)] for name, objects in examples.items()}
        for row in (row for section in TABLE.values() for row in [section, *section["rows"]]):
            if isinstance(row.get("object"), str):
                self.assertTrue(asked[row["object"]], row["object"])
            elif "object" in row:
                asked.setdefault("refused.yaml", []).append(good_object(row))
        with self.companion():
            for name, objects in asked.items():
                for obj in objects:
                    self.assertEqual(self.review("/webhook/validate", obj)[0], [], (name, obj))


if __name__ == "__main__":
    unittest.main(argv=[argument for argument in sys.argv if argument != "--write"], verbosity=2)
