# SPDX-License-Identifier: Apache-2.0
"""The recorded machines that the nodes pretend to be."""
import pathlib

MACHINES = pathlib.Path(__file__).resolve().parents[2] / "machines"
C500 = MACHINES / "c500-8.json"
C550 = MACHINES / "c550-8.json"
