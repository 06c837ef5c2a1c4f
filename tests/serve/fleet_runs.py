# SPDX-License-Identifier: Apache-2.0
"""A fleet's history, made up: for tests/serve/fleet and the page's tests."""
import contextlib
import os
import sqlite3
import subprocess
import time

GIB = 1 << 30
DAY_MS = 86400000
# kind, model, GPU, its hash, days ago, hours, peak and memory in GiB, how busy, is it a fake
RUNS = [('run', 'vit_base', 'NVIDIA L4', 'aaaa11112222', 1, 60, 9, 22, None, 0), ('run', 'vit_base', 'NVIDIA L4', 'aaaa11112222', 3, 20, 10, 22, None, 0),
        ('trial', 'resnet50', 'NVIDIA L4', 'aaaa11112222', 2, 1, 18, 22, 0.9, 0), ('bench', 'resnet50', 'NVIDIA L4', 'aaaa11112222', 2, 3, 19, 22, 0.5, 0),
        ('run', 'llama', 'NVIDIA H100 80GB HBM3', 'bbbb11112222', 1, 30, 70, 79, None, 0), ('run', 'llama', 'NVIDIA H100 80GB HBM3', 'cccc11112222', 20, 30, 70, 79, None, 0),
        ('run', 'fake', 'NVIDIA T4', 'dddd11112222', 1, 30, 1, 15, None, 1), ('fit', 'resnet50', 'NVIDIA T4', None, 1, None, None, 15, None, 0)]


def history(folder, batchfit):
    """A history that the program has made, with these runs in it."""
    subprocess.run([batchfit, 'fit', '--model', 'resnet50', '--gpu', 't4', '--test-only', '--store', folder], check=True, capture_output=True)
    now = int(time.time() * 1000)
    columns = 'kind, model, gpu, gpu_hash, at_ms, seconds, peak_bytes, capacity_bytes, device_share, is_standin, device, uid'
    with contextlib.closing(sqlite3.connect(os.path.join(folder, 'history.db'))) as db, db:
        for i, (kind, model, gpu, card, days, hours, peak, memory, busy, fake) in enumerate(RUNS):
            db.execute(f'INSERT INTO runs({columns}) VALUES({", ".join("?" * 12)})',
                       (kind, model, gpu, card, now - days * DAY_MS, hours and hours * 3600.0, peak and peak * GIB, memory * GIB, busy, fake, 'cuda', f'u{i}'))
    return folder
