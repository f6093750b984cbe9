# SPDX-License-Identifier: Apache-2.0
"""The image that an operator upgrades from: of the programs before the last change of their sources."""
import os
import pathlib
import shutil
import subprocess
import tempfile

from .install import DAEMONSET
from .waiting import Failed

ROOT = DAEMONSET.parent
PROGRAMS = ("gputopo", "gputopo-agent", "gputopo-probe", "gputopo-scheduler")
TAG = "previous"


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise Failed(f"{command[0]}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout.strip()


def commit():
    """The last but one that touched C, or "" where the history is not here."""
    done = subprocess.run(["git", "-C", ROOT, "log", "--skip=1", "-1", "--format=%h", "--", "*.c", "*.h"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def archive(of):
    """An OCI archive of that commit, which bears our tag; made once, as it takes minutes."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "gputopo/e2e")
    made = cache / f"image-{of}.tar"
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="gputopo-previous.") as directory:
        source, build = pathlib.Path(directory, "source"), pathlib.Path(directory, "build")
        source.mkdir()
        run("git", "-C", ROOT, "archive", "--output", f"{directory}/source.tar", of)
        run("tar", "-xf", f"{directory}/source.tar", "-C", source)
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        environment = {**os.environ, "CCACHE_BASEDIR": directory, "CCACHE_NOHASHDIR": "1"}
        run("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *launcher, env=environment)
        run("ninja", "-C", build, *PROGRAMS, env=environment)
        run(DAEMONSET / "image", build, f"{directory}/image.tar", "--name", f"localhost/gputopo:{TAG}")
        cache.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(f"{directory}/image.tar", f"{made}.{os.getpid()}")
        os.replace(f"{made}.{os.getpid()}", made)
    return made
