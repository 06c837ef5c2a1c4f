# SPDX-License-Identifier: Apache-2.0
"""Trainers as their users start them, and what batchfit does with each: the rows of doc/trainers.md.

    python trainers.py [NAME...]      prints the rows (all without a name), each from the real library
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata

import examples

HERE = os.path.join(examples.ROOT, "tests", "frameworks", "trainers")
os.environ["KERAS_BACKEND"] = "torch"
SECONDS = 900  # of one answer: some import for a minute where the machine has other things to do
HF = "--output_dir {out} --use_cpu true --save_steps 5 --report_to none --logging_steps 5 --max_steps {steps}"
HF_SIZES = "--per_device_train_batch_size {batch} --gradient_accumulation_steps {accumulate}"
GPT2 = "--model_name_or_path {data}/tiny-gpt2 --train_file {data}/text.jsonl"
SFT = ("--model_name_or_path {data}/tiny-gpt2 --dataset_name {data}/sft --max_length 32 --use_peft --lora_r 4 "
       "--lora_target_modules all-linear --dtype float32")


class Trainer:
    """name: the row's. package: whose version is shown. command: with {batch}, {accumulate}, {out}, {data}, {steps}, and {resume:...}
    where it can resume. mib: the memory that `fit` has. steps: which `run` makes. saves: the checkpoints, where no framework that is
    known says them. most: samples of the whole training at batch 4, which one that starts over instead of resuming goes beyond."""

    def __init__(self, name, package, command, mib, steps=20, needs=(), saves=None, most=None):
        self.name, self.package, self.command, self.mib, self.steps, self.needs = name, package, command, mib, steps, needs
        self.saves, self.most = saves, most

    def words(self):
        """As a shell would part them: {resume:A B} is one."""
        return re.findall(r"\{resume:(?:[^{}]|\{[^{}]*\})*\}|\S+", self.command)


def script(name):
    return "{python} " + os.path.join(HERE, name)


TRAINERS = [
    Trainer("Trainer, run_clm", "transformers",
            f"{script('hf_clm.py')} {GPT2} {HF} {HF_SIZES} {{resume:--resume_from_checkpoint {{checkpoint}}}}", 900,
            needs=("transformers", "datasets", "evaluate")),
    Trainer("Trainer, run_glue", "transformers",
            f"{script('hf_glue.py')} {GPT2} {HF} {HF_SIZES} {{resume:--resume_from_checkpoint {{checkpoint}}}}", 900,
            needs=("transformers", "datasets", "evaluate")),
    Trainer("Seq2SeqTrainer, run_summarization", "transformers",
            f"{script('hf_summarization.py')} --model_name_or_path {{data}}/tiny-t5 --train_file {{data}}/text.jsonl {HF} {HF_SIZES} "
            "{resume:--resume_from_checkpoint {checkpoint}}", 900, needs=("transformers", "datasets", "evaluate")),
    Trainer("run_clm_no_trainer", "accelerate",
            f"{script('hf_no_trainer.py')} {GPT2} {HF_SIZES} --num_train_epochs 1 --checkpointing_steps 5 --output_dir {{out}} "
            "{resume:--resume_from_checkpoint {checkpoint}}", 900, needs=("transformers", "datasets", "accelerate")),
    Trainer("SFT with LoRA", "trl",
            f"{{python}} -m trl.scripts.sft {SFT} {HF} {HF_SIZES} {{resume:--resume_from_checkpoint {{checkpoint}}}}", 1200,
            needs=("trl", "peft", "datasets")),
    Trainer("nanoGPT's manner", "torch",
            f"{script('nanogpt.py')} --data={{data}}/tokens.bin --out_dir={{out}} --batch_size={{batch}} "
            "--gradient_accumulation_steps={accumulate} --max_iters={steps} --eval_interval=5 {resume:--init_from=resume}", 600,
            needs=("torch.nn.attention",), most=21 * 4),  # scaled_dot_product_attention, of torch 2
    Trainer("mnist's manner", "torch", f"{script('mnist.py')} --batch-size {{batch}} --lr {{lr}} --epochs 1", 600),
    Trainer("imagenet's manner", "torchvision",
            f"{script('imagenet.py')} --dummy --batch-size {{batch}} --lr {{lr}} {{resume:--resume {{checkpoint}}}} {{out}}", 900,
            needs=("torchvision",), most=3 * 384),
    Trainer("torchvision references' manner", "torchvision",
            f"{script('torchvision_classify.py')} --batch-size {{batch}} --lr {{lr}} --output-dir {{out}} {{resume:--resume {{checkpoint}}}}", 900,
            needs=("torchvision",), most=3 * 384),
    Trainer("timm's train.py's manner", "timm",
            f"{script('timm_train.py')} --batch-size {{batch}} --grad-accum-steps {{accumulate}} --output {{out}} "
            "{resume:--resume {checkpoint}}", 900, needs=("timm", "torchvision"), most=3 * 256),
    Trainer("Lightning", "lightning",
            f"{script('lit.py')} --batch-size {{batch}} --accumulate {{accumulate}} --output {{out}} {{resume:--ckpt_path {{checkpoint}}}}",
            900, needs=("lightning",), most=3 * 1024),
    Trainer("yolo detect train", "ultralytics",
            "yolo detect train data={data}/boxes/data.yaml model=yolo11n.yaml imgsz=64 batch={batch} device=cpu workers=0 plots=False "
            "epochs=3 lr0={lr} project={out} {resume:model={checkpoint} resume=True}", 900, needs=("ultralytics", "torchvision"), most=3 * 64),
    Trainer("Keras 3 on torch", "keras",
            f"{script('keras_fit.py')} --batch-size {{batch}} --accumulate {{accumulate}} --output {{out}} {{resume:--resume {{checkpoint}}}}", 900,
            needs=("keras",), saves="*"),
    Trainer("JAX", "jax",
            f"{script('jax_loop.py')} --steps 2000 --batch-size {{batch}} --accumulate {{accumulate}} --output {{out}} {{resume:--resume {{checkpoint}}}}", 600,
            needs=("jax",), saves="*"),
    Trainer("notebook, papermill", "papermill",
            "{python} -m papermill --log-output {data}/train.ipynb {out}.ipynb -p out {out} -p batch {batch} -p accumulate {accumulate} "
            "{resume:-p resume {checkpoint}}", 900, needs=("papermill", "ipykernel"), most=4 * 512),
    Trainer("notebook, nbconvert", "nbconvert",
            "env OUT={out} BATCH={batch} ACCUMULATE={accumulate} {resume:RESUME={checkpoint}} {python} -m nbconvert --to notebook --execute "
            "{data}/train.ipynb --output-dir {out}", 900, needs=("nbconvert", "ipykernel"), most=4 * 512),
]


class Folder:
    """The data of all trainers, and a fresh folder for each answer."""

    def __init__(self, path):
        self.path, self.data = path, os.path.join(path, "data")
        self.environment = examples.environment(path, XDG_CACHE_HOME=os.path.join(path, "cache"), HF_HOME=os.path.join(path, "hf"),
                                                BATCHFIT_STORE=os.path.join(path, "history"), TQDM_MININTERVAL="1")
        self.answers = 0

    def prepare(self, names):
        if names & {"transformers", "trl", "accelerate", "torch"}:
            self.call([sys.executable, os.path.join(HERE, "prepare.py"), self.data])
            os.makedirs(os.path.join(self.data, "sft"))
            os.link(os.path.join(self.data, "text.jsonl"), os.path.join(self.data, "sft", "train.jsonl"))
        if "ultralytics" in names:
            examples.make_boxes(os.path.join(self.data, "boxes"), 64)
        if names & {"papermill", "nbconvert"}:
            self.make_notebook()

    def make_notebook(self):
        """trainers/notebook.py, a cell at each `# %%`."""
        with open(os.path.join(HERE, "notebook.py"), encoding="utf-8") as f:
            cells = f.read().split("\n# %%")[1:]
        cells = [{"cell_type": "code", "id": str(n), "metadata": {"tags": cell.partition("\n")[0].split()}, "outputs": [],
                  "execution_count": None, "source": cell.partition("\n")[2]} for n, cell in enumerate(cells)]
        spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        os.makedirs(self.data, exist_ok=True)
        with open(os.path.join(self.data, "train.ipynb"), "w", encoding="utf-8") as f:
            json.dump({"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}, f)

    def call(self, command, meanwhile=None, place=None):
        with subprocess.Popen(command, cwd=place or self.path, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace") as child:
            if meanwhile:
                threading.Thread(target=meanwhile, args=(child,), daemon=True).start()
            out, said = child.communicate(timeout=SECONDS)
        return child.returncode, out, said

    def batchfit(self, trainer, *verb, meanwhile=None):
        """(status, document or None, what was said). meanwhile(child, out): called in a thread of its own."""
        self.answers += 1
        place = os.path.join(self.path, "answer-%d" % self.answers)
        out = os.path.join(place, "out")
        os.makedirs(place)
        words = {"{python}": sys.executable, "{data}": self.data, "{out}": out, "{steps}": str(trainer.steps)}
        command = []
        for word in trainer.words():
            for name, value in words.items():
                word = word.replace(name, value)
            word = word if verb[0] == "run" else word.replace("{lr}", "0.01")
            if verb[0] == "run" or not word.startswith("{resume:"):
                command.append(word)
        status, answer, said = self.call([examples.BATCHFIT, *verb, "--json", "--device", "cpu", "--python", sys.executable, "--", *command],
                                         meanwhile and (lambda child: meanwhile(child, out)), place)
        return status, json.loads(answer) if answer.strip() else None, said


def complaint(said):
    return "no: " + (said.strip().splitlines() or ["(nothing was said)"])[-1][:100]


def of_fit(folder, trainer):
    """(how its steps are seen, what it chose)"""
    status, answer, said = folder.batchfit(trainer, "fit", "--memory", "%dMiB" % trainer.mib, "--steps", "3", "--max-batch-size", "64")
    if answer is None or not answer.get("trials"):
        return complaint(said), "no (%d)" % status
    chosen = "batch %d in %d launches" % (answer["largest_batch_size"] or 0, answer["launches"])
    is_printed = any("read from the command's output" in note for note in answer["notes"])
    return "printed" if is_printed else "emitter", chosen if status == 0 else "no (%d)" % status


def of_bench(folder, trainer):
    """(the parts of a step, whether it was measured)"""
    status, answer, said = folder.batchfit(trainer, "bench", "--batch-sizes", "4", "--steps", "3")
    if answer is None:
        return "", complaint(said)
    row = answer["rows"][0]
    parts = [name for name in ("forward", "backward", "optimizer") if row[name + "_ms"] is not None]
    return ", ".join(parts) or "whole steps", "yes" if status == 0 and row["status"] == "OK" else "no (%d)" % status


def processes(words):
    """Those whose command line has the words."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as f:
                if words in f.read().decode(errors="replace") and int(name) != os.getpid():
                    yield int(name)
        except OSError:
            pass


def kill_after_a_checkpoint(child, out, by_files):
    """The training alone, which has {out} in its command, once, when `run` knows of a checkpoint and it has gone on for a moment.
    by_files: what `--checkpoint` names is looked for by `run` only after its end."""
    def has_saved():
        if by_files:
            return os.path.isdir(out) and len(os.listdir(out)) > 1
        try:
            with open(os.path.join(os.path.dirname(out), "run.jsonl"), encoding="utf-8") as f:
                return '"event":"checkpoint"' in f.read()
        except FileNotFoundError:
            return False

    while child.poll() is None and not has_saved():
        time.sleep(0.05)
    time.sleep(0.5)
    for pid in processes(out):
        with open("/proc/%d/comm" % pid, encoding="utf-8") as f:
            if not f.read().startswith("batchfit"):  # not us, nor our guard
                os.kill(pid, signal.SIGKILL)


def of_run(folder, trainer):
    """To its end under `run`, killed once after a checkpoint where it can resume, and not by us."""
    resumes = any(word.startswith("{resume:") for word in trainer.words())
    options = ["--auto-scale-lr", "--lr", "0.01"] if "{lr}" in trainer.command else []
    if trainer.saves:
        options += ["--checkpoint", os.path.join("out", trainer.saves)]
    status, answer, said = folder.batchfit(trainer, "run", "--recover", "--batch-size", "4", "--backoff", "0", "--log", "run.jsonl",
                                           *options, meanwhile=(lambda child, out: kill_after_a_checkpoint(child, out, trainer.saves)) if resumes else None)
    if answer is None:
        return complaint(said)
    if status or answer["restarts"] > (1 if resumes else 0):
        return "no (%d, %d restarts)" % (status, answer["restarts"])
    if not resumes:
        return "to its end"
    has_resumed = answer["restarts"] and answer["attempts"][-1]["checkpoint"]
    if has_resumed and trainer.most and not 0 < (answer["samples"] or 0) <= trainer.most:
        return "to its end, not resumed: %s samples, not %d" % (answer["samples"], trainer.most)
    return "to its end, resumed" if has_resumed else "to its end, not resumed"


def row(folder, trainer):
    seen, fit = of_fit(folder, trainer)
    parts, bench = of_bench(folder, trainer)
    resume = next(("`%s`" % word for word in trainer.words() if word.startswith("{resume:")), "it cannot")
    resume += ", `--checkpoint`" if trainer.saves else ""
    cells = [trainer.name, "%s %s" % (trainer.package, metadata.version(trainer.package).partition("+")[0]), seen, parts, fit, bench,
             of_run(folder, trainer), resume]
    return "| " + " | ".join(cells) + " |"


def chosen(names=()):
    """Those whose libraries are here, and the reasons for the others."""
    here, missing = [], []
    for trainer in TRAINERS:
        if names and not {trainer.name, trainer.package} & set(names):
            continue
        lacks = [m for m in trainer.needs if not examples.loads(m)]
        (missing if lacks else here).append((trainer, lacks))
    return [t for t, _ in here], ["SKIPPED: %s: %s is not installed" % (t.name, ", ".join(lacks)) for t, lacks in missing]


def main(*names):
    with tempfile.TemporaryDirectory() as path:
        trainers, missing = chosen(names)
        folder = Folder(path)
        folder.prepare({t.package for t in trainers})
        for trainer in trainers:
            print(row(folder, trainer), flush=True)
        print("\n".join(missing), file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
