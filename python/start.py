# SPDX-License-Identifier: Apache-2.0
"""python3 start.py MODULE [ARGUMENT...] - runs a module as `python3 -m` does, but nothing of the current folder.

`python3 -m` and `-c` look into the current folder first, so that a torch.py or json.py there would be run; python3 -P, which
does not, came with 3.11. A script has its own folder there instead, in every version: this one, with the package batchfit.
"""

import os
import runpy
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    """Runs the module in this process."""
    sys.path[:] = [HERE] + [p for p in sys.path if p and p != HERE]
    os.environ["PYTHONSAFEPATH"] = "1"  # for processes that the module starts, from 3.11 on
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
