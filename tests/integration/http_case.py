# SPDX-License-Identifier: Apache-2.0
"""The program that serves by the HTTP server of the daemons, and requests to it, for its tests."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

HOST = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
SLOW = 60.0  # more than anything here takes, sanitizers and a busy machine included
EARLY = 19.0  # less than the server's own limit of a request, where a shorter one was given


def sum_of(data):
    total = 0
    for byte in data:
        total = (total * 31 + byte) & 0xFFFFFFFFFFFFFFFF
    return str(total)


class Server:
    """A running http-host and what it said. Its limits of time are long where the test has no others."""

    def __init__(self, *arguments):
        for limit in ("--request-ms", "--idle-ms"):
            if limit not in arguments:
                arguments += (limit, "120000")
        self.process = subprocess.Popen([HOST, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.events = []
        self.port = json.loads(self.process.stdout.readline())["port"]
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            code = self.process.wait(timeout=SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.reader.join(timeout=SLOW)
        self.process.stdout.close()
        if code != 0:  # a sanitizer's complaint, too
            raise AssertionError(f"http-host ended with {code}")

    def dial(self, source="127.0.0.1"):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=SLOW, source_address=(source, 0))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_events(self, count):
        end = time.monotonic() + SLOW
        while len(self.events) < count and time.monotonic() < end:
            time.sleep(0.01)
        return self.events

    def stats(self):
        with self.dial() as connection:
            return json.loads(ask(connection, "GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")[1])

    def wait_stats(self, good):
        end, stats = time.monotonic() + SLOW, None
        while True:
            with contextlib.suppress(ConnectionError):  # too many of this address are at work
                stats = self.stats()
                if good(stats):
                    return stats
            if time.monotonic() > end:
                raise AssertionError(f"never came: {stats}")
            time.sleep(0.05)


def read_answer(connection, left=b""):
    """(status line and header, body, what came behind)."""
    data = left
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError(f"ended within a header: {data[:200]}")
        data += part
    header, data = data.split(b"\r\n\r\n", 1)
    header = header.decode("latin-1")
    if " 100 " in header.split("\r\n")[0]:
        return header, "", data
    length = next(int(line.split(":")[1]) for line in header.split("\r\n") if line.lower().startswith("content-length:"))
    while len(data) < length:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("ended within a body")
        data += part
    return header, data[:length].decode("latin-1"), data[length:]


def ask(connection, text):
    connection.sendall(text.encode("latin-1") if isinstance(text, str) else text)
    header, body, _ = read_answer(connection)
    return header, body


def post(path, body, extra=""):
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{extra}\r\n").encode() + body


def chunked(path, chunks, extra=""):
    data = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{extra}\r\n".encode()
    for chunk in chunks:
        data += f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n"
    return data + b"0\r\n\r\n"


def ended(connection, within=SLOW):
    """Whether the server ends the connection in that time; what it says before is read over."""
    connection.settimeout(0.1)
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if not connection.recv(65536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False
