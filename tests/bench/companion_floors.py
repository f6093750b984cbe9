# SPDX-License-Identifier: Apache-2.0
"""What placement costs at least, for companion_jobs.py: the same jobs, with the plans of a double that takes no CPU (it runs
beside, and is not counted). Each step has one thing more that the API server has to do, whoever plans."""

import base64
import contextlib
import functools
import http.client
import json
import multiprocessing
import queue
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from companion_api import NAMESPACE, PLACEMENTS, PODS, TOPOLOGY_API, node_name
from daemon_driver import free_port
from kube_driver import make_certificate
from placement_driver import PLAN

ROUNDS, PODS_ON_A_NODE = 4, 4


def place_of(name):
    """(number of the job, rank) of a pod of Bench.job()."""
    _, serial, rank = name.split("-")
    return int(serial), int(rank)


def plan_of(name, nodes):
    """Annotations and affinity, as the companion writes them."""
    serial, rank = place_of(name)
    node, first = node_name((2 * serial + rank // PODS_ON_A_NODE) % nodes), 2 * (rank % PODS_ON_A_NODE)
    plan = {"gpus": json.dumps({"main": [f"GPU-{node}-{first}", f"GPU-{node}-{first + 1}"]}), "node": node, "unit": "0",
            "rank": str(rank), "unit-rank": str(rank), "supernode": f"super-{serial:04}", "tier": "1"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return ({PLAN + key: value for key, value in plan.items()},
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})


def placement_of(serial, pods, nodes):
    """The object of a job that is placed, as the companion makes it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    names = [plan_of(f"job-{serial}-{rank}", nodes)[0][PLAN + "node"] for rank in range(pods)]
    table = sorted(set(names))
    places = [f"{rank}:0:{table.index(node)}:{2 * (rank % PODS_ON_A_NODE)}-{2 * (rank % PODS_ON_A_NODE) + 1}"
              for rank, node in enumerate(names)]
    return {"apiVersion": TOPOLOGY_API, "kind": "GPUPlacement", "metadata": {"name": f"job.job-{serial}"}, "spec": {
        "job": f"{NAMESPACE}/Job/job-{serial}", "pods": pods, "gpus": 2 * pods, "priority": 0, "onLostPlan": "Report",
        "templates": [{"pods": pods, "gpus": 2, "groupSize": 2 * pods}]}, "status": {
        "phase": "Placed", "where": f"super-{serial:04}", "epoch": 1, "nodes": table, "units": [f"super-{serial:04}"],
        "pods": places, "promisedUntil": now, "plannedAt": now}}


class Double:
    """Answers the webhook's requests with plans, in a process of its own. With `objects` it first writes the GPUPlacement of a
    job of so many pods; with `hints` it tells of the node in the status of each pod, when the pod is there."""

    def __init__(self, folder, port, api_port, nodes, objects, hints):
        self.folder, self.port, self.api_port, self.nodes, self.objects = folder, port, api_port, nodes, objects
        self.context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        self.context.load_cert_chain(f"{folder}/companion.crt", f"{folder}/companion.key")
        self.hints, self.written, self.lock = queue.Queue() if hints else None, set(), threading.Lock()

    def write(self, connection, method, path, body, kind):
        connection.request(method, f"{path}?fieldValidation=Ignore", json.dumps(body), {"Content-Type": kind})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.api_port, context=self.context)

    def hint(self):
        connection = self.connect()
        while True:
            name, node = self.hints.get()
            status = self.write(connection, "PATCH", f"{PODS}/{name}/status", {"status": {"nominatedNodeName": node}},
                                "application/merge-patch+json")
            if status == 404:
                self.hints.put((name, node))
                time.sleep(0.005)

    def answer(self, review, connection):
        request = review["request"]
        pod, name = request["object"], request["name"]
        annotations, affinity = plan_of(name, self.nodes)
        serial = place_of(name)[0]
        with self.lock:
            first = self.objects and serial not in self.written
            self.written.add(serial)
        if first:
            status = self.write(connection, "POST", PLACEMENTS, placement_of(serial, self.objects, self.nodes), "application/json")
            assert status == 201, f"GPUPlacement: {status}"
        if self.hints:
            self.hints.put((name, annotations[PLAN + "node"]))
        patch = [{"op": "add", "path": "/metadata/annotations", "value": {**pod["metadata"]["annotations"], **annotations}},
                 {"op": "add", "path": "/spec/affinity", "value": affinity},
                 *([{"op": "remove", "path": "/metadata/managedFields"}] if "managedFields" in pod["metadata"] else [])]
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": {
            "uid": request["uid"], "allowed": True, "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode()}}

    def serve(self):
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                self.request = context.wrap_socket(self.request, server_side=True)
                super().setup()
                self.upstream = double.connect()

            def do_POST(self):  # noqa: N802, as the library calls it
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(double.answer(review, self.upstream)).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                self.wfile.write(head.encode() + body)

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.folder}/webhook.crt", f"{self.folder}/webhook.key")
        for _ in range(4 if self.hints else 0):
            threading.Thread(target=self.hint, daemon=True).start()
        ThreadingHTTPServer(("127.0.0.1", self.port), Handler).serve_forever()


def run_double(*arguments):
    Double(*arguments).serve()


@contextlib.contextmanager
def double(bench, pods, policies=False, objects=False, hints=False):
    """In the place of the companion."""
    port = free_port()
    make_certificate(bench.folder, "webhook", "/CN=webhook", "subjectAltName=IP:127.0.0.1")
    bench.make_account()
    arguments = (bench.folder, port, bench.api.port, bench.nodes, pods if objects else 0, hints)
    process = multiprocessing.get_context("spawn").Process(target=run_double, args=arguments, daemon=True)
    process.start()
    with contextlib.ExitStack() as stack:
        stack.callback(process.join)
        stack.callback(process.kill)
        if policies:
            stack.enter_context(bench.policies())
        stack.enter_context(bench.asks(port))
        yield
        if not process.is_alive():
            raise SystemExit("companion_jobs.py: the double of the companion has ended")


def add_plans(bench, pods):
    for _, pod in pods:
        annotations, affinity = plan_of(pod["metadata"]["name"], bench.nodes)
        pod["metadata"]["annotations"].update(annotations)
        pod["spec"]["affinity"] = affinity


def steps_of(bench, pods, hints):
    """[(what, arguments of Bench.flow())]"""
    def with_double(**what):
        return {"units": True, "beside": functools.partial(double, bench, pods, **what)}

    steps = [("alone", {}),
             ("pods have a plan when they are made", {"units": True, "prepare": functools.partial(add_plans, bench)}),
             ("a webhook gives it", with_double()),
             ("the policies", with_double(policies=True)),
             ("a GPUPlacement a job", with_double(policies=True, objects=True))]
    if hints:
        steps.append(("the node in the pod's status", with_double(policies=True, objects=True, hints=True)))
    return [*steps, ("gputopo-scheduler", {"part": "placement"})]


def run(bench, name, scheduler, measure, gang, hints, **how):
    """Forwards and backwards, so that what else the machine does falls on all."""
    steps = steps_of(bench, gang, hints)
    sums = [[0, 0, 0] for _ in steps]
    for turn in range(ROUNDS):
        numbers = range(len(steps))
        for i in numbers if turn % 2 == 0 else reversed(numbers):
            run_name = f"{name}, {steps[i][0]}, turn {turn + 1}"
            bench.flow(run_name, scheduler, **steps[i][1], **how)
            sums[i][0] += bench.costs[run_name] / ROUNDS
            sums[i][1] += bench.works[run_name] / ROUNDS
            sums[i][2] += bench.allocated[run_name] / ROUNDS
    for i, ((what, _), (cost, work, allocated)) in enumerate(zip(steps, sums)):
        label = f"{name}: {'and ' if 2 < i < len(steps) - 1 else ''}{what}"
        measure(f"{label}: CPU, all, a pod", 1000 * cost, "ms")
        measure(f"{label}: the API server allocates, a pod", allocated / 1000, "kB")
        measure(f"{label}: work of all, a pod, to alone", work / sums[0][1], "")
