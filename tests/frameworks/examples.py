# SPDX-License-Identifier: Apache-2.0
"""The examples as commands, and what must be installed for each. A command is run with the environment of `environment()`."""

import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
EXAMPLES = os.path.join(ROOT, "examples")
HOOK = os.path.join(ROOT, "python", "hook")
BATCHFIT = os.environ.get("BATCHFIT", os.path.join(ROOT, "build", "batchfit"))
SECONDS = 300  # for one command on a machine that has other things to do; alone each takes less than 20


def need(*modules):
    """Skip loudly without a library."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise unittest.SkipTest("SKIPPED: %s is not installed" % module)


def loads(module):
    """Does the module import, in a process of its own?"""
    done = subprocess.run([sys.executable, "-c", "import " + module], capture_output=True)
    return done.returncode == 0


def has_openblas():
    """Does PyTorch compute with OpenBLAS? (NumPy brings one of its own.)"""
    script = "import torch; print(any('openblas' in line and 'numpy' not in line for line in open('/proc/self/maps')))"
    return subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True).stdout.strip() == "True"


def environment(folder, **more):
    """For a command: one thread, no network, settings and caches in the test's folder."""
    yolo = os.path.join(folder, "yolo-settings")
    os.makedirs(yolo, exist_ok=True)
    found = importlib.util.find_spec("matplotlib")
    if found is not None:  # else ultralytics downloads a font
        fonts = os.path.join(os.path.dirname(found.origin), "mpl-data", "fonts", "ttf")
        shutil.copy(os.path.join(fonts, "DejaVuSans.ttf"), os.path.join(yolo, "Arial.ttf"))
    return dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", YOLO_OFFLINE="true",
                YOLO_CONFIG_DIR=yolo, PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], **more)


def _python(name, *options):
    return [sys.executable, os.path.join(EXAMPLES, name, "train.py"), *options]


def plain(output, batch, *options):
    need("yaml")
    return _python("plain", "--batch-size", batch, "--workers", "0", "--device", "cpu", "--output", output, *options)


def huggingface(output, batch, *options):
    need("transformers", "accelerate")
    return _python("huggingface", "--per_device_train_batch_size", batch, "--use_cpu", "true", "--output_dir", output, *options)


def lightning(output, batch, *options):
    need("lightning")
    return _python("lightning", "--batch-size", batch, "--accelerator", "cpu", "--output", output, *options)


def ultralytics(output, batch, data, *options):
    need("ultralytics")
    if not loads("torchvision"):
        raise unittest.SkipTest("SKIPPED: torchvision is not installed, or not for this torch")
    return ["yolo", "detect", "train", "data=" + data, "model=yolo11n.yaml", "imgsz=64", "batch=" + batch, "device=cpu",
            "workers=0", "plots=False", "project=" + output, *options]


def make_boxes(folder, images=24):
    """The data set of the ultralytics example; returns its data.yaml."""
    subprocess.run([sys.executable, os.path.join(EXAMPLES, "ultralytics", "make_data.py"), folder, "--images", str(images)],
                   check=True)
    return os.path.join(folder, "data.yaml")


def torchrun(batch, *options, script=os.path.join(EXAMPLES, "ddp", "train.py")):
    """Two ranks. -r and -t: without them torch 1.13's torchrun fails under Python 3.11 (Std.from_str("0") is None there)."""
    import torch
    old = torch.__version__.startswith("1.") and sys.version_info >= (3, 11)
    return [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", *(["-r", "1", "-t", "1"] if old else []),
            script, "--batch-size", batch, *options]


def run(command, folder, **more):
    """(status, output of both kinds) of a command, in a folder of its own."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, timeout=SECONDS,
                          env=environment(folder, **more))
    return done.returncode, done.stdout


def run_watched(command, folder, **more):
    """The same under the emitter: (status, output, the events of each process that reported)."""
    steps = os.path.join(folder, "steps")
    shutil.rmtree(steps, ignore_errors=True)
    os.makedirs(steps)
    path = os.pathsep.join([HOOK, *([more.pop("PYTHONPATH")] if "PYTHONPATH" in more else [])])
    status, output = run(command, folder, PYTHONPATH=path, BATCHFIT_STEPS_DIR=steps, **more)
    told = []
    for name in sorted(glob.glob(os.path.join(steps, "*"))):
        with open(name, encoding="utf-8") as f:
            told.append([json.loads(line) for line in f])
    return status, output, told


def files(folder, pattern):
    """Names below a folder that match."""
    return sorted(os.path.relpath(f, folder) for f in glob.glob(os.path.join(folder, pattern), recursive=True))
