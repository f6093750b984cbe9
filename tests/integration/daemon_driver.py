# SPDX-License-Identifier: Apache-2.0
"""Runs a daemon of ours for a test."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time


PATIENCE = 60  # seconds for what comes in less than one where nothing else runs: a busy machine is no failure


def free_port():
    """A port that the kernel gives to nobody else for a minute: a connection of it is in TIME_WAIT."""
    with socket.socket() as listener, socket.socket() as near:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        near.connect(listener.getsockname())
        listener.accept()[0].close()  # whoever closes first has the TIME_WAIT: our port
        near.recv(1)
        return listener.getsockname()[1]


def wait_for(condition, seconds=PATIENCE):
    """What the condition says when it is true at last."""
    end = time.monotonic() + seconds
    while True:
        said = condition()
        if said or time.monotonic() >= end:
            return said
        time.sleep(0.05)


class Log:
    """What a program says on standard error, line by line: all that it has said when somebody asks."""

    def __init__(self, file):
        self.file, self.lines, self.rest, self.ended, self.changed = file, [], b"", False, threading.Condition()
        os.set_blocking(file.fileno(), False)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        poll = select.poll()
        poll.register(self.file, select.POLLIN)
        while not self.ended:
            poll.poll()
            with self.changed:
                self.take()

    def take(self):
        """What is there. Under `changed`."""
        while not self.ended:
            try:
                got = os.read(self.file.fileno(), 65536)
            except BlockingIOError:
                return
            *whole, self.rest = (self.rest + got).split(b"\n")
            for line in whole if got else [self.rest] if self.rest else []:
                text = line.decode(errors="replace")
                try:
                    self.lines.append(json.loads(text))
                except ValueError:
                    self.lines.append({"event": text, "level": "raw"})
            self.ended = not got
            self.changed.notify_all()

    def events(self, name):
        with self.changed:
            self.take()
            return [line for line in self.lines if line["event"] == name]


class Daemon:
    """A running daemon of ours, with its HTTP port and what it said."""

    def __init__(self, program, *arguments, env=None):
        self.port = free_port()
        self.process = subprocess.Popen(
            [program, "--http", f"127.0.0.1:{self.port}", "--log-format", "json", *arguments],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.log = Log(self.process.stderr)
        self.lines, self.events, self.reader = self.log.lines, self.log.events, self.log.reader

    def hangup(self):
        self.process.send_signal(signal.SIGHUP)

    def get(self, path):
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metrics(self):
        """Sample lines, by their name and labels as they stand."""
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in self.get("/metrics")[1].splitlines() if line and not line.startswith("#")}

    def memory_kib(self):
        """RSS and its anonymous part."""
        fields = {}
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            for line in status:
                name, _, value = line.partition(":")
                fields[name] = value.split()
        return int(fields["VmRSS"][0]), int(fields["RssAnon"][0])

    def stop(self, seconds=PATIENCE):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.reader.join(PATIENCE)
            self.process.stderr.close()
