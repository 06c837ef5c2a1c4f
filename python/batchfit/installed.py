# SPDX-License-Identifier: Apache-2.0
"""Which PyTorch this Python has, as one line of JSON on standard output.

`batchfit check` hands the text of this file to the user's Python (python -c TEXT), so it imports nothing of ours, works from
Python 3.6 and every PyTorch on, and never raises: what cannot be learned is null. No CUDA context is made on any GPU.
"""
import sys

if sys.path and not sys.path[0]:
    del sys.path[0]  # the current folder, whose json.py or torch.py is not what is asked for; sys itself is no file

import json
import os
import shutil

# Counts GPUs by NVML where it can, so that asking does not start CUDA (PyTorch 2.0 and later).
os.environ.setdefault('PYTORCH_NVML_BASED_CUDA_CHECK', '1')


def tried(ask):
    """The value of ask(), or None when it fails in whatever way."""
    try:
        return ask()
    except Exception:  # pylint: disable=broad-except
        return None


def finds(module):
    """Whether a module can be imported, without importing it."""
    import importlib.util
    return tried(lambda: importlib.util.find_spec(module) is not None)


def library_folders(torch):
    """Where the wheels of this torch keep cuBLAS: by colons, only folders that are there."""
    lib = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), 'lib')
    site = os.path.dirname(os.path.dirname(lib))
    folders = [os.path.join(site, 'nvidia', *names) for names in (('cublas', 'lib'), ('cu13', 'lib'))]
    return ':'.join(folder for folder in (*folders, lib) if os.path.isdir(folder) and ':' not in folder)


def torch_facts(torch):
    """What an imported torch says of itself: texts, numbers and None."""
    archs = tried(torch.cuda.get_arch_list)
    if not archs:  # without a card get_arch_list is empty
        archs = (tried(lambda: torch._C._cuda_getArchFlags()) or '').split()  # pylint: disable=protected-access
    facts = {
        'torch': str(torch.__version__),
        'cuda': tried(lambda: torch.version.cuda),
        'hip': tried(lambda: torch.version.hip),
        'cudnn': None,
        'libraries': tried(lambda: library_folders(torch)),
        'archs': ' '.join(archs),
        'cuda_available': None,
        'cuda_devices': None,
        'cuda_error': None,
        'triton': finds('triton'),
        'compiler': any(shutil.which(name) for name in (os.environ.get('CXX', ''), 'g++', 'clang++', 'c++') if name),
    }
    if facts['cuda'] or facts['hip']:
        facts['cudnn'] = tried(lambda: str(torch.backends.cudnn.version()))
        try:
            facts['cuda_available'] = bool(torch.cuda.is_available())
            facts['cuda_devices'] = int(torch.cuda.device_count())
        except Exception as error:  # pylint: disable=broad-except
            facts['cuda_error'] = str(error).splitlines()[0] if str(error) else type(error).__name__
    return facts


def main():
    """Prints the one line."""
    facts = {'python': '.'.join(map(str, sys.version_info[:3])), 'program': sys.executable}
    try:
        import torch
        facts.update(torch_facts(torch))
    except BaseException as error:  # pylint: disable=broad-except
        lines = str(error).splitlines()
        facts['error'] = type(error).__name__ + (': ' + lines[0] if lines else '')
    sys.stdout.write('\n' + json.dumps(facts) + '\n')


main()
