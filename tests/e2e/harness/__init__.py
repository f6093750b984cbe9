# SPDX-License-Identifier: Apache-2.0
"""The parts of the end-to-end suite and of `./dev cluster`."""
import importlib.util
import sys

if importlib.util.find_spec("grpc") is None:
    sys.exit("tests/e2e needs the Debian package python3-grpcio")
