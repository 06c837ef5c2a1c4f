# SPDX-License-Identifier: Apache-2.0
"""python -m batchfit: the program of this environment."""
import os
import sys

from .api import Error, program
from .platform_note import SOURCE, note


def main():
    try:
        path = program()
        os.execv(path, [path, *sys.argv[1:]])
    except (Error, OSError) as why:
        sys.exit("batchfit: %s" % (note() or "%s; reinstall it (pip install --force-reinstall batchfit), or %s" % (why, SOURCE)))


if __name__ == "__main__":
    main()
