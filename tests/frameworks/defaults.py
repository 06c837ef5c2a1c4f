# SPDX-License-Identifier: Apache-2.0
"""What data/dialects.tsv says of a trainer's defaults, and what the trainer's own source says: for slow_defaults."""
import ast
import importlib.util
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_THERE = object()


def rows(dialect):
    """Of a dialect, the roles with a default: {role: (keys in their order, the default as it is written)}."""
    found = {}
    with open(os.path.join(ROOT, 'data', 'dialects.tsv'), encoding='utf-8') as f:
        for line in f:
            cells = line.rstrip('\n').split('\t') + ['', '', '']
            if cells[0] == dialect and cells[3] and not cells[1].startswith(('guard.', 'inference')):
                found[cells[1]] = (keys(cells[2]), cells[3])
    return found


def keys(places):
    """The last key of each place, without what may stand around it: '!@.a.{b,c}=word' gives b, c."""
    out = []
    for place in places.split():
        if 'deepspeed.' in place:  # of the file beside
            continue
        last = re.sub(r'^!', '', place).split('=')[0].split('!')[0].rsplit('.', 1)[-1]
        out += last.strip('{}').split(',')
    return out


def same(written, value):
    """'8' is 8, 'false' is False and None; 'adamw_torch' is the enum with that value."""
    value = getattr(value, 'value', value)
    if isinstance(value, bool) or value is None:
        return written == ('true' if value else 'false')
    if isinstance(value, (int, float)):
        return float(written) == float(value)
    return written == str(value)


def precision(bf16, fp16):
    return 'amp-bf16' if bf16 else 'amp-fp16' if fp16 else 'fp32'


def wrong(dialect, value_of, roles):
    """One line a default that is another than the trainer's. value_of(key) gives NOT_THERE for a key that is none of its fields."""
    lines = []
    table = rows(dialect)
    for role in roles:
        if role not in table:
            lines.append(f'{dialect} {role}: no default in the table')
            continue
        names, written = table[role]
        if role == 'precision':
            value = precision(value_of('bf16'), value_of('fp16'))
        else:
            value = next((v for v in map(value_of, names) if v is not NOT_THERE), NOT_THERE)
            if value is not NOT_THERE and names[0].startswith('disable_'):
                value = not value
        if value is NOT_THERE or not same(written, value):
            lines.append(f'{dialect} {role}: the table says {written}, the trainer {"nothing" if value is NOT_THERE else value!r}')
    return lines


# --- Source that is not imported -------------------------------------------------------------------------------------------------


def folder_of(package):
    spec = importlib.util.find_spec(package)
    return os.path.dirname(spec.origin) if spec and spec.origin else None


def literal(node, enums):
    """A default as it is written: a literal, Enum.member, a quoted word; None where only running it would say."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            # Of an enum that the package has from elsewhere (Transformers' OptimizerNames) the member's name.
            return enums.get((node.value.id, node.attr), node.attr.lower())
        return NOT_THERE


def default_of(value, enums):
    """Of x: int = 8, = field(default=8) and = Field(default=8)."""
    if not isinstance(value, ast.Call):
        return literal(value, enums)
    for word in value.keywords:
        if word.arg == 'default':
            return literal(word.value, enums)
    return literal(value.args[0], enums) if value.args else NOT_THERE


def source_defaults(folder, files):
    """{field: default} of all classes in the files."""
    trees = []
    for name in files:
        with open(os.path.join(folder, name), encoding='utf-8') as f:
            trees.append(ast.parse(f.read()))
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    enums = {(c.name, a.targets[0].id): a.value.value for c in classes for a in c.body
             if isinstance(a, ast.Assign) and isinstance(a.targets[0], ast.Name) and isinstance(a.value, ast.Constant)}
    found = {}
    for c in classes:
        for a in c.body:
            if isinstance(a, ast.AnnAssign) and isinstance(a.target, ast.Name) and a.value is not None:
                value = default_of(a.value, enums)
                if value is not NOT_THERE:
                    found.setdefault(a.target.id, value)
    return found


def signature_defaults(folder, name, function):
    """{argument: default} of a function, or of a class's __init__, in a file."""
    with open(os.path.join(folder, name), encoding='utf-8') as f:
        nodes = list(ast.walk(ast.parse(f.read())))
    of = next(n for n in nodes if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name == function)
    if isinstance(of, ast.ClassDef):
        of = next(n for n in of.body if isinstance(n, ast.FunctionDef) and n.name == '__init__')
    args = of.args.posonlyargs + of.args.args
    pairs = list(zip(args[len(args) - len(of.args.defaults):], of.args.defaults)) + list(zip(of.args.kwonlyargs, of.args.kw_defaults))
    return {arg.arg: literal(value, {}) for arg, value in pairs if value is not None}


def option_defaults(folder, name):
    """{option: default} of what a file gives to argparse; an option without one is None, as there."""
    with open(os.path.join(folder, name), encoding='utf-8') as f:
        calls = [n for n in ast.walk(ast.parse(f.read())) if isinstance(n, ast.Call) and getattr(n.func, 'attr', '') == 'add_argument']
    found = {}
    for call in calls:
        words = [a.value for a in call.args if isinstance(a, ast.Constant)]
        value = next((k.value for k in call.keywords if k.arg == 'default'), ast.Constant(None))
        for word in words:
            found[word.lstrip('-').replace('-', '_')] = literal(value, {})
    return found


def constant_defaults(folder, name):
    """{name: value} of what a file assigns in capitals."""
    with open(os.path.join(folder, name), encoding='utf-8') as f:
        body = ast.parse(f.read()).body
    return {a.targets[0].id: literal(a.value, {}) for a in body if isinstance(a, ast.Assign) and isinstance(a.targets[0], ast.Name)}
