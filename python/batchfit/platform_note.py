# SPDX-License-Identifier: Apache-2.0
"""What to do where the wheel's program does not run: said by `python -m batchfit`, and by pip, which then builds from source."""
import os
import platform
import sys

MACHINES = {"x86_64", "aarch64"}
GLIBC = (2, 28)  # packaging: tools/sysroot builds for it
SOURCE = "build it from source: on Debian 12, `sh setup.sh run` in a checkout"


def glibc():
    """(2, 36); None: another C library, or none that says so."""
    try:
        name, _, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")
        return tuple(int(part) for part in version.split(".")[:2]) if name == "glibc" else None
    except (AttributeError, ValueError, OSError):
        return None


def note(system=None, machine=None, libc=0):
    """None where the program should run; else why not, and what to do. The arguments are for tests: as here, unless given."""
    system, machine, libc = system or sys.platform, machine or platform.machine(), glibc() if libc == 0 else libc
    if system == "win32":
        return "batchfit runs on Linux. On Windows use WSL2 (`wsl --install` in PowerShell, then pip install batchfit in its shell)"
    if system == "darwin":
        return "batchfit runs on Linux. On a Mac use it in a container: docker run -it --platform linux/amd64 python:3.12"
    if not system.startswith("linux"):
        return "batchfit runs on Linux, not on %s" % system
    if machine not in MACHINES:
        return "batchfit has no program for %s, only for x86_64 and aarch64: %s" % (machine, SOURCE)
    if libc is None:
        return "batchfit needs glibc, and this system has another C library (Alpine's is musl): use an image of Debian, Ubuntu or Fedora (python:3.12-slim)"
    if libc < GLIBC:
        return "batchfit needs glibc %d.%d, and this system has %d.%d: use a system of 2018 or newer, or a container of one" % (GLIBC + libc)
    return None
