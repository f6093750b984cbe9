#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Unhealthy GPUs are not given out: gputopo-agent with the real probe, the fake vendor library, made PCI devices and
device nodes, one fault after the other.

Usage: test_health.py DIRECTORY_OF_PROGRAMS FAKE_LIBMXSML [unittest arguments]
"""

import glob
import json
import os
import signal
import subprocess
import time

import side_by_side
from agent_case import AGENT, PROGRAMS, MadeMachine
from daemon_driver import wait_for
from kubelet_double import AdmissionError

DEAD = 3


class Health(MadeMachine):
    def start_all(self, *arguments, count=8, interval=1):
        kubelet = self.kubelet()
        agent = self.start("--root", self.root, "--health-interval", str(interval), *arguments,
                           env={"GPUTOPO_FAKE_MXSML": self.scenario})
        self.assertTrue(kubelet.wait(lambda: len(kubelet.order) == 8), agent.lines)
        self.assertTrue(kubelet.wait_healthy(count), agent.lines)
        return kubelet, agent

    def place(self, agent):
        """The dead GPU's place in the kubelet's list and its ID."""
        said = agent.wait_event("GPU unhealthy")
        return said["id"], said["why"]

    def never_given(self, kubelet, dead):
        """It is in nobody's hands, whatever is asked for, and whatever a kubelet offers."""
        for size in (1, 2, 3, 4, 7):
            given, = kubelet.admit(f"pod-{size}", size)
            self.assertNotIn(dead, given)
            kubelet.release(f"pod-{size}")
        with self.assertRaises(AdmissionError):
            kubelet.admit("all", 8)
        plugin = next(iter(kubelet._plugins()))
        for size in (1, 2, 3, 4, 7):
            self.assertNotIn(dead, kubelet._prefer(plugin, list(kubelet.order), [], size), size)

    def falls_and_recovers(self, break_it, mend_it, reason, dead=DEAD):
        kubelet, agent = self.start_all()
        break_it()
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        who, why = self.place(agent)
        self.assertEqual(kubelet.order.index(who), dead)
        self.assertIn(reason, why)
        self.never_given(kubelet, who)
        mend_it()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(agent.wait_event("GPU recovered")["id"], who)
        self.assertEqual(len(kubelet.order), 8)

    def at_start(self, reason, dead=DEAD):
        kubelet, agent = self.start_all(count=7)
        who, why = self.place(agent)
        self.assertEqual(kubelet.order.index(who), dead)
        self.assertIn(reason, why)
        self.never_given(kubelet, who)

    def fault(self, **fault):
        self.write_scenario(faults=[{"dev": DEAD, **fault}])

    def device(self, **what):
        devices = json.loads(json.dumps(self.vendor["devices"]))
        devices[DEAD].update(what)
        self.write_scenario(devices=devices)

    def without_one(self):
        """The library counts seven of the eight."""
        kept = [i for i in range(8) if i != DEAD]
        devices = json.loads(json.dumps([self.vendor["devices"][i] for i in kept]))
        for device in devices:
            device["ports"] = [port for port in device["ports"] if port.get("remoteDevice") != DEAD]
            for port in device["ports"]:
                if port.get("remoteDevice", -1) > DEAD:
                    port["remoteDevice"] -= 1
        self.write_scenario(devices=devices,
                            matrix=[[self.vendor["matrix"][i][k] for k in kept] for i in kept])

    def pci(self, index=DEAD):
        bdf = self.vendor["devices"][index]["bdf"]
        return os.path.realpath(os.path.join(self.root, "sys/bus/pci/devices", bdf))

    # ---- the vendor library ----

    def test_every_call_hangs(self):
        self.falls_and_recovers(lambda: self.fault(call="*", do="hang"), self.write_scenario, "not it (device 3: timeout)")

    def test_every_call_hangs_at_start(self):
        self.fault(call="*", do="hang")
        self.at_start("not it (device 3: timeout)")

    def test_every_call_fails(self):
        self.falls_and_recovers(lambda: self.fault(call="*", do="code", code=1), self.write_scenario,
                                "not it (device 3: code 1)")

    def test_not_counted(self):
        self.falls_and_recovers(self.without_one, self.write_scenario, "knows 7 of 8 GPUs, and not it")

    def test_not_counted_at_start(self):
        self.without_one()
        self.at_start("knows 7 of 8 GPUs, and not it")

    def test_one_call_hangs(self):
        self.falls_and_recovers(lambda: self.fault(call="mxSmlGetDeviceState", do="hang"), self.write_scenario,
                                "mxSmlGetDeviceState")

    def test_one_call_fails_again_and_again(self):
        self.falls_and_recovers(lambda: self.fault(call="mxSmlGetTotalEccErrors", do="code", code=12),
                                self.write_scenario, "mxSmlGetTotalEccErrors for it: code 12")

    def test_one_call_fails_once(self):
        self.fault(call="mxSmlGetTotalEccErrors", do="code", code=12)
        kubelet, agent = self.start_all(interval=5)
        self.write_scenario()
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= 3))
        self.assertEqual(len(kubelet.healthy()), 8)
        self.assertEqual(agent.events("GPU unhealthy"), [])

    def test_the_library_is_away_as_a_whole(self):
        kubelet, agent = self.start_all()
        for fault in ({"call": "mxSmlInit", "do": "code", "code": 2}, {"call": "*", "do": "crash"},
                      {"call": "mxSmlGetDeviceInfo", "do": "code", "code": 1}):
            self.write_scenario(faults=[fault])
            checks = agent.metric("gputopo_health_checks_total")
            self.assertTrue(wait_for(lambda checks=checks: agent.metric("gputopo_health_checks_total") >= checks + 3))
            self.assertEqual(len(kubelet.healthy()), 8, fault)
        self.assertEqual(agent.events("GPU unhealthy"), [])
        self.assertEqual(agent.metric("gputopo_gpus", health="unknown"), 8)

    def test_not_available(self):
        self.falls_and_recovers(lambda: self.device(state=0, unavailableReason={"code": 3, "text": "fell off the bus"}),
                                self.write_scenario, "not available: fell off the bus")

    def test_limited(self):
        self.falls_and_recovers(
            lambda: self.write_scenario(limited=[{"bdf": self.vendor["devices"][DEAD]["bdf"]}]), self.write_scenario,
            "limited")

    def test_ecc(self):
        self.falls_and_recovers(lambda: self.device(ecc={"dramUE": 2}), self.write_scenario,
                                "uncorrectable DRAM ECC errors: 2")

    def test_ecc_of_the_sram(self):
        self.falls_and_recovers(lambda: self.device(ecc={"sramUE": 5}), self.write_scenario,
                                "uncorrectable SRAM ECC errors: 5")

    def test_ecc_is_off(self):
        self.device(ecc={"sramUE": 5, "dramUE": 5}, eccState=0)
        _, agent = self.start_all()
        self.assertEqual(agent.events("GPU unhealthy"), [])

    # ---- over a restart of the agent ----

    STATE = "device-plugins/gputopo/unhealthy.json"

    def start_admitted(self):
        """An agent that waits for check-node."""
        kubelet = self.kubelet()
        agent = self.start("--root", self.root, "--health-interval", "1", "--admit-after-check=clock,containerd-cdi",
                           env={"GPUTOPO_FAKE_MXSML": self.scenario})
        self.assertTrue(kubelet.wait(lambda: len(kubelet.order) == 8), agent.lines)
        return kubelet, agent

    def containerd(self, version):
        os.makedirs(os.path.join(self.root, "etc/containerd"), exist_ok=True)
        with open(os.path.join(self.root, "etc/containerd/config.toml"), "w", encoding="utf-8") as file:
            file.write(f"version = {version}\n")

    def test_admitted_after_the_check(self):
        """No GPU is healthy before check-node has passed."""
        self.boot(1)
        self.containerd(2)
        kubelet, agent = self.start_admitted()
        why = agent.wait_event("the node's GPUs are kept out of use")["why"]
        self.assertRegex(why, r"^check-node has not passed: 1 of \d+ checks do not hold: containerd-cdi$")
        self.assertEqual(kubelet.healthy(), [])
        self.containerd(3)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        agent.wait_event("check-node has passed, the node's GPUs may be used")

    def test_each_boot_is_checked_once(self):
        self.boot(1)
        self.containerd(3)
        kubelet, agent = self.start_admitted()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        agent.wait_event("check-node has passed, the node's GPUs may be used")
        agent.stop()
        self.containerd(2)
        kubelet, agent = self.start_admitted()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(agent.events("GPU unhealthy"), [])
        agent.stop()
        self.boot(2)
        kubelet, agent = self.start_admitted()
        agent.wait_event("the node's GPUs are kept out of use")
        self.assertEqual(kubelet.healthy(), [])

    def boot(self, number):
        path = os.path.join(self.root, "proc/sys/kernel/random/boot_id")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"00000000-0000-4000-8000-{number:012}\n")

    def falls_and_the_agent_ends(self):
        """The kubelet, and the ID of a GPU that hangs and is so said to be unhealthy."""
        self.boot(1)
        kubelet, agent = self.start_all()
        self.fault(call="*", do="hang")
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        who = self.place(agent)[0]
        state = os.path.join(self.directory, self.STATE)
        self.assertTrue(wait_for(lambda: os.path.exists(state)), agent.lines)
        self.assertEqual(agent.stop()[0], 0)
        self.assertTrue(kubelet.wait(lambda: not kubelet.healthy()))
        return kubelet, who, len(kubelet.lists)

    def start_again(self, count=7):
        agent = self.start("--root", self.root, "--health-interval", "1", env={"GPUTOPO_FAKE_MXSML": self.scenario})
        agent.wait_event("registered")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= count), agent.lines)
        return agent

    def test_a_restart_does_not_offer_what_hangs(self):
        """GPUs are offered two seconds after the start, and a call that hangs is known after three."""
        kubelet, _, lists = self.falls_and_the_agent_ends()
        agent = self.start_again(count=1)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertEqual({sum(devices.values()) for devices in kubelet.lists[lists:]}, {7}, "all eight were offered")
        self.assertEqual(agent.wait_event("GPUs were unhealthy before, and are until a health check has seen them well")["gpus"], 1)
        self.write_scenario()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertTrue(wait_for(lambda: not os.path.exists(os.path.join(self.directory, self.STATE))))

    def test_a_restart_after_it_was_mended(self):
        kubelet, who, _ = self.falls_and_the_agent_ends()
        self.write_scenario()
        agent = self.start_again(count=1)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(agent.wait_event("GPU recovered")["id"], who)

    def test_a_reboot_forgets(self):
        kubelet, who, lists = self.falls_and_the_agent_ends()
        self.boot(2)
        self.write_scenario()
        agent = self.start_again(count=1)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual({devices[who] for devices in kubelet.lists[lists:] if who in devices}, {True})

    def test_a_reboot_forgets_no_isolation(self):
        """What people isolate holds after a boot, what the agent saw before it does not."""
        kubelet, who, lists = self.falls_and_the_agent_ends()
        other = next(device for device in kubelet.order if device != who)
        with open(os.path.join(self.directory, os.path.dirname(self.STATE), "isolated.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"uid": "1"}, "spec": {"isolated": [{"gpu": other, "reason": "ticket 17"}]}}, file)
        self.boot(2)
        self.write_scenario()
        agent = self.start_again(count=1)
        self.assertEqual(agent.wait_event("isolations of before hold")["count"], 1)
        self.assertEqual({(devices[who], devices[other]) for devices in kubelet.lists[lists:] if who in devices}, {(True, False)})
        self.assertEqual(self.place(agent), (other, "isolated: ticket 17"))

    def test_what_is_no_list_of_unhealthy_gpus(self):
        self.boot(1)
        state = os.path.join(self.directory, self.STATE)
        os.makedirs(os.path.dirname(state))
        with open(state, "w", encoding="utf-8") as file:
            file.write('{"version": 1, "bootId": "00000000-0000-4000-8000-000000000001", "gpus": [{"bdf": 3}]}')
        _, agent = self.start_all()
        why = agent.wait_event("unhealthy GPUs of before are not known")["why"]
        self.assertIn("unhealthy.json: this is no list of unhealthy GPUs", why)
        self.assertTrue(wait_for(lambda: not os.path.exists(state)))

    # ---- device nodes ----

    def test_a_drm_node_is_missing(self):
        node = os.path.join(self.dev, "dri/renderD131")
        self.falls_and_recovers(lambda: os.unlink(node), lambda: open(node, "wb").close(),
                                "its device node dri/renderD131 is missing")

    def test_the_first_gpu_has_no_node(self):
        os.unlink(os.path.join(self.dev, "dri/card1"))
        self.at_start("dri/card1 is missing", dead=0)

    def test_the_control_node_is_missing(self):
        node = os.path.join(self.dev, "mxcd")
        kubelet, agent = self.start_all()
        os.unlink(node)
        self.assertTrue(kubelet.wait_healthy(0), agent.lines)
        self.assertIn("mxcd is missing", self.place(agent)[1])
        with self.assertRaises(AdmissionError):
            kubelet.admit("one", 1)
        open(node, "wb").close()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)

    # ---- PCI ----

    def test_the_bus_reads_all_ones(self):
        config = os.path.join(self.pci(), "config")
        with open(config, "rb") as file:
            sound = file.read()

        def write(data):
            with open(config + ".new", "wb") as file:
                file.write(data)
            os.rename(config + ".new", config)

        self.falls_and_recovers(lambda: write(b"\xff" * len(sound)), lambda: write(sound), "all ones")

    def test_no_power(self):
        state = os.path.join(self.pci(), "power_state")

        def write(text):
            with open(state, "w", encoding="ascii") as file:
                file.write(text)

        self.falls_and_recovers(lambda: write("D3cold\n"), lambda: write("D0\n"), "no power")

    def test_asleep_is_not_dead(self):
        for name, text in (("power_state", "D3cold\n"), ("power/runtime_status", "suspended\n")):
            path = os.path.join(self.pci(), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        self.start_all()

    # ---- counters ----

    def test_bus_errors(self):
        table = self.table("signals: {pciError: {times: 2, recoverSeconds: 0, recoverChecks: 2}}")

        def errors(fatal, other):
            for name, total, count in (("aer_dev_fatal", "FATAL", fatal), ("aer_dev_nonfatal", "NONFATAL", other)):
                with open(os.path.join(self.pci(), name), "w", encoding="ascii") as file:
                    file.write(f"Undefined 0\nTOTAL_ERR_{total} {count}\n")

        errors(70, 7)  # of the time before
        kubelet, agent = self.start_all("--fault-table", table)
        errors(70, 8)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_signals_total", signal="pciError") == 1))
        self.assertEqual(len(kubelet.healthy()), 8)
        errors(71, 8)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertEqual(self.place(agent)[1], "errors on the PCI bus: 79")
        self.assertEqual(agent.metric("gputopo_unhealthy_gpus", reason="pciError"), 1)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)

    def ports(self, state, layer="InfiniBand", carriers=()):
        """The state of the RDMA port of each NIC, and its interfaces; one without a carrier is switched off."""
        for place in glob.glob(os.path.join(self.root, "sys/bus/pci/devices/*/infiniband/*")):
            texts = {"ports/1/state": state, "ports/1/link_layer": layer}
            texts.update({f"../../net/eth{i}/carrier": carrier for i, carrier in enumerate(carriers)})
            for name, text in texts.items():
                os.makedirs(os.path.dirname(os.path.join(place, name)), exist_ok=True)
                with open(os.path.join(place, name), "w", encoding="ascii") as file:
                    file.write(text + "\n")

    def test_a_nic_without_link_is_reported(self):
        self.ports("4: ACTIVE")
        kubelet, agent = self.start_all()
        self.ports("1: DOWN")
        self.assertTrue(wait_for(lambda: (agent.metric("gputopo_health_signals_total", signal="nicDown") or 0) > 0), agent.lines)
        self.assertEqual(len(kubelet.healthy()), 8)

    def test_a_nic_that_is_switched_off_is_not_judged(self):
        """Nor one of which another interface has a link, such as that of a virtual function."""
        self.ports("1: DOWN", "Ethernet", ["", "0"])
        _, agent = self.start_all()
        def seen():
            checks = agent.metric("gputopo_health_checks_total")
            self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") > checks + 1), agent.lines)
            return agent.metric("gputopo_health_signals_total", signal="nicDown") or 0
        self.assertGreater(seen(), 0)
        self.ports("1: DOWN", "Ethernet", ["", ""])
        seen()
        before = seen()
        self.assertEqual(seen(), before)
        self.ports("4: ACTIVE", "Ethernet", ["1", "0"])
        self.assertEqual(seen(), before)

    def test_a_nic_without_link_is_a_fault_where_the_table_says_so(self):
        """Of the NIC behind the GPU's switch."""
        self.ports("4: ACTIVE")
        kubelet, agent = self.start_all("--fault-table", self.table("signals: {nicDown: {when: atOnce, recoverChecks: 2}}"))
        self.ports("1: DOWN")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_unhealthy_gpus", reason="nicDown") == 8), agent.lines)
        self.assertRegex(self.place(agent)[1], "^mlx5_[0-9], a NIC nearest to it, has no link$")
        self.ports("4: ACTIVE")
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)

    def test_pci_events_of_the_library(self):
        table = self.table("signals: {pciEvent: {when: atOnce, recoverSeconds: 0}}")
        self.device(pciEvents={"doubleBit": 3, "aerUE": 100})
        kubelet, agent = self.start_all("--fault-table", table)
        self.device(pciEvents={"doubleBit": 3, "syncFlood": 1, "aerUE": 200})
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertEqual(self.place(agent)[1], "PCI events of the vendor library: 4")
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)

    def test_vendor_events_are_counted(self):
        _, agent = self.start_all()
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= 2))
        self.write_scenario(events=[{"afterMs": 0, "dev": DEAD, "type": 1, "data": "x"}] * 2)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_signals_total", signal="vendorEvent") == 2),
                        agent.lines)
        self.assertEqual(agent.events("GPU unhealthy"), [], "by default they are only reported")

    # ---- over time ----

    def table(self, text):
        path = os.path.join(self.directory, "faults.yaml")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + ".new", path)
        return path

    def test_too_hot(self):
        table = self.table("signals: {temperature: {times: 2, threshold: 95, recoverSeconds: 0, recoverChecks: 1}}")
        kubelet, agent = self.start_all("--fault-table", table)
        self.device(temperature=9499)
        checks = agent.metric("gputopo_health_checks_total")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= checks + 3))
        self.assertEqual(len(kubelet.healthy()), 8)
        self.device(temperature=9500)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertEqual(self.place(agent)[1], "too hot: 95 C or more")
        self.device(temperature=5000)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)

    def memory(self, gpus, kib=40 << 20):
        """So much memory is in use on these GPUs."""
        devices = json.loads(json.dumps(self.vendor["devices"]))
        for index in gpus:
            devices[index]["vramUseKiB"] = kib
        self.write_scenario(devices=devices)

    def seen_left(self, agent):
        return agent.metric("gputopo_health_signals_total", signal="leftOver") or 0

    def test_left_over_work(self):
        kubelet, agent = self.start_all()
        given, = kubelet.admit("train-0", 2)
        gpus = [kubelet.order.index(who) for who in given]
        agent.wait_event("GPUs in use")
        self.memory(gpus)
        checks = agent.metric("gputopo_health_checks_total")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= checks + 4))
        self.assertEqual(self.seen_left(agent), 0, "a container holds them")
        kubelet.release("train-0")
        self.assertTrue(kubelet.wait_healthy(6), agent.lines)
        said = agent.events("GPU unhealthy")
        self.assertEqual({one["id"] for one in said}, set(given))
        for one in said:
            self.assertEqual(one["why"], "memory is in use, and no container holds it; last held by default/train-0")
        self.assertFalse(set(given) & set(kubelet.admit("next", 6)[0]))
        self.memory([])
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)

    def test_an_init_container_is_not_left_over(self):
        """The kubelet lists the pod without its ordinary init container."""
        kubelet, agent = self.start_all()
        kubelet.admit("prepare", init=(2,))
        gpus = [kubelet.order.index(who) for who in agent.wait_event("allocated")["ids"].split(",")]
        self.assertEqual(len(gpus), 2)
        self.memory(gpus)
        lists = agent.metric("gputopo_podresources_lists_total", result="done")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_podresources_lists_total", result="done") >= lists + 4))
        self.assertEqual((self.seen_left(agent), len(kubelet.healthy())), (0, 8))

    def test_left_over_work_is_held_back_up_to_a_limit(self):
        kubelet, agent = self.start_all("--fault-table", self.table("signals: {leftOver: {limitSeconds: 5}}"))
        self.memory([DEAD])
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertNotIn(kubelet.order[DEAD], kubelet.admit("next", 7)[0], "it is suspect, and comes last")

    def test_what_driver_and_firmware_keep_is_not_left_over(self):
        kubelet, agent = self.start_all()
        self.memory(range(8), kib=1535 << 10)
        checks = agent.metric("gputopo_health_checks_total")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= checks + 5))
        self.assertEqual((self.seen_left(agent), len(kubelet.healthy())), (0, 8))

    def test_who_flaps_is_held_back(self):
        table = self.table("signals: {unavailable: {recoverChecks: 1}}\n"
                           "flapping: {falls: 2, withinSeconds: 600, holdSeconds: 4, holdMaxSeconds: 600}")
        kubelet, agent = self.start_all("--fault-table", table)
        for _ in range(2):
            self.device(state=0)
            self.assertTrue(kubelet.wait_healthy(7), agent.lines)
            begin = time.monotonic()
            self.write_scenario()
            self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertGreater(time.monotonic() - begin, 3.5, "the second time it has to be well for four seconds")
        self.device(state=0)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.write_scenario()
        self.assertTrue(wait_for(lambda: agent.events("GPU held back")), agent.lines)
        said = agent.wait_event("GPU held back")
        self.assertIn("has to be well for", said["why"])

    def test_the_table_is_read_again(self):
        table = self.table("signals: {eccDram: {when: reportOnly}}")
        self.device(ecc={"dramUE": 2})
        kubelet, agent = self.start_all("--fault-table", table)
        self.table("signals: {eccDram: {when: sometimes}}")
        agent.signal(signal.SIGHUP)
        why = agent.wait_event("fault table refused, the one before stays")["why"]
        self.assertIn("signals.eccDram.when: \"sometimes\" is none of atOnce, after, reportOnly", why)
        self.assertEqual(len(kubelet.healthy()), 8)
        self.table("signals: {eccDram: {threshold: 2}}")
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.table("signals: {eccDram: {threshold: 3}}")
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)

    def test_a_bad_table_at_start(self):
        table = self.table("signals: {heat: {threshold: 90}}")
        done = subprocess.run([AGENT, "--fault-table", table, "--http", "none"], check=False,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("faults.yaml: signals.heat: there is no such signal", done.stderr)

    def test_the_default_table_can_be_printed_and_taken(self):
        def show(*arguments):
            return subprocess.run([AGENT, "--print-fault-table", *arguments], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
        text = show()
        self.assertIn("  librarySilent: #", text)
        self.assertEqual(show("--fault-table", self.table(text)), text)

    # ---- without an agent ----

    def test_show_and_loss(self):
        self.fault(call="*", do="hang")
        environment = {**os.environ, "GPUTOPO_FAKE_MXSML": self.scenario}
        program = os.path.join(PROGRAMS, "gputopo")

        def run(*arguments):
            return json.loads(subprocess.run([program, *arguments, "-o", "json", "--root", self.root], check=True,
                                             stdout=subprocess.PIPE, env=environment).stdout)

        gpu = run("show")["gpus"][DEAD]
        self.assertEqual((gpu["health"], "device 3" in gpu["unhealthyReason"]), ("unhealthy", True), gpu)
        for size in (1, 3, 7):
            self.assertNotIn(DEAD, run("loss", "-k", str(size))["gpus"])


if __name__ == "__main__":
    side_by_side.main(6)
