#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the config room reads of TOML and Python files against what Python itself makes of them: random documents, right ones and
broken ones. TOML: tomllib accepts what we accept, with the same values. Python: a value that we give is the one that running the
file gives; one that we do not give is said to be unknown.

tests/configs_foreign.py CONFIG_DUMP [DOCUMENTS [SEED]]
"""
import datetime
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import tomllib

AT_ONCE = 200


def read_all(dump, folder, names):
    for first in range(0, len(names), AT_ONCE):
        out = subprocess.run([dump] + names[first:first + AT_ONCE], cwd=folder, capture_output=True, check=True).stdout
        yield from (json.loads(line) for line in out.decode().splitlines())


# --- TOML ------------------------------------------------------------------------------------------------------------------------

KEYS = ['a', 'b', 'batch_size', 'c-d', '1', '"q r"', "'l.m'", '"\\u00e4"', 'training', 'datasets', '""']
WORDS = ['1', '-17', '+0', '0', '1_000', '0x1F', '0o17', '0b101', '1e3', '1.5', '-0.25', '6e-4', '1_0.2_5', '9223372036854775807', 'true', 'false',
         'inf', '-nan', '1979-05-27', '1979-05-27T07:32:00Z', '1979-05-27 07:32:00.5+01:00', '07:32:00', '"text"', "'raw\\n'", '"tab\\t\\u20ac"',
         '"""\nlong\\\n   er"""', "'''x'y'''", '""""quoted""""', '""', "''"]
BROKEN = ['01', '1__0', '_1', '1_', '.5', '5.', '1e', '0x', '0xg', '0x_1', '1979-13-01', '1979-02-29', '25:00:00', 'yes', 'True', '"\\x"', '"open', "'open",
          '[1, 2', '{a = 1', '{a = 1,}', '{a = 1\n}', '', '= 1', '1 2', '"\\ud800"', '1_e3', '+-1', '--1', '1.e3', '0b12', '"a"b']


def toml_value(r, depth=0):
    kind = r.random()
    if depth < 3 and kind < 0.15:
        gap = r.choice(['', ' ', '\n', ' # c\n'])
        items = [toml_value(r, depth + 1) for _ in range(r.randrange(4))]
        return '[' + gap + (',' + gap).join(items) + (',' if items and r.random() < 0.3 else '') + gap + ']'
    if depth < 3 and kind < 0.3:
        return '{' + ', '.join(f'{toml_key(r)} = {toml_value(r, depth + 1)}' for _ in range(r.randrange(3))) + '}'
    return r.choice(BROKEN) if r.random() < 0.01 else r.choice(WORDS)


def toml_key(r):
    return r.choice(['.', ' . ']).join(r.choice(KEYS) for _ in range(r.choice([1, 1, 1, 2, 3])))


def toml_document(r):
    lines = []
    for _ in range(r.randrange(1, 8)):
        kind = r.random()
        key = toml_key(r)
        lines.append(f'[[{key}]]' if kind < 0.12 else f'[{key}]' if kind < 0.3 else '# comment' if kind < 0.35 else
                     r.choice(BROKEN) if kind < 0.36 else f'{key} = {toml_value(r)}' + r.choice(['', ' # c', '  ']))
    return r.choice(['\n', '\n', '\r\n', '\n\n']).join(lines) + r.choice(['', '\n'])


def toml_plain(text, value):
    """A value of tomllib as the dump shows it."""
    if isinstance(value, dict):
        return {k: toml_plain(text, v) for k, v in value.items()}
    if isinstance(value, list):
        return [toml_plain(text, v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {'?': None}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return {'date': None}
    return value


def same(ours, theirs):
    if isinstance(theirs, dict) and set(theirs) == {'?'}:
        return isinstance(ours, dict) and set(ours) == {'?'}
    if isinstance(theirs, dict) and set(theirs) == {'date'}:
        return isinstance(ours, str)
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and list(ours) == list(theirs) and all(same(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


def check_toml(text, got):
    try:
        theirs = toml_plain(text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        return None if 'error' in got else f'tomllib refuses it: {error}; we read {got["tree"]}'
    if 'error' in got:
        if not text.strip():
            return None  # an empty file is no config
        return f'tomllib takes it; we say {got["error"]}'
    return None if same(got['tree'], theirs) else f'we read {got["tree"]}\ntomllib {theirs}'


# --- Python ----------------------------------------------------------------------------------------------------------------------

NAMES = ['batch_size', 'lr', 'model', 'data', 'x', 'steps', 'train']


def python_value(r, depth=0):
    kind = r.random()
    if depth > 3 or kind < 0.3:
        return r.choice(['1', '-3', '0x10', '1_000', '2.5', '1e-3', '.5', '5.', 'True', 'False', 'None', "'t'", '"a" \'b\'', "r'\\d'", '"\\x41\\n"',
                         '"""l\n"""', "f'plain'", "''"])
    if kind < 0.4:
        return r.choice(NAMES)
    if kind < 0.55:
        if r.random() < 0.15:  # in brackets: 8 ** 8 ** 8 would keep Python busy
            return f'({python_value(r, depth + 1)}) ** {r.choice(["2", "3", "-1", "0", "0.5"])}'
        sign = r.choice(['+', '-', '*', '/', '//', '%'])
        return f'{python_value(r, depth + 1)} {sign} {r.choice(["2", "3", "-1", "0", "8", "1.5"])}'
    if kind < 0.62:
        return f'({python_value(r, depth + 1)})'
    if kind < 0.7:
        return '[' + ', '.join(python_value(r, depth + 1) for _ in range(r.randrange(4))) + r.choice(['', ',']) * 0 + ']'
    if kind < 0.74:
        return '(' + ''.join(python_value(r, depth + 1) + ', ' for _ in range(r.randrange(3))) + ')'
    if kind < 0.84:
        return 'dict(' + ',\n    '.join(f'{k}={python_value(r, depth + 1)}' for k in r.sample(NAMES, r.randrange(4))) + ')'
    if kind < 0.9:
        return '{' + ', '.join(f"'{k}': {python_value(r, depth + 1)}" for k in r.sample(NAMES, r.randrange(3))) + '}'
    if kind < 0.93:
        return f'{r.choice(NAMES)}{r.choice(["[0]", "[-1]", "[1:]", "[::-1]", "[:2]"])}'
    if kind < 0.95:
        return f"{r.choice(NAMES)}['{r.choice(NAMES)}']"
    return r.choice(['int(4e5)', 'len([1, 2])', 'float(3)', 'str(5)', 'max(1, 2)', '[i for i in range(3)]', '{i: i for i in (1, 2)}', 'lambda a, b: (a, 1)',
                     "f'{1}'", '1 if 2 > 1 else 3', 'not 1', '1 < 2', '3 or 4', 'sum((1, 2))', '9**9**3', '{1, 2}', "'%d' % 3", 'tuple([1])', '1 << 4',
                     'list((1, 2))', "dict(a=1).get('a', 2)", '~1', '"a".upper()', '[*[1], 2]', "{**dict(z=1), 'y': 2}"])


def python_line(r):
    kind, name, other = r.random(), r.choice(NAMES), r.choice(NAMES)
    if kind < 0.55:
        return f'{name} = {python_value(r)}'
    if kind < 0.62:
        return f"{name}['{other}'] = {python_value(r)}"
    if kind < 0.66:
        return f'{name} {r.choice(["+=", "*=", "-=", "//="])} {python_value(r, 3)}'
    if kind < 0.71:
        return f'{name}.update({other}={python_value(r)})'
    if kind < 0.74:
        return f'{name}.append({python_value(r)})'
    if kind < 0.77:
        return f'{name}, {other} = {python_value(r)}, {python_value(r)}'
    if kind < 0.8:
        return f'if {r.choice(["1", "0"])}:\n    {name} = {python_value(r)}\nelse:\n    {other} = 1'
    if kind < 0.83:
        return f'for i in range(2):\n    {name} = i  # {other}'
    if kind < 0.86:
        return f'def f_{name}():\n    {name} = 1\n    return {name}'
    if kind < 0.89:
        return f'{name} = {other} = {python_value(r)}'
    if kind < 0.91:
        return f'del {name}'
    if kind < 0.93:
        return f"{name}.pop('{other}', None)"
    if kind < 0.95:
        return f'{name}: int = {python_value(r)}'
    return r.choice(['# batch_size = 3', f'{name} = 1; {other} = 2', f'try:\n    {name} = 1\nexcept Exception:\n    pass', f'{name}.extend([1, 2])'])


def python_document(r):
    """Lines that run; those that fail, as they would end the file, are left out. Returns the text and its names."""
    lines, values = [], {}
    for _ in range(r.randrange(1, 14)):
        line = python_line(r)
        trial = '\n'.join(lines + [line])
        there = {}
        try:
            exec(compile(trial, 'config', 'exec'), there)  # our own lines, made above
        except Exception:
            continue
        there = {k: v for k, v in there.items() if not k.startswith('__')}
        if len(str(there)) > 3000 or '...' in str(there):  # numbers that double, a map that holds itself: refused
            continue
        lines.append(line)
        values = there
    return '\n'.join(lines) + '\n', values


def wrong(ours, theirs, path):
    """Where a value that we give is not the one."""
    if isinstance(ours, dict) and set(ours) == {'?'}:
        return None
    if isinstance(theirs, dict):
        if not isinstance(ours, dict):
            return path
        is_open = ours.pop('?', False)
        theirs = {str(k): v for k, v in theirs.items()}
        if not is_open and set(ours) != set(theirs):
            return path
        return next(filter(None, (wrong(ours[k], theirs.get(k, KeyError), f'{path}.{k}') for k in ours)), None)
    if isinstance(theirs, (list, tuple)):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return path
        return next(filter(None, (wrong(a, b, f'{path}[{i}]') for i, (a, b) in enumerate(zip(ours, theirs)))), None)
    return None if type(ours) is type(theirs) and ours == theirs else path


def check_python(values, got):
    if 'error' in got:
        return f'we say {got["error"]}'
    values = {k: v for k, v in values.items() if k != 'i' and not k.startswith('f_')}
    tree = got['tree']
    if tree is None:
        return None if not values else 'we read nothing'
    tree.pop('i', None)
    missing = [k for k in values if k not in tree]
    if missing:
        return f'not read: {missing}'
    for k, v in tree.items():
        if isinstance(v, dict) and set(v) == {'?'}:
            continue
        if k not in values:
            return f'{k} is not set'
        where = wrong(v, values[k], k)
        if where:
            return f'{where}: we read {v}, Python {values[k]!r}'
    return None


def known(values, got):
    return sum(1 for k in values if not (isinstance((got.get('tree') or {}).get(k), dict) and '?' in got['tree'][k]))


def main():
    dump, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    r = random.Random(seed)
    tomls = [toml_document(r) for _ in range(count)]
    pythons = [python_document(r) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        for i, (toml, (text, _)) in enumerate(zip(tomls, pythons)):
            for name, content in ((f'{i}.toml', toml), (f'{i}.py', text)):
                with open(os.path.join(folder, name), 'w', encoding='utf-8', newline='') as f:
                    f.write(content)
        faults, taken, plain, names = 0, 0, 0, 0
        for i, got in enumerate(read_all(dump, folder, [f'{i}.toml' for i in range(count)])):
            fault = check_toml(tomls[i], got)
            taken += 'error' not in got
            faults += bool(fault)
            if fault:
                print(f'--- TOML {i}\n{tomls[i]}\n--- {fault}')
        for i, got in enumerate(read_all(dump, folder, [f'{i}.py' for i in range(count)])):
            text, values = pythons[i]
            plain, names = plain + known(values, got), names + len(values)
            fault = check_python(values, got) if text.strip() else None
            faults += bool(fault)
            if fault:
                print(f'--- Python {i}\n{text}\n--- {fault}')
    print(f'{count} TOML documents, {taken} of them right; {count} Python files, {plain} of {names} values known; {faults} differ (seed {seed})')
    # A test that reads nothing shows nothing.
    return faults > 0 or taken < count // 10 or plain < names // 2


if __name__ == '__main__':
    sys.exit(main())
