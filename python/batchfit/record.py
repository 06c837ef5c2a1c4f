# SPDX-License-Identifier: Apache-2.0
"""python3 -m batchfit.record SOURCE [options] -o FILE - record a model's training step as a tape, without a GPU.

SOURCE
  timm:NAME                  a model of the installed timm
  torchvision:NAME           a model of torchvision.models
  hf:NAME or hf:config.json  a transformers model built from a configuration: a file or folder, the Hugging Face cache, or the
                             table of known shapes (nothing is downloaded)
  ultralytics:NAME           yolo11n, yolov8m, ... from ultralytics' own yaml files
  titan:NAME                 a Llama of the same names as torchtitan trains it, with --shard fsdp2
  python:MODULE:FUNCTION     your own code, see batchfit/sources/user_models.py

Every knob of batchfit/knobs.py is an option (--img-size 288, --no-foreach); --batches 2,4,8 sets the batches at which
the sequence is checked (--batches 1 makes a tape that holds for batch 1 alone, where some copies vanish); --classes-derivative adds n=CN,KN to each size that depends on the number of classes.

MANY TAPES: --jobs FILE
  FILE (or - for stdin) has one JSON object a line:
    {"source": "timm:resnet50", "output": "x.tape", "precision": "amp-fp16", "img_size": 288, "channels_last": true}
  Keys: source and output (both required; output's folder is made), `device`, any knob by its name with underscores,
  `batches` as a list, `classes_derivative` as a boolean; unknown keys are an error of that line. "id" is passed through.
  One JSON object a line comes back on stdout, as soon as each job ends, in order:
    {"id": ..., "source": "timm:resnet50", "output": "x.tape", "ok": true, "seconds": 2.1, "events": 7013}
    {"id": ..., "source": "timm:nope", "output": "y.tape", "ok": false, "status": 3, "error": "timm 1.0.31 has no ..."}
  A failed job does not stop the others. The exit status is 0 if all are ok, else 3. --skip-existing leaves outputs alone
  that are there ("ok": true, "skipped": true). Options given beside --jobs are defaults for every line.
  Run two processes for two cores; one job at a time in each.

Exit status: 0 done, 2 usage, 3 the model cannot be recorded, 4 a library or the GPU is missing, 5 a bug in batchfit.
BATCHFIT_DEBUG=1 shows tracebacks.
"""

import argparse
import json
import os
import sys
import time

from .errors import MissingLibrary, RecordError, UsageError
from .knobs import KNOBS, PRESETS


def _flag(name):
    return "--" + name.replace("_", "-")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message)


def _add_bool(parser, name, text):
    group = parser.add_mutually_exclusive_group()
    group.add_argument(_flag(name), dest=name, action="store_const", const=True, help=text)
    group.add_argument("--no-" + name.replace("_", "-"), dest=name, action="store_const", const=False,
                       help=argparse.SUPPRESS)


def _batches(text):
    try:
        batches = [int(b) for b in text.split(",")]
    except ValueError:
        batches = []
    if not batches or min(batches) < 1 or sorted(set(batches)) != batches:
        raise argparse.ArgumentTypeError("growing numbers, as in 2,4,8; one number makes a tape for that batch alone")
    return batches


def parser():
    """The command line."""
    p = _Parser(prog="python3 -m batchfit.record", description=__doc__.split("\n")[0], epilog=__doc__,
                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source", nargs="?", metavar="SOURCE")
    p.add_argument("-o", "--output", metavar="FILE", help="file for the tape; - is stdout")
    p.add_argument("--jobs", metavar="FILE", help="many tapes, one JSON object per line")
    p.add_argument("--skip-existing", action="store_true", help="with --jobs: keep existing outputs")
    p.add_argument("--batches", type=_batches, metavar="B,B,B", help="batches to record at (default 2,4,8)")
    p.add_argument("--device", choices=("meta", "cuda"), help="meta: no GPU, no arithmetic; cuda: two real steps on this "
                   "machine's GPU at each batch, from the allocator's history (torch 2.0 or later)")
    p.add_argument("--classes-derivative", action="store_true", default=None, help="add n=CN,KN to the sizes")
    p.add_argument("--quiet", action="store_true", help="no progress on stderr")
    for name, (kind, text) in KNOBS.items():
        if kind is bool:
            _add_bool(p, name, text)
        elif name == "script_defaults":
            p.add_argument(_flag(name), dest=name, choices=list(PRESETS), help=text)
        elif isinstance(kind, tuple):
            p.add_argument(_flag(name), dest=name, choices=kind, help=text)
        else:
            p.add_argument(_flag(name), dest=name, type=kind, metavar=kind.__name__.upper(), help=text)
    return p


def _said(arguments):
    names = list(KNOBS) + ["device", "batches", "classes_derivative"]
    return {n: getattr(arguments, n) for n in names if getattr(arguments, n) is not None}


def _torch():
    """Import the recorder; a missing or broken torch is a MissingLibrary."""
    try:
        import torch  # noqa: F401
    except Exception as why:  # a broken installation raises OSError, RuntimeError, ...
        raise MissingLibrary("cannot import torch (%s); install it with: pip install torch" % (why,))
    import warnings
    warnings.filterwarnings("ignore")
    from .recorder import record
    return record


def _write(path, text):
    """Write the tape whole or not at all."""
    if path == "-":
        sys.stdout.write(text)
        return
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    part = "%s.part%d" % (path, os.getpid())
    with open(part, "w", encoding="utf-8", newline="\n") as f:
        f.write(text)
    os.replace(part, path)


def _one(record, source, output, said, say):
    started = time.time()
    text = record(source, said, say)
    _write(output, text)
    say("%s: %d events, %.1f s" % (source, text.count("\n") - 1, time.time() - started))
    return text


def _explain(why):
    """(status, one line) of an exception; re-raised under BATCHFIT_DEBUG."""
    if os.environ.get("BATCHFIT_DEBUG"):
        raise why
    if isinstance(why, RecordError):
        return why.status, str(why)
    if isinstance(why, OSError):
        return 3, "%s: %s" % (why.filename or "file", why.strerror or why)
    line = (str(why).strip().split("\n") or [""])[0][:200]
    return 5, "%s: %s (set BATCHFIT_DEBUG=1 for the traceback)" % (type(why).__name__, line)


def _job(record, line, defaults, skip, say):
    """Run one line of --jobs; returns its result object."""
    result = {"ok": False}
    started = time.time()
    try:
        job = json.loads(line)
        result.update({k: job.pop(k) for k in ("id",) if k in job})
        result.update(source=job.pop("source"), output=job.pop("output"))
        if skip and os.path.exists(result["output"]):
            return dict(result, ok=True, skipped=True)
        text = _one(record, result["source"], result["output"], dict(defaults, **job), say)
        result.update(ok=True, seconds=round(time.time() - started, 2), events=text.count("\n") - 1)
    except (KeyError, ValueError, TypeError, AttributeError) as why:
        result.update(status=2, error="bad job line: %s" % why) if "source" not in result else \
            result.update(zip(("status", "error"), _explain(why)))
    except Exception as why:
        result.update(zip(("status", "error"), _explain(why)))
    return result


def _jobs(arguments, say):
    record, failed = _torch(), 0
    lines = sys.stdin if arguments.jobs == "-" else open(arguments.jobs, encoding="utf-8")
    with lines:
        for line in lines:
            if line.strip():
                result = _job(record, line, _said(arguments), arguments.skip_existing, say)
                failed += not result["ok"]
                print(json.dumps(result), flush=True)
    return 3 if failed else 0


def main(argv=None):
    """Entry point; returns the exit status."""
    try:
        arguments = parser().parse_args(argv)
        quiet = arguments.quiet
        say = (lambda text: None) if quiet else (lambda text: print("record: " + text, file=sys.stderr, flush=True))
        if arguments.jobs:
            return _jobs(arguments, say)
        if not arguments.source or not arguments.output:
            raise UsageError("SOURCE and -o FILE are required (or --jobs FILE); see --help")
        _one(_torch(), arguments.source, arguments.output, _said(arguments), say)
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as why:
        status, text = _explain(why)
        print("record: error: " + text, file=sys.stderr)
        return status


if __name__ == "__main__":
    sys.exit(main())
