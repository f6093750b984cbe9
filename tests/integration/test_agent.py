#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent from outside.

Usage: test_agent.py DIRECTORY_OF_PROGRAMS FAKE_LIBMXSML [unittest arguments]
"""

import http.client
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

import side_by_side
import stopped_thread
from agent_case import AGENT, Agent, Case, PROGRAMS, RECORDED, uuid
from daemon_driver import PATIENCE, free_port, wait_for
from kubelet_double import AdmissionError, KubeletDouble, pb
from silent import SilentSockets, look


class OnARecording(Case):
    def test_health_that_nobody_knows(self):
        """Served, and not called healthy: by the kubelet's word alone, since it has no third one."""
        kubelet = self.kubelet()
        agent = self.start("--from", RECORDED.replace("c500-8", "c500-8-nolib"))
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        found = agent.wait_event("node discovered")
        self.assertEqual((found["gpus"], found["healthy"], found["unhealthy"]), (8, 0, 0))
        self.assertEqual([agent.metric("gputopo_gpus", health=health) for health in ("healthy", "unhealthy", "unknown")], [0, 0, 8])
        self.assertEqual(len(kubelet.admit("two", 2)[0]), 2)

    def test_containers_know_the_nics_near_their_gpus(self):
        kubelet = self.kubelet()
        agent = self.start("--from", RECORDED)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        with open(RECORDED, encoding="utf-8") as file:
            first = [gpu["uuid"] for gpu in json.load(file)["node"]["gpus"][:4]]
        kubelet.admit("all", 8)
        envs = dict(kubelet.responses["all"][0].envs)
        self.assertEqual(envs["METAX_GPU_NICS"].split(";"),
                         ["mlx5_0,mlx5_1" if i in first else "mlx5_2,mlx5_3" for i in envs["METAX_GPU_UUIDS"].split(",")])
        self.assertEqual((envs["METAX_GPU_HCAS"], envs["METAX_GPU_NUMA_NODES"]), ("mlx5_0,mlx5_1,mlx5_2,mlx5_3", "0"))

    def test_the_life_of_a_node(self):
        kubelet, agent = self.start_recorded()
        self.assertEqual(agent.get("/healthz"), (200, "ok\n"))
        self.assertEqual(agent.get("/nothing")[0], 404)
        started = agent.wait_event("gputopo-agent started")
        self.assertEqual(started["node"], "n1")
        self.assertRegex(started["version"], r"^\d+\.\d+")
        found = agent.wait_event("node discovered")
        self.assertEqual((found["gpus"], found["healthy"], found["direct_links"]), (8, 8, 12))
        self.assertEqual(agent.wait_event("registered")["gpus"], 8)

        four, = kubelet.admit("four", 4)
        two, = kubelet.admit("two", 2)
        self.assertEqual(len({kubelet.order.index(i) // 4 for i in four}), 1, "a mesh of four stays together")
        self.assertEqual(len({kubelet.order.index(i) // 4 for i in four + two}), 2)
        said = agent.wait_event("allocated")
        self.assertEqual(sorted(said["ids"].split(",")), sorted(four))
        self.assertEqual(said["gpus"], 4)
        self.assertEqual(agent.wait_event("preferred")["exact"], True)
        response = kubelet.responses["two"][0]
        numbers = sorted(int(i[-2:], 16) for i in two)
        self.assertEqual(
            {device.container_path for device in response.devices},
            {"/dev/mxcd", *(f"/dev/dri/card{i}" for i in numbers), *(f"/dev/dri/renderD{128 + i}" for i in numbers)})
        self.assertEqual(sorted(dict(response.envs)["METAX_GPU_UUIDS"].split(",")), sorted(two))
        with self.assertRaises(AdmissionError):
            kubelet.admit("three", 3)

        values = agent.metrics()
        expected = {
            ("gputopo_gpus", "health", "healthy"): 8, ("gputopo_gpus", "health", "unhealthy"): 0,
            ("gputopo_scans_total", "result", "done"): 1, ("gputopo_scans_total", "result", "failed"): 0}
        for (name, key, value), number in expected.items():
            self.assertEqual(values[name, frozenset({(key, value)})], number, name)
        plain = {name: value for (name, labels), value in values.items() if not labels}
        self.assertEqual(values["gputopo_links", frozenset({("kind", "MX"), ("state", "up")})], 12)
        self.assertEqual(plain["gputopo_plugin_registered"], 1)
        self.assertEqual(plain["gputopo_registrations_total"], 1)
        self.assertEqual(plain["gputopo_allocations_total"], 2)
        self.assertEqual(plain["gputopo_allocate_duration_seconds_count"], 2)
        self.assertEqual(plain["gputopo_preferred_allocation_duration_seconds_count"], 2)
        self.assertLess(abs(plain["gputopo_last_scan_timestamp_seconds"] - time.time()), 60)
        self.assertLess(abs(plain["process_start_time_seconds"] - time.time()), 60)

        code, _ = agent.stop()
        self.assertEqual(code, 0)
        self.assertEqual(agent.events("shutting down")[0]["signal"], "SIGTERM")
        sockets = [name for name in os.listdir(kubelet.directory)
                   if stat.S_ISSOCK(os.lstat(os.path.join(kubelet.directory, name)).st_mode)]
        self.assertEqual(sockets, ["kubelet.sock"])

    def test_a_gpu_becomes_unhealthy_and_recovers(self):
        kubelet, agent = self.start_recorded()
        self.record(sick=[2])
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7), "one SIGHUP shows it")
        self.assertNotIn(uuid(2), kubelet.healthy())
        self.assertEqual(len(kubelet.order), 8, "it stays in the list")
        said = agent.wait_event("GPU unhealthy")
        self.assertEqual((said["id"], said["why"]), (uuid(2), "uncorrected memory errors"))
        self.assertEqual(agent.metric("gputopo_gpus", health="unhealthy"), 1)
        self.assertEqual(agent.get("/readyz")[0], 200)
        self.record()
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(8), "and one shows that it is well again")
        self.assertEqual(agent.wait_event("GPU recovered")["id"], uuid(2))
        self.assertEqual(agent.metric("gputopo_gpus", health="unhealthy"), 0)

    def test_a_gpu_vanishes_and_comes_back(self):
        kubelet, agent = self.start_recorded()
        self.record(gone=[5])
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7))
        self.assertIn(uuid(5), kubelet.order)
        self.assertEqual(agent.wait_event("GPU lost")["id"], uuid(5))
        self.assertEqual(agent.metric("gputopo_gpus", health="lost"), 1)
        self.assertEqual(agent.metric("gputopo_gpus", health="healthy"), 7)
        self.record()
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(8))
        self.assertEqual(agent.wait_event("GPU back")["id"], uuid(5))
        self.assertEqual(agent.metric("gputopo_gpus", health="lost"), 0)

    def test_a_link_goes_down(self):
        kubelet, agent = self.start_recorded()
        lists = len(kubelet.lists)
        self.record(down=[(0, 1), (0, 2), (0, 3)])
        agent.signal(signal.SIGHUP)
        agent.wait_event("link down", count=3)
        self.assertEqual(agent.metric("gputopo_links", kind="MX", state="down"), 3)
        self.assertEqual(len(kubelet.healthy()), 8, "that is nobody's health")
        self.assertEqual(len(kubelet.lists), lists, "the kubelet is not told what does not concern it")
        four, = kubelet.admit("four", 4)
        self.assertEqual(sorted(four), [uuid(i) for i in range(4, 8)], "the whole mesh is better now")
        self.record()
        agent.signal(signal.SIGHUP)
        agent.wait_event("link up", count=3)

    def test_a_bad_recording_changes_nothing(self):
        kubelet, agent = self.start_recorded()
        for i, text in enumerate(['{"gpus": [', "", '{"gpus": 3}', "\0" * 100]):
            with open(self.recording, "w", encoding="utf-8") as file:
                file.write(text)
            agent.signal(signal.SIGHUP)
            said = agent.wait_event("scan failed, the state before is kept", count=i + 1)
            self.assertIn("node.json", said["why"])
            self.assertEqual(said["level"], "warning")
        os.unlink(self.recording)
        agent.signal(signal.SIGHUP)
        agent.wait_event("scan failed, the state before is kept", count=5)
        self.assertEqual(agent.metric("gputopo_scans_total", result="failed"), 5)
        self.assertEqual(len(kubelet.healthy()), 8)
        self.assertEqual(agent.get("/readyz")[0], 200)
        self.record(sick=[0])
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7), "and a good one is taken again")

    def test_the_kubelet_restarts(self):
        kubelet, agent = self.start_recorded()
        mine, = kubelet.admit("mine", 4)
        for i in range(3):
            kubelet.restart()
            self.assertTrue(kubelet.wait_healthy(8), f"restart {i}: {agent.lines}")
            # One registration a restart is counted below: let each come to rest before the next.
            self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200))
        self.assertEqual(kubelet.pods["mine"], [mine])
        other, = kubelet.admit("other", 4)
        self.assertFalse(set(mine) & set(other))
        agent.wait_event("registered", count=4)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200))
        self.assertEqual(agent.metric("gputopo_registrations_total"), 4)
        kubelet.stop(leave_socket=False)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 503))
        self.assertIn("kubelet.sock", agent.get("/readyz")[1])

    def test_the_agent_restarts(self):
        kubelet, agent = self.start_recorded()
        mine, = kubelet.admit("mine", 4)
        self.assertEqual(agent.stop()[0], 0)
        self.assertTrue(kubelet.wait(lambda: not kubelet.healthy()))
        again = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), again.lines)
        other, = kubelet.admit("other", 4)
        self.assertFalse(set(mine) & set(other))

    def test_descriptors_do_not_grow(self):
        kubelet, agent = self.start_recorded()
        for i in range(3):
            kubelet.restart()
            self.assertTrue(kubelet.wait_healthy(8))
        wait_for(lambda: agent.get("/readyz")[0] == 200)
        before = agent.metric("process_open_fds")
        for i in range(15):
            self.record(sick=[i % 8])
            agent.signal(signal.SIGHUP)
            self.assertTrue(kubelet.wait(lambda i=i: uuid(i % 8) not in kubelet.healthy()), i)
            kubelet.restart()
            self.assertTrue(kubelet.wait_healthy(7), i)
        wait_for(lambda: agent.get("/readyz")[0] == 200)
        # A channel to the kubelet that has just gone may linger for a moment.
        self.assertTrue(wait_for(lambda: agent.metric("process_open_fds") <= before + 1),
                        (before, agent.metric("process_open_fds")))

    def test_no_kubelet_yet(self):
        self.record()
        agent = self.start("--from", self.recording)
        agent.wait_event("node discovered")
        status, why = agent.get("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("kubelet.sock does not exist", why)
        self.assertEqual(agent.metric("gputopo_plugin_registered"), 0)
        kubelet = self.kubelet()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200))

    def test_registration_refused(self):
        self.record()
        kubelet = self.kubelet(start=False)
        kubelet.refuse = 2
        kubelet.start()
        agent = self.start("--from", self.recording)
        said = agent.wait_event("registration failed")
        self.assertIn("refused by the test", said["why"])
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(len(agent.events("registration failed")), 1, "the same reason is said once")
        self.assertEqual(agent.metric("gputopo_registration_failures_total"), 2)

    def test_without_the_device_plugin(self):
        self.record()
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording, "--no-device-plugin")
        agent.wait_event("node discovered")
        self.assertEqual(agent.get("/readyz"), (200, "ok, without the device plugin\n"))
        self.assertIsNone(agent.metric("gputopo_registrations_total"))
        self.assertEqual(kubelet.registrations, [])
        self.assertEqual(agent.stop()[0], 0)

    def test_nodes_with_nothing_to_advertise(self):
        self.record(gpus=0)
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording)
        agent.wait_event("this node has no GPU, nothing to advertise")
        status, why = agent.get("/readyz")
        self.assertEqual((status, "no GPU" in why), (200, True))
        self.record(mode="sgpu")
        agent.signal(signal.SIGHUP)
        said = agent.wait_event("node is not advertised")
        status, why = agent.get("/readyz")
        self.assertEqual((status, why.strip()), (200, "ok: " + said["why"]))
        self.assertEqual(kubelet.registrations, [])
        self.record()
        agent.signal(signal.SIGHUP)
        agent.wait_event("node is advertised again")
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(len(agent.events("this node has no GPU, nothing to advertise")), 1)

    def test_virtual_functions_stay_what_they_are_while_the_library_is_silent(self):
        def write(answers):
            with open(RECORDED, encoding="utf-8") as file:
                recorded = json.load(file)
            for call in recorded["raw"]["vendor"]["calls"]:
                if call["call"] == "mxSmlGetDeviceInfo":
                    call["value"]["mode"] = 2
            if not answers:
                del recorded["raw"]["vendor"]
            with open(self.recording + ".new", "w", encoding="utf-8") as file:
                json.dump(recorded, file)
            os.rename(self.recording + ".new", self.recording)
        write(True)
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording)
        agent.wait_event("node is not advertised")
        write(False)
        agent.signal(signal.SIGHUP)
        agent.wait_event("cannot read")
        self.assertEqual(agent.events("node is advertised again"), [])
        write(True)
        agent.signal(signal.SIGHUP)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_scans_total", result="done") == 3))
        self.assertEqual(kubelet.registrations, [])
        self.assertEqual(len(agent.events("node is not advertised")), 1)

    def test_a_socket_path_that_is_too_long(self):
        """For our socket, while the kubelet's own just fits."""
        self.record()
        room = 107 - len(f"{self.directory}//device-plugins/kubelet.sock")
        kubelet = KubeletDouble(os.path.join(self.directory, "k" * room))
        kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        agent = self.start("--from", self.recording, "--kubelet-dir", kubelet.root)
        agent.wait_event("registration failed")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_registration_failures_total") >= 5), agent.lines)
        said = agent.events("registration failed")
        self.assertEqual(len(said), 1, "the same reason is said once")
        self.assertIn("at most 107 bytes", said[0]["why"])

    def test_a_missing_device_node_refuses_the_pod(self):
        kubelet, agent = self.start_recorded()
        os.unlink(os.path.join(self.dev, "mxcd"))
        with self.assertRaises(AdmissionError):
            kubelet.admit("one", 1)
        self.assertIn("mxcd", agent.wait_event("allocation refused")["why"])
        self.assertEqual(agent.metric("gputopo_allocation_errors_total"), 1)


class Flooded(Case):
    def test_silent_sockets_keep_nobody_out(self):
        """2,000 on each port in turn: both make room for a probe."""
        health = free_port()
        _, agent = self.start_recorded("--health", f"127.0.0.1:{health}")
        for flooded in (health, agent.port):
            with SilentSockets(flooded) as silent:
                end = time.monotonic() + 2
                while time.monotonic() < end or silent.closed < 500:
                    for port in (health, agent.port):
                        self.assertEqual(look(port, "/healthz"), 200, (flooded, port))
                    time.sleep(0.05)
        self.assertEqual(look(health, "/readyz"), 200)
        self.assertEqual(look(health, "/metrics"), 404)
        for listener in ("health", "http"):  # not when their time was over
            self.assertGreaterEqual(agent.metric("gputopo_http_refused_total", listener=listener, reason="evicted"), 500)


@unittest.skipUnless(stopped_thread.possible(), "needs ptrace of a child")
class AHandlerHangs(Case):
    """The kubelet's Allocate waits for a file of the host for ever, as it does for a disk or a driver that hangs."""

    def setUp(self):
        super().setUp()
        self.kubelet_double, self.agent = self.start_recorded()
        plugin = self.kubelet_double.plugin
        self.stopped = stopped_thread.StoppedThread(self.agent.process.pid, "gputopo-rpc")
        self.addCleanup(self.stopped.release)
        self.call = plugin.stub.Allocate.future(pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=[uuid(0)])]))
        self.stopped.at_a_file()

    def ends(self, expected=0):
        self.stopped.bury()
        self.assertEqual(self.agent.stop()[0], expected)
        self.assertEqual(self.agent.events("something hangs, leaving without it")[0]["level"], "warning")

    def test_healthz_says_so_and_sigterm_ends_it(self):
        self.assertEqual(self.agent.get("/healthz"), (200, "ok\n"), "a call may take a moment")
        self.assertTrue(wait_for(lambda: self.agent.get("/healthz")[0] == 503))
        self.assertRegex(self.agent.get("/healthz")[1], r"^a call of the kubelet has been worked on for [1-9][0-9]+ s$")
        self.ends()

    def test_it_comes_back(self):
        self.assertTrue(wait_for(lambda: self.agent.get("/healthz")[0] == 503))
        self.stopped.release()
        self.assertEqual(len(self.call.result(PATIENCE).container_responses), 1)
        self.assertTrue(wait_for(lambda: self.agent.get("/healthz") == (200, "ok\n")), "the thread is done a moment after its answer")
        self.assertEqual(self.agent.stop()[0], 0)
        self.assertEqual(self.agent.events("something hangs, leaving without it"), [])

    def test_the_kubelet_restarts_meanwhile(self):
        kubelet = self.kubelet_double
        before = len(kubelet.registrations)
        kubelet.replace_socket().stop(None)
        self.stopped.release()
        self.assertTrue(kubelet.wait(lambda: len(kubelet.registrations) > before))
        self.assertTrue(kubelet.wait_healthy(8))
        self.assertEqual(len(kubelet.admit("all", 8)[0]), 8)

    def test_sigterm_ends_it_where_the_loop_hangs_too(self):
        """The kubelet restarts meanwhile: the loop waits for the end of the old server, and that for the handler."""
        self.kubelet_double.replace_socket().stop(None)
        self.assertTrue(wait_for(self.hangs), "the loop no longer answers")
        self.ends(1)

    def hangs(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.agent.port, timeout=10)  # it hangs for ever
        try:
            connection.request("GET", "/healthz")
            connection.getresponse()
            return False
        except TimeoutError:
            return True
        finally:
            connection.close()


class Starting(Case):
    def run_agent(self, *arguments):
        done = subprocess.run([AGENT, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def assert_fails(self, code, part, *arguments):
        got, out, err = self.run_agent(*arguments)
        self.assertEqual((got, out), (code, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("gputopo-agent: "), err)
        self.assertIn(part, err)

    def test_wrong_usage(self):
        self.assert_fails(2, "--nonsense", "--nonsense")
        self.assert_fails(2, "--vendor", "--vendor", "xyz")
        self.assert_fails(2, "word", "word")
        self.assert_fails(2, "--from", "--from")
        self.assert_fails(2, "--log-level", "--log-level=loud")

    def test_failures_at_start(self):
        quiet = ["--http", "none", "--kubelet-dir", self.directory]
        self.assert_fails(1, "absent.json", "--from", self.directory + "/absent.json", *quiet)
        with open(self.recording, "w", encoding="utf-8") as file:
            file.write('{"gpus": [}')
        self.assert_fails(1, "node.json", "--from", self.recording, *quiet)
        self.assert_fails(1, "node.json", "--from", self.recording, "--oneshot")
        self.assert_fails(1, "/absent", "--root", self.directory + "/absent", "--probe", "none", *quiet)
        self.assert_fails(1, "/absent", "--probe", self.directory + "/absent", *quiet)
        self.assert_fails(2, "--http", "--http", "nowhere", "--from", self.recording)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.assert_fails(1, address, "--http", address, "--from", self.recording)

    def test_oneshot(self):
        self.record(sick=[1])
        code, out, err = self.run_agent("--from", self.recording, "--oneshot", "--node-name", "n1")
        self.assertEqual((code, err), (0, ""))
        node = json.loads(out)
        self.assertEqual(node["name"], "n1")
        self.assertEqual([gpu["healthy"] for gpu in node["gpus"]], [i != 1 for i in range(8)])

    def test_recording_of_another_maker(self):
        """Without --vendor the recording knows whose GPUs it was made for."""
        pci = {"vendor": "10de", "read": True, "missing": [],
               "devices": [{"bdf": "0000:01:00.0", "vendor": "10de", "device": "1db8", "class": "0302"}]}
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump({"gputopoRecording": 1, "node": {"gpus": []}, "raw": {"pci": pci}}, file)
        for options, gpus in ((), 1), (("--vendor", "10de"), 1), (("--vendor", "9999"), 0):
            code, out, err = self.run_agent("--from", self.recording, "--oneshot", *options)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(len(json.loads(out)["gpus"]), gpus, options)

    def test_oneshot_to_a_full_disk(self):
        self.record()
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([AGENT, "--from", self.recording, "--oneshot"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_help_and_version(self):
        code, out, err = self.run_agent("--help")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("--kubelet-dir DIR", out)
        code, out, err = self.run_agent("--version")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^gputopo-agent \d+\.\d+\.\d+ \(.+\)\n$")

    def test_node_name_from_the_environment(self):
        self.record()
        done = subprocess.run([AGENT, "--from", self.recording, "--oneshot"], capture_output=True, text=True,
                              timeout=60, check=True, env={**os.environ, "NODE_NAME": "from-env"})
        self.assertEqual(json.loads(done.stdout)["name"], "from-env")


class FewDescriptors(Case):
    """Limits of open files, as a container runtime or a unit may set them, for each of the daemons."""

    @staticmethod
    def limited(soft, hard):
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_too_few_is_said_in_one_line(self):
        self.record()
        self.kubelet()
        commands = {"gputopo-agent": ["--from", self.recording, "--kubelet-dir", self.directory, "--http", "none"],
                    "gputopo-probe": ["--socket", os.path.join(self.directory, "probe.sock")],
                    "gputopo-scheduler": ["--kubeconfig", os.path.join(self.directory, "config")]}
        for program, options in commands.items():
            for limit in (16, 20, 24, 28, 32, 40):
                with self.subTest(program=program, limit=limit):
                    done = subprocess.run([os.path.join(PROGRAMS, program), *options], stdin=subprocess.DEVNULL,
                                          capture_output=True, text=True, timeout=PATIENCE, check=False,
                                          preexec_fn=self.limited(limit, limit))
                    self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                    self.assertRegex(done.stderr, f"^{program}: the limit of open files .* is {limit}, "
                                                  r"at least \d+ are needed\n$")

    def test_a_soft_limit_is_raised(self):
        self.record()
        kubelet = self.kubelet()
        agent = Agent("--from", self.recording, "--dev-root", self.dev, "--kubelet-dir", self.directory,
                      wrapper=["sh", "-c", 'ulimit -S -n 16; ulimit -H -n 128; exec "$@"', "sh"])
        self.addCleanup(agent.stop)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        kubelet.admit("four", 4)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200), "128 are enough")


class OnThisMachine(Case):
    def test_live_without_a_probe(self):
        agent = self.start("--probe", "none", "--vendor", "fffe", "--rescan-interval", "1")
        agent.wait_event("node discovered")
        agent.wait_event("this node has no GPU, nothing to advertise")
        self.assertTrue(wait_for(lambda: (agent.metric("gputopo_scans_total", result="done") or 0) >= 3))
        self.assertEqual(len(agent.events("node discovered")), 1)
        self.assertTrue(any("--probe none" in line["why"] for line in agent.events("cannot read")), agent.lines)
        self.assertEqual(agent.stop()[0], 0)


if __name__ == "__main__":
    if not PROGRAMS:
        sys.exit(__doc__)
    side_by_side.main()
