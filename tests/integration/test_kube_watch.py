#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client against the double of the API server: lists, watches and informers.

Usage: test_kube_watch.py KUBE_TOOL [unittest arguments]
"""

import json
import socket
import time

import side_by_side
from api_double import Raw, Status, Stream, event, status_object
from daemon_driver import PATIENCE, wait_for
from kube_case import MAPS, WHERE, Case, config_map
from watch_cases import SelectedWatches

LARGE = 84 * (1 << 20) // 10


class Lists(Case):
    def fill(self, count, **data):
        for i in range(count):
            self.api.add(WHERE, f"m{i:04}", data=data)

    def list(self, **more):
        number = self.tool.start("list", MAPS, namespace="default", **more)
        done = self.tool.event(number, "DONE")
        names = [a["object"].get("metadata", {}).get("name") for a in self.tool.said(number)
                 if a["event"] == "OBJECT"]
        return done, names

    def test_pages(self):
        self.fill(1201)
        done, names = self.list()
        self.assertEqual(names, [f"m{i:04}" for i in range(1201)])
        self.assertEqual(done["resourceVersion"], str(self.api.version))
        self.assertEqual([r.query["limit"] for r in self.api.requests], ["500"] * 3)

    def test_none(self):
        self.assertEqual(self.list()[1], [])
        self.api.fail(Status(200, body=b'{"kind":"L","metadata":{"resourceVersion":"7"},"items":null}'))
        self.assertEqual(self.list()[0]["resourceVersion"], "7")

    def test_selectors_and_metadata(self):
        self.fill(3, a="b")
        self.api.add(WHERE, "labelled", metadata={"labels": {"k": "v&w=1"}})
        self.assertEqual(self.list(labelSelector="k=v&w=1")[1], ["labelled"])
        done, names = self.list(fieldSelector="metadata.name=m0001", metadataOnly=True)
        self.assertEqual(names, ["m0001"])
        self.assertIn("as=PartialObjectMetadataList", self.api.requests[-1].headers["Accept"])

    def test_410_at_the_first_page_is_an_answer(self):
        self.api.fail(Status(410))
        done, _ = self.list()
        self.assertEqual(done["code"], "ESTALE")
        self.assertEqual(len(self.api.requests), 1)

    def test_410_in_the_middle(self):
        self.fill(5)
        original = self.api.list
        calls = []

        def forgetful(collection, request):
            calls.append(request.query.get("continue"))
            page = original(collection, request)
            if len(calls) in (1, 4):
                self.api.snapshots.clear()
            return page
        self.api.list = forgetful
        number = self.tool.start("list", MAPS, namespace="default", limit=2)
        done = self.tool.event(number, "DONE")
        self.assertNotIn("error", done)
        self.assertEqual(done["seen"], 5)
        begins = [a for a in self.tool.said(number) if a["event"] == "BEGIN"]
        self.assertEqual(len(begins), 3)

    def test_410_forever(self):
        self.fill(5)
        original = self.api.list

        def forgetful(collection, request):
            page = original(collection, request)
            self.api.snapshots.clear()
            return page
        self.api.list = forgetful
        number = self.tool.start("list", MAPS, namespace="default", limit=2)
        done = self.tool.event(number, "DONE")
        self.assertEqual(done["code"], "ESTALE")
        self.assertLess(len(self.api.requests), 20)

    def test_pages_that_are_too_large_become_smaller(self):
        self.fill(20, a="x" * 10000)
        done, names = self.list(pageMax=50000)
        self.assertEqual(len(names), 20, done)
        self.assertLess(len(self.api.requests), 25)

    def oversize(self):
        return [(a["object"], a["max"]) for a in self.tool.said(0)]

    def test_a_page_that_was_made_smaller_grows_again(self):
        self.fill(2000)
        for name in ("m0700", "m0701"):
            self.api.add(WHERE, name, data={"a": "x" * 80000})
        done, names = self.list(pageMax=160000)
        self.assertEqual(names, [f"m{i:04}" for i in range(2000)], done)
        self.assertLess(len(self.api.requests), 40)
        self.assertEqual(self.api.requests[-1].query["limit"], "500")

    def test_an_object_that_is_too_large_is_passed_over(self):
        self.fill(600)
        for name in ("m0000", "m0300", "m0301", "m0599"):
            self.api.add(WHERE, name, data={"a": "x" * 200000})
        done, names = self.list(pageMax=160000)
        self.assertEqual(done.get("resourceVersion"), str(self.api.version), done)
        self.assertEqual(names, [f"m{i:04}" for i in range(600) if i not in (0, 300, 301, 599)])
        self.assertEqual(self.oversize(), [(f"configmaps default/{name}", 160000)
                                           for name in ("m0000", "m0300", "m0301", "m0599")])
        self.list(pageMax=160000)
        self.assertEqual(len(self.oversize()), 4)  # each is told once
        self.assertEqual(self.tool.ask("counters")["oversize"], 8)
        done, _ = self.list(pageMax=100, metadataOnly=True)
        self.assertEqual(done["code"], "EFBIG")  # not even the metadata

    def test_another_first_object_meanwhile_is_not_passed_over(self):
        self.fill(3)
        self.api.add(WHERE, "m0000", data={"a": "x" * 200000})
        original = self.api.list

        def busy(collection, request):
            page = original(collection, request)
            if len(self.api.asked(method="GET")) in (2, 3):  # after the large one alone, and after its version
                self.api.add(WHERE, f"l{len(self.api.requests)}")
            return page
        self.api.list = busy
        number = self.tool.start("inform", MAPS, namespace="default", limit=2, pageMax=160000)
        self.tool.event(number, "SYNCED")
        self.tool.wait(number, lambda a: a.get("object", {}).get("metadata", {}).get("name") == "l3")
        self.assertEqual({a["object"]["metadata"]["name"] for a in self.tool.said(number) if a["event"] == "ADD"},
                         {"l2", "l3", "m0001", "m0002"})
        self.assertEqual(self.oversize(), [("configmaps default/m0000", 160000)])

    def test_410_while_the_first_object_is_too_large(self):
        self.fill(3)
        self.api.add(WHERE, "m0000", data={"a": "x" * 200000})
        original = self.api.list

        def forgetful(collection, request):
            if request.query.get("resourceVersionMatch") and not self.api.floor:
                self.api.add(WHERE, "new")
                self.api.compact()
            return original(collection, request)
        self.api.list = forgetful
        done, _ = self.list(pageMax=160000)
        self.assertNotIn("error", done)
        self.assertEqual(done["seen"], 3)

    def test_garbage(self):
        for body in (b"{}", b'{"metadata":{},"items":[]}', b'{"metadata":{"resourceVersion":"1"}}', b"[]", b"",
                     b'{"metadata":{"resourceVersion":"1"},"items":[1]}',
                     b'{"metadata":{"resourceVersion":"1"},"items":[{"a":1},', b'{"items":{}}', b"\0" * 10):
            self.api.fail(Status(200, body=body))
            done, _ = self.list()
            self.assertEqual(done["code"], "EBADMSG", body)

    def test_errors_between_pages(self):
        self.fill(5)
        self.api.fail(Status(200, body=json.dumps(self.api.list(
            self.api.place(WHERE)[0], type("R", (), {"query": {"limit": "2"}, "headers": {}}))).encode()))
        self.api.fail(Status(429, headers={"Retry-After": "1"}))
        self.api.fail(Status(500))
        done, names = self.list(limit=2)
        self.assertEqual(len(names), 5, done)

    def test_cancel_within(self):
        self.fill(10)
        number = self.tool.start("list", MAPS, namespace="default", limit=3, cancelAfter=4)
        self.tool.event(number, "OBJECT", count=4)
        self.assertEqual(len(self.list(limit=3)[1]), 10)  # time enough for more of the other
        self.assertEqual(len([a for a in self.tool.said(number) if a["event"] == "OBJECT"]), 4)
        self.assertFalse([a for a in self.tool.said(number) if a["event"] == "DONE"])


class Watches(SelectedWatches, Case):
    def setUp(self):
        super().setUp()
        self.api.version = 1000  # above those of events that are made by hand

    def watch(self, version=None, **more):
        return self.tool.start("watch", MAPS, namespace="default",
                               resourceVersion=str(self.api.version if version is None else version), **more)

    def versions(self):
        return [r.query["resourceVersion"] for r in self.api.asked(watch=True)]

    def wait_for_watches(self, count):
        self.assertTrue(wait_for(lambda: len(self.api.asked(watch=True)) >= count), self.versions())

    def test_events(self):
        number = self.watch()
        self.api.add(WHERE, "x", data={"a": "1"})
        self.assertEqual(self.tool.event(number, "ADDED")["object"]["data"], {"a": "1"})
        self.api.add(WHERE, "x", data={"a": "2"})
        self.assertEqual(self.tool.event(number, "MODIFIED")["object"]["data"], {"a": "2"})
        self.api.remove(WHERE, "x")
        self.tool.event(number, "DELETED")
        query = self.api.asked(watch=True)[0].query
        self.assertEqual((query["watch"], query["allowWatchBookmarks"]), ("1", "true"))
        self.assertTrue(240 <= int(query["timeoutSeconds"]) <= 360)

    def test_a_connection_of_its_own(self):
        self.api.add(WHERE, "x")
        self.get()
        self.watch()
        self.wait_for_watches(1)
        self.get()
        mine = self.api.asked(watch=True)[0].connection
        others = {r.connection for r in self.api.requests if not r.watch and r.at > self.api.asked(watch=True)[0].at}
        self.assertNotIn(mine, others)

    def test_end_is_normal_and_resumed(self):
        number = self.watch(timeoutS=1)
        start = str(self.api.version)
        self.wait_for_watches(2)
        after = str(self.api.add(WHERE, "x"))
        self.tool.event(number, "ADDED")
        self.wait_for_watches(4)
        self.assertEqual(self.versions()[:2], [start, start])
        self.assertEqual(self.versions()[-1], after)
        self.assertEqual(self.api.asked(watch=False), [])  # never listed
        self.assertFalse([a for a in self.tool.said(number) if a["event"] in ("TROUBLE", "LOST")])

    def test_bookmarks_move_the_version(self):
        self.api.bookmark_interval = 0.1
        number = self.watch(timeoutS=1, version=0)
        self.api.fail(Stream(event("BOOKMARK", {"metadata": {"resourceVersion": "777"}})), watch=True)
        self.wait_for_watches(2)
        self.assertIn("777", self.versions())
        self.assertGreaterEqual(self.tool.ask("counters", of=number)["bookmarks"], 1)
        self.assertFalse([a for a in self.tool.said(number) if a["event"] != "TROUBLE"])

    def test_any_chunks(self):
        text = b"".join(event("ADDED", config_map(f"m{i}", 200 + i, a="ä\\n\"}{")) for i in range(20)) + b"\n"
        self.api.fail(Stream(*[part for i in range(0, len(text), 7) for part in (text[i:i + 7], 0.001)]), watch=True)
        number = self.watch()
        self.tool.event(number, "ADDED", count=20)
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "219")

    def test_cut_in_a_line(self):
        line = event("ADDED", config_map("m0", 300)) + event("ADDED", config_map("m1", 301))
        for reset in (False, True):
            parts = Stream(line[:-20], whole=False)
            self.api.fail(Raw(*parts.parts, 0.2, reset=reset), watch=True)
        self.api.fail(Stream(event("ADDED", config_map("m1", 301)), 5), watch=True)
        number = self.watch()
        self.tool.event(number, "ADDED", count=3)
        names = [a["object"]["metadata"]["name"] for a in self.tool.said(number) if a["event"] == "ADDED"]
        self.assertEqual(names, ["m0", "m0", "m1"])
        self.assertEqual(self.versions()[1:3], ["300", "300"])
        self.assertEqual(self.tool.event(number, "TROUBLE")["code"], "ECONNRESET")

    def test_error_410_in_a_stream(self):
        self.api.add(WHERE, "x")
        self.api.compact()
        number = self.watch(version=1)
        lost = self.tool.event(number, "LOST")
        self.assertEqual(lost["code"], "ESTALE")
        self.assertIn("too old resource version", lost["error"])
        other = self.watch()
        self.api.add(WHERE, "y")
        self.tool.event(other, "ADDED")
        self.assertEqual(len(self.api.requests), 2, "the lost one is not begun again")

    def test_410_as_an_answer(self):
        self.api.gone_as_status = True
        self.api.compact()
        self.assertEqual(self.tool.event(self.watch(version=1), "LOST")["code"], "ESTALE")

    def test_another_error_in_a_stream(self):
        self.api.fail(Stream(event("ADDED", config_map("m0", 300)),
                             event("ERROR", status_object(500, "etcd is not well")), 60), watch=True)
        number = self.watch()
        self.assertIn("etcd is not well", self.tool.event(number, "TROUBLE")["error"])
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "300")

    def test_garbage_lines(self):
        for line in (b"no JSON\n", b"{}\n", b'{"type":"ADDED"}\n', b'{"type":1,"object":[]}\n', b"\0\0\n", b"[]\n"):
            self.api.fail(Stream(event("ADDED", config_map("m0", 300)), line, 60), watch=True)
        self.api.fail(Stream(event("ADDED", config_map("last", 400)), 60), watch=True)
        number = self.watch()
        self.tool.wait(number, lambda a: a.get("object", {}).get("metadata", {}).get("name") == "last")
        self.assertEqual(len([a for a in self.tool.said(number) if a["event"] == "TROUBLE"]), 6)

    def test_unknown_types_are_passed_over(self):
        self.api.fail(Stream(event("NEW_KIND", config_map("m", 300)), event("ADDED", config_map("n", 301)), 60),
                      watch=True)
        number = self.watch()
        self.tool.event(number, "ADDED")
        self.assertFalse([a for a in self.tool.said(number) if a["event"] == "TROUBLE"])

    def test_a_gigabyte_line(self):
        chunk = b"x" * (1 << 20)
        self.api.fail(Stream(b'{"type":"ADDED","object":{"a":"', *[chunk] * 1024, b'"}}\n',
                             event("ADDED", config_map("next", 300)), 60), watch=True)
        number = self.watch()
        self.assertEqual(self.tool.event(number, "ADDED", 5 * PATIENCE)["object"]["metadata"]["name"], "next")  # with sanitizers on a busy machine
        self.assertEqual([(a["object"], a["max"]) for a in self.tool.said(0)], [("configmaps", 4 << 20)])
        self.assertEqual(len(self.tool.said(number)), 1)
        self.assertLess(self.tool.memory_kib()[1], 400 << 10)

    def test_a_large_object_is_passed_over(self):
        large = {"a": "x" * 20000}
        self.api.fail(Stream(event("ADDED", config_map("m0", 300)), event("MODIFIED", config_map("m1", 301, **large)),
                             event("ADDED", config_map("m2", 302)), event("DELETED", config_map("m2", 303, **large)),
                             event("MODIFIED", config_map("m1", 304, **large))), watch=True)
        number = self.watch(lineMax=10000)
        self.assertTrue(wait_for(lambda: len(self.api.asked(watch=True)) > 1))
        self.assertEqual([a["object"]["metadata"]["name"] for a in self.tool.said(number)], ["m0", "m2"])
        self.assertEqual(self.api.asked(watch=True)[1].query["resourceVersion"], "304")
        self.assertEqual([a["object"] for a in self.tool.said(0)], ["configmaps default/m1"])
        self.assertEqual(self.tool.ask("counters", of=number)["oversize"], 2)  # m2 is gone: nothing is missed

    def test_a_large_error_means_that_nothing_is_known(self):
        self.api.fail(Stream(event("ERROR", status_object(410, "x" * 20000))), watch=True)
        self.assertEqual(self.tool.event(self.watch(lineMax=10000), "LOST")["code"], "EFBIG")

    def test_a_large_object_that_is_gone_and_has_no_name(self):
        """Nobody can say which one it was: the list is asked for again."""
        nameless = dict(reversed(config_map("m1", 301, a="x" * 20000).items()))
        for line in (event("DELETED", nameless),
                     json.dumps({"object": nameless, "type": "DELETED"}).encode() + b"\n"):
            self.api.fail(Stream(line), watch=True)
            self.assertEqual(self.tool.event(self.watch(lineMax=10000), "LOST")["code"], "EFBIG")
        self.api.fail(Stream(event("MODIFIED", nameless), event("ADDED", config_map("m2", 302))), watch=True)
        number = self.watch(lineMax=10000)
        self.assertEqual(self.tool.event(number, "ADDED")["object"]["metadata"]["name"], "m2")
        self.assertEqual(self.tool.ask("counters", of=number)["oversize"], 1)

    def test_errors_before_the_stream(self):
        self.api.add(WHERE, "x")
        for action in (Status(500), Status(429, headers={"Retry-After": "1"}), Status(403), Status(404)):
            self.api.fail(action, watch=True)
        began = time.monotonic()
        number = self.watch(version=0)
        self.tool.event(number, "ADDED")
        codes = [a["code"] for a in self.tool.said(number) if a["event"] == "TROUBLE"]
        self.assertEqual(codes, ["EIO", "EAGAIN", "EACCES", "ENOENT"])
        self.assertGreater(time.monotonic() - began, 2)

    def test_no_storm_of_reconnects(self):
        self.api.fail(Stream(), times=1000, watch=True)  # ends at once, always
        begin = time.monotonic()
        self.watch()
        time.sleep(4)
        self.assertLess(len(self.api.requests), 9 + time.monotonic() - begin - 4)

    def test_server_restart(self):
        number = self.watch()
        self.wait_for_watches(1)
        self.api.stop()
        time.sleep(0.5)
        self.api.start()
        self.api.add(WHERE, "x")
        self.tool.event(number, "ADDED")

    def test_a_server_that_was_restored_from_a_backup(self):
        """Its versions are lower than they were: it would never tell of what comes now."""
        for selector in ({}, {"fieldSelector": "metadata.name=x"}):
            with self.subTest(**selector):
                number = self.watch(**selector)
                backup = self.api.snapshot()
                self.api.add(WHERE, "x")
                self.tool.event(number, "ADDED")
                self.api.restore(backup)
                lost = self.tool.event(number, "LOST")
                self.assertEqual(lost["code"], "ESTALE")
                self.assertIn("have gone back from version", lost["error"])

    def test_the_answer_about_the_version_is_too_large(self):
        """The watch goes on as if it had not been asked."""
        for i in range(5):
            self.api.add(WHERE, f"large{i}", metadata={"annotations": {"a": "x" * (1 << 20)}})
        number = self.watch(fieldSelector="metadata.namespace=default", version=self.api.version)
        self.wait_for_watches(1)
        self.api.stop()
        self.tool.event(number, "TROUBLE")
        self.api.start()
        self.wait_for_watches(2)
        self.api.add(WHERE, "x")
        self.tool.event(number, "ADDED")

    def test_a_server_that_is_gone_without_a_word(self):
        self.api.fail(Stream(event("ADDED", config_map("m0", 300)), 3600), watch=True)  # neither data nor end
        number = self.watch(timeoutS=1)
        self.tool.event(number, "ADDED")
        self.assertEqual(self.tool.event(number, "TROUBLE", timeout=90)["code"], "ETIMEDOUT")
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "300")

    def test_a_server_that_shuts_its_side(self):
        class Half:
            """Says no more, but does not close either."""
            def run(self, handler):
                Stream(event("ADDED", config_map("m0", 300)), whole=False).run(handler)
                socket.socket.shutdown(handler.connection, socket.SHUT_WR)
                handler.double.stopping.wait(60)
        self.api.fail(Half(), watch=True)
        number = self.watch()
        self.tool.event(number, "TROUBLE")
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "300")

    def test_401_is_tried_again(self):
        self.api.fail(Status(401), times=2, watch=True)
        number = self.watch()
        self.api.add(WHERE, "x")
        self.tool.event(number, "ADDED")

    def test_cancel_within(self):
        number, other = self.watch(cancelAfter=2), self.watch()
        for i in range(5):
            self.api.add(WHERE, f"m{i}")
        self.tool.event(number, "ADDED", count=2)
        self.tool.event(other, "ADDED", count=5)
        self.assertEqual(len(self.tool.said(number)), 2)
        self.assert_answer(self.get(), 404, "ENOENT")

    def test_metadata_and_selector(self):
        number = self.watch(metadataOnly=True, fieldSelector="metadata.name=x")
        self.api.add(WHERE, "y", data={"a": "1"})
        self.api.add(WHERE, "x", data={"a": "1"})
        self.assertNotIn("data", self.tool.event(number, "ADDED")["object"])
        self.assertEqual(len(self.tool.said(number)), 1)


class Informers(Case):
    def inform(self, **more):
        number = self.tool.start("inform", MAPS, namespace="default", **more)
        return number

    def told(self, number):
        return [(a["event"], a["name"] if a["event"] == "DELETE" else a["object"]["metadata"]["name"])
                for a in self.tool.said(number) if a["event"] in ("ADD", "UPDATE", "DELETE")]

    def test_life(self):
        self.api.add(WHERE, "a")
        number = self.inform()
        self.assertEqual(self.tool.event(number, "SYNCED")["seen"], 1)
        self.api.add(WHERE, "b")
        self.api.add(WHERE, "a")
        self.api.remove(WHERE, "a")
        self.assertTrue(self.tool.event(number, "DELETE")["known"])
        self.assertEqual(self.told(number), [("ADD", "a"), ("ADD", "b"), ("UPDATE", "a"), ("DELETE", "a")])

    def test_what_happened_meanwhile(self):
        for name in ("same", "changed", "gone", "again"):
            self.api.add(WHERE, name)
        number = self.inform()
        self.tool.event(number, "SYNCED")
        self.assertTrue(wait_for(lambda: self.api.asked(watch=True)))
        self.api.stop()
        before = len(self.told(number))
        self.api.add(WHERE, "changed", data={"a": "2"})
        self.api.remove(WHERE, "gone")
        self.api.remove(WHERE, "again")
        self.api.add(WHERE, "again")
        self.api.add(WHERE, "new")
        self.api.compact()
        self.api.start()
        self.tool.event(number, "SYNCED", count=2)
        self.assertEqual(sorted(self.told(number)[before:]),
                         [("ADD", "again"), ("ADD", "new"), ("DELETE", "again"), ("DELETE", "gone"),
                          ("UPDATE", "changed"), ("UPDATE", "same")])  # our own writes may be known that etcd has lost
        counters = self.tool.ask("counters", of=number)
        self.assertEqual((counters["lists"], counters["objects"]), (2, 4))

    def test_lists_only_when_it_must(self):
        number = self.inform(timeoutS=1)
        self.tool.event(number, "SYNCED")
        self.assertTrue(wait_for(lambda: self.api.asked(watch=True)))
        self.api.cut_connections()
        self.assertTrue(wait_for(lambda: self.tool.ask("counters", of=number)["connects"] >= 4))
        whole = [r for r in self.api.asked(watch=False) if r.query["limit"] != "1"]  # else it looks at the version alone
        self.assertEqual(len(whole), 1)

    def test_no_storm_of_lists(self):
        gone = Stream(event("ERROR", status_object(410, "too old")))
        self.api.fail(gone, times=1000, watch=True)
        begin = time.monotonic()
        self.inform()
        time.sleep(5)
        self.assertLess(len(self.api.asked(watch=False)), 9 + time.monotonic() - begin - 5)

    def test_two_pods_of_8_mib(self):
        """By the limits that the daemons have: pages of 500 in 16 MiB, events of 4 MiB."""
        for i in range(2000):
            self.api.add(WHERE, f"m{i:04}")
        for name in ("m0700", "m0701"):
            self.api.add(WHERE, name, data={"a": "x" * LARGE})
        number = self.inform(quiet=True)
        self.assertEqual(self.tool.event(number, "SYNCED", timeout=300)["seen"], 2000)
        lists = len(self.api.asked(watch=False))
        self.assertLess(lists, 40)
        for _ in range(3):  # and one of them changes again and again
            self.api.add(WHERE, "m0700", data={"a": "x" * LARGE})
            before = self.tool.ask("counters", of=number)["events"]
            self.api.add(WHERE, "m0001")
            self.assertTrue(wait_for(lambda: self.tool.ask("counters", of=number)["events"] > before, 60))
        counters = self.tool.ask("counters", of=number)
        self.assertEqual((counters["oversize"], counters["lists"], counters["connects"], counters["objects"]),
                         (3, 1, 1, 2000))
        self.assertEqual(len(self.api.asked(watch=False)), lists)

    def test_what_is_known_of_an_object_that_became_too_large(self):
        limits = {"pageMax": 160000, "lineMax": 10000, "limit": 50}
        large = {"a": "x" * 200000}
        for name in ("kept", "again", "gone", "small"):
            self.api.add(WHERE, name)
        number = self.inform(**limits)
        self.tool.event(number, "SYNCED")
        before = len(self.told(number))
        self.api.add(WHERE, "kept", data=large)
        self.api.add(WHERE, "new", data=large)
        self.api.remove(WHERE, "again")
        self.api.add(WHERE, "again", data=large)
        self.api.add(WHERE, "gone", data=large)
        self.api.remove(WHERE, "gone")
        self.assertFalse(self.tool.wait(number, lambda a: a.get("name") == "gone")["known"])
        self.assertEqual(self.told(number)[before:], [("DELETE", "again"), ("DELETE", "gone")])
        self.api.stop()  # and a new list knows no more
        self.api.add(WHERE, "small")
        self.api.compact()
        self.api.start()
        self.tool.event(number, "SYNCED", count=2)
        self.assertEqual(self.told(number)[before + 2:], [("UPDATE", "small")])
        self.api.stop()
        self.api.remove(WHERE, "kept")
        self.api.add(WHERE, "kept", data=large)  # another one of that name
        self.api.compact()
        self.api.start()
        self.tool.event(number, "SYNCED", count=3)
        self.assertEqual(self.told(number)[before + 3:], [("DELETE", "kept"), ("UPDATE", "small")])
        for name in ("kept", "new"):
            self.api.add(WHERE, name)  # small again
        self.tool.event(number, "ADD", count=6)
        self.assertEqual(self.told(number)[before + 5:], [("ADD", "kept"), ("ADD", "new")])

    def test_until_it_is_there(self):
        for action in (Status(404), Status(403), Status(500), Status(200, body=b"nonsense")):
            self.api.fail(action)
        self.api.add(WHERE, "a")
        number = self.inform()
        self.tool.event(number, "SYNCED")
        codes = [a["code"] for a in self.tool.said(number) if a["event"] == "TROUBLE"]
        self.assertEqual(codes, ["ENOENT", "EACCES", "EBADMSG"])  # the 500 was tried again by itself

    def test_limit_of_objects(self):
        for i in range(10):
            self.api.add(WHERE, f"m{i}")
        number = self.inform(objectsMax=4)
        self.tool.event(number, "SYNCED")
        self.assertEqual(len(self.told(number)), 4)
        self.assertEqual(self.tool.ask("counters", of=number)["refused"], 6)

    def test_cancel_everywhere(self):
        for i in range(6):
            self.api.add(WHERE, f"m{i}")
        for after in (1, 3, 6):
            number = self.inform(cancelAfter=after, limit=2)
            self.tool.event(number, "ADD", count=after)
        number = self.inform(cancelAfter=7)
        self.tool.event(number, "SYNCED")
        self.api.add(WHERE, "another")
        self.tool.wait(number, lambda a: a["event"] == "ADD", count=7)
        self.api.add(WHERE, "and-another")
        self.tool.event(self.inform(), "ADD", count=8)
        self.assertEqual(len(self.told(number)), 7)

    def test_all_namespaces(self):
        self.api.add(WHERE, "a")
        self.api.add("/api/v1/namespaces/other/configmaps", "a")
        number = self.tool.start("inform", MAPS, allNamespaces=True)
        self.tool.event(number, "SYNCED")
        self.api.remove("/api/v1/namespaces/other/configmaps", "a")
        self.assertEqual(self.tool.event(number, "DELETE")["namespace"], "other")
        self.assertEqual(self.tool.ask("counters", of=number)["objects"], 1)


side_by_side.main()
