# SPDX-License-Identifier: Apache-2.0
"""The part of tests/slurm/run about bench --on slurm and compare --on slurm, over the fake trainer; a training over two nodes, over
PyTorch."""
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
        return [cluster.binary, 'bench', '--on', 'slurm', '--partition', 'gpu', '--device', 'cpu', '--memory', '4GiB', '--store', cluster.path('grids', 'store'), '--batch-sizes', '2', '4', '8',
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
    kept = {t['job'] for name, t in types.items() if name != 'h100' and not t['is_recalled']}
    check('bench: a killed front end is gone on from, with the same jobs', done.returncode == 0 and len(types) == len(types_of) and kept < first, str((first, kept, done.stderr)))
    check('bench: a requeued grid answers, whole', types and len(types['a100']['answer']['rows']) == 3, str(types.get('a100'))[:600])
    check('bench: no job is left', t.wait_until(lambda: not t.jobs_of(cluster), 60), str(t.jobs_of(cluster)))
    refused = cluster.run(bench('-o', 'x.csv'), cwd=folder)
    check('bench: what is one machine\'s is refused', refused.returncode == 2 and '--output cannot be combined with --on slurm' in refused.stderr, refused.stderr)

    words = [cluster.binary, 'compare', '--on', 'slurm', '--partition', 'gpu', '--device', 'cpu', '--memory', '4GiB', '--store', cluster.path('grids', 'store'), '--a', 'a.yaml', '--b', 'b.yaml',
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
    there = t.wait_until(lambda: t.jobs_of(cluster))  # also while the others are being submitted
    front.send_signal(signal.SIGINT)
    said = front.communicate(timeout=60)[1]
    check('compare: another config is another question, and Ctrl-C cancels its jobs', there and front.returncode == 130 and 'cancelled: ' in said and
          t.wait_until(lambda: not t.jobs_of(cluster), 30), str((front.returncode, said)))


def arrays(t, cluster, trainer):
    """A grid in three parts, an array of jobs on each type, and the job that puts them together."""
    check, folder = t.check, cluster.path('arrays')
    os.makedirs(folder, exist_ok=True)
    log = os.path.join(folder, 'launched')

    def bench(*more, slow=0):
        script = 'echo $SLURM_JOB_PARTITION $SLURM_ARRAY_TASK_ID $SLURMD_NODENAME "$@" >>%s; sleep %g; exec "$0" "$@"' % (log, slow)
        command = ['sh', '-c', script, trainer, '--pretend', '--fast', '--step-ms', '20', '--constant', '1GiB', '--slope', '50MiB', '--limit', '4GiB', '--batch', '{batch}']
        return [cluster.binary, 'bench', '--on', 'slurm', '--device', 'cpu', '--memory', '4GiB', '--store', cluster.path('arrays', 'store'), '--batch-sizes', '2', '4', '8', '16',
                '--array', '3', '--partition', 'pair', *more, '--', *command]

    def launches():
        if not os.path.exists(log):
            return []
        with open(log, encoding='utf-8') as f:
            return [line.split() for line in f]

    done = cluster.run(bench('--json'), cwd=folder)
    types = {x['type']: x for x in json.loads(done.stdout)['types']} if done.stdout else {}
    answer = (types.get('gtx1080') or {}).get('answer') or {}
    by_task = sorted(row[1] for row in launches())
    check('array: the grid is whole, each setting measured once, by three tasks: %s' % by_task, done.returncode == 0 and [r['batch_size'] for r in answer.get('rows', [])] == [2, 4, 8, 16]
          and by_task == ['1', '1', '2', '3'], done.stdout[-800:] + done.stderr + str(launches()))
    check('array: that it was measured in parts is said', '4 of 4 settings were measured in 3 parts' in json.dumps(answer.get('notes')), json.dumps(answer)[:900])
    check('array: nothing is left, no job and no file of a part', t.wait_until(lambda: not t.jobs_of(cluster)) and not [f for f in os.listdir(os.path.join(cluster.cache, 'batchfit', 'bench'))],
          str(t.jobs_of(cluster)))

    # The front end is killed and called again; a task is requeued, another cancelled: the last job measures what that lacks.
    os.unlink(log)
    slow = bench('--json', '--fresh', slow=3)
    front = subprocess.Popen(slow, env=cluster.env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    t.wait_until(lambda: len(launches()) >= 3)
    first = {j.split()[0] for j in t.jobs_of(cluster)}
    front.kill()
    front.wait()
    parts = [j.split()[0] for j in cluster.run(['squeue', '-h', '-o', '%F %j']).stdout.split('\n') if j.endswith('-parts')]
    cluster.run(['scancel', parts[0] + '_2'])
    cluster.run(['scontrol', 'requeue', parts[0] + '_3'])
    time.sleep(2.5)
    cluster.run(['scontrol', 'update', 'JobId=' + parts[0] + '_3', 'StartTime=now'])
    done = cluster.run([w for w in slow if w != '--fresh'], cwd=folder)
    types = {x['type']: x for x in json.loads(done.stdout)['types']} if done.stdout else {}
    answer = (types.get('gtx1080') or {}).get('answer') or {}
    by_task = sorted(row[1] if row[1].isdigit() else 'last' for row in launches())
    check('array: a killed front end, a task cancelled and one requeued: whole, with the same jobs: %s' % by_task, done.returncode == 0 and (types['gtx1080']['job'] in first) and
          [r['batch_size'] for r in answer.get('rows', [])] == [2, 4, 8, 16] and 'last' in by_task, done.stdout[-800:] + done.stderr + str((first, launches())))

    front = subprocess.Popen(bench(slow=60), env=cluster.env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    t.wait_until(lambda: len(cluster.run(['squeue', '-h', '-r', '-o', '%A']).stdout.split()) == 4)
    front.send_signal(signal.SIGINT)
    said = front.communicate(timeout=60)[1]
    check('array: Ctrl-C cancels the tasks and the last job', front.returncode == 130 and 'cancelled: ' in said and t.wait_until(lambda: not t.jobs_of(cluster), 30), str((front.returncode, said)))


TRAIN = """
import argparse, os, socket, torch, torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument('--batch', type=int)
batch = p.parse_args().batch
dist.init_process_group('gloo')
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with open(os.path.join(os.environ['SEEN'], 'rank%d' % dist.get_rank()), 'w') as f:
    f.write('%s %d' % (os.environ['SLURMD_NODENAME'], dist.get_world_size()))
for step in range(1000):
    optimizer.zero_grad()
    model(torch.randn(batch, 64)).sum().backward()
    optimizer.step()
"""


def nodes(t, cluster, python):
    """A training of four ranks on two nodes with two GPUs each: srun starts a torchrun on each, all ranks tell of their steps."""
    if not os.path.exists(python):
        print('SKIPPED: no %s: no training over two nodes' % python)
        return
    folder = cluster.path('nodes')
    os.makedirs(folder, exist_ok=True)
    cluster.write('nodes/train.py', TRAIN)
    words = [cluster.binary, 'bench', '--on', 'slurm', '--device', 'cpu', '--store', cluster.path('nodes', 'store'), '--partition', 'pair', '--ranks', '4', '--batch-sizes', '8',
             '--start-limit', '200', '--steps', '5', '--warmup', '1', '--json', '--', python, 'train.py', '--batch', '{batch}']
    done = cluster.run(words, cwd=folder, env={'SEEN': folder, 'OMP_NUM_THREADS': '1'})
    answer = json.loads(done.stdout)['types'][0]['answer'] if done.stdout else None
    ranks = []
    for rank in range(4):
        try:
            with open(os.path.join(folder, 'rank%d' % rank), encoding='utf-8') as f:
                ranks.append(f.read().split())
        except OSError as why:
            ranks.append([str(why)])
    row = (answer or {}).get('rows', [{}])[0]
    t.check('nodes: four ranks on two nodes, measured: %s samples/s of all' % row.get('samples_per_s'), done.returncode == 0 and row.get('status') == 'OK' and
            sorted(node for node, _ in ranks) == ['n1', 'n1', 'n7', 'n7'] and {world for _, world in ranks} == {'4'}, done.stdout[-1500:] + done.stderr + str(ranks))
    t.check('nodes: nothing is left, no job and no process', t.wait_until(lambda: not t.jobs_of(cluster)) and t.wait_until(
        lambda: 'train.py' not in subprocess.run(['ps', 'ax', '-o', 'args'], capture_output=True, text=True).stdout.replace('ps ax', ''), 30), '')
