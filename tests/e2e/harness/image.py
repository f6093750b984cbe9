# SPDX-License-Identifier: Apache-2.0
"""Container images out of one static C program each, with no builder and no registry."""
import hashlib
import io
import json
import pathlib
import platform
import subprocess
import tarfile

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "images"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
OCI = "application/vnd.oci.image."


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def descriptor(kind, data, **more):
    return {"mediaType": OCI + kind, "digest": digest(data), "size": len(data), **more}


def add(tar, name, data, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


def archive(name, program, out):
    """Writes `out`, an OCI archive that `ctr images import` reads, whose only file is `program`."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        add(tar, program.name, program.read_bytes(), 0o755)
    layer = layer.getvalue()
    config = json.dumps({"architecture": MACHINE, "os": "linux", "config": {"Cmd": ["/" + program.name]},
                         "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
    manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
                           "config": descriptor("config.v1+json", config),
                           "layers": [descriptor("layer.v1.tar", layer)]}).encode()
    index = json.dumps({"schemaVersion": 2, "manifests": [descriptor(
        "manifest.v1+json", manifest, annotations={"io.containerd.image.name": name})]}).encode()
    with tarfile.open(out, "w") as tar:
        add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add(tar, "index.json", index)
        for blob in (layer, config, manifest):
            add(tar, "blobs/sha256/" + digest(blob).removeprefix("sha256:"), blob)


def make(directory):
    """local.test/NAME:1 for every images/NAME.c."""
    directory.mkdir()
    for source in sorted(SOURCES.glob("*.c")):
        program = directory / source.stem
        subprocess.run(["cc", "-static", "-O2", "-s", "-o", program, source], check=True)
        archive(f"local.test/{source.stem}:1", program, directory / f"{source.stem}.tar")
