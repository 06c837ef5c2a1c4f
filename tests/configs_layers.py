#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the config room makes of a config and the other files that it names, against what others make of them.

Hydra's defaults lists: hydra-core itself composes random trees of files (tests/torch/test_layers.py has it). Where it is not
installed, its answers of an earlier time are taken (tests/configs/hydra.json), and a line says so; --write FILE makes them again.
_BASE_, __include__, _base_: the rule of detectron2, RT-DETR and PaddleDetection in ten lines here, with PyYAML.

tests/configs_layers.py CONFIG_DUMP [CASES [SEED]] [--write]
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'configs', 'hydra.json')
GOLDENS = 40


def dumped(dump, folder, name='config.yaml'):
    out = subprocess.run([dump, name], cwd=folder, capture_output=True, check=True).stdout
    return json.loads(out)


def put(folder, files):
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)


def scalar(r):
    return r.choice(['1', '8', '2.5', 'true', 'null', 'word', '[1, 2]', '[]'])


def content(r, depth=0):
    lines = []
    for key in r.sample(['batch_size', 'lr', 'name', 'net', 'opt', 'data', 'model', 'trainer'], r.randrange(0, 4)):
        if depth < 2 and r.random() < 0.4:
            inner = content(r, depth + 1)
            if inner:
                lines += [f'{key}:'] + ['  ' + line for line in inner]
                continue
        lines.append(f'{key}: {scalar(r)}')
    return lines


# --- Hydra -----------------------------------------------------------------------------------------------------------------------

GROUPS = {'data': ['mnist', 'cifar'], 'model': ['small', 'large'], 'model/net': ['r18', 'vit'], 'trainer': ['default', 'gpu'],
          'experiment': ['one'], 'mnist_small': ['x']}
HEADERS = ['', '', '', '', '# @package _global_\n', '# @package foo.bar\n', '# @package _global_.model\n']
AT = ['', '', '', '', '@val', '@_global_', '@_here_', '@_global_.other.place', '@_group_.more']


def option(r, group):
    names = GROUPS[group]
    return r.choice(names + [names[0], 'null'] + ([f'[{", ".join(names)}]'] if r.random() < 0.3 else []) + (['gone'] if r.random() < 0.1 else []))


def items(r, groups, paths, overrides):
    """The lines of one defaults list."""
    chosen = []
    for group in r.sample(groups, r.randrange(0, len(groups) + 1)):
        optional = 'optional ' if r.random() < 0.2 else ''
        chosen.append(f'{optional}{group}{r.choice(AT)}: {option(r, group.lstrip("/") if group.lstrip("/") in GROUPS else "model/" + group)}')
    chosen += [r.choice(['', '/']) + path for path in r.sample(paths, r.randrange(0, len(paths) + 1)) if r.random() < 0.4]
    if r.random() < 0.1:
        chosen.append("mnist_small: '${data}'")
    r.shuffle(chosen)
    if r.random() < 0.6:
        chosen.insert(r.randrange(len(chosen) + 1), '_self_')
    for group in overrides:
        if r.random() < 0.3:
            chosen.append(f'override {group}: {r.choice(GROUPS[group.lstrip("/")])}')
    return ['defaults:'] + ['  - ' + line for line in chosen] if chosen else []


def hydra_case(r):
    defaults = items(r, ['data', 'model', 'trainer', 'experiment'], ['base', 'extra'], ['model/net'])
    if defaults and r.random() < 0.2:
        defaults.append('  - override hydra/job_logging: disabled')
    header = r.choice(['', '', '', '# @package _global_\n', '# @package top\n']) if defaults else ''
    files = {'config.yaml': header + '\n'.join(defaults + ['own: 1'] + content(r)) + '\n'}
    for name in ('base', 'extra'):
        files[name + '.yaml'] = r.choice(HEADERS) + '\n'.join(content(r)) + '\n'
    for group, names in GROUPS.items():
        for name in names:
            inner = []
            if group == 'model' and r.random() < 0.6:
                inner = items(r, ['net', '/data'], [], [])
            elif group == 'experiment':
                inner = items(r, [], ['base'], ['/data', '/model', '/trainer', '/model/net'])
            header = '# @package _global_\n' if group == 'experiment' else r.choice(HEADERS)
            files[f'{group}/{name}.yaml'] = header + '\n'.join(inner + content(r)) + '\n'
    return files


def composed(folder):
    """What hydra-core makes of it; None: it refuses."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with initialize_config_dir(folder, version_base='1.3'):
            try:
                return OmegaConf.to_container(compose('config'), resolve=False), None
            except Exception as e:  # whatever Hydra's reason: the file is then none that anybody trains with
                return None, type(e).__name__


def without_list(tree):
    return {k: v for k, v in tree.items() if k != 'defaults'}


def judge(dump, folder, values, refused, count):
    ours = dumped(dump, folder)
    if values is not None:
        if 'error' in ours:
            return f'refused: {ours["error"]}'
        if any('not known' in note or 'override' in note for note in ours['notes']):
            return f'said to be incomplete: {ours["notes"]}'
        if without_list(ours['tree']) != values:
            return f'read {without_list(ours["tree"])}, Hydra {values}'
        count['equal'] += 1
    elif refused == 'MissingConfigException':
        if 'error' not in ours and not any('not known' in note for note in ours['notes']):
            return 'a file is missing, and nothing is said'
        count['missing'] += 1
    else:
        count['refused'] += 1
    return None


def hydra_cases(seed, count):
    r = random.Random(seed)
    return [hydra_case(r) for _ in range(count)]


def write_goldens(seed):
    goldens = []
    for files in hydra_cases(seed, 10 * GOLDENS):
        if len(goldens) == GOLDENS:
            break
        with tempfile.TemporaryDirectory() as folder:
            put(folder, files)
            values, refused = composed(folder)
        if values is not None or refused == 'MissingConfigException':
            goldens.append({'files': files, 'values': values, 'refused': refused})
    with open(GOLDEN, 'w', encoding='utf-8') as f:
        f.write('[\n' + ',\n'.join(json.dumps(g, sort_keys=True) for g in goldens) + '\n]\n')


def check_hydra(dump, cases, seed):
    count = {'equal': 0, 'missing': 0, 'refused': 0}
    faults = []
    try:
        import hydra  # noqa: F401
        todo = [(files, None) for files in hydra_cases(seed, cases)]
        told = 'hydra-core'
    except ImportError:
        with open(GOLDEN, encoding='utf-8') as f:
            todo = [(golden['files'], golden) for golden in json.load(f)]
        told = "hydra-core's answers of tests/configs/hydra.json"
    for files, golden in todo:
        with tempfile.TemporaryDirectory() as folder:
            put(folder, files)
            values, refused = (golden['values'], golden['refused']) if golden else composed(folder)
            fault = judge(dump, folder, values, refused, count)
        if fault:
            faults.append((fault, files))
    print(f'{told}: {count["equal"]} trees equal, {count["missing"]} with a missing file, {count["refused"]} that Hydra refuses, {len(faults)} faults')
    return faults, count['equal'] > 0 and count['missing'] > 0


# --- Bases -----------------------------------------------------------------------------------------------------------------------


def merged(base, over):
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merged(out[key], value) if both else value
    return out


def whole(folder, name, key):
    import yaml
    with open(os.path.join(folder, name), encoding='utf-8') as f:
        own = yaml.safe_load(f) or {}
    base = {}
    names = own.pop(key, [])
    for other in names if isinstance(names, list) else [names]:
        base = merged(base, whole(folder, os.path.join(os.path.dirname(name), other), key))
    return merged(base, own)


def check_bases(dump, cases, seed):
    r = random.Random(seed)
    faults = []
    for _ in range(cases):
        key = r.choice(['_BASE_', '__include__', '_base_', 'BASE'])
        names = ['config.yaml', 'a/one.yaml', 'a/two.yaml', 'b/three.yaml', 'four.yaml']
        files = {}
        for i, name in enumerate(names):
            below = [os.path.relpath(other, os.path.dirname(name) or '.') for other in names[i + 1:]]
            chosen = r.sample(below, min(len(below), r.choice([0, 1, 1, 2])))
            text = f'{key}: {json.dumps(chosen if r.random() < 0.6 or len(chosen) != 1 else chosen[0])}\n' if chosen else ''
            files[name] = text + '\n'.join(content(r)) + '\n'
        files['config.yaml'] += 'own: 1\n'
        with tempfile.TemporaryDirectory() as folder:
            put(folder, files)
            ours = dumped(dump, folder)
            expected = whole(folder, 'config.yaml', key)
        if 'error' in ours or {k: v for k, v in ours['tree'].items() if k != key} != expected:
            faults.append((f'read {ours.get("tree", ours)}, expected {expected}', files))
    print(f'bases: {cases} configs, {len(faults)} faults')
    return faults


def main():
    args = [a for a in sys.argv[1:] if a != '--write']
    dump, cases, seed = args[0], int(args[1]) if len(args) > 1 else 60, int(args[2]) if len(args) > 2 else 1
    if '--write' in sys.argv:
        write_goldens(seed)
    faults, is_whole = check_hydra(os.path.abspath(dump), cases, seed)
    faults += check_bases(os.path.abspath(dump), cases, seed)
    for fault, files in faults[:3]:
        print(fault)
        for name, text in files.items():
            print(f'--- {name}\n{text}')
    return 1 if faults or not is_whole else 0


if __name__ == '__main__':
    sys.exit(main())
