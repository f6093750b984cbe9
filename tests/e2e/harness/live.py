# SPDX-License-Identifier: Apache-2.0
"""A machine to be discovered: a sysfs tree, and the fake vendor library with the scenario that it plays."""
import json
import shutil
import subprocess

from .recordings import MACHINES
from .waiting import Failed

LIBRARY = "tests/fake-mxsml/libmxsml.so"


class Live:
    def __init__(self, build, spec, directory, server, *remotes):
        """Makes `directory` with root/ and scenario.json; `server` and `remotes` are UUIDs of servers."""
        subprocess.run([MACHINES / "make-machine", MACHINES / "specs" / f"{spec}.json", directory], check=True)
        self.read(directory)
        library = self.root / "opt" / "mxdriver" / "lib"
        library.mkdir(parents=True)
        shutil.copy(build / LIBRARY, library)
        self.scenario["server"] = {"uuid": server, "remotes": list(remotes)}
        self.write()

    @classmethod
    def open(cls, directory):
        """One that is there."""
        live = cls.__new__(cls)
        live.read(directory)
        return live

    def read(self, directory):
        self.directory, self.root, self.file = directory, directory / "root", directory / "scenario.json"
        self.scenario = json.loads(self.file.read_text())

    def write(self):
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.scenario))
        part.rename(self.file)

    def uuids(self):
        """{PCI address: UUID}"""
        return {device["bdf"]: device["uuid"] for device in self.scenario["devices"]}

    def set_link(self, a, b, up):
        """Both ends of a direct link."""
        ends = [port for one, other in ((a, b), (b, a)) for port in self.scenario["devices"][one]["ports"]
                if port["remoteDevice"] == other]
        if len(ends) != 2:
            raise Failed(f"there is no direct link between GPU {a} and GPU {b}")
        for port in ends:
            port["state"] = 1 if up else 2
        self.write()

    def set_remotes(self, *remotes):
        self.scenario["server"]["remotes"] = list(remotes)
        self.write()
