#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch on the CPU under a memory limit: is what `batchfit fit -- COMMAND` chooses true?

    bench/trials/cap.py [--python PYTHON] [--only TEXT] [--steps 200]       # prints the table of doc/trials.md

For each model the batch is found by trials within a memory limit. Then, without batchfit and in a fresh
process under the same kind of limit (RLIMIT_DATA), two things are checked: the chosen batch makes 200
optimizer steps within the memory; and the next multiple dies within the memory less the margin. The C library's
threshold for mmap is fixed in all of it (see below). Prints a Markdown table and, last, a line `survived N of M, next multiple fails N of M`.
"""
import argparse
import json
import os
import resource
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
MARGIN = 0.05
# glibc raises its threshold for mmap as blocks are freed, up to 32 MB; where a block then lands depends on timing, and
# the same training needs 740 to 960 MiB from run to run (depth 6, hidden 32, batch 24). Fixed, it is 636 or 637 MiB.
os.environ['MALLOC_MMAP_THRESHOLD_'] = '131072'
MULTIPLE = 4
# name, arguments of the workload, memory in MiB: a limit that some tens of samples reach, so that 200 steps take a minute
MODELS = [
    ('depth 6, hidden 32', ['--depth', '6', '--hidden', '32'], 600),
    ('timm resnet18, 32 px', ['--model', 'timm:resnet18', '--img-size', '32'], 700),
    ('timm resnet18, 32 px, sgd', ['--model', 'timm:resnet18', '--img-size', '32', '--optimizer', 'sgd'], 640),
    ('timm mobilenetv3_small_100, 64 px', ['--model', 'timm:mobilenetv3_small_100', '--img-size', '64'], 540),
    ('timm efficientnet_b0, 64 px', ['--model', 'timm:efficientnet_b0', '--img-size', '64'], 700),
    ('timm regnetx_002, 64 px', ['--model', 'timm:regnetx_002', '--img-size', '64'], 560),
    ('timm convnext_atto, 64 px', ['--model', 'timm:convnext_atto', '--img-size', '64'], 600),
    ('timm vit_tiny, 96 px', ['--model', 'timm:vit_tiny_patch16_224', '--img-size', '96'], 600),
    ('timm vit_tiny, 96 px, amp-bf16', ['--model', 'timm:vit_tiny_patch16_224', '--img-size', '96', '--precision', 'amp-bf16'],
     600),
    ('timm ghostnet_100, 64 px', ['--model', 'timm:ghostnet_100', '--img-size', '64'], 560),
]


def workload(python, arguments, batch):
    return [python, '-m', 'batchfit.workload', '--device', 'cpu', '--batch-size', str(batch), *arguments]


def run_fit(python, arguments, memory):
    command = [os.path.join(ROOT, 'build', 'batchfit'), 'fit', '--no-history', '--device', 'cpu', '--memory', f'{memory}MiB',
               '--safety-margin', str(MARGIN), '--multiple', str(MULTIPLE), '--steps', '6', '--json', '--',
               *workload(python, arguments, '{batch}')]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f'{" ".join(command)}: status {done.returncode}')
    return json.loads(done.stdout)


def survives(python, arguments, batch, limit_bytes, steps):
    """Whether so many optimizer steps are made in a process whose data segment is limited."""
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    env = {**os.environ, 'PYTHONPATH': os.path.join(ROOT, 'python')}
    done = subprocess.run([*workload(python, arguments, batch), '--steps', str(steps)], env=env, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=limit, text=True, errors='replace')
    if done.returncode:
        print(f'batch {batch}, {limit_bytes >> 20} MiB: status {done.returncode}: {done.stdout[-300:]}', file=sys.stderr)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--python', default=os.path.join(ROOT, 'build', 'venv2', 'bin', 'python'))
    parser.add_argument('--only', default='')
    parser.add_argument('--steps', type=int, default=200)
    options = parser.parse_args()
    chosen = [m for m in MODELS if options.only in m[0]]
    print('| model | memory | launches | out of memory | batch | samples/s | 200 steps | next multiple, margin kept |')
    print('|---|---|---|---|---|---|---|---|')
    alive = dead = 0
    for name, arguments, memory in chosen:
        answer = run_fit(options.python, arguments, memory)
        batch = answer['largest_batch_size']
        if not batch:
            print(f'| {name} | {memory} MiB | {answer["launches"]} | {answer["out_of_memory"]} | none | | | |')
            continue
        rate = next(t['samples_per_s'] for t in answer['trials'] if t['batch_size'] == batch and t['status'] == 'OK')
        ran = survives(options.python, arguments, batch, memory << 20, options.steps)
        above = batch + (MULTIPLE if batch >= MULTIPLE else 1)
        more = survives(options.python, arguments, above, int((memory << 20) * (1 - MARGIN)), 8)
        alive += ran
        dead += not more
        print(f'| {name} | {memory} MiB | {answer["launches"]} | {answer["out_of_memory"]} | {batch} | {rate:.3g} | '
              f'{"survived" if ran else "DIED"} | {above}: {"RUNS" if more else "dies"} |', flush=True)
    print(f'\nsurvived {alive} of {len(chosen)}, next multiple fails {dead} of {len(chosen)}')
    return 0 if alive == dead == len(chosen) else 1


sys.exit(main())
