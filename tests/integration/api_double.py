# SPDX-License-Identifier: Apache-2.0
"""A double of the Kubernetes API server: HTTPS, objects in memory, and faults on demand.

It keeps any kind of object under any path. It pages lists, serves watches with bookmarks, knows
resourceVersion conflicts, merge patches and a plain form of server-side apply (every leaf below spec, status,
data and metadata.{labels,annotations} has owners). It checks bearer tokens or client certificates. Nothing is
validated against a schema, there is no admission and no authorization but what a fault says.

    with ApiDouble(folder) as api:      # folder: gets the certificates
        api.fail(Status(429, headers={"Retry-After": "1"}), times=2, method="GET")
"""

import atexit
import base64
import bisect
import copy
import functools
import http.server
import itertools
import json
import os
import re
import shutil
import socket
import ssl
import struct
import tempfile
import threading
import time
import urllib.parse
import weakref

from kube_driver import make_authority, make_certificate

REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
           410: "Expired", 415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests",
           500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
SHORT = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata"
LEAF_ROOTS = ("spec", "status", "data")


def status_object(code, message="", reason=None):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "reason": reason or REASONS.get(code, "Unknown"), "message": message or f"the double says {code}"}


class ApiError(Exception):
    def __init__(self, code, message="", reason=None):
        super().__init__(message)
        self.code, self.body = code, status_object(code, message, reason)


# What a fault does instead of the answer.

class Status:
    """An answer with this code."""

    def __init__(self, code, message="", headers=None, body=None):
        self.code, self.headers = code, headers or {}
        self.body = json.dumps(status_object(code, message)).encode() if body is None else body

    def run(self, handler):
        handler.answer(self.code, self.body, self.headers)


class Held(Status):
    """The same when `event` is set, on a connection that is kept."""

    def __init__(self, event_, code, **more):
        super().__init__(code, **more)
        self.event = event_

    def run(self, handler):
        while not self.event.wait(0.05):
            if handler.double.stopping.is_set():
                return
        super().run(handler)


class Raw:
    """Bytes as they are, then the connection is closed. A number is a pause in seconds."""

    def __init__(self, *parts, reset=False):
        self.parts, self.reset = parts, reset

    def run(self, handler):
        handler.close_connection = True
        for part in self.parts:
            if isinstance(part, (int, float)):
                if handler.double.stopping.wait(part):
                    return
            else:
                handler.wfile.write(part)
                handler.wfile.flush()
        if self.reset:  # RST instead of an orderly end
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            socket.socket.close(handler.connection)


class Stream(Raw):
    """The same inside a chunked answer 200; `whole` ends it as it should end."""

    def __init__(self, *parts, whole=True, code=200):
        head = (f"HTTP/1.1 {code} OK\r\nContent-Type: application/json\r\n"
                "Transfer-Encoding: chunked\r\n\r\n").encode()
        chunks = [p if isinstance(p, (int, float)) else b"%x\r\n%s\r\n" % (len(p), p) for p in parts if p != b""]
        super().__init__(head, *chunks, *([b"0\r\n\r\n"] if whole else []))


class Silence(Raw):
    """Nothing, for so long."""

    def __init__(self, seconds=3600):
        super().__init__(seconds)


def event(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def leaves(value, path=()):
    """The paths of all leaves with their values; a list is a leaf."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    else:
        yield path, value


def owned_leaves(body):
    for path, value in leaves(body):
        if path[0] in LEAF_ROOTS or path[:2] in (("metadata", "labels"), ("metadata", "annotations")):
            yield path, value


def put_leaf(obj, path, value):
    for key in path[:-1]:
        obj = obj.setdefault(key, {})
    obj[path[-1]] = value


def drop_leaf(obj, path):
    for key in path[:-1]:
        obj = obj.get(key, {})
    obj.pop(path[-1], None)


def merge(into, patch):
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)


class Fault:
    def __init__(self, action, times, match):
        self.action, self.left, self.match = action, times, match


class Request:
    """What came in."""

    def __init__(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        self.at = time.monotonic()
        self.method = handler.command
        self.path = url.path
        self.raw_query = url.query
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.headers = dict(handler.headers.items())
        self.connection = handler.connection_number
        self.watch = self.query.get("watch") in ("1", "true")
        length = int(handler.headers.get("Content-Length") or 0)
        self.body = handler.rfile.read(length) if length else b""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    numbers = itertools.count(1)

    def setup(self):
        self.double = self.server.double
        self.connection_number = next(self.numbers)
        self.request.settimeout(60)
        if not self.double.plain:
            self.request = self.server.context.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
        self.double.connections.add(self.request)
        try:
            if self.double.stopping.is_set():
                raise ConnectionAbortedError
            if not self.double.plain:
                self.request.do_handshake()
            self.request.settimeout(None)
        except OSError:
            self.double.connections.discard(self.request)
            self.request.close()
            raise
        super().setup()

    def finish(self):
        self.double.connections.discard(self.request)
        try:
            super().finish()
        except OSError:
            pass
        try:
            self.request.close()
        except OSError:
            pass

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass

    def answer(self, code, body, headers=None):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for key, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        request = Request(self)
        with self.double.lock:
            self.double.requests.append(request)
        action = self.double.take_fault(request)
        if action:
            action.run(self)
            return
        try:
            self.double.check_identity(self, request)
            if request.watch:
                self.watch(request)
                return
            code, obj = self.double.serve(request)
            if request.headers.get("Accept", "").startswith(SHORT):  # never of an error
                self.answer(code, b"k8s\0 no JSON", {"Content-Type": "application/vnd.kubernetes.protobuf"})
            else:
                self.answer(code, json.dumps(obj).encode())
        except ApiError as error:
            self.answer(error.code, json.dumps(error.body).encode())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def watch(self, request):
        double, version = self.double, int(request.query.get("resourceVersion") or 0)
        collection, _, _ = double.place(request.path)
        if version < double.floor and double.gone_as_status:
            raise ApiError(410, f"too old resource version: {version}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if version < double.floor:
            self.chunk(event("ERROR", status_object(410, f"too old resource version: {version}")))
            self.chunk(b"")
            return
        end = time.monotonic() + float(request.query.get("timeoutSeconds") or 3600)
        bookmarks = request.query.get("allowWatchBookmarks") == "true"
        next_bookmark = time.monotonic() + double.bookmark_interval
        while True:
            with double.lock:
                while not double.stopping.is_set():
                    fresh = double.history[bisect.bisect_right(double.history, version, key=lambda e: e[0]):]
                    now = time.monotonic()
                    if fresh or now >= end or (bookmarks and now >= next_bookmark):
                        break
                    double.changed.wait(max(0.01, min(end, next_bookmark) - now))
                if fresh:
                    version = fresh[-1][0]
            if double.stopping.is_set():
                self.close_connection = True
                return
            for _, kind, where, obj, old in fresh:
                told = double.is_in(where, collection) and double.seen_through(request.query, kind, obj, old)
                if told:
                    if double.before_event:
                        double.before_event(obj)
                    self.chunk(event(told[0], double.shape(told[1], self.headers.get("Accept"))))
            now = time.monotonic()
            if bookmarks and (now >= next_bookmark or now >= end):
                self.chunk(event("BOOKMARK", {"kind": "Any", "apiVersion": "v1",
                                              "metadata": {"resourceVersion": str(version)}}))
                next_bookmark = now + double.bookmark_interval
            if now >= end:
                self.chunk(b"")
                return


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, double, address, context):
        self.double, self.context = double, context
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, double.port), Handler)

    def process_request(self, request, client_address):
        self.double.count_handlers(1)
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.double.count_handlers(-1)

    def handle_error(self, request, client_address):
        pass  # clients of these tests hang up in every way


def make_server_certificate(folder):
    make_certificate(folder, "server", "/CN=api-double", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost")


@functools.cache
def certificates():
    """The directory of an authority and a certificate of it, for all doubles of this process."""
    folder = tempfile.mkdtemp(prefix="gputopo-api-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_authority(folder)
    make_server_certificate(folder)
    return folder


class ApiDouble:
    plain = False  # True: without TLS, and nobody is asked who he is, as kubectl proxy serves
    before_event = None  # is called before a watch tells of an object

    def __init__(self, folder, address="127.0.0.1", tokens=("token-1",), bookmark_interval=60.0):
        self.folder, self.address = folder, address
        self.tokens = set(tokens)
        self.configz = {}  # what the kubelets of nodes answer; of others nobody may ask
        self.bookmark_interval = bookmark_interval
        self.unknown_isolated = set()  # fields of isolations that the definition does not have
        self.gone_as_status = False
        self.dropped = set()  # fields of a spec that it does not know
        # Bound for as long as this object lives, so that nobody else gets the port while the server is away
        self.keeper = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        weakref.finalize(self, self.keeper.close)
        self.keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.keeper.bind((address, 0))
        self.port = self.keeper.getsockname()[1]
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.stopping = threading.Event()
        self.objects = {}    # (collection, name) -> object
        self.owners = {}     # (collection, name) -> {leaf: set of managers}
        self.history = []    # (version, type, collection, object, the object before)
        self.version, self.floor = 100, 0
        self.at_floor = {}   # the objects as of that version
        self.uids = itertools.count(1)
        self.snapshots = {}  # continue token -> rest of a list
        self.requests, self.faults, self.connections = [], [], set()
        self.handlers = 0    # threads, one for each connection
        if not os.path.exists(f"{folder}/ca.crt"):
            shutil.copytree(certificates(), folder, dirs_exist_ok=True)
        if not os.path.exists(f"{folder}/server.crt"):
            make_server_certificate(folder)
        self.listener = None
        self.start()

    # life

    def start(self):
        """(Again) on the same port."""
        self.stopping.clear()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.folder}/server.crt", f"{self.folder}/server.key")
        context.load_verify_locations(f"{self.folder}/ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        self.listener = Listener(self, self.address, context)
        self.thread = threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self):
        """Ends the listener and every connection; the objects stay, and nothing that came before is served after."""
        self.stopping.set()
        with self.changed:
            self.changed.notify_all()
        self.listener.shutdown()
        self.listener.server_close()
        self.thread.join()
        end = time.monotonic() + 60
        with self.changed:
            while self.handlers and time.monotonic() < end:
                self.cut_connections()
                self.changed.wait(0.1)

    def count_handlers(self, change):
        with self.changed:
            self.handlers += change
            self.changed.notify_all()

    def cut_connections(self):
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def host(self):
        return f"[{self.address}]" if ":" in self.address else self.address

    @property
    def url(self):
        return f"http{'' if self.plain else 's'}://{self.host}:{self.port}"

    # faults and what was asked

    def fail(self, action, times=1, method=None, path=None, watch=None, name=None):
        """The next `times` requests that fit get `action`. Faults are tried in the order of this call."""
        def match(request):
            return ((method is None or request.method == method) and
                    (path is None or re.search(path, request.path)) and
                    (watch is None or request.watch == watch) and
                    (name is None or request.path.endswith("/" + name)))
        with self.lock:
            self.faults.append(Fault(action, times, match))

    def take_fault(self, request):
        with self.lock:
            for fault in self.faults:
                if fault.left and fault.match(request):
                    fault.left -= 1
                    return fault.action
        return None

    def asked(self, **want):
        """The requests so far with these attributes."""
        with self.lock:
            return [r for r in self.requests if all(getattr(r, k) == v for k, v in want.items())]

    def check_identity(self, handler, request):
        if self.plain or handler.connection.getpeercert():
            return
        given = request.headers.get("Authorization", "")
        if not given.startswith("Bearer ") or given[7:] not in self.tokens:
            raise ApiError(401, "Unauthorized")

    # objects

    @staticmethod
    def place(path):
        """(collection, name, subresource) of a path; a collection without namespace holds all of them."""
        found = re.fullmatch(r"(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([^/]+)(?:/([^/]+))?(?:/(.+))?",
                             urllib.parse.unquote(path))
        if not found:
            raise ApiError(404, f"no path {path}")
        base, namespace, plural, name, sub = found.groups()
        return (base, namespace, plural), name, sub

    @staticmethod
    def is_in(where, collection):
        return where[0] == collection[0] and where[2] == collection[2] and collection[1] in (None, where[1])

    @staticmethod
    def is_selected(obj, query):
        field, label = query.get("fieldSelector"), query.get("labelSelector")
        for one in field.split(",") if field else []:
            path, value = one.split("=", 1)
            found = functools.reduce(lambda at, key: at.get(key, {}), path.rstrip("!").split("."), obj)
            if ((found or "") == value) == path.endswith("!"):
                return False
        if label:
            key, value = label.split("=", 1)
            return obj["metadata"].get("labels", {}).get(key) == value
        return True

    @staticmethod
    def shape(obj, accept):
        if "as=PartialObjectMetadata" not in (accept or ""):
            return obj
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}

    @classmethod
    def seen_through(cls, query, kind, obj, old):
        """(type, object) of a change as a watch with these selectors tells it; None: it tells nothing. What a
        selector does not select any more is deleted for it, with its last selected contents (watch_cases.py)."""
        was, is_ = old and cls.is_selected(old, query), kind != "DELETED" and cls.is_selected(obj, query)
        if is_:
            return ("MODIFIED" if was else "ADDED"), obj
        if not was:
            return None
        return "DELETED", {**old, "metadata": {**old["metadata"],
                                               "resourceVersion": obj["metadata"]["resourceVersion"]}}

    def note(self, kind, where, obj, old):
        self.history.append((self.version, kind, where, copy.deepcopy(obj), old))
        self.changed.notify_all()

    def store(self, collection, name, obj, kind):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        for field in self.dropped:
            obj.get("spec", {}).pop(field, None)
        old = self.objects.get((collection, name))
        self.objects[collection, name] = obj
        self.note(kind, collection, obj, old)

    def add(self, path, name, **members):
        """Puts an object there from outside; `path` is that of its collection."""
        with self.lock:
            collection, _, _ = self.place(path)
            old = self.objects.get((collection, name))
            metadata = {"name": name, "uid": old["metadata"]["uid"] if old else f"uid-{next(self.uids)}",
                        **({"namespace": collection[1]} if collection[1] else {}), **members.pop("metadata", {})}
            self.store(collection, name, {"apiVersion": "v1", "kind": "Any", "metadata": metadata, **members},
                       "MODIFIED" if old else "ADDED")
            return self.version

    def remove(self, path, name):
        with self.lock:
            collection, _, _ = self.place(path)
            obj = self.objects.pop((collection, name))
            self.owners.pop((collection, name), None)
            self.version += 1
            self.note("DELETED", collection,
                      {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}, obj)

    def compact(self):
        """Forgets every version but the present one, and every place in a list."""
        with self.lock:
            self.floor, self.at_floor = self.version, dict(self.objects)
            self.history.clear()
            self.snapshots.clear()

    def snapshot(self):
        """A backup of all objects, for restore()."""
        with self.lock:
            return copy.deepcopy((self.version, self.objects, self.owners))

    def restore(self, backup):
        """As with etcd: the server is away for a moment, and what came after the backup has never been."""
        self.stop()
        with self.lock:
            self.version, self.objects, self.owners = copy.deepcopy(backup)
            self.compact()
        self.start()

    def serve(self, request):
        with self.lock:
            collection, name, sub = self.place(request.path)
            if request.method == "GET" and not name:
                return 200, self.list(collection, request)
            obj = self.objects.get((collection, name))
            if request.method == "POST" and not sub:
                return self.create(collection, json.loads(request.body), request)
            if request.method == "PATCH" and "apply" in request.headers.get("Content-Type", ""):
                return self.apply(collection, name, request)
            if obj is None:
                raise ApiError(404, f'{collection[2]} "{name}" not found')
            if sub == "proxy/configz":
                if name not in self.configz:
                    raise ApiError(403, f'nodes "{name}" is forbidden: cannot get resource "nodes/proxy"', "Forbidden")
                return 200, self.configz[name]
            if request.method == "GET":
                return 200, self.shape(obj, request.headers.get("Accept"))
            if request.method == "PUT":
                return self.update(collection, name, json.loads(request.body))
            if request.method == "PATCH":
                if request.headers.get("Content-Type") != "application/merge-patch+json":
                    raise ApiError(415, "patch type")
                new, patch = copy.deepcopy(obj), json.loads(request.body)
                self.refuse_stale(collection, name, patch)
                merge(new, patch)
                self.drop_unknown(new, request)
                return self.changed_to(collection, name, obj, new)
            if request.method == "DELETE":
                self.remove(request.path.rsplit("/", 1)[0], name)
                return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            raise ApiError(405, request.method)

    def drop_unknown(self, new, request):
        """As a definition without these fields of isolations does."""
        for i, entry in enumerate(new.get("spec", {}).get("isolated") or []):
            for field in self.unknown_isolated & set(entry):
                if request.query.get("fieldValidation") == "Strict":
                    raise ApiError(400, f'strict decoding error: unknown field "spec.isolated[{i}].{field}"', "BadRequest")
                del entry[field]

    def changed_to(self, collection, name, old, new):
        if new != old:  # what changes nothing makes no new version
            self.store(collection, name, new, "MODIFIED")
        return 200, new

    def objects_of(self, query):
        """As they are now, or were at the version that is asked for."""
        if query.get("resourceVersionMatch") != "Exact":
            return self.version, self.objects
        version = int(query["resourceVersion"])
        if version < self.floor:
            raise ApiError(410, f"The provided resource version is too old: {version}", "Expired")
        objects = dict(self.at_floor)
        for at, kind, where, obj, _ in self.history:
            if at <= version and kind == "DELETED":
                del objects[where, obj["metadata"]["name"]]
            elif at <= version:
                objects[where, obj["metadata"]["name"]] = obj
        return version, objects

    def list(self, collection, request):
        token, limit = request.query.get("continue"), int(request.query.get("limit") or 0)
        if token:
            if token not in self.snapshots:
                raise ApiError(410, "The provided continue parameter is too old", "Expired")
            version, items = self.snapshots[token]
        else:
            version, objects = self.objects_of(request.query)
            items = [copy.deepcopy(o) for (where, _), o in sorted(objects.items(), key=lambda i: str(i[0]))
                     if self.is_in(where, collection) and self.is_selected(o, request.query)]
        from_cache = request.query.get("resourceVersion") == "0"  # which does not heed the limit
        page, rest = (items[:limit], items[limit:]) if limit and not from_cache else (items, [])
        metadata = {"resourceVersion": str(version)}
        if rest:
            metadata["continue"] = base64.b64encode(f"{version}+{len(rest)}/{next(self.uids)}".encode()).decode()
            metadata["remainingItemCount"] = len(rest)
            self.snapshots[metadata["continue"]] = (version, rest)
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata,
                "items": [self.shape(o, request.headers.get("Accept")) for o in page]}

    def create(self, collection, obj, request):
        name = obj.get("metadata", {}).get("name")
        if not name:
            raise ApiError(422, "metadata.name: Required value")
        if (collection, name) in self.objects:
            raise ApiError(409, f'{collection[2]} "{name}" already exists', "AlreadyExists")
        obj["metadata"]["uid"] = f"uid-{next(self.uids)}"
        if collection[1]:
            obj["metadata"]["namespace"] = collection[1]
        manager = request.query.get("fieldManager", "unknown")
        self.owners[collection, name] = {path: {manager} for path, _ in owned_leaves(obj)}
        self.store(collection, name, obj, "ADDED")
        return 201, obj

    def refuse_stale(self, collection, name, obj):
        version = obj.get("metadata", {}).get("resourceVersion")
        if version and version != self.objects[collection, name]["metadata"]["resourceVersion"]:
            raise ApiError(409, f'Operation cannot be fulfilled on {collection[2]} "{name}": '
                                "the object has been modified")

    def update(self, collection, name, obj):
        old = self.objects[collection, name]
        self.refuse_stale(collection, name, obj)
        obj["metadata"] = {**obj["metadata"], "uid": old["metadata"]["uid"],
                           "resourceVersion": old["metadata"]["resourceVersion"]}
        return self.changed_to(collection, name, old, obj)

    def apply(self, collection, name, request):
        manager = request.query.get("fieldManager")
        if not manager:
            raise ApiError(400, "fieldManager is required for apply patch")
        if request.headers["Content-Type"] != "application/apply-patch+yaml":
            raise ApiError(415, "the body of the request was in an unknown format")
        body = json.loads(request.body)
        if not body.get("apiVersion") or not body.get("kind") or body.get("metadata", {}).get("name") != name:
            raise ApiError(400, "apply needs apiVersion, kind and metadata.name")
        old = self.objects.get((collection, name))
        new = copy.deepcopy(old) if old else {
            "apiVersion": body["apiVersion"], "kind": body["kind"],
            "metadata": {"name": name, "uid": f"uid-{next(self.uids)}",
                         **({"namespace": collection[1]} if collection[1] else {})}}
        owners = copy.deepcopy(self.owners.get((collection, name), {}))
        had, given = dict(owned_leaves(new)), dict(owned_leaves(body))
        for path, value in given.items():
            others = owners.get(path, set()) - {manager}
            if others and had.get(path) != value:
                if request.query.get("force") != "true":
                    raise ApiError(409, f"Apply failed with 1 conflict: conflict with {sorted(others)}: "
                                        f".{'.'.join(path)}")
                owners[path] = set()
            owners.setdefault(path, set()).add(manager)
            if path == ("status", "conditions") and collection[2] == "nodes":  # a list by type, as in the real one
                mine = {one["type"] for one in value}
                value = [one for one in had.get(path) or [] if one["type"] not in mine] + value
            put_leaf(new, path, value)
        for path in [p for p, who in owners.items() if manager in who and p not in given]:
            owners[path].discard(manager)
            if not owners[path]:
                del owners[path]
                drop_leaf(new, path)
        self.owners[collection, name] = owners
        if old is None:
            self.store(collection, name, new, "ADDED")
            return 201, new
        return self.changed_to(collection, name, old, new)


class StrictDouble(ApiDouble):
    """Beyond the double: a subresource of nothing is 404, a UID is a precondition, owners are kept, and a refusal
    names the fields, as the real one does (test_publish_real.py). A deletion may have a UID as its precondition."""

    def apply(self, collection, name, request):
        body = json.loads(request.body)
        request = copy.copy(request)
        if self.place(request.path)[2]:  # what a manager owns in the status is apart from the rest
            request.query = {**request.query, "fieldManager": request.query["fieldManager"] + "/status"}
        old = self.objects.get((collection, name))
        if old is None and self.place(request.path)[2]:
            raise ApiError(404, f'{collection[2]} "{name}" not found')
        uid = body["metadata"].get("uid")
        if uid and (old is None or old["metadata"]["uid"] != uid):
            raise ApiError(409, f"uid mismatch: the provided object specified uid {uid}")
        self.refuse_taken(collection, name, request, body)
        owners = body["metadata"].get("ownerReferences")
        code, obj = super().apply(collection, name, request)
        if owners and obj["metadata"].get("ownerReferences") != owners:
            obj = copy.deepcopy(obj)
            obj["metadata"]["ownerReferences"] = owners
            self.store(collection, name, obj, "MODIFIED")
        return code, obj

    def refuse_taken(self, collection, name, request, body):
        owners = self.owners.get((collection, name), {})
        had = dict(owned_leaves(self.objects.get((collection, name), {})))
        taken = [p for p, v in owned_leaves(body)
                 if owners.get(p, set()) - {request.query["fieldManager"]} and had.get(p) != v]
        if taken and request.query.get("force") != "true":
            error = ApiError(409, f"Apply failed with {len(taken)} conflicts")
            error.body["details"] = {"causes": [{"reason": "FieldManagerConflict", "message": "conflict",
                                                 "field": "." + ".".join(p)} for p in taken]}
            raise error

    def serve(self, request):
        if request.method == "DELETE" and request.body:
            with self.lock:
                collection, name, _ = self.place(request.path)
                uid = json.loads(request.body).get("preconditions", {}).get("uid")
                obj = self.objects.get((collection, name))
                if uid and obj and obj["metadata"]["uid"] != uid:
                    raise ApiError(409, f"the UID in the precondition ({uid}) does not match")
        return super().serve(request)
