# SPDX-License-Identifier: Apache-2.0
"""The emitter's memory snapshot of an out-of-memory. There is no CUDA here: torch's recorder, dump and observer are FAKES; what
is tested is when they are called, what the files are called, and that nothing that goes wrong reaches the program. tests/gpu/snapshots.py
does it for real."""

import importlib
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
snapshot = importlib.import_module("batchfit.emit.snapshot")


@pytest.fixture
def fake(monkeypatch):
    """Fakes of torch's three functions; what they were called with."""
    import torch
    calls = {"record": [], "observer": []}

    def record(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
        calls["record"].append(max_entries)

    def dump(path):
        with open(path, "wb") as f:
            f.write(b"\x80\x04N.")
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", record, raising=False)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", dump, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", calls["observer"].append, raising=False)
    return calls


def test_nothing_without_a_folder(fake, monkeypatch):
    monkeypatch.delenv("BATCHFIT_SNAPSHOT", raising=False)
    assert snapshot.start() is None
    assert fake == {"record": [], "observer": []}


def test_one_file_each_death_and_three_at_most(fake, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("BATCHFIT_SNAPSHOT", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    snapshot.start()
    assert fake["record"] == [snapshot.ENTRIES]
    for _ in range(5):
        fake["observer"][0](0, 1, 2, 3)
    names = sorted(os.listdir(tmp_path))
    assert names == ["oom-rank3-%d-%d.pickle" % (os.getpid(), i) for i in range(3)]
    assert str(tmp_path / names[0]) in capsys.readouterr().err


def test_what_goes_wrong_is_not_the_programs(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("BATCHFIT_SNAPSHOT", str(tmp_path / "absent"))
    snapshot.start()
    fake["observer"][0](0, 1, 2, 3)
    assert not (tmp_path / "absent").exists()
