# SPDX-License-Identifier: Apache-2.0
"""What is trained: the small network, or a model of the recorder's sources (../sources) with real weights.

A Task is a module, samples for it and a loss. The sources' jobs know the shapes of a whole batch on the device; a
function a kind of job says here what single samples on the host look like.
"""

import warnings

import torch
import torch.nn.functional as F

from .. import sources
from ..build import real
from ..errors import RecordError
from ..knobs import Knobs
from ..sources.job import ImageJob, first
from .data import Field, Synthetic
from .network import Network

SIDE = 64  # of the small network's images, unless --img-size or --seq-len or a file says otherwise
CLASSES = 10


class Task:
    """model        module, still on the CPU
    dataset      samples
    loss         loss(model, batch) -> scalar tensor; batch: what the loader gives, on the model's device
    placed       placed(model), called once the model is on its device; None: nothing to do
    """

    def __init__(self, model, dataset, loss, placed=None):
        self.model, self.dataset, self.loss, self.placed = model, dataset, loss, placed


def _pair_loss(loss):
    """loss(output, target) as a Task's."""
    def compute(model, batch):
        x, target = batch
        return loss(first(model(x)), target)
    return compute


# ---- the small network ---------------------------------------------------------------------------------------------

def _small(options, file):
    classes = options.num_classes or CLASSES
    if file is None:
        shape = (1, options.seq_len) if options.seq_len else (1,) + (options.img_size or SIDE,) * 2
        dataset, kind, outputs = Synthetic((Field(shape), Field((), torch.int64, classes)), options.seed), "class", classes
    else:
        dataset, shape, kind = file, file.shape, file.kind
        outputs = max(file.classes, options.num_classes or 0) if kind == "class" else file.outputs
    model = Network(shape[0], len(shape) - 1, outputs, options.depth, options.hidden, kind == "dense")
    return Task(model, dataset, _pair_loss(F.cross_entropy if kind == "class" else F.mse_loss))


# ---- models of the libraries ---------------------------------------------------------------------------------------

def _image_task(job, options, file):
    if file is None:
        dataset = Synthetic((Field(job.shape), Field((), torch.int64, job.header.get("classes") or CLASSES)), options.seed)
    else:
        _check_images(file, job.shape, job.header.get("classes"))
        dataset = file
    return Task(job.model, dataset, _pair_loss(job.loss))


def _check_images(file, shape, classes):
    words = "x".join(map(str, shape))
    if file.shape != tuple(shape):
        raise RecordError("%s: samples of %s are %s, the model takes %s (--img-size)" % (
            file.path, file.inputs, "x".join(map(str, file.shape)), words))
    if file.kind != "class":
        raise RecordError("%s has no integer labels, which the model's classes need" % file.path)
    if classes and file.classes > classes:
        raise RecordError("%s: %s counts %d classes, the model has %d (--num-classes)" % (
            file.path, file.targets, file.classes, classes))


def _text_task(job, options, file):
    """Tokens, or the pixels of a vision model: the tensors that the job names, each with the values that may stand in it."""
    config, template = job.model.config, {}
    for name, tensor in job.inputs(2).items():
        if tensor.dtype.is_floating_point:
            template[name] = Field(tensor.shape[1:])
        elif name == "attention_mask":
            template[name] = torch.ones(tensor.shape[1:], dtype=tensor.dtype)
        elif name == "token_type_ids":
            template[name] = torch.zeros(tensor.shape[1:], dtype=tensor.dtype)
        else:
            of_classes = name == "labels" and tensor.dim() == 1
            template[name] = Field(tensor.shape[1:], tensor.dtype, config.num_labels if of_classes else config.vocab_size)

    def loss(model, batch):
        output = model(**batch)
        return output["loss"] if isinstance(output, dict) else output[0]

    def pixel_loss(model, batch):
        return loss(model, {"pixel_values": batch[0], "labels": batch[1]})
    if file is None:
        return Task(job.model, Synthetic(template, options.seed), loss)
    if "pixel_values" not in template:
        raise RecordError("--data-path: a text model cannot use an HDF5 file; leave it out")
    _check_images(file, template["pixel_values"].shape, config.num_labels)
    return Task(job.model, file, pixel_loss)


def _detection_task(job, options, file):
    _no_file(file, "a detection model")
    _, targets = job.inputs(1)
    boxes, kinds = targets["bboxes"], targets["cls"]
    template = (Field((3, job.side, job.side), torch.uint8, 256), kinds, boxes)
    criterion = []

    def loss(model, batch):
        image, classes, bboxes = batch
        count, each = classes.shape[:2]
        number = torch.arange(count, device=image.device).repeat_interleave(each).float()
        where = {"batch_idx": number, "cls": classes.reshape(-1, 1), "bboxes": bboxes.reshape(-1, 4)}
        return criterion[0](model(image.float() / 255), where)[0].sum()
    # its buffers are on the device that the model has when it is made
    return Task(job.model, Synthetic(template, options.seed), loss, lambda model: criterion.append(model.init_criterion()))


def _user_task(job, options, file):
    _no_file(file, "python:MODULE:FUNCTION, whose inputs_fn makes the samples")
    template = _one_of(job.inputs_fn(2)) if job.inputs_fn else (Field((3,) + (options.img_size or 224,) * 2),)

    def loss(model, batch):
        x, target = batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (batch, None)
        x = x[0] if isinstance(x, (tuple, list)) and len(x) == 1 else x
        output = model(**x) if isinstance(x, dict) else model(*x) if isinstance(x, (tuple, list)) else model(x)
        if target is None and isinstance(first(output), torch.Tensor) and first(output).dim() > 0:
            target = torch.zeros(len(first(output)), dtype=torch.int64, device=first(output).device)
        return job._loss(output, target)
    return Task(job.model, Synthetic(template, options.seed), loss)


def _one_of(made):
    """The first of two samples in nested containers; what is on the meta device has no values and gets some."""
    if isinstance(made, torch.Tensor):
        if not made.dim() or len(made) != 2:
            raise RecordError("inputs_fn(2) made a tensor of shape %s; the first axis must be the batch" % (tuple(made.shape),))
        return Field(made.shape[1:], made.dtype) if made.is_meta else made[0].detach().cpu()
    if isinstance(made, dict):
        return {key: _one_of(value) for key, value in made.items()}
    if isinstance(made, (list, tuple)):
        return tuple(_one_of(value) for value in made)
    return made


def _no_file(file, what):
    if file is not None:
        raise RecordError("--data-path cannot be used with %s" % what)


TASKS = {"hf": _text_task, "ultralytics": _detection_task, "python": _user_task}


def load(options, file):
    """The Task that the options name. file: hdf5.File or None. Raises RecordError, UsageError, MissingLibrary."""
    torch.manual_seed(options.seed)
    if not options.model:
        return _small(options, file)
    kind, _ = sources.split(options.model)
    said = {name: getattr(options, name) for name in ("img_size", "seq_len", "num_classes", "precision")}
    with real("cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries at import
        job = sources.load(options.model, Knobs(kind, torch.__version__, said))
    make = _image_task if isinstance(job, ImageJob) else TASKS[kind]
    return make(job, options, file)
