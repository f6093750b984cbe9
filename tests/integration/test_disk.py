#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent, claims, and a disk that is slow, held by another process, or left by a writer that was killed.

Usage: test_disk.py GPUTOPO_AGENT SLOW_DISK_LIBRARY [unittest arguments]
"""

import concurrent.futures
import fcntl
import glob
import os
import signal
import sys
import time

import grpc

import side_by_side
from dra_case import CLAIMS, DRIVER, DraCase
from daemon_driver import wait_for

LIBRARY = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
HELD_S = 20
NAMES = [f"c{index}" for index in range(8)]


class DiskTest(DraCase):
    def disk(self, **what):
        self.log = f"{self.directory}/disk.log"
        if os.path.exists(self.log):
            os.unlink(self.log)
        return {"LD_PRELOAD": LIBRARY, "SLOW_DISK_LOG": self.log, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
                **{f"SLOW_DISK_{name.upper()}": str(value) for name, value in what.items()}}

    def syncs(self):
        """(thread, path) of each sync so far."""
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as file:
            return [tuple(line.rstrip("\n").split(" ", 1)) for line in file]

    def at_once(self, call, names):
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            return list(pool.map(call, names))

    def prepared(self):
        return [{name: ([self.names[index]], "")} for index, name in enumerate(NAMES)]

    def claim_all(self):
        for index, name in enumerate(NAMES):
            self.claim(name, index)

    def test_a_disk_that_stands_still(self):
        """Only the calls wait for it, and those that wait are written together."""
        still = f"{self.directory}/still"
        driver = self.start(env=self.disk(**{"while": still}))
        self.claim_all()
        before = len(self.syncs())

        def while_still(call):
            begun = len(self.syncs())
            with open(still, "w", encoding="ascii"), concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.addCleanup(lambda: os.path.exists(still) and os.unlink(still))
                calls = [pool.submit(call, name) for name in NAMES]
                self.assertTrue(wait_for(lambda: len(self.syncs()) > begun))
                self.assertTrue(wait_for(lambda: call != driver.prepare or self.agents[0].metrics()["gputopo_claims_waiting"] == 8 and
                                         len([r for r in self.api.asked(method="GET") if r.path.startswith(CLAIMS)]) == 8))
                self.assertEqual(self.agents[0].get("/healthz")[0], 200)
                self.assertEqual([call for call in calls if call.done()], [])
                os.unlink(still)
                return [call.result() for call in calls]

        self.assertEqual(while_still(driver.prepare), self.prepared())
        self.assertEqual(sorted(self.state()), NAMES)
        writes = [path for _, path in self.syncs()[before:] if "claims.json." in path]
        self.assertLessEqual(len(writes), 4, writes)
        self.assertEqual((while_still(driver.unprepare), self.state(), self.specs()), ([[""]] * 8, {}, []))
        self.assertEqual([path for thread, path in self.syncs() if thread == "main"], [], "none on the event loop")

    def test_the_answer_comes_after_the_disk(self):
        """The file and then its directory: a rename alone may be lost by a power failure."""
        driver = self.start(env=self.disk(ms=300))
        self.claim("a", 1)
        before = len(self.syncs())
        self.assertEqual(driver.prepare("a"), {"a": ([self.names[1]], "")})
        file, directory = [path for _, path in self.syncs()[before:]]
        self.assertIn(f"{DRIVER}/claims.json.", file)
        self.assertTrue(directory.endswith(f"/{DRIVER}"), directory)

    def test_what_is_written_again_anyway(self):
        """The CDI spec of the node and those of claims are made again after a boot: nothing waits for the disk."""
        self.start("--device-strategy", "cdi", advertise="plugin", env=self.disk(ms=3000))
        self.assertTrue(self.kubelet.wait_healthy(8), self.agents[0].lines)
        self.assertTrue(os.path.exists(f"{self.directory}/cdi/metax-tech.com-gpu.json"))
        self.assertEqual(self.syncs(), [])

    def fill(self, pattern):
        """Starts a driver whose disk can be full for such files. Returns it, and what fills and empties the disk."""
        flag = f"{self.directory}/full"
        self.addCleanup(lambda: os.path.exists(flag) and os.unlink(flag))
        driver = self.start(env=self.disk(full=pattern, full_while=flag))
        return driver, lambda: open(flag, "w", encoding="ascii").close(), lambda: os.unlink(flag)

    def written(self):
        return (self.state(), self.specs(), [path for path in glob.glob(f"{self.directory}/cdi/*") + glob.glob(
            f"{self.directory}/plugins/{DRIVER}/*") if not path.endswith((".json", ".lock", ".sock", "/lock"))])

    def check_full(self, pattern):
        """Preparing and unpreparing fail with a sentence, and leave all as it was; later they do all of it."""
        driver, full, empty = self.fill(pattern)
        self.claim("a", 1)
        self.claim("b", 1)
        nothing = self.written()
        full()
        devices, error = driver.prepare("a")["a"]
        self.assertEqual(devices, [])
        self.assertIn("No space left on device", error)
        self.assertEqual(self.written(), nothing)
        empty()
        self.assertEqual(driver.prepare("b"), {"b": ([self.names[1]], "")}, "a holds nothing")
        self.assertEqual(driver.unprepare("b"), [""])
        self.assertEqual(driver.prepare("a"), {"a": ([self.names[1]], "")})
        return driver, full, empty

    def test_no_space_for_the_spec(self):
        driver, full, _ = self.check_full("*/cdi/*claim*")
        full()
        self.assertEqual(driver.unprepare("a"), [""])
        self.assertEqual((self.state(), self.specs()), ({}, []))

    def test_no_space_for_the_claims(self):
        driver, full, empty = self.check_full("*/claims.json*")
        held = self.written()
        full()
        self.assertIn("No space left on device", driver.unprepare("a")[0])
        self.assertTrue(wait_for(lambda: self.written() == held), self.written())
        empty()
        self.assertEqual(driver.unprepare("a"), [""])
        self.assertEqual((self.state(), self.specs()), ({}, []))

    def test_unprepared_while_it_is_written(self):
        driver = self.start(env=self.disk(ms=500))
        self.claim("a", 1)
        before = len(self.syncs())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            late = pool.submit(driver.prepare, "a")
            self.assertTrue(wait_for(lambda: len(self.syncs()) > before))
            self.assertEqual(driver.unprepare("a"), [""])
            self.assertIn("unprepared meanwhile", late.result()["a"][1])
        self.assertEqual((self.state(), self.specs()), ({}, []))
        self.claim("b", 1)
        self.assertEqual(driver.prepare("b"), {"b": ([self.names[1]], "")})

    def test_two_claims_of_one_gpu_at_once(self):
        """They come into one write: one is prepared, the other one waits for it."""
        driver = self.start(env=self.disk(ms=500))
        for name in ("first", "a", "b"):
            self.claim(name, 0 if name == "first" else 1)
        before = len(self.syncs())
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(driver.prepare, "first")]
            self.assertTrue(wait_for(lambda: len(self.syncs()) > before))
            calls += [pool.submit(driver.prepare, name) for name in ("a", "b")]
            self.assertTrue(wait_for(lambda: calls[1].done() or calls[2].done()))
            winner, = set(self.state()) - {"first"}
            self.assertFalse(calls[1].done() and calls[2].done())
            self.assertEqual(driver.unprepare(winner), [""])
            got = {name: said for call in calls for name, said in call.result().items()}
        self.assertEqual(got["a"], ([self.names[1]], ""))
        self.assertEqual(got["b"], ([self.names[1]], ""))
        self.assertEqual(len(self.state()), 2)

    def test_the_kubelet_restarts_meanwhile(self):
        """It registers the driver again and deletes the slice, while a claim is written."""
        driver = self.start(env=self.disk(ms=1500))
        self.claim("a", 1, admin=True)  # of which the slice does not tell
        before, old = len(self.syncs()), self.slice()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            late = pool.submit(driver.prepare, "a")
            self.assertTrue(wait_for(lambda: len(self.syncs()) > before))
            driver.register()
            self.api.remove("/apis/resource.k8s.io/v1/resourceslices", old["metadata"]["name"])
            self.assertEqual(late.result(), {"a": ([self.names[1]], "")})
        self.assertTrue(wait_for(self.slice), self.agents[0].lines)

    def hold_lock(self):
        lock = open(f"{self.directory}/plugins/{DRIVER}/claims.lock", "rb")  # pylint: disable=consider-using-with
        self.addCleanup(lock.close)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def test_another_process_holds_the_lock(self):
        driver = self.start()
        self.claim_all()
        lock = self.hold_lock()

        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(driver.prepare, name) for name in NAMES]
            self.assertTrue(wait_for(lambda: self.agents[0].metrics()["gputopo_claims_waiting"] == 8))
            time.sleep(max(0, HELD_S - (time.monotonic() - begin)))  # how long it is held is what is tested
            self.assertEqual(self.agents[0].get("/healthz")[0], 200)  # the event loop does not wait
            self.assertFalse([call for call in calls if call.done()])
            lock.close()
            self.assertEqual([call.result() for call in calls], self.prepared())

    def test_the_lock_is_never_given_back(self):
        """The kubelet is told why, before it gives up by itself after 45 seconds."""
        driver = self.start()
        self.claim("a", 0)
        lock = self.hold_lock()
        self.assertIn("claims.lock: another process holds it", driver.prepare("a")["a"][1])
        lock.close()
        self.assertEqual(driver.prepare("a"), {"a": ([self.names[0]], "")})

    def test_ends_while_the_disk_is_slow(self):
        self.start()
        self.stop()
        driver = self.start(env=self.disk(ms=600000))
        self.claim("a", 0)
        before = len(self.syncs())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            late = pool.submit(driver.prepare, "a")
            self.assertTrue(wait_for(lambda: len(self.syncs()) > before))
            self.stop()  # the sync goes on for longer than is waited for it
            self.assertRaises(grpc.RpcError, late.result)
        self.assertNotIn("a", self.state())

    def kill_at(self, path):
        """The agent is killed where it syncs this, while it writes the claim `new`; what it leaves behind."""
        driver = self.start(env=self.disk())
        self.claim("kept", 0)
        self.assertEqual(driver.prepare("kept"), {"kept": ([self.names[0]], "")})
        self.agents[-1].process.kill()
        self.agents.pop().stop()
        driver = self.start(register=False, env=self.disk(kill=path))
        self.claim("new", 1)
        with self.assertRaises(grpc.RpcError) as caught:
            driver.prepare("new")
        agent = self.agents.pop()
        self.assertEqual(agent.stop(), -signal.SIGKILL, (caught.exception, self.syncs(), agent.lines))
        return self.leftovers()

    def leftovers(self):
        return glob.glob(f"{self.directory}/plugins/{DRIVER}/claims.json.*")

    def recovers(self):
        driver = self.start()
        self.assertTrue(wait_for(lambda: not self.leftovers()), "what it has left is removed")
        self.assertEqual(driver.prepare("kept", "new"), {"kept": ([self.names[0]], ""), "new": ([self.names[1]], "")})
        self.assertEqual(driver.unprepare("kept", "new"), ["", ""])
        self.assertEqual((self.state(), self.specs()), ({}, []))

    def test_killed_before_the_rename(self):
        self.assertEqual(len(self.kill_at("*/claims.json.*")), 1)
        self.assertEqual(self.state(), {"kept": [self.names[0]]})
        self.recovers()

    def test_killed_after_the_rename(self):
        self.assertEqual(self.kill_at(f"*/{DRIVER}"), [])
        self.assertEqual(self.state(), {"kept": [self.names[0]], "new": [self.names[1]]})
        self.recovers()

    def test_leftovers(self):
        """Only temporary files of ours go, and not while another process may be writing one."""
        directory = f"{self.directory}/plugins/{DRIVER}"
        os.makedirs(directory)
        kept = ["claims.json.unreadable", "claims.json.backups", "other.json.aB3xZ9", "claims.json.aB-xZ9"]
        gone = ["claims.json.aB3xZ9", "claims.json.000000"]
        for name in kept + gone + ["claims.lock"]:
            with open(f"{directory}/{name}", "w", encoding="ascii"):
                pass
        lock = self.hold_lock()
        self.start(register=False)
        self.assertTrue(wait_for(lambda: self.agents[0].metrics().get("gputopo_scans_total{result=\"done\"}")))
        self.assertLessEqual(set(gone), set(os.listdir(directory)))
        lock.close()
        self.assertTrue(wait_for(lambda: not set(gone) & set(os.listdir(directory))), os.listdir(directory))
        self.assertLessEqual(set(kept), set(os.listdir(directory)))


if __name__ == "__main__":
    side_by_side.main()
