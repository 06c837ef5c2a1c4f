#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/timm.tsv from an installed timm: all its model names, and the names that it had before.

tools/timm_names.py > data/timm.tsv            with the Python that has timm (build/venv2/bin/python)
tools/timm_names.py --check data/timm.tsv      fails where the table is not that timm's
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'python'))
from batchfit import stubs  # noqa: E402

HEAD = """\
# The models of timm %s, and the names that it had for them before: written by tools/timm_names.py from timm's own
# registry, not by hand. model: the name today; empty: timm removed it. image_size: of the weights that the name stands for.
name\tmodel\timage_size
"""


def size_of(models, name, tag=''):
    """The side of a name's images, or '' where its weights do not say one."""
    try:
        cfg = models.get_pretrained_cfg(name + ('.' + tag if tag else ''))
    except RuntimeError:  # a tag that is gone
        cfg = None
    side = cfg.input_size[-1] if cfg is not None and cfg.input_size else 0
    return str(side) if side > 0 else ''


def table():
    """The text of the table."""
    stubs.prepare()
    import timm
    from timm import models
    rows = [(name, name, size_of(models, name)) for name in timm.list_models()]
    for name, today in models.get_deprecated_models().items():
        model, _, tag = (today or '').partition('.')
        rows.append((name, model, size_of(models, model, tag) if model else ''))
    return HEAD % timm.__version__ + ''.join('\t'.join(row) + '\n' for row in sorted(rows))


def main():
    """Writes, or compares."""
    text = table()
    if sys.argv[1:2] != ['--check']:
        sys.stdout.write(text)
        return 0
    with open(sys.argv[2], encoding='utf-8') as f:
        same = f.read() == text
    print('%s: %s' % (sys.argv[2], 'as timm has it' if same else 'is not what tools/timm_names.py writes'))
    return 0 if same else 1


if __name__ == '__main__':
    sys.exit(main())
