# SPDX-License-Identifier: Apache-2.0
"""The requests that the schedulers post to gputopo-scheduler, and how they are sent."""

import contextlib
import http.client
import json
import ssl

from placement_driver import RESOURCE

FILTER, PRIORITIZE = "/kube-scheduler/filter", "/kube-scheduler/prioritize"
PREEMPT = "/kube-scheduler/preempt"
PREDICATE, VOLCANO_PRIORITIZE = "/volcano/predicate", "/volcano/prioritize"
ALL_PATHS = (FILTER, PRIORITIZE, PREEMPT, PREDICATE, VOLCANO_PRIORITIZE)
JSON = "application/json"


def asking_pod(name="p", gpus=4, namespace="ns", **metadata):
    """A Pod as it stands in a request; `gpus` is taken as it is."""
    return {"metadata": {"namespace": namespace, "name": name, "uid": f"uid-of-{name}", **metadata},
            "spec": {"containers": [{"name": "main", "resources": {"limits": {RESOURCE: gpus}}}]}}


def args(pod, *names):
    """kube-scheduler's, with nodeCacheCapable."""
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}


def preempt_args(pod, victims):
    """kube-scheduler's ExtenderPreemptionArgs; `victims`: for each node the UIDs, and the violations of budgets."""
    return {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": broken} for node, (uids, broken) in victims.items()}}


def node_info(name, idle):
    """Volcano's NodeInfo with so many GPUs idle."""
    return {"Name": name, "Node": {"metadata": {"name": name}}, "Idle": {"MilliCPU": 1, "ScalarResources": {
        RESOURCE: idle * 1000, "pods": 110}}, "Used": {"ScalarResources": None}, "Tasks": {"ns/x": {"Pod": {"spec": {}}}}}


def task(pod):
    return {"UID": pod["metadata"]["uid"], "Job": "ns/job", "Name": pod["metadata"]["name"], "Namespace": pod["metadata"]["namespace"],
            "Resreq": {"ScalarResources": None}, "Status": 1, "Pod": pod}


class Client:
    """One connection, kept alive."""

    def __init__(self, port, context=None):
        self.connection = (http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context) if context else
                           http.client.HTTPConnection("127.0.0.1", port, timeout=60))

    def ask(self, path, body=None, method="POST", content_type=JSON):
        """Status and text. `body`: bytes, or what is made JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self.connection.request(method, path, data, {"Content-Type": content_type} if content_type else {})
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def close(self):
        self.connection.close()


@contextlib.contextmanager
def client(port, context=None):
    made = Client(port, context)
    try:
        yield made
    finally:
        made.close()


def context_of(authority, certificate=None):
    """TLS of a client; `certificate`: path without .crt and .key, or None."""
    context = ssl.create_default_context(cafile=authority)
    if certificate:
        context.load_cert_chain(certificate + ".crt", certificate + ".key")
    return context
