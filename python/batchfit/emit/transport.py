# SPDX-License-Identifier: Apache-2.0
"""How lines leave the process: the first row of TRANSPORTS that works. Opened at the first line, so that a process that
trains nothing (a launcher, a data worker) leaves no trace. Never waits: what cannot be written at once is dropped and counted.
A line of at most 4,096 bytes (PIPE_BUF on Linux) goes into a pipe whole or not at all."""

import errno
import os
import signal
import socket
import stat

LINE_BYTES = 4096


def open_inherited():
    """BATCHFIT_FD, when it is still the file that BATCHFIT_FD_ID names (launchers close or reuse descriptors)."""
    number = int(os.environ.get("BATCHFIT_FD", "-1"))
    if number < 0:
        return None
    seen = os.fstat(number)
    said = os.environ.get("BATCHFIT_FD_ID")
    if said != "%d:%d" % (seen.st_dev, seen.st_ino) if said else not stat.S_ISFIFO(seen.st_mode):
        return None
    try:  # opened again, so that O_NONBLOCK is ours alone and the program may close its own
        return os.open("/proc/self/fd/%d" % number, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        own = os.dup(number)
        os.set_blocking(own, False)
        return own


def open_folder():
    """HOST-PID.jsonl in BATCHFIT_STEPS_DIR: machines that share the folder may have the same PID."""
    folder = os.environ.get("BATCHFIT_STEPS_DIR")
    if not folder:
        return None
    path = os.path.join(folder, "%s-%d.jsonl" % (socket.gethostname(), os.getpid()))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)


TRANSPORTS = (open_inherited, open_folder)


def open_first():
    """Descriptor of the first transport that works, or None."""
    for row in TRANSPORTS:
        try:
            number = row()
        except (OSError, ValueError):
            continue
        if number is not None:
            return number
    return None


class Transport:
    """write([line, ...]) sends bytes without their line ends; dropped counts those that did not arrive."""

    def __init__(self):
        self.number = None
        self.opened = False
        self.dropped = 0
        self.torn = False  # the last line was cut by a full disk: its rest must not swallow the next one

    def write(self, lines):
        """Lines (None: one that could not be made), as many with one write as go into a pipe whole."""
        if not self.opened:
            self.opened = True
            self.number = open_first()
        data, count = b"", 0
        for line in lines:
            if line is None or len(line) >= LINE_BYTES:
                self.dropped += 1
                continue
            if len(data) + len(line) >= LINE_BYTES - 1:  # one more for a torn line's end
                self._deliver(data, count)
                data, count = b"", 0
            data += line + b"\n"
            count += 1
        if count:
            self._deliver(data, count)

    def _deliver(self, data, count):
        if self.number is None:
            self.dropped += count
            return
        if self.torn:
            data = b"\n" + data
        try:
            written = self._send(data)
        except OSError as why:
            self.dropped += count
            if why.errno in (errno.EPIPE, errno.EBADF):  # the reader is gone, or the program closed us
                self.number = None
            return
        self.torn = written < len(data)
        self.dropped += data.count(b"\n", written)

    def _send(self, data):
        """One write, without the SIGPIPE that would kill a program which took Python's ignoring of it back."""
        if signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN:
            return os.write(self.number, data)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
        try:
            return os.write(self.number, data)
        except BrokenPipeError:
            if signal.SIGPIPE not in before:
                signal.sigtimedwait([signal.SIGPIPE], 0)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def after_fork(self):
        """In the child: the parent's file is not ours; a line of the child opens its own."""
        if self.number is not None:
            try:
                os.close(self.number)
            except OSError:
                pass
        self.__init__()
