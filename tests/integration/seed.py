# SPDX-License-Identifier: Apache-2.0
"""The seed of a random test: GPUTOPO_SEED if that is set, else always the same, so that a result depends on the tree alone."""
import os
import sys


def given_seed():
    chosen = int(os.environ.get("GPUTOPO_SEED", 1))
    print(f"GPUTOPO_SEED={chosen}", file=sys.stderr)
    return chosen
