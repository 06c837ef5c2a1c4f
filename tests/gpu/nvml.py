# SPDX-License-Identifier: Apache-2.0
"""The few questions to NVIDIA's driver that the comparison needs, by ctypes: no package, and no CUDA context.

Structs and version words are those of NVML 13.3.29. What the driver does not say is None.
"""

import ctypes
import os
import threading

MEMORY_V2 = 0x02000028  # size | version << 24
UNKNOWN = (1 << 64) - 1  # usedGpuMemory under WDDM and WSL
LIBRARIES = ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1")


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Card:
    """One GPU by its uuid, or the first. Raises OSError where there is no driver or no such GPU."""

    def __init__(self, uuid=None):
        self._library = self._open()
        self._ask("nvmlInit_v2")
        self._handle = ctypes.c_void_p()
        if uuid:
            self._ask("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self._handle))
        else:
            self._ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0), ctypes.byref(self._handle))

    @staticmethod
    def _open():
        for name in LIBRARIES:
            try:
                return ctypes.CDLL(name)
            except OSError as why:
                last = why
        raise last

    def _ask(self, name, *arguments):
        code = self._code(name, *arguments)
        if code:
            raise OSError("%s answered with code %d" % (name, code))

    def _code(self, name, *arguments):
        """NVML's return code; 13 (function not found) where the driver lacks it."""
        function = getattr(self._library, name, None)
        return function(*arguments) if function else 13

    def used(self):
        """Bytes that programs hold on the GPU, without the driver's reserve where it tells it apart."""
        v2, v1 = _MemoryV2(version=MEMORY_V2), _Memory()
        if self._code("nvmlDeviceGetMemoryInfo_v2", self._handle, ctypes.byref(v2)) == 0:
            return v2.used
        return v1.used if self._code("nvmlDeviceGetMemoryInfo", self._handle, ctypes.byref(v1)) == 0 else None

    def driver(self):
        """The driver's version."""
        text = ctypes.create_string_buffer(80)
        return text.value.decode() if self._code("nvmlSystemGetDriverVersion", text, ctypes.c_uint(80)) == 0 else None

    def processes(self):
        """{pid: bytes} of the compute processes; pids are the host's, which a container does not know."""
        count, found = ctypes.c_uint(256), (_Process * 256)()
        code = self._code("nvmlDeviceGetComputeRunningProcesses_v3", self._handle, ctypes.byref(count), found)
        return {p.pid: p.used for p in found[:count.value] if p.used != UNKNOWN} if code == 0 else {}

    def process(self, before):
        """Bytes of this process: by its pid, or the only one that `before` did not have."""
        now = self.processes()
        if os.getpid() in now:
            return now[os.getpid()]
        new = [used for pid, used in now.items() if pid not in before]
        return new[0] if len(new) == 1 else None


class Watch(threading.Thread):
    """The most that was used on the GPU, by asking some hundred times a second."""

    def __init__(self, card, seconds=0.005):
        super().__init__(daemon=True)
        self._card, self._seconds, self._stop_now, self.most = card, seconds, threading.Event(), None

    def run(self):
        while not self._stop_now.wait(self._seconds):
            self._look()

    def _look(self):
        used = self._card.used()
        if used is not None:
            self.most = max(used, self.most or 0)

    def finish(self):
        """The most, after a last look."""
        self._stop_now.set()
        self.join()
        self._look()
        return self.most
