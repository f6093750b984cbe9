# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end suite and `./dev cluster` are made of."""
import importlib.util
import sys

if importlib.util.find_spec("grpc") is None:
    sys.exit("tests/e2e needs the Debian package python3-grpcio")
