# SPDX-License-Identifier: Apache-2.0
"""From recordings with prime-valued dimensions to a template: what tools/templates.py uses."""

import os
import sys


def with_one_order():
    """Starts this program again with one order of Python's sets: transformers makes the rotary tensors of a Gemma 3 in that of a
    set of words, which is another one in each process. They are of one size, so only the order of two events depends on it."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        sys.stdout.flush()
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable] + sys.orig_argv[1:])
