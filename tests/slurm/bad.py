# SPDX-License-Identifier: Apache-2.0
"""The part of tests/slurm/run about clusters that are not as they should be."""
import os
import signal
import time


def clusters(t, cluster):
    """What --on slurm says of clusters that are not as they should be: by the real sinfo."""
    ask = [cluster.binary, 'fit', '--on', 'slurm', '--config', 'small.yaml']
    cluster.write('out/small.yaml', t.config_of('resnet18', 8, 'fp32') + 'data:\n  img_size: 224\n')
    done = cluster.run([*ask, '--partition', 'plain'])
    t.check('a cluster without GRES', done.returncode == 4 and 'none of the 1 nodes that sinfo lists has GPUs' in done.stderr and 'GresTypes=gpu' in done.stderr, done.stdout + done.stderr)
    done = cluster.run([*ask, '--partition', 'odd'])
    t.check('a cluster of GPUs that nobody knows: not judged, and how to say what they are', done.returncode == 1 and 'NOT JUDGED' in done.stdout and '--gres quux=NAME' in done.stdout,
          str(done.returncode) + done.stdout + done.stderr)
    done = cluster.run([*ask, '--partition', 'odd', '--gres', 'quux=24GiB'])
    t.check('the same, told what they are', done.returncode == 0 and '--gres=gpu:quux:1 --partition=odd' in done.stdout, done.stdout + done.stderr)
    done = cluster.run([*ask, '--partition', 'nowhere'])
    t.check('a partition that is not there', done.returncode in (3, 4) and 'nowhere' in done.stderr, done.stdout + done.stderr)
    controller = cluster.daemons[0]
    os.kill(controller.pid, signal.SIGSTOP)
    begin = time.monotonic()
    try:
        done = cluster.run(ask)
    finally:
        os.kill(controller.pid, signal.SIGCONT)
    t.check('a controller that hangs: said in %.1f s' % (time.monotonic() - begin), done.returncode == 4 and 'did not answer in 5 s' in done.stderr and time.monotonic() - begin < 8, done.stderr)
