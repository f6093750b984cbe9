# SPDX-License-Identifier: Apache-2.0
"""Clients that open connections and send nothing, for tests of servers."""

import contextlib
import http.client
import resource
import select
import socket
import ssl
import threading

from daemon_driver import PATIENCE


class SilentSockets:
    """`count` connections from one address. Those that the server closes are opened again, some hundreds a second."""

    def __init__(self, port, count=2000, source="127.0.0.2", said=b""):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.port, self.source, self.said = port, source, said
        self.sockets, self.closed = {}, 0
        self.poll = select.epoll()
        for _ in range(count):
            self._open()
        self.stopped = threading.Event()
        self.keeper = threading.Thread(target=self._keep)
        self.keeper.start()

    def _open(self):
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((self.source, 0))
        with contextlib.suppress(BlockingIOError):
            connection.connect(("127.0.0.1", self.port))
        if self.said:
            with contextlib.suppress(OSError):  # not connected yet: it stays silent
                connection.send(self.said)
        self.poll.register(connection, select.EPOLLIN | select.EPOLLRDHUP)
        self.sockets[connection.fileno()] = connection

    def _keep(self):
        while not self.stopped.wait(0.02):
            for fd, _ in self.poll.poll(0, 10):
                self.poll.unregister(fd)
                self.sockets.pop(fd).close()
                self.closed += 1
                self._open()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.keeper.join()
        for connection in self.sockets.values():
            connection.close()
        self.poll.close()


def look(port, path, context=None, body=None):
    """The status of one request on a connection of its own; None where nobody answers."""
    connection = (http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context) if context else
                  http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE))
    try:
        connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"} if body else {})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException, ssl.SSLError):
        return None
    finally:
        connection.close()
