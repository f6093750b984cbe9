# SPDX-License-Identifier: Apache-2.0
"""The kubelet double of tests/integration, compared with what the real kubelet has just done."""
import importlib
import pathlib
import subprocess
import sys
import tempfile

from harness.machine import Machine
from harness.report import quick
from harness.waiting import Failed, same

NAME = "the kubelet double agrees with the real kubelet on 4, 2, 1, 1, a ninth and a restart"


def load_double():
    folder = str(pathlib.Path(__file__).resolve().parents[1] / "integration")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("kubelet_double")
    finally:
        sys.path.remove(folder)


def nodes_of_response(response):
    return {device.container_path.removeprefix("/dev/") for device in response.devices}


def compare(double, module, machine, real):
    if not double.wait_healthy(len(machine.gpus), 60):
        raise Failed(f"the double has {len(double.healthy())} healthy devices")
    chosen = []
    for number, gpus in enumerate(real):
        pod = f"pod{number}"
        ids = double.admit(pod, len(gpus))[0]
        chosen.append(machine.indices(ids))
        # the real containers were held to the same expectation
        same(nodes_of_response(double.responses[pod][0]), set(machine.expected_nodes(chosen[-1])),
             f"device nodes for {pod}")
    same(chosen, real, "choices against the double and against the kubelet")
    try:
        double.admit("ninth", 1)
    except module.AdmissionError:
        pass
    else:
        raise Failed("the double admitted a ninth GPU")
    before, registrations = dict(double.pods), len(double.registrations)
    double.restart()
    if not double.wait_healthy(len(machine.gpus), 60):
        raise Failed("the plugin did not come back after the double's restart")
    same(double.pods, before, "the double's assignments after a restart")
    same(len(double.registrations) - registrations, 1, "registrations after a restart, as with the real kubelet")


def calibrate(build, recording, real):
    module = load_double()
    with tempfile.TemporaryDirectory(prefix="gputopo-double.", dir="/tmp") as scratch:
        directory = pathlib.Path(scratch)
        machine = Machine(build / "bin" / "gputopo", recording, directory / "machine")
        double = module.KubeletDouble(str(directory))
        double.start()
        agent = None
        try:
            with open(directory / "agent.log", "w") as log:
                agent = subprocess.Popen(
                    [build / "bin" / "gputopo-agent", "--from", machine.file, "--dev-root", machine.dev,
                     "--kubelet-dir", directory, "--http", "none"], stdout=log, stderr=log)
            compare(double, module, machine, real)
        except Exception as error:
            last = (directory / "agent.log").read_text().splitlines()[-5:]
            why = str(error) if isinstance(error, Failed) else repr(error)
            raise Failed(f"{why}; the agent's last lines: {last}") from error
        finally:
            if agent is not None:
                agent.terminate()
                agent.wait(60)
            double.stop()


def double_case(report, build, recording, real):
    if [len(gpus) for gpus in real] != [4, 2, 1, 1]:
        report.skip(NAME, "the real kubelet has not shown its choices")
        return
    report.case(NAME, quick(lambda: calibrate(build, recording, real)))
