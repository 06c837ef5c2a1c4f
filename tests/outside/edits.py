# SPDX-License-Identifier: Apache-2.0
"""What must hold after `fit` was given a config, whatever is in it; for tests/outside/suites and random_yaml. The judges are other
people's readers: PyYAML and ruamel.yaml of Debian, Python's json.

Either status 0, and the file says what was asked: every other byte is as it was, and so is every node that a judge sees; the backup is the
old text. Or another status: every byte is as it was, there is nothing beside the file, and an error is one line, a hint at most another.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

import ruamel.yaml
import yaml

BATCH, ACCUMULATION = 1024, 1
# A sanitizer's finding must not look like an answer. libfyaml 0.7.12 loses a kilobyte on some broken quoted scalars: not ours to report.
FINDING = 99
SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lsan.txt')
SANITIZERS = {'ASAN_OPTIONS': f'exitcode={FINDING}', 'UBSAN_OPTIONS': f'exitcode={FINDING}:print_stacktrace=1',
              'LSAN_OPTIONS': f'exitcode={FINDING}:suppressions={SUPPRESSIONS}:print_suppressions=0'}
FOLDERS = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
DEEP = 20000  # frames of Python: the judges recurse
warnings.simplefilter('ignore')  # ruamel's, about anchors that are used again
sys.setrecursionlimit(DEEP)


# --- The judges: text -> nodes, None: refused ------------------------------------------------------------------------------------

def pyyaml(text):
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError, IndexError):  # IndexError: a lone ! or %, 6.0
        return None


def ruamel_yaml(text):
    try:
        return ruamel.yaml.YAML(typ='safe', pure=True).compose(text)
    except (ruamel.yaml.error.YAMLError, ValueError, RecursionError, IndexError, AttributeError, TypeError, AssertionError, NotImplementedError):
        return None


def pyyaml_loads(text):
    """Whether a trainer that calls yaml.safe_load gets something. Not: an error of its own constructors' making."""
    try:
        yaml.safe_load(text)
        return True
    except (yaml.YAMLError, ValueError, RecursionError, IndexError, TypeError, OverflowError):
        return False


JUDGES = {'PyYAML': pyyaml, 'ruamel.yaml': ruamel_yaml}


class Pairs(list):
    """A JSON object with its keys in order, twice the same ones too."""


def not_json(word):
    raise ValueError(word)


def strict_json(text):
    try:
        return [json.loads(text, object_pairs_hook=Pairs, parse_constant=not_json)]
    except (ValueError, RecursionError):
        return None


def children(node):
    """(a step of the path, the node below) of any judge's tree; empty for what has no parts."""
    if isinstance(node, (yaml.MappingNode, ruamel.yaml.MappingNode)):
        for i, (key, value) in enumerate(node.value):
            name = key.value if isinstance(key.value, str) else f'?{i}'
            yield f'{name} (key)', key
            yield name, value
    elif isinstance(node, (yaml.SequenceNode, ruamel.yaml.SequenceNode)):
        yield from enumerate(node.value)
    elif isinstance(node, Pairs):
        for name, value in node:
            yield f'{name} (key)', name
            yield name, value
    elif isinstance(node, list):
        yield from enumerate(node)


def meaning(node):
    """Of a node without what is below it."""
    if isinstance(node, (yaml.Node, ruamel.yaml.Node)):
        return type(node).__name__, node.tag, node.value if isinstance(node.value, str) else None
    return type(node).__name__, None if isinstance(node, list) else repr(node)


def without(below, new):
    """The parts of a map less those pairs, whose keys are asked to be new."""
    left = list(below)
    for i in range(len(left) - 2, -1, -2):
        if left[i][0] == f'{new} (key)':
            del left[i:i + 2]
            return left
    return left


def differences(before, after, new=None):
    """(path, meaning before, meaning after). new: the name of a pair that may be too much, where its map has grown by one."""
    seen, waiting = set(), [((), before, after)]
    while waiting:
        path, old, now = waiting.pop()
        if (id(old), id(now)) in seen and isinstance(old, (list, yaml.Node, ruamel.yaml.Node)):
            continue
        seen.add((id(old), id(now)))
        if meaning(old) != meaning(now):
            yield path, meaning(old), meaning(now)
        below, below_now = list(children(old)), list(children(now))
        if new and len(below_now) == len(below) + 2 and not isinstance(old, (str, int)):
            shorter = without(below_now, new)
            if len(shorter) == len(below):
                yield (*path, new), None, meaning(dict(below_now)[new])
                below_now = shorter
        if len(below) != len(below_now):
            yield path, f'{len(below)} parts', f'{len(below_now)} parts'
            continue
        # In the order of the text: what is reached by an alias, too, is told where its anchor stands.
        waiting += reversed([((*path, step), a, b) for (step, a), (_, b) in zip(below, below_now)])


# --- Running ------------------------------------------------------------------------------------------------------------------

class Answer:
    def __init__(self, binary, folder, words):
        home = os.path.join(os.path.dirname(folder), 'home')
        base = {'HOME': home, 'PATH': '/usr/bin:/bin', 'LC_ALL': 'C.UTF-8', 'XDG_RUNTIME_DIR': home, **SANITIZERS}
        self.words = words
        try:
            done = subprocess.run([binary, *words], cwd=folder, env=base, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            self.status, self.out, self.err = done.returncode, done.stdout.decode(), done.stderr.decode()
        except subprocess.TimeoutExpired:
            self.status, self.out, self.err = 'none in 60 s', '', ''
        except UnicodeDecodeError as error:
            self.status, self.out, self.err = f'no UTF-8: {error}', '', ''

    def faults(self, good=(0, 1, 3)):
        """What is wrong with it by itself."""
        if self.status not in good:
            yield f'status {self.status}: {self.out[-200:]}{self.err[-1500:]}'
        elif self.status == 3 and not re.fullmatch(r'(\d+ of \d+: [^\n]+\n)*batchfit: [^\n]+\n(  [^\n]+\n)?', self.err):  # bench: its trials
            yield f'not one line and a hint: {self.err[-500:]!r}'


class Place:
    """A folder with one config in it."""

    def __init__(self, binary):
        self.binary = os.path.abspath(binary)

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix='batchfit-outside-', dir=FOLDERS)
        self.folder = os.path.join(self.top, 'here')
        for name in ('here', 'home'):
            os.mkdir(os.path.join(self.top, name), 0o700)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top)

    def run(self, *words):
        return Answer(self.binary, self.folder, words)

    def put(self, name, data):
        for old in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, old))
        with open(os.path.join(self.folder, name), 'wb') as f:
            f.write(data)

    def files(self):
        found = {}
        for name in os.listdir(self.folder):
            with open(os.path.join(self.folder, name), 'rb') as f:
                found[name] = f.read()
        return found

    def fit(self, name, data, *more):
        """(answer, the text afterwards, what is wrong with what is in the folder)"""
        self.put(name, data)
        answer = self.run('fit', '--config', name, '--gpu', 'rtx3060', '--no-history', '--model', 'resnet50', '--img-size', '224',
                          '--precision', 'amp-fp16', *more)
        files = self.files()
        after = files.pop(name, None)
        wrong = list(answer.faults())
        if after != data and files != {f'{name}.bak': data}:
            wrong.append(f'the backup is not the old text: {files}')
        if after == data and files:
            wrong.append(f'left behind: {files}')
        if (after != data) != ('\nwritten: ' in answer.out):
            wrong.append(f'it says {answer.out[-200:]!r}, which is not so')
        if after != data and answer.status != 0:
            wrong.append(f'changed at status {answer.status}')
        return answer, after, wrong


# --- The judgement ---------------------------------------------------------------------------------------------------------------

def is_one_insertion(before, after, what):
    """Whether `after` is `before` with one stretch more, which has `what` in it once."""
    most = min(len(before), len(after))
    head = next((i for i in range(most) if before[i] != after[i]), most)
    tail = next((i for i in range(most) if before[-1 - i] != after[-1 - i]), most)
    return len(after) > len(before) and head + tail >= len(before) and after.count(what) == before.count(what) + 1


def numbers(answer):
    """What fit says it has written: the batch and the accumulation."""
    found = re.findall(r'^c\.\w+:\d+: .*: (?:1024|1|\(new\)) -> (\d+)$', answer.out, re.M)
    return [int(n) for n in found]


def judged(data, after, values, new=None, is_json=False):
    """Faults in the nodes. values: path -> text that it says now."""
    judges = {'json': strict_json} if is_json else JUDGES
    for name, judge in judges.items():
        old, now = judge(data.decode()), judge(after.decode())
        if old is None:
            continue
        if now is None:
            yield f'{name} no longer reads it'
            continue
        left = dict(values)
        for path, was, is_now in differences(old, now, new):
            path = path[1:] if is_json else path
            kind_is_kept = was is None or was[:-1] == is_now[:-1]
            if not kind_is_kept or left.pop(path, None) != is_now[-1]:
                yield f'{name}: {path}: {was} became {is_now}'
        if left:
            yield f'{name}: not changed: {left}'


def reason(message):
    """Of a refusal, without what is this file's alone."""
    first = message.split('\n')[0]
    first = re.sub(r'^batchfit: (?:c\.\w+:(?:\d+:\d+:)? )?', '', first)
    return re.sub(r"'.*'|\d+|[*&]\S+", '_', first)[:60]
