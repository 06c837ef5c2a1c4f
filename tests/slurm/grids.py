# SPDX-License-Identifier: Apache-2.0
"""The part of tests/slurm/run about bench --on slurm and compare --on slurm, over the stand-in trainer."""
import json
import os
import signal
import subprocess
import time


def grids(t, cluster, trainer):
    """Of the module t: its check, its types, and who waits for its jobs."""
    check, types_of, order = t.check, t.TYPES, t.ORDER
    folder = cluster.path('grids')
    os.makedirs(folder, exist_ok=True)
    for name, ms in (('a', 60), ('b', 20)):
        cluster.write('grids/%s.yaml' % name, 'model: {name: resnet18}\ntrain: {batch_size: 4, step: %d}\n' % ms)

    def bench(*more, slow=0):
        command = ['sh', '-c', 'sleep %g; exec "$0" "$@"' % slow, trainer, '--pretend', '--fast', '--step-ms', '20', '--constant', '1GiB', '--slope', '50MiB', '--limit', '4GiB', '--batch', '{batch}']
        return [cluster.binary, 'bench', '--on', 'slurm', '--device', 'cpu', '--memory', '4GiB', '--store', cluster.path('grids', 'store'), '--batch-sizes', '2', '4', '8',
                *more, '--', *command]

    done = cluster.run(bench('--json'), cwd=folder)
    types = {t['type']: t['answer'] for t in json.loads(done.stdout)['types']} if done.stdout else {}
    check('bench: the grid on each of the %d types, the fastest batch of each' % len(types_of), done.returncode == 0 and sorted(types) == sorted(order) and
          all(a and [r['batch_size'] for r in a['rows']] == [2, 4, 8] and a['best']['recommended']['batch_size'] == 8 for a in types.values()), done.stdout[-800:] + done.stderr)
    text = cluster.run(bench(), cwd=folder)
    check('bench: the same call is answered from them, as a table', text.returncode == 0 and 'MEASURED  on 7 of 7 GPU types; the fastest: ' in text.stdout
          and text.stdout.count('measured by an earlier call') == len(types_of), text.stdout + text.stderr)

    # The front end is killed; a job is requeued in the middle of its grid; a job is cancelled by somebody else.
    slow = bench('--json', '--fresh', slow=2.5)
    front = subprocess.Popen(slow, env=cluster.env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    t.wait_until(lambda: len(t.jobs_of(cluster)) == len(types_of) and len(cluster.run(['squeue', '-h', '-t', 'R', '-o', '%A']).stdout.split()) >= len(types_of))
    first = {j.split()[0] for j in t.jobs_of(cluster)}
    mine = {j.split('-')[-1]: j.split()[0] for j in t.jobs_of(cluster)}
    front.kill()
    front.wait()
    time.sleep(4)
    cluster.run(['scontrol', 'requeue', mine['a100']])
    time.sleep(2.5)  # or Slurm would revoke the new start's credential
    cluster.run(['scontrol', 'update', 'JobId=' + mine['a100'], 'StartTime=now'])
    cluster.run(['scancel', mine['h100']])
    done = cluster.run([w for w in slow if w != '--fresh'], cwd=folder)
    types = {t['type']: t for t in json.loads(done.stdout)['types']} if done.stdout else {}
    kept = {t['job'] for name, t in types.items() if name != 'h100'}
    check('bench: a killed front end is gone on from, with the same jobs', done.returncode == 0 and len(kept) == len(types_of) - 1 and kept < first, str((first, kept, done.stderr)))
    check('bench: a requeued grid answers, whole', types and len(types['a100']['answer']['rows']) == 3, str(types.get('a100'))[:600])
    check('bench: no job is left', t.wait_until(lambda: not t.jobs_of(cluster), 60), str(t.jobs_of(cluster)))
    refused = cluster.run(bench('-o', 'x.csv'), cwd=folder)
    check('bench: what is one machine\'s is refused', refused.returncode == 2 and '--output does not go with --on slurm' in refused.stderr, refused.stderr)

    words = [cluster.binary, 'compare', '--on', 'slurm', '--device', 'cpu', '--memory', '4GiB', '--store', cluster.path('grids', 'store'), '--a', 'a.yaml', '--b', 'b.yaml',
             '--pairs', '4', '--metrics', 'throughput,memory', '--warmup', '1', '--steps', '5']
    command = ['--', 'sh', '-c', 'exec "$0" --step-ms $(sed -n "s/.*step: \\([0-9]*\\).*/\\1/p" "$1") --pretend --fast --constant 1GiB --slope 50MiB --limit 4GiB --batch 4', trainer, '{config}']
    done = cluster.run([*words, '--json', *command], cwd=folder)
    types = {t['type']: t['answer'] for t in json.loads(done.stdout)['types']} if done.stdout else {}
    check('compare: b, three times as fast, is better on each of the %d types' % len(types_of), done.returncode == 0 and sorted(types) == sorted(order) and
          all(a and a['metrics']['throughput']['verdict'] == 'b' and a['metrics']['throughput']['ratio'] > 2 for a in types.values()), done.stdout[-1500:] + done.stderr)
    text = cluster.run([*words, *command], cwd=folder)
    check('compare: the same call is answered from them, as a table', text.returncode == 0 and text.stdout.startswith('throughput: b is better on 7, a on 0, no difference on 0 of 7'),
          text.stdout + text.stderr)
    cluster.write('grids/b.yaml', 'model: {name: resnet18}\ntrain: {batch_size: 4, step: 60}\n')
    front = subprocess.Popen([*words, *command], env=cluster.env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    there = t.wait_until(lambda: len(t.jobs_of(cluster)) == len(types_of))
    front.send_signal(signal.SIGINT)
    said = front.communicate(timeout=60)[1]
    check('compare: another config is another question, and Ctrl-C cancels its jobs', there and front.returncode == 130 and 'cancelled: ' in said and
          t.wait_until(lambda: not t.jobs_of(cluster), 30), str((front.returncode, said)))
