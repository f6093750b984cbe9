#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the daemons from outside: protocol, limits, hostile clients.

Usage: test_http.py HTTP_HOST [unittest arguments]
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import side_by_side
from http_case import EARLY, SLOW, Server, ask, chunked, ended, post, read_answer, sum_of
from seed import given_seed
from silent import SilentSockets


class Bodies(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.server = stack.enter_context(Server("--body-max", str(1 << 20), "--buffer", "32768", "--idle-ms", "600000"))
        self.connection = stack.enter_context(self.server.dial())

    def post(self, data):
        header, body = ask(self.connection, data)
        self.assertIn(" 200 ", header.split("\r\n")[0] + " ", header)
        return json.loads(body)

    def test_what_the_handler_sees(self):
        seen = self.post("GET /echo?a=b%20c&d HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(seen, {"method": "GET", "path": "/echo", "query": "a=b%20c&d", "content_type": None,
                                "client": None, "names": [], "len": 0, "terminated": True, "sum": "0"})
        seen = self.post(post("/echo?", b"{}"))
        self.assertEqual((seen["method"], seen["query"], seen["content_type"], seen["len"]),
                         ("POST", "", "application/json", 2))
        self.assertIsNone(self.post(post("/echo", b"{}"))["query"])

    def test_sizes(self):
        rng = random.Random(1)
        for size in (0, 1, 2, 4095, 15000, 32768, 100000, (1 << 20) - 1, 1 << 20):
            body = rng.randbytes(size)
            seen = self.post(post("/echo", body))
            self.assertEqual((seen["len"], seen["terminated"], seen["sum"]), (size, True, sum_of(body)))

    def test_chunked(self):
        chunks = [b"x" * size for size in (1, 100, 40000, 7)]
        seen = self.post(chunked("/echo", chunks))
        self.assertEqual(seen["sum"], sum_of(b"".join(chunks)))
        seen = self.post(chunked("/eat", chunks))
        self.assertEqual((seen["len"], seen["sum"]), (40108, sum_of(b"".join(chunks))))

    def test_byte_by_byte(self):
        for data in (post("/echo", b"hello"), chunked("/echo", [b"he", b"llo"])):
            for i in range(len(data)):
                self.connection.sendall(data[i:i + 1])
            header, body, _ = read_answer(self.connection)
            self.assertIn(" 200 ", header)
            self.assertEqual(json.loads(body)["sum"], sum_of(b"hello"))

    def test_pipelined(self):
        data = (post("/echo", b"one") + b"GET /echo?two HTTP/1.1\r\nHost: x\r\n\r\n" + chunked("/eat", [b"three"]) +
                post("/echo", b"four"))
        self.connection.sendall(data)
        seen, left = [], b""
        for _ in range(4):
            _, body, left = read_answer(self.connection, left)
            seen.append(json.loads(body))
        self.assertEqual([s["len"] for s in seen], [3, 0, 5, 4])
        self.assertEqual(left, b"")

    def test_expect_100(self):
        self.connection.sendall(post("/echo", b"", "Expect: 100-continue\r\n").replace(b"Length: 0", b"Length: 5"))
        header, _, left = read_answer(self.connection)
        self.assertIn("100 Continue", header)
        self.connection.sendall(b"hello")
        header, body, _ = read_answer(self.connection, left)
        self.assertEqual(json.loads(body)["sum"], sum_of(b"hello"))

    def test_half_closed(self):
        self.connection.sendall(post("/echo", b"hello"))
        self.connection.shutdown(socket.SHUT_WR)
        _, body, _ = read_answer(self.connection)
        self.assertEqual(json.loads(body)["len"], 5)
        self.assertTrue(ended(self.connection))

    def test_methods(self):
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"):
            with self.server.dial() as connection:
                header, _ = ask(connection, f"{method} /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}")
                self.assertIn(" 405 ", header)
                self.assertIn("Allow: GET, HEAD, POST", header)
                self.assertTrue(ended(connection))

    def test_eater(self):
        body = random.Random(2).randbytes(1 << 20)
        seen = self.post(post("/eat", body))
        self.assertEqual((seen["len"], seen["sum"]), (len(body), sum_of(body)))
        seen = self.post(post("/eat", b""))
        self.assertEqual(seen["len"], 0)
        stats = self.server.stats()
        self.assertEqual((stats["made"], stats["done"], stats["freed"]), (2, 2, 2))

    def test_eater_has_enough(self):
        header, body = ask(self.connection, post("/eat?1000000,1000", b"z" * 900000))
        self.assertIn(" 422 ", header)
        self.assertLess(json.loads(body)["len"], 100000)
        self.assertEqual(self.post(post("/echo", b"next"))["len"], 4)  # on the same connection
        stats = self.server.stats()
        self.assertEqual((stats["made"], stats["done"], stats["freed"]), (1, 1, 1))
        self.assertLess(stats["eaten"], 100000)

    def test_eater_left_alone(self):
        """A client that goes away, at once or later: what it began is forgotten before any limit of time."""
        for at_once in (False, True):
            for path in ("/eat", "/echo", "/eat"):
                if at_once:  # so that the server finds the end together with the data
                    self.server.process.send_signal(signal.SIGSTOP)
                with self.server.dial() as connection:
                    connection.sendall(post(path, b"y" * 1000)[:-1])
                    if not at_once:
                        time.sleep(0.1)
                self.server.process.send_signal(signal.SIGCONT)
        stats = self.server.wait_stats(lambda s: s["freed"] == 4 and s["connections"] == 2)
        self.assertEqual((stats["made"], stats["done"], stats["cut_slow"]), (4, 0, 0))

    def test_50_megabytes(self):
        body = b"0123456789abcdef" * (50 * 65536)
        seen = self.post(post(f"/eat?{len(body)}", body))
        self.assertEqual(seen["len"], len(body))
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        with open(f"/proc/{self.server.process.pid}/maps", encoding="ascii") as f:
            sanitized = "libasan" in f.read() or "TSAN_OPTIONS" in os.environ
        if not sanitized:
            self.assertLess(peak, 30000)


class Refused(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.server = stack.enter_context(Server("--body-max", "10000", "--budget", "50000"))
        self.stack = stack

    def dial(self):
        return self.stack.enter_context(self.server.dial())

    def alive(self):
        header, _ = ask(self.dial(), post("/echo", b"{}"))
        self.assertIn(" 200 ", header)

    def test_too_large_is_told_while_it_is_sent(self):
        """A client that first sends all it has, and then listens, still reads the answer."""
        for path, size in (("/echo", 10001), ("/echo", 30000000), ("/eat", 30000000), ("/small", 101)):
            connection = self.dial()
            header, body = ask(connection, post(path, b"x" * size))
            self.assertIn(" 413 ", header)
            self.assertIn("larger", body)
            self.assertIn("Connection: close", header)
        stats = self.server.stats()
        self.assertEqual(stats["refused_size"], 4)
        self.assertEqual((stats["made"], stats["done"], stats["freed"]), (1, 0, 1))
        self.alive()

    def test_too_large_chunked(self):
        connection = self.dial()
        header, _ = ask(connection, chunked("/echo", [b"x" * 5000] * 20))
        self.assertIn(" 413 ", header)
        header, _ = ask(connection, chunked("/eat", [b"x" * 5000] * 20))
        self.assertIn(" 413 ", header)
        header, _ = ask(connection, chunked("/eat", [b"x" * 5000] * 2))
        self.assertIn(" 200 ", header)

    def test_too_large_without_end(self):
        connection = self.dial()
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with self.assertRaises(OSError):
            for _ in range(1000):
                connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        connection = self.dial()
        connection.sendall(b"GET /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with self.assertRaises(OSError):
            for _ in range(1000):
                connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        self.alive()

    def test_too_large_with_expect(self):
        connection = self.dial()
        header, _ = ask(connection, b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n"
                                    b"Expect: 100-continue\r\n\r\n")
        self.assertIn(" 413 ", header)
        self.assertTrue(ended(connection))

    def test_bodies_together(self):
        held = [self.dial() for _ in range(5)]
        for connection in held:
            connection.sendall(post("/echo", b"x" * 9000)[:-1])
        self.server.wait_stats(lambda s: s["refused_busy"] == 3)  # two of them fit
        for i, connection in enumerate(held):
            connection.sendall(b"x")
            held[i] = read_answer(connection)
        self.assertEqual(sorted(header.split(" ")[1] for header, _, _ in held), ["200", "200", "503", "503", "503"])
        busy = next(header for header, _, _ in held if " 503 " in header)
        self.assertIn("Retry-After: 1", busy)
        for _ in range(10):  # what they held is free again
            header, _ = ask(self.dial(), post("/echo", b"x" * 9000))
            self.assertIn(" 200 ", header)

    def test_budget(self):
        """Bodies, what eaters keep and answers share it; one address has half."""
        held = []
        def hold(path, size, source):
            connection = self.stack.enter_context(self.server.dial(source))
            connection.sendall(post(path, b"x" * size)[:-1])
            held.append(connection)
        self.assertEqual(self.server.stats()["held"], 0)
        hold("/echo", 9000, "127.0.0.2")
        hold("/keep", 9000, "127.0.0.2")
        self.server.wait_stats(lambda s: s["held"] == 2 * 8999)
        hold("/keep", 9000, "127.0.0.2")  # of 25,000 for one address
        self.server.wait_stats(lambda s: s["refused_busy"] == 1 and s["held"] == 2 * 8999)
        hold("/keep", 9000, "127.0.0.3")
        hold("/keep", 9000, "127.0.0.4")
        self.server.wait_stats(lambda s: s["held"] == 4 * 8999)
        hold("/keep", 9000, "127.0.0.5")  # of 37,500 for one server
        self.server.wait_stats(lambda s: s["refused_busy"] == 2 and s["held"] == 4 * 8999)
        header, _ = ask(self.dial(), "GET /big?20000 HTTP/1.1\r\nHost: x\r\n\r\n")  # an answer is memory, too
        self.assertIn(" 503 ", header)
        header, _ = ask(self.dial(), "GET /big?16000 HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertIn(" 200 ", header)
        for connection in held:
            connection.sendall(b"x")
        self.assertEqual([read_answer(connection)[0].split(" ")[1] for connection in held],
                         ["200", "200", "503", "200", "200", "503"])
        self.server.wait_stats(lambda s: s["held"] == 0)
        self.alive()

    def test_answers_nobody_reads(self):
        """They stay within the budget as well, and go with their connections."""
        with Server("--answer-max", str(4 << 20), "--budget", str(32 << 20)) as server, contextlib.ExitStack() as stack:
            for i in range(12):
                connection = stack.enter_context(server.dial(f"127.0.0.{2 + i % 3}"))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(f"GET /big?{4 << 20} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            stats = server.wait_stats(lambda s: s["refused_busy"] == 6)
            self.assertEqual(stats["held"], 24 << 20)
            stack.close()
            server.wait_stats(lambda s: s["held"] == 0)

    def test_framing(self):
        start = "POST /echo HTTP/1.1\r\nHost: x\r\n"
        for header, status in (
                ("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "400"),
                ("Content-Length: 2\r\nContent-Length: 3\r\n", "400"),
                ("Content-Length: 2\r\nContent-Length: 2\r\n", "400"),
                ("Content-Length: -2\r\n", "400"),
                ("Content-Length: 2,2\r\n", "400"),
                ("Content-Length: 0x2\r\n", "400"),
                ("Content-Length: two\r\n", "400"),
                ("Content-Length: \r\n", "400"),
                ("Content-Length: 99999999999999999999\r\n", "413"),
                ("Content-Length: 18446744073709551615\r\n", "413"),
                ("Transfer-Encoding: gzip\r\n", "400"),
                ("Transfer-Encoding: gzip, chunked\r\n", "400"),
                ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "400")):
            connection = self.dial()
            answer, _ = ask(connection, start + header + "\r\n{}")
            self.assertEqual(answer.split(" ")[1], status, header)
            self.assertTrue(ended(connection), header)
        for size in ("", "x", "-1", "fffffffffffffffff", "5 5"):
            connection = self.dial()
            connection.sendall((start + f"Transfer-Encoding: chunked\r\n\r\n{size}\r\nhello\r\n0\r\n\r\n").encode())
            self.assertTrue(ended(connection), size)
        self.alive()

    def test_header_limit(self):
        for text in ("GET /" + "a" * 20000 + " HTTP/1.1\r\nHost: x\r\n\r\n",
                     "GET /echo?" + "a=1&" * 5000 + " HTTP/1.1\r\nHost: x\r\n\r\n",
                     "GET /echo HTTP/1.1\r\nHost: x\r\n" + "X-A: b\r\n" * 3000 + "\r\n",
                     "GET /echo HTTP/1.1\r\nHost: x\r\nCookie: " + "a=b; " * 4000 + "\r\n\r\n",
                     "GET /echo HTTP/1.1\r\nHost: x\r\nX-A: " + "b" * 20000 + "\r\n\r\n"):
            connection = self.dial()
            connection.sendall(text.encode())
            data = b""
            with contextlib.suppress(OSError):
                while part := connection.recv(65536):
                    data += part
            self.assertNotIn(b" 200 ", data.split(b"\r\n")[0], text[:40])
        self.alive()

    def test_answer_too_large(self):
        with Server() as server, server.dial() as connection:
            header, body = ask(connection, f"GET /big?{(4 << 20) + 1} HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(" 500 ", header)
            header, body = ask(connection, f"GET /big?{4 << 20} HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(len(body), 4 << 20)

    def test_nonsense(self):
        """Requests with random damage; whatever comes of each, the server goes on."""
        rng = random.Random(given_seed())
        models = [post("/echo", b"{}"), chunked("/eat?1000,3", [b"abc", b"d" * 300]), post("/eat", b"x" * 2000),
                  b"GET /echo?x HTTP/1.1\r\nHost: x\r\nCookie: a=b\r\n\r\n", b"HEAD / HTTP/1.0\r\n\r\n"]
        pieces = [b"\r\n", b"\n", b" ", b"\0", b":", b"chunked", b"Content-Length: 5\r\n", b"%", b"?", b"\xff",
                  b"Expect: 100-continue\r\n", b"HTTP/2.0", b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n"]
        for _ in range(400):
            data = bytearray(b"".join(rng.choices(models, k=rng.randint(1, 3))))
            for _ in range(rng.randint(0, 6)):
                at = rng.randrange(len(data))
                kind = rng.randrange(4)
                if kind == 0:
                    data[at] = rng.randrange(256)
                elif kind == 1:
                    del data[at:at + rng.randint(1, 20)]
                else:
                    data[at:at] = rng.choice(pieces)
                if not data:
                    data = bytearray(b" ")
            with self.server.dial() as connection:
                with contextlib.suppress(OSError):
                    cut = rng.randrange(len(data) + 1)
                    connection.sendall(data[:cut])
                    if rng.random() < 0.3:
                        connection.shutdown(socket.SHUT_WR)
                    connection.sendall(data[cut:])
                    connection.settimeout(0.005)
                    connection.recv(65536)
        # one address may have so many at work only, and those that are closed here may still be at work there
        self.server.wait_stats(lambda s: s["connections"] == 1)
        self.alive()
        stats = self.server.wait_stats(lambda s: s["made"] == s["freed"])
        self.assertGreater(stats["made"], 0)


class Many(unittest.TestCase):
    def test_hundreds_at_once(self):
        """More connections than places, opened together: everyone is answered."""
        with Server("--connections", "32", "--idle-ms", "30000") as server, contextlib.ExitStack() as stack:
            connections = []
            for _ in range(400):
                connection = stack.enter_context(server.dial())
                connection.sendall(post("/echo", b"x" * 3000, "Connection: close\r\n"))
                connections.append(connection)
            for connection in connections:
                header, body, _ = read_answer(connection)
                self.assertIn(" 200 ", header)
                self.assertEqual(json.loads(body)["len"], 3000)
            stats = server.wait_stats(lambda s: s["connections"] == 1)
            self.assertGreaterEqual(stats["connections_total"], 401)

    def test_idle_ones_make_room(self):
        with Server("--connections", "8", "--idle-ms", "600000") as server, contextlib.ExitStack() as stack:
            held = [stack.enter_context(server.dial(f"127.0.0.{2 + i % 2}")) for i in range(8)]
            for connection in held:
                ask(connection, post("/echo", b"{}"))
            late = stack.enter_context(server.dial())
            header, _ = ask(late, post("/echo", b"{}"))
            self.assertIn(" 200 ", header)
            readable, _, _ = select.select(held, [], [], SLOW)
            self.assertEqual(len(readable), 1)
            self.assertTrue(ended(readable[0]))

    def test_silent_ones_are_in_nobodys_way(self):
        """2,000 connections that say nothing, or half of a request, from another address or from the client's own."""
        half = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        with Server() as server:
            for source in ("127.0.0.2", "127.0.0.1"):
                for said in (b"", half):
                    with SilentSockets(server.port, 2000, source, said) as silent:
                        end = time.monotonic() + 2
                        while time.monotonic() < end or not silent.closed:
                            with server.dial() as connection:
                                header, _ = ask(connection, post("/echo", b"{}"))
                            self.assertIn(" 200 ", header, (source, said))
                            time.sleep(0.02)
            stats = server.wait_stats(lambda s: s["connections"] == 1)
            self.assertGreater(stats["evicted"], 1000)

    def test_one_address_has_half_at_most(self):
        with Server("--connections", "8") as server, contextlib.ExitStack() as stack:
            def working(source):
                connection = stack.enter_context(server.dial(source))
                connection.sendall(post("/echo", b"x" * 100)[:-1])
                return connection
            # The last byte of its body is missing: this is at work, for a second.
            first = [working("127.0.0.2") for _ in range(4)]
            server.wait_stats(lambda s: s["connections"] == 5)
            self.assertTrue(ended(working("127.0.0.2"), 1))
            self.assertEqual(server.stats()["refused_address"], 1)
            with server.dial() as other:
                self.assertIn(" 200 ", ask(other, post("/echo", b"{}"))[0])
            for connection in first:
                connection.sendall(b"x")
                self.assertIn(" 200 ", read_answer(connection)[0])

    def test_bodies_that_stop_make_room(self):
        with Server("--connections", "8") as server, contextlib.ExitStack() as stack:
            for source in ("127.0.0.2", "127.0.0.3"):
                for _ in range(4):
                    connection = stack.enter_context(server.dial(source))
                    connection.sendall(post("/echo", b"x" * 100)[:-1])
            begin = time.monotonic()
            late = stack.enter_context(server.dial())
            self.assertIn(" 200 ", ask(late, post("/echo", b"{}"))[0])
            self.assertGreater(time.monotonic() - begin, 0.5)

    def test_slow_reader_holds_up_nobody(self):
        with Server("--budget", str(128 << 20)) as server, contextlib.ExitStack() as stack:
            slow = []
            for _ in range(10):
                connection = socket.socket()
                stack.enter_context(connection)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(SLOW)
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(f"GET /big?{4 << 20} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                slow.append(connection)
            quick = stack.enter_context(server.dial())
            time.sleep(0.5)
            for _ in range(100):
                ask(quick, post("/echo", b"{}"))  # it would be for ever
            before = server.cpu_s()
            time.sleep(1)
            self.assertLess(server.cpu_s() - before, 0.3)  # it does not spin
            for connection in slow:
                _, body, _ = read_answer(connection)
                self.assertEqual(len(body), 4 << 20)

    def test_slow_clients_are_cut(self):
        with Server("--request-ms", "4500", "--idle-ms", "4000") as server, contextlib.ExitStack() as stack:
            begin, ends, reader_end = time.monotonic(), {}, None
            dial = lambda: stack.enter_context(server.dial())
            line, header, body, eater, silent, idle, reader = (dial() for _ in range(7))
            header.sendall(b"GET /echo HTTP/1.1\r\n")
            body.sendall(post("/echo", b"")[:-2].replace(b"Length: 0", b"Length: 5000") + b"\r\n")
            eater.sendall(post("/eat", b"")[:-2].replace(b"Length: 0", b"Length: 5000") + b"\r\n")
            ask(idle, post("/echo", b"{}"))
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.sendall(f"GET /big?{4 << 20} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            drips = {line: b"G", header: b"X-A: b\r\n", body: b"x", eater: b"x"}
            while time.monotonic() - begin < SLOW and (len(ends) < 6 or reader_end is None):
                for connection, drip in drips.items():
                    if connection not in ends:
                        try:
                            connection.sendall(drip)
                        except OSError:
                            ends[connection] = time.monotonic() - begin
                for connection in (*drips, silent, idle):
                    if connection not in ends and ended(connection, 0.01):
                        ends[connection] = time.monotonic() - begin
                if reader_end is None:
                    try:
                        reader.settimeout(0.01)
                        if not reader.recv(512):
                            reader_end = time.monotonic() - begin
                    except TimeoutError:
                        pass
                    except OSError:
                        reader_end = time.monotonic() - begin
                time.sleep(0.05)
            self.assertEqual(len(ends), 6)
            for name, connection in (("line", line), ("header", header), ("body", body), ("eater", eater)):
                self.assertGreater(ends[connection], 3.6, name)
                self.assertLess(ends[connection], EARLY, name)
            for connection in (silent, idle):
                self.assertGreater(ends[connection], 2)
                self.assertLess(ends[connection], EARLY)
            stats = server.wait_stats(lambda s: s["freed"] == 1 and s["cut_slow"] >= 4)
            self.assertEqual(stats["done"], 0)

    def test_curl(self):
        with Server("--body-max", str(4 << 20)) as server, tempfile.NamedTemporaryFile() as file:
            file.write(b"q" * 3000000)
            file.flush()
            for extra in ([], ["-H", "Transfer-Encoding: chunked"], ["--http1.0"]):
                answer = subprocess.run(
                    ["curl", "-sS", "--max-time", "60", "--data-binary", f"@{file.name}", *extra,
                     f"http://127.0.0.1:{server.port}/echo"], capture_output=True, text=True, check=True)
                self.assertEqual(json.loads(answer.stdout)["len"], 3000000, extra)


if __name__ == "__main__":
    side_by_side.main()
