#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo check-node on made machines: test_check_node.py BIN_DIR LIBRARY_DIR [unittest arguments]

LIBRARY_DIR has fake-mxsml/libmxsml.so and fake-mxsml-old/libmxsml.so.
"""

import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
MACHINES = os.path.join(os.path.dirname(HERE), "machines")
BIN = LIBRARIES = ""
TIMEOUT_S = 60
HOST = ("dev-char-links", "device-rights", "selinux-types", "rdma-devices", "numa-policies", "containerd-cdi", "pod-resources", "clock")
HOLDS, BROKEN, UNCHECKED = "holds", "does not hold", "cannot be checked here"


class Machine:
    """A root with the eight GPUs of c500-8, a library that a scenario drives, and device nodes."""

    def __init__(self, directory):
        self.directory, self.root = directory, os.path.join(directory, "root")
        subprocess.run([os.path.join(MACHINES, "make-machine"), os.path.join(MACHINES, "specs", "c500-8.json"), directory],
                       check=True, timeout=TIMEOUT_S)
        with open(os.path.join(directory, "scenario.json"), encoding="utf-8") as file:
            self.scenario = json.load(file)
        self.library()
        self.write("sys/module/metax/version", "3.6.11\n")
        for name in ["mxcd", "mxgd", *(f"dri/card{i}" for i in range(1, 9)), *(f"dri/renderD{i}" for i in range(128, 136)),
                     *(f"infiniband/uverbs{i}" for i in range(6))]:
            self.write("dev/" + name, "")

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text, encoding="utf-8"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding=encoding) as file:
            file.write(text)

    def library(self, which="fake-mxsml", place="opt/mxdriver/lib"):
        shutil.rmtree(self.path("opt"), ignore_errors=True)
        os.makedirs(self.path(place))
        shutil.copy(os.path.join(LIBRARIES, which, "libmxsml.so"), self.path(place))


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gputopo-check-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.machine = Machine(os.path.join(self.dir, "machine"))

    def run_verb(self, *arguments, machine=True, before=(), **more):
        scenario = os.path.join(self.machine.directory, "scenario.json")
        with open(scenario, "w", encoding="utf-8") as file:
            json.dump(self.machine.scenario, file)
        root = ["--root", self.machine.root] if machine else []
        return subprocess.run([*before, os.path.join(BIN, "gputopo"), "check-node", *root, *arguments], capture_output=True, text=True,
                              timeout=TIMEOUT_S, env={**os.environ, "GPUTOPO_FAKE_MXSML": scenario}, **more)

    def checks(self, *arguments, **more):
        done = self.run_verb("-o", "json", *arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
        for check in checks.values():
            self.assertIn(check["verdict"], (HOLDS, BROKEN, UNCHECKED))
            self.assertTrue(check["assumed"], check)
            self.assertEqual(bool(check.get("why")), check["verdict"] == UNCHECKED, check)
        return checks

    def broken(self, *arguments, **more):
        return {name for name, check in self.checks(*arguments, **more).items() if check["verdict"] == BROKEN}

    def expect(self, *names):
        """Just these do not hold; returns all checks."""
        checks = self.checks()
        self.assertEqual({name for name, check in checks.items() if check["verdict"] == BROKEN}, set(names), checks)
        return checks

    def device(self, number):
        return self.machine.scenario["devices"][number]


class Sound(Case):
    def test_all_that_can_hold_holds(self):
        checks = self.expect()
        self.assertGreaterEqual(sum(check["verdict"] == HOLDS for check in checks.values()), 27)
        self.assertEqual(checks["control-nodes"]["found"], "mxcd, mxgd")
        self.assertIn("so they begin at 0", checks["link-numbers"]["found"])
        self.assertIn("level 5 (12 times)", checks["topology-levels"]["found"])
        self.assertEqual(checks["memory-unit"]["found"], "64 GiB (8 times)")

    def test_ten_milliseconds_each(self):
        """The best of five, since others use this machine."""
        with open(os.path.join(BIN, "gputopo"), "rb") as file:
            if re.search(b"__[at]san_init", file.read()):
                self.skipTest("sanitizers need longer")
        took = []
        for _ in range(5):
            began = time.monotonic()
            count = len(self.checks())
            took.append(time.monotonic() - began)
        self.assertLess(min(took) / count, 0.010, took)

    def test_what_a_person_sees(self):
        lines = self.run_verb().stdout.splitlines()
        self.assertEqual(lines[0], "8 GPUs, driver 3.6.11, library 3.5.3.18")
        at = lines.index("drm-nodes               holds")
        self.assertEqual(lines[at + 2], "    found    named for 8 of 8 GPUs; there for 8")
        self.assertRegex(lines[-1], r"^\d+ checks: \d+ hold, \d+ cannot be checked here, 0 do not hold$")
        os.unlink(self.machine.path("dev/mxcd"))
        self.assertRegex(self.run_verb().stdout.splitlines()[-1], ", 1 does not hold: control-nodes$")

    def test_recording(self):
        path = os.path.join(self.dir, "node.json")
        nic, = pathlib.Path(self.machine.root).glob("sys/bus/pci/devices/*/infiniband/mlx5_0")
        self.machine.write(nic.parents[1] / "net/eth7/ifindex", "12\n")
        frame = bytes.fromhex("0180c200000e02000000000188cc") + b"\x04\x05\x05Eth1\x06\x02\x00\x78\x0a\x06leaf-1\x00\x00"
        self.machine.write("run/systemd/netif/lldp/12", (len(frame).to_bytes(8, "little") + frame).decode("latin-1"), "latin-1")
        other, = pathlib.Path(self.machine.root).glob("sys/bus/pci/devices/*/infiniband/mlx5_1")
        self.machine.write(other.parents[1] / "net/eth8/ifindex", "13\n")
        self.machine.write("run/gputopo/lldp.json", json.dumps({"lldp": [{"interface": [  # lldpd knows both, networkd counts
            {"name": f"eth{i}", "chassis": [{"name": [{"value": "leaf-2"}]}], "port": [{"id": [{"type": "ifname", "value": f"swp{i}"}]}]}
            for i in (7, 8)]}]}))
        checks = self.checks("--record", path)
        with open(path, encoding="utf-8") as file:
            recording = json.load(file)
        self.assertEqual({check["name"]: check for check in recording["checks"]}, checks)
        self.assertEqual(recording["node"]["network"], [{"port": "mlx5_0", "switch": "leaf-1", "switchPort": "Eth1"},
                                                        {"port": "mlx5_1", "switch": "leaf-2", "switchPort": "swp8"}])
        shown = subprocess.run([os.path.join(BIN, "gputopo"), "show", "--from", path, "-o", "json"], capture_output=True, check=True,
                               timeout=TIMEOUT_S)
        self.assertEqual(json.loads(shown.stdout), recording["node"])
        again = self.checks("--from", path, machine=False)
        for name in ("control-nodes", "drm-nodes", "privileges", *HOST):
            self.assertEqual(again[name]["verdict"], UNCHECKED)
        same = set(checks) - {"control-nodes", "drm-nodes", "privileges", *HOST}
        self.assertEqual({name: again[name] for name in same}, {name: checks[name] for name in same})

    def test_the_host(self):
        self.machine.write("etc/containerd/config.toml", 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  enable_cdi = true\n')
        self.machine.write("var/lib/kubelet/config.yaml", "cgroupDriver: systemd\ncpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\n")
        checks = self.checks()
        self.assertEqual({name: checks[name]["verdict"] for name in ("containerd-cdi", "rdma-devices", "pod-resources")},
                         {"containerd-cdi": HOLDS, "rdma-devices": HOLDS, "pod-resources": BROKEN})
        self.assertEqual(checks["numa-policies"]["found"], "cpuManagerPolicy static, topologyManagerPolicy best-effort")
        self.assertEqual(checks["containerd-cdi"]["found"], "version 2, enable_cdi true")
        self.machine.write("etc/containerd/config.toml", "version = 2\n")
        for i in range(6):
            os.rename(self.machine.path(f"dev/infiniband/uverbs{i}"), self.machine.path(f"dev/infiniband/uverbs{i + 200}"))
        self.assertEqual(self.checks()["rdma-devices"]["verdict"], HOLDS)
        shutil.rmtree(self.machine.path("dev/infiniband"))
        os.makedirs(self.machine.path("var/lib/kubelet/pod-resources"))
        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(self.machine.path("var/lib/kubelet/pod-resources"))  # its path may be too long for an address
            try:
                server.bind("kubelet.sock")
            finally:
                os.chdir(here)
            self.assertEqual(self.broken(), {"containerd-cdi", "rdma-devices"})
        self.machine.write("etc/containerd/config.toml", "version = 2\nimports = []\n")
        self.assertEqual(self.broken(), {"containerd-cdi", "rdma-devices"})
        self.machine.write("etc/containerd/config.toml", 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
        self.assertEqual(self.checks()["containerd-cdi"]["verdict"], UNCHECKED, "it may be on there")
        self.machine.write("etc/containerd/config.toml", "version = 3\n")
        self.assertEqual(self.broken(), {"rdma-devices"})

    @unittest.skipUnless(os.geteuid() == 0, "makes device nodes")
    def test_device_nodes(self):
        """With real ones, each needs its link in /dev/char, and the rights of everyone."""
        os.unlink(self.machine.path("dev/mxcd"))
        try:
            os.mknod(self.machine.path("dev/mxcd"), 0o660 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            self.skipTest("this machine lets nobody make device nodes")
        os.chmod(self.machine.path("dev/mxcd"), 0o660)
        checks = self.checks()
        self.assertEqual((checks["dev-char-links"]["verdict"], checks["dev-char-links"]["found"]), (BROKEN, "0 of 1 links; none of mxcd"))
        self.assertEqual((checks["device-rights"]["verdict"], checks["device-rights"]["found"]), (BROKEN, "mode 0660"))
        os.makedirs(self.machine.path("dev/char"))
        self.apply_rule()
        self.assertEqual(os.listdir(self.machine.path("dev/char")), ["1:3"])
        os.chmod(self.machine.path("dev/mxcd"), 0o666)
        checks = self.checks()
        self.assertEqual({checks[name]["verdict"] for name in ("dev-char-links", "device-rights")}, {HOLDS})

    def apply_rule(self):
        """What udev would run, with a stat of coreutils before 9.0: without %Hr and %Lr."""
        with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), "release", "70-gputopo-dev-char.rules"), encoding="utf-8") as file:
            command = re.search(r'RUN\+="/bin/sh -c \'(.*)\'"$', file.read(), re.M).group(1).replace("$$", "$").replace("%%", "%")
        self.machine.write("bin/stat", '#!/bin/sh\ncase $2 in *[HL]*) echo "?Hr:?Lr";; *) exec /usr/bin/stat "$@";; esac\n')
        os.chmod(self.machine.path("bin/stat"), 0o755)
        subprocess.run(["/bin/sh", "-c", command.replace("/dev/", self.machine.path("dev/"))], check=True, timeout=TIMEOUT_S,
                       env={**os.environ, "PATH": self.machine.path("bin") + ":" + os.environ["PATH"]})

    def test_compute(self):
        """What fails or hangs is told to the agent by file, and taken back by the next run that passes."""
        faults = os.path.join(self.dir, "faults.d")
        command = 'case $GPUTOPO_GPU in 2) exit 7;; 5) exec sleep 30;; esac; test -n "$GPUTOPO_BDF"'
        done = self.run_verb("--compute", command, "--compute-seconds", "1", "--fault-dir", faults)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("GPU 2: the compute test fails, exit code 7; GPU 5: the compute test does not end within 1 s; 6 of 8 GPUs pass", done.stdout)
        with open(os.path.join(faults, "check-node.json"), encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual(told["version"], 1)
        self.assertEqual([fault["reason"] for fault in told["faults"]],
                         ["the compute test fails, exit code 7", "the compute test does not end within 1 s"])
        self.assertTrue(all(fault["gpu"].startswith("GPU-") for fault in told["faults"]), told)
        self.assertNotIn("compute", self.broken("--compute", "true", "--fault-dir", faults))
        self.assertEqual(os.listdir(faults), [])

    def test_compute_beside_the_report(self):
        """What the test prints is no part of the report; what it starts ends with it; one that cannot be run says nothing of GPUs."""
        faults = os.path.join(self.dir, "faults.d")
        started = os.path.join(self.dir, "started")
        done = self.run_verb("-o", "json", "--compute", f"test $GPUTOPO_GPU = 1 || exit 0; cat; yes | head -c 3000000; sleep 300 & echo $! > {started}; wait",
                             "--compute-seconds", "1", "--fault-dir", faults)
        compute = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "compute")
        self.assertEqual(compute["found"], "GPU 1: the compute test does not end within 1 s; 7 of 8 GPUs pass")
        self.assertEqual(len(done.stderr), 3000000)
        with open(started, encoding="utf-8") as file:
            child = int(file.read())
        self.assertFalse(os.path.exists(f"/proc/{child}/cmdline") and pathlib.Path(f"/proc/{child}/cmdline").read_bytes(), "it runs on")
        done = self.run_verb("--compute", "no-such-test", "--fault-dir", faults)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the compute test cannot be run, exit code 127", done.stderr)
        self.assertIn("cannot be checked here (it cannot be run on GPU 0)", done.stdout)
        self.assertEqual(os.listdir(faults), ["check-node.json"], "what was known before holds")
        done = self.run_verb("--compute", "false", "--fault-dir", os.path.join(self.dir, "no", "faults.d"))
        self.assertEqual((done.returncode, "0 of 8 GPUs pass" in done.stdout), (1, True), done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "makes device nodes with labels")
    def test_selinux(self):
        """The policy's two switches decide by the types of the device nodes; where nothing is enforced, all holds."""
        try:
            for name, label in (("mxcd", "device_t"), ("dri/card1", "dri_device_t"), ("dri/renderD128", "dri_device_t")):
                os.unlink(self.machine.path("dev/" + name))
                os.mknod(self.machine.path("dev/" + name), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
                os.setxattr(self.machine.path("dev/" + name), "security.selinux", f"system_u:object_r:{label}:s0".encode())
        except OSError:
            self.skipTest("this machine lets nobody make device nodes or label them")
        self.assertEqual(self.checks()["selinux-types"]["found"], "not enforced")
        self.machine.write("sys/fs/selinux/enforce", "1")
        for name in ("container_use_devices", "container_use_dri_devices"):
            self.machine.write("sys/fs/selinux/booleans/" + name, "0 0")
        check = self.checks()["selinux-types"]
        self.assertEqual((check["verdict"], check["found"]), (BROKEN, "container_use_devices off; device_t, dri_device_t (2 times)"))
        self.machine.write("sys/fs/selinux/booleans/container_use_dri_devices", "1 1")
        self.assertEqual(self.checks()["selinux-types"]["verdict"], BROKEN, "the control node has another type")
        self.machine.write("sys/fs/selinux/booleans/container_use_devices", "1 1")
        self.assertEqual(self.checks()["selinux-types"]["verdict"], HOLDS)

    def test_fail(self):
        """The exit code tells of the checks that are named."""
        self.assertEqual(self.run_verb("--fail", "all").returncode, 0)
        os.unlink(self.machine.path("dev/mxcd"))
        done = self.run_verb("--fail", "clock,control-nodes")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^gputopo: check-node: 1 of \d+ checks do not hold: control-nodes\n$")
        self.assertIn("control-nodes           does not hold", done.stdout)
        self.assertEqual(self.run_verb("--fail", "clock").returncode, 0)
        done = self.run_verb("--fail", "clock,control")
        self.assertEqual((done.returncode, done.stderr), (1, "gputopo: check-node: --fail: there is no check 'control' here\n"))

    def mxvs(self, rows):
        """The vendor's test as a program that prints its table; `rows`: lines of a shell's case by "SOURCE-DESTINATION"."""
        self.machine.write("opt/maca/bin/mxvs", r"""#!/bin/sh
test "$1 $2 $4" = "p2p --src-devices --dst-devices" || exit 9
echo "$3-$5" >> "$0.asked"
topology=pcie rate=37.72 valid=PASS
if [ $(($3 / 4)) = $(($5 / 4)) ]; then topology=metaxlink rate=50.04; fi
case $3-$5 in
%s
esac
echo "                       MXVS P2P TEST"
echo " DEVICE1   DEVICE2   TOPOLOGY    SIZE(B)         BANDWIDTH    BANDWIDTH    DELAY   (us)  VALIDATION"
printf ' running 50%%%%\r GPU#%%s     GPU#%%s     %%s   7516192768     %%s GB/s   62.70 GB/s       139893.22        %%s\n' $3 $5 $topology $rate $valid
""" % rows)
        os.chmod(self.machine.path("opt/maca/bin/mxvs"), 0o755)
        self.faults = os.path.join(self.dir, "faults.d")

    def bandwidth(self, *arguments):
        """Its check, and what it tells the agent, by index."""
        done = self.run_verb("-o", "json", "--bandwidth", "--fault-dir", self.faults, *arguments)
        check = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "bandwidth")
        told = {}
        path = os.path.join(self.faults, "check-node-bandwidth.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for fault in json.load(file)["faults"]:
                    told[self.uuids().index(fault["gpu"])] = (fault["grade"], fault["reason"])
        return done, check, told

    def uuids(self):
        return [device["uuid"] for device in sorted(self.machine.scenario["devices"], key=lambda device: device["bdf"])]

    def test_progress_on_a_terminal(self):
        """Each GPU and each pair may take a minute."""
        self.mxvs("")
        self.run_verb("--compute", "true", "--fault-dir", self.faults)  # which writes the scenario
        near, far = pty.openpty()
        with subprocess.Popen([os.path.join(BIN, "gputopo"), "check-node", "--root", self.machine.root, "--compute", "echo tested", "--bandwidth",
                               "--fault-dir", self.faults], stdout=subprocess.DEVNULL, stderr=far,
                              env={**os.environ, "GPUTOPO_FAKE_MXSML": os.path.join(self.machine.directory, "scenario.json")}) as process:
            os.close(far)
            said = b""
            with contextlib.suppress(OSError):
                while part := os.read(near, 4096):
                    said += part
        os.close(near)
        self.assertEqual(process.returncode, 0, said)
        pairs = [b"bandwidth test, GPUs %d and %d of 8" % (a, b) for b in range(8) for a in range(b)]
        self.assertNotIn(b"\x1b", said)  # NO_COLOR asks for none
        lines = [line.rstrip(b" ") for line in re.split(rb"\r(?!\n)", said)]
        self.assertEqual(lines, [b"", *(b"compute test, GPU %d of 8: tested\r\n" % i for i in range(8)), *pairs, b"", b""])

    def test_bandwidth(self):
        self.mxvs("")
        done, check, told = self.bandwidth()
        self.assertEqual((done.returncode, check["verdict"], told), (0, HOLDS, {}), done.stderr)
        self.assertEqual(check["found"], "MetaXLink: median 50.0 GB/s, lowest 50.0 between GPUs 0 and 1, 0 pairs slow; "
                         "PCIe: median 37.7 GB/s, lowest 37.7 between GPUs 0 and 4, 0 pairs slow")
        with open(self.machine.path("opt/maca/bin/mxvs.asked"), encoding="utf-8") as file:
            self.assertEqual(len(set(file.read().split())), 28, "each pair once")

    def test_bandwidth_of_a_slow_gpu_and_a_slow_pair(self):
        self.mxvs("*-3|3-*) rate=20.5;;\n5-6) rate=39.0;;\n0-4) valid=FAIL;;")
        done, check, told = self.bandwidth()
        self.assertEqual((done.returncode, check["verdict"]), (0, BROKEN), done.stderr)
        self.assertEqual(told, {0: ("bad", "the bandwidth test finds wrong data to or from GPU 4"),
                                3: ("slow", "the bandwidth test is slow to 7 of 7 GPUs"),
                                4: ("bad", "the bandwidth test finds wrong data to or from GPU 0"),
                                5: ("slow", "the bandwidth test finds 39.0 GB/s to GPU 6"),
                                6: ("slow", "the bandwidth test finds 39.0 GB/s to GPU 5")})
        self.mxvs("")
        self.assertEqual(self.bandwidth()[2], {}, "the next run takes it back")
        self.assertEqual(os.listdir(self.faults), [])

    def test_bandwidth_of_a_link_that_the_test_does_not_find(self):
        self.mxvs("1-2) topology=pcie rate=37.72;;")
        _, check, told = self.bandwidth()
        self.assertEqual((check["verdict"], told), (BROKEN, {}))
        self.assertIn("GPUs 1 and 2: MetaXLink here, PCIe for the test", check["found"])

    def test_bandwidth_leaves_gpus_in_use_alone(self):
        """By memory, by the kubelet's devices, and by prepared claims; what was known of them before holds."""
        self.mxvs("*-3|3-*) rate=20.5;;")
        self.bandwidth()
        uuids = self.uuids()
        self.machine.write("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", json.dumps({"Data": {
            "PodDeviceEntries": [{"PodUID": "u", "ContainerName": "c", "ResourceName": "metax-tech.com/gpu",
                                  "DeviceIDs": {"-1": [uuids[3]]}}],
            "RegisteredDevices": {"metax-tech.com/gpu": uuids}}, "Checksum": 1}))
        bdf = sorted(device["bdf"] for device in self.machine.scenario["devices"])[4]
        self.machine.write("var/lib/kubelet/plugins/gpu.metax-tech.com/claims.json", json.dumps(
            {"claims": [{"devices": [{"device": "gpu-" + bdf.replace(":", "-").replace(".", "-")}]}]}))
        self.device(5)["vramUseKiB"] = 2 << 20
        self.mxvs("")
        os.unlink(self.machine.path("opt/maca/bin/mxvs.asked"))
        _, check, told = self.bandwidth()
        for gpu in (3, 4, 5):
            self.assertIn(f"GPU {gpu}: in use, not tested", check["found"])
        with open(self.machine.path("opt/maca/bin/mxvs.asked"), encoding="utf-8") as file:
            self.assertEqual(len(file.read().split()), 10)
        self.assertEqual(told, {3: ("slow", "the bandwidth test is slow to 7 of 7 GPUs")})

    def test_bandwidth_that_cannot_be_measured(self):
        """It hangs, fails, prints something else, or is not there: an error, and no GPU's fault."""
        started = os.path.join(self.dir, "started")
        for row, why in ((f"0-2) sleep 300 & echo $! > {started}; wait;;", "of GPUs 0 and 2 does not end within 1 s"),
                         ("*) exit 3;;", "of GPUs 0 and 1 fails"), ("*) echo nothing; exit 0;;", "prints no row for GPU#0 and GPU#1")):
            self.mxvs(row)
            done, check, told = self.bandwidth("--compute-seconds", "1")
            self.assertEqual((done.returncode, check["verdict"], told), (1, UNCHECKED, {}), row)
            self.assertIn(why, done.stderr)
        with open(started, encoding="utf-8") as file:
            child = int(file.read())
        self.assertFalse(os.path.exists(f"/proc/{child}/cmdline") and pathlib.Path(f"/proc/{child}/cmdline").read_bytes(), "it runs on")
        os.unlink(self.machine.path("opt/maca/bin/mxvs"))
        done, check, told = self.bandwidth()
        self.assertEqual((done.returncode, check["verdict"], told), (1, UNCHECKED, {}))

    def test_a_recording_that_lies(self):
        path = os.path.join(self.dir, "node.json")
        self.checks("--record", path)
        with open(path, encoding="utf-8") as file:
            recording = json.load(file)
        log = recording["raw"]["vendor"]
        log["calls"][:0] = [{"call": "\x1b[31m", "args": [], "error": "\x1b[2J" * 60}, {"call": "mxSmlGetDeviceCount", "args": [], "rc": 0},
                            {"call": "mxSmlGetMetaXLinkPortState", "args": [4294967295], "rc": 0, "value": [{}] * 1000},
                            {"call": "mxSmlGetDeviceTopology", "args": [63, 64], "rc": 0, "value": -1},
                            {"call": "mxSmlGetNodeAffinity", "args": [0, 4], "rc": 0, "value": {"x": []}},
                            *({"call": f"mxSml{i}", "args": [], "rc": 1} for i in range(100))]
        log["missing"] = ["\x1b]0;x\x07", 7, "mxSmlEventSetWait"]
        log["library"]["path"] = "/opt/\x9b1m"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(recording, file)
        done = self.run_verb("--from", path, machine=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(set(done.stdout) - set(map(chr, range(32, 127))) - {"\n"})
        self.assertLessEqual({"library-place", "library-functions", "library-calls", "events"},
                             self.broken("--from", path, machine=False))

    def test_links_that_begin_at_one(self):
        self.machine.scenario["linkBase"] = 1
        self.assertIn("so they begin at 1", self.expect()["link-numbers"]["found"])

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("setpriv"), "root drops its capabilities here, with setpriv")
    def test_without_privileges(self):
        drop = ["setpriv", "--bounding-set=-all"]
        self.assertEqual(self.checks()["privileges"]["verdict"], UNCHECKED)
        checks = self.checks(before=drop)
        self.assertEqual((checks["privileges"]["verdict"], checks["privileges"]["found"]), (HOLDS, "without capabilities it gives answers"))
        self.machine.scenario["faults"] = [{"call": "mxSmlGetDeviceInfo", "do": "code", "code": 8}]
        checks = self.checks(before=drop)
        self.assertEqual((checks["privileges"]["verdict"], checks["privileges"]["found"]),
                         (BROKEN, "without capabilities it gives mxSmlGetDeviceInfo: code 8"))


class Broken(Case):
    """One assumption is not so, and the check of it says so."""

    def test_device_nodes(self):
        os.unlink(self.machine.path("dev/mxcd"))
        os.unlink(self.machine.path("dev/dri/renderD130"))
        checks = self.expect("control-nodes", "drm-nodes")
        self.assertIn("no /dev/dri/renderD130", checks["drm-nodes"]["found"])

    def test_driver(self):
        os.unlink(self.machine.path("sys/module/metax/version"))
        os.unlink(self.machine.path(f"sys/bus/pci/devices/{self.device(0)['bdf']}/driver"))
        self.assertEqual(self.expect("driver", "driver-version")["driver"]["found"], "none, metax (7 times)")

    def test_pci_device(self):
        shutil.rmtree(self.machine.directory)
        with open(os.path.join(MACHINES, "specs", "c500-8.json"), encoding="utf-8") as file:
            spec = {**json.load(file), "device": "4001"}
        path = os.path.join(self.dir, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        subprocess.run([os.path.join(MACHINES, "make-machine"), path, self.machine.directory], check=True, timeout=TIMEOUT_S)
        checks = self.checks("--probe", "none")
        self.assertEqual((checks["pci-device"]["verdict"], checks["pci-device"]["found"]), (BROKEN, "4001 (8 times)"))
        self.assertEqual(checks["pci-vendor"]["verdict"], HOLDS)
        self.assertEqual((checks["uuid"]["verdict"], checks["uuid"]["why"]), (UNCHECKED, "--probe none was given"))

    def test_library(self):
        self.machine.library(place="opt/elsewhere")
        self.expect("library-place")
        self.machine.library("fake-mxsml-old")
        self.assertNotIn("library-functions", self.broken())  # what later versions brought
        self.assertIn("events", self.broken())
        self.machine.library()
        self.machine.scenario["faults"] = [{"call": "mxSmlGetTotalEccErrors", "do": "missing"}]
        checks = self.expect("library-functions")
        self.assertIn("the library lacks mxSmlGetTotalEccErrors", checks["ecc-counters"]["why"])

    def test_no_library(self):
        shutil.rmtree(self.machine.path("opt"))
        checks = self.expect("library-place")
        self.assertEqual(checks["uuid"]["why"], "there is no vendor library")

    def test_calls(self):
        self.machine.scenario["faults"] = [{"call": "mxSmlGetPcieInfo", "dev": 2, "do": "crash"},
                                           {"call": "mxSmlGetBoardSerial", "dev": 1, "do": "code", "code": 8}]
        found = self.expect("library-calls")["library-calls"]["found"]
        self.assertIn("mxSmlGetPcieInfo: crashed (signal 11)", found)
        self.assertIn("mxSmlGetBoardSerial: code 8", found)

    def test_count_and_addresses(self):
        self.machine.scenario["count"] = 7
        self.assertIn("it says 7", self.checks()["device-count"]["found"])
        self.assertIn("device-count", self.broken())
        del self.machine.scenario["count"]
        self.device(0)["bdf"] = "0e:00.0"
        self.assertIn("device 0: written 0e:00.0", self.expect("bdf")["bdf"]["found"])

    def test_uuid(self):
        self.device(3)["uuid"] = "GPU-" + "a" * 70
        checks = self.expect("uuid", "device-id")
        self.assertIn("the longest has 74 characters", checks["uuid"]["found"])
        self.device(3)["uuid"] = "MX-17"
        self.expect("uuid")

    def test_units(self):
        self.device(5)["vramKiB"] = 65536
        self.assertIn("0 GiB", self.expect("memory-unit")["memory-unit"]["found"])

    def test_links(self):
        matrix = self.machine.scenario["matrix"]
        matrix[0][1] = 4
        self.assertIn("topology-levels", self.broken())
        matrix[1][0] = 4
        self.assertIn("1 pairs disagree", self.expect("links-and-levels")["links-and-levels"]["found"])
        matrix[0][1] = matrix[1][0] = 5
        matrix[0][7] = matrix[7][0] = 7
        self.assertIn("level 7", self.expect("topology-levels")["topology-levels"]["found"])

    def test_ports(self):
        ports = self.device(0)["ports"]
        ports[0]["width"] = 8
        self.assertIn("32 GT/s x8", self.expect("port-speed")["port-speed"]["found"])
        ports[0]["width"] = 16
        ports[0]["state"] = 2
        self.assertIn("state 2", self.expect("port-states")["port-states"]["found"])
        del ports[0]
        self.expect("remote-ends")

    def test_another_server(self):
        self.device(0)["ports"].append({"port": 0, "speed": 32, "width": 16, "state": 1, "remoteDevice": 3,
                                        "remoteBdf": "0000:99:00.0"})
        far = self.expect()["links-to-other-servers"]
        self.assertEqual(far["found"], "1 links lead to what is no GPU of this node")
        self.assertIn("not published", far["why"])

    def test_health(self):
        self.device(1).update(state=0, unavailableReason={"code": 7, "text": "link lost"})
        self.device(2)["ecc"] = {"sramUE": 3, "dramUE": 4294967295}
        self.device(4)["eccState"] = 2
        checks = self.expect("ecc-state", "ecc-counters")
        self.assertEqual(checks["unavailable-reason"]["verdict"], HOLDS)
        self.assertEqual(checks["unavailable-reason"]["found"], "code 7: link lost")
        self.assertIn("sramUE 3", checks["ecc-counters"]["found"])
        self.assertIn("dramUE all bits set", checks["ecc-counters"]["found"])

    def test_locality(self):
        self.device(6)["numaNode"] = 3
        self.assertIn("another than node 0", self.expect("locality")["locality"]["found"])


class Nothing(Case):
    def test_no_gpu(self):
        root = os.path.join(self.dir, "empty")
        for name in ("sys/bus/pci/devices", "sys/devices/system/cpu", "proc", "dev"):
            os.makedirs(os.path.join(root, name))
        checks = self.checks("--root", root, machine=False)
        self.assertEqual({name for name, check in checks.items() if check["verdict"] != UNCHECKED}, {"selinux-types"}, checks)
        self.assertEqual(checks["selinux-types"]["found"], "not enforced")

    def test_what_cannot_run(self):
        for arguments, code, text in (
                (["--root", "/nowhere"], 1, "gputopo: check-node: --root: /nowhere: No such file or directory"),
                (["-o", "wide"], 2, "gputopo: check-node: -o: "),
                (["--record", ""], 2, "gputopo: check-node: --record: expected FILE"),
                (["--record", "x", "--from", "y"], 2, "gputopo: check-node: --record: not together with --from"),
                (["--record", "-", "-o", "json"], 2, "gputopo: check-node: --record: - and -o json would print two things in one"),
                (["extra"], 2, "gputopo: check-node: ")):
            done = self.run_verb(*arguments, machine=False)
            self.assertEqual((done.returncode, done.stdout), (code, ""), arguments)
            self.assertTrue(done.stderr.startswith(text) and done.stderr.count("\n") == 1, done.stderr)
        plain = os.path.join(self.dir, "plain.json")
        with open(plain, "w", encoding="utf-8") as file:
            json.dump({"gpus": [{"bdf": "0a:00.0"}]}, file)
        done = self.run_verb("--from", plain, machine=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not a recording", done.stderr)
        done = self.run_verb("--record", os.path.join(self.dir, "no", "x.json"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))


if __name__ == "__main__":
    if len(sys.argv) < 3 or not os.path.isdir(sys.argv[2]):
        sys.exit(__doc__)
    BIN, LIBRARIES = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
