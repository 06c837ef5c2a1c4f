// SPDX-License-Identifier: Apache-2.0
// batchfit record: tape of any PyTorch model. The recorder itself is Python (python/batchfit),
// since PyTorch must be spoken to; it is embedded here, laid into the cache folder and run by the
// user's own python3.
#include "verbs/record/record.h"
#include "base/json.h"
#include "base/os.h"
#include "base/out.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "measure/launch/launch.h"
#include "predict/tape/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUES = 32 };

struct record_options {
    struct cli_options base;
    const char *output, *python, *snapshots;
    const char *values[VALUES]; // options that go to the recorder as they are
    bool switches[VALUES];
};

#define AT(member) offsetof(struct record_options, member)
#define VALUE(n) offsetof(struct record_options, values) + (n) * sizeof(const char *)
#define SWITCH(n) offsetof(struct record_options, switches) + (n) * sizeof(bool)

// The first three are ours, the rest the recorder's (python/batchfit/knobs.py).
enum { OWN_ROWS = 3, VALUE_BATCHES = 18, VALUE_NAME };
static const struct cli_row rows[] = {
    {"output", "FILE", CLI_TEXT, AT(output),
     "file for the tape (default your own store, where fit finds it)", "file", 'o'},
    CLI_ROW_PYTHON(AT(python)),
    {"from-snapshot", "FILE", CLI_REPEAT, AT(snapshots),
     "PyTorch memory snapshot to use instead of SOURCE (twice, with --batches, for two batches)",
     "file"},
    {"precision", "WORD", CLI_TEXT, VALUE(0),
     "fp32, amp-fp16, amp-bf16, bf16 or fp16; amp is autocast, fp16 is for inference only",
     "fp32 amp-fp16 amp-bf16 bf16 fp16"},
    {"optimizer", "NAME", CLI_TEXT, VALUE(1),
     "sgd, adam, adamw, adafactor, lion, adamw8bit, adamw32bit, lion32bit or none",
     "sgd adam adamw adafactor lion adamw8bit adamw32bit lion32bit none"},
    {"img-size", "N", CLI_TEXT, VALUE(2), "side of the square image in pixels"},
    {"seq-len", "N", CLI_TEXT, VALUE(3), "sequence length in tokens"},
    {"target-len", "N", CLI_TEXT, VALUE(4),
     "target length in tokens (seq2seq), or a completion's length (GRPO)"},
    {"mode", "WORD", CLI_TEXT, VALUE(5), "train or inference", "train inference"},
    {"accumulation", "N", CLI_TEXT, VALUE(6),
     "micro-steps per optimizer step; 2 stands for any larger number"},
    {"checkpointing", NULL, CLI_SWITCH, SWITCH(0), "gradient checkpointing"},
    {"channels-last", NULL, CLI_SWITCH, SWITCH(1), "use the NHWC layout"},
    {"ema", NULL, CLI_SWITCH, SWITCH(2), "keep an averaged copy of the weights"},
    {"grad-scaler", NULL, CLI_SWITCH, SWITCH(3), "use GradScaler (default for amp-fp16)"},
    {"no-grad-scaler", NULL, CLI_SWITCH, SWITCH(4), "do not use GradScaler"},
    {"zero-grad", "WORD", CLI_TEXT, VALUE(7), "set gradients to none or fill them with zero",
     "none zero"},
    {"attention", "WORD", CLI_TEXT, VALUE(8),
     "fused or math (default CUDA's own choice for that torch version)", "fused math"},
    {"num-classes", "N", CLI_TEXT, VALUE(9), "number of classes"},
    {"loss", "WORD", CLI_TEXT, VALUE(10),
     "loss: ce or label-smoothing; of an hf: decoder liger (with its other layers; liger:loss "
     "without, liger@0.5.2 of that version), chunked or chunked:N, linear or linear:N "
     "(torchtune's), cut (Apple's), dpo (trl's: pairs, and a reference model or the adapter "
     "switched off), dpo:precomputed, dpo@1.15 (of that version), dpo:llamafactory; pairs alone: "
     "orpo, cpo, cpo-simpo, simpo, orpo@1.14, orpo:llamafactory; kto, kto@1.15; reward (trl's "
     "RewardTrainer); grpo, grpo:reference, grpo@1.15 (--target-len: tokens of a completion)"},
    {"momentum", "X", CLI_TEXT, VALUE(11), "SGD momentum; 0: no momentum buffer"},
    {"nesterov", NULL, CLI_SWITCH, SWITCH(5), "use Nesterov momentum"},
    {"weight-decay", "X", CLI_TEXT, VALUE(12), "weight decay; only zero or not matters"},
    {"foreach", NULL, CLI_SWITCH, SWITCH(6), "use the optimizer's multi-tensor kernels"},
    {"no-foreach", NULL, CLI_SWITCH, SWITCH(7), "update one tensor at a time"},
    {"fused-optimizer", NULL, CLI_SWITCH, SWITCH(8), "use the optimizer's fused kernel"},
    {"clip-grad", "NORM", CLI_TEXT, VALUE(13), "clip_grad_norm_"},
    {"cudnn-benchmark", NULL, CLI_SWITCH, SWITCH(9), "torch.backends.cudnn.benchmark is on"},
    {"no-cudnn-benchmark", NULL, CLI_SWITCH, SWITCH(10), "torch.backends.cudnn.benchmark is off"},
    {"prefetch", NULL, CLI_SWITCH, SWITCH(11), "use a loader with a side stream, like timm's"},
    {"no-prefetch", NULL, CLI_SWITCH, SWITCH(12), "no loader with a side stream"},
    {"rules", "VERSION", CLI_TEXT, VALUE(14),
     "torch version whose CUDA rules apply (default the one that runs)"},
    {"script-defaults", "WORD", CLI_TEXT, VALUE(15),
     "behave like a known script: timm-train, timm-benchmark, hf-trainer, ultralytics, torchtitan, "
     "plain",
     "timm-train timm-benchmark hf-trainer ultralytics torchtitan plain"},
    {"task", "WORD", CLI_TEXT, VALUE(16), "head of an hf: model",
     "auto classification token-classification causal-lm masked-lm seq2seq-lm"},
    {"targets-per-image", "N", CLI_TEXT, VALUE(17), "objects per image (detection)"},
    {"adapter", "WORD", CLI_TEXT, VALUE(21),
     "LoRA over frozen weights: lora:16 (every linear layer), lora:16:q_proj,v_proj or "
     "lora:16:all-linear:dropout; :bf16 behind the names keeps it in bf16 (peft: fp32)"},
    {"quant", "WORD", CLI_TEXT, VALUE(22),
     "frozen weights in four bits: nf4, nf4-dq (scales quantised, too), either with -left (the "
     "rest stays in bf16, as in Axolotl), or nf4-torchao (as in torchtune)",
     "nf4 nf4-dq nf4-left nf4-dq-left nf4-torchao"},
    {"quant-prepare", "WORD", CLI_TEXT, VALUE(26),
     "what prepares the weights that are not in four bits: peft (in fp32; default), trl (embedding "
     "and head back in bf16) or none",
     "peft trl none"},
    {"weights", "WORD", CLI_TEXT, VALUE(23), "what a model under amp is loaded as: fp32 or bf16",
     "fp32 bf16"},
    {"shard", "WORD", CLI_TEXT, VALUE(24),
     "record one GPU of several that share the weights: fsdp1 (fsdp1@4.52), fsdp2 (fsdp2@1.13), "
     "torchtune "
     "(fsdp2 as its "
     "recipes have it), or zero1, zero2 and zero3 of DeepSpeed (hf: models, with --ranks and "
     "--fused-optimizer; titan:NAME; fsdp1 and fsdp2 of python: models with _no_split_modules)",
     "fsdp1 fsdp1@4.52 fsdp2 fsdp2@1.13 torchtune zero1 zero2 zero3"},
    {"ranks", "N", CLI_TEXT, VALUE(25), "with --shard: how many GPUs"},
    {"rank", "K", CLI_TEXT, VALUE(30),
     "with zero1 and zero2, whose GPUs hold different parts: the one to record, from 0 (default "
     "the first)"},
    {"tp", "N", CLI_TEXT, VALUE(28),
     "titan:NAME: tensor parallel: number of GPUs that split each layer, its sequences and the "
     "loss; --ranks times as many in all"},
    {"selective", "WORD", CLI_TEXT, VALUE(27),
     "titan:NAME with --checkpointing: of every second layer, or of some operations of each",
     "layer op"},
    {"compile", "WORD", CLI_TEXT, VALUE(29),
     "torch.compile as Inductor plans it for a GPU (torch 2.4 or later): the model as one graph, "
     "each layer as one (hf:, titan:), or the loss as well (titan:)",
     "model layers layers+loss"},
    {"batches", "B,B,B", CLI_TEXT, VALUE(VALUE_BATCHES),
     "batches at which to check the sequence (default 2,4,8)"},
    {"device", "WORD", CLI_TEXT, VALUE(20),
     "meta or cuda; meta: no GPU, no arithmetic; cuda: two real steps on this machine's GPU (torch "
     "2.0 or later)",
     "meta cuda"},
    {"classes-derivative", NULL, CLI_SWITCH, SWITCH(13),
     "also record how sizes depend on the number of classes"},
    {"name", "NAME", CLI_TEXT, VALUE(VALUE_NAME), "name of the model in the tape"},
    {"quiet", NULL, CLI_SWITCH, SWITCH(14), "no progress on stderr"},
    {.name = NULL},
};

static char **command(struct arena *a, const struct record_options *o, struct str folder,
                      const char *output) {
    struct str_words w = {.arena = a};
    str_word_add(&w, str_of(launch_python_program(o->python)));
    str_word_add(&w, str_format(a, "%.*s/start.py", STR_ARG(folder)));
    str_word_add(&w, STR("batchfit.record"));
    str_word_add(&w, str_of(o->base.arguments[0]));
    for (const struct cli_row *row = rows + OWN_ROWS; row->name; row++) {
        const void *at = (const char *)o + row->offset;
        const char *value = row->value ? *(const char *const *)at : NULL;
        if (row->value ? !value : !*(const bool *)at) continue;
        str_word_add(&w, str_format(a, "--%s", row->name));
        if (row->value) str_word_add(&w, str_of(value));
    }
    str_word_add(&w, STR("--output"));
    str_word_add(&w, str_of(output));
    return w.items;
}

// timm:swin_base -> …/tapes/timm-swin_base-384-amp-fp16-adamw.tape: variants do not overwrite one
// another.
static int usual_output(struct arena *a, const struct record_options *o, struct str *ret_path,
                        struct fail *why) {
    struct str folder = str_format(a, "%.*s/tapes", STR_ARG(os_data_dir(a)));
    struct buf path = buf_new(a);
    buf_format(&path, "%.*s/", STR_ARG(folder));
    ptrdiff_t start = path.count;
    buf_add(&path, str_of(o->base.arguments[0]));
    for (const struct cli_row *row = rows + OWN_ROWS; row->name; row++) {
        const void *at = (const char *)o + row->offset;
        if (strcmp(row->name, "quiet") == 0) continue;
        if (row->value && *(const char *const *)at) {
            buf_format(&path, "-%s", *(const char *const *)at);
        } else if (!row->value && *(const bool *)at) {
            buf_format(&path, "-%s", row->name);
        }
    }
    for (ptrdiff_t i = start; i < path.count; i++) {
        char c = path.items[i];
        if (c == '/' || c == ':' || c == ' ') path.items[i] = '-';
    }
    buf_add(&path, STR(".tape"));
    *ret_path = str_copy(a, buf_str(&path));
    return os_make_dirs(a, folder.p, why);
}

static int run_recorder(struct arena *a, const struct record_options *o, const char *output,
                        struct fail *why) {
    struct str folder;
    int status, rc = launch_python_lay_out(a, &folder, why);
    if (rc < 0) return rc;
    setenv("PYTHONPATH", launch_python_own_path(a, folder).p, 1);
    // It takes seconds in which nothing else would be said.
    const bool is_quiet = *(const bool *)((const char *)o + SWITCH(14));
    if (!is_quiet && isatty(STDERR_FILENO)) out_say(stderr, "importing torch\n");
    rc = os_run(command(a, o, folder, output), &status, why);
    if (rc < 0) {
        return fail_hint(why,
                         "install Python 3 and PyTorch, or name a Python with --python PROGRAM");
    }
    if (status == 0) return 0;
    if (why) why->message[0] = 0; // the recorder has said it in its one line
    return status <= 5 ? -status : FAIL_BUG;
}

static int report(struct arena *a, const char *path, bool json, struct fail *why) {
    struct str bytes;
    struct tape tape;
    int rc = os_read(a, path, TAPE_TEXT_MAX, &bytes, NULL, why);
    if (rc == 0) rc = tape_read(a, str_of(path), bytes, &tape, why);
    if (rc < 0) return rc;
    if (json) {
        struct str header = tape.header.json;
        return json_print(json_pack("{s:s, s:i, s:o}", "tape", path, "events",
                                    (int)tape.event_count, "header",
                                    json_loadb(header.p, (size_t)header.len, 0, NULL)),
                          why);
    }
    out_say(stderr, "%s: %.*s, %s parameters, %d events\n", path, STR_ARG(tape.header.model),
            unit_count(a, tape.header.parameters > 0 ? tape.header.parameters : 0).p,
            (int)tape.event_count);
    return 0;
}

static int run_snapshots(struct arena *a, const struct record_options *o, struct fail *why) {
    static const char *const takes[] = {"batches", "name", "quiet", NULL};
    const struct record_snapshots from = {o->snapshots, o->values[VALUE_BATCHES],
                                          o->values[VALUE_NAME]};
    for (const struct cli_row *row = rows + OWN_ROWS; row->name; row++) {
        const void *at = (const char *)o + row->offset;
        bool is_set = row->value ? *(const char *const *)at != NULL : *(const bool *)at;
        if (is_set && !str_is_one_of(str_of(row->name), takes))
            return fail_set(why, FAIL_USAGE, "--%s cannot be used with --from-snapshot", row->name);
    }
    if (o->base.argument_count > 0 || !o->output)
        return fail_set(why, FAIL_USAGE,
                        "--from-snapshot takes no SOURCE, and needs --output FILE");
    int rc = record_from_snapshot(a, &from, o->output, why);
    return rc == 0 && strcmp(o->output, "-") != 0 ? report(a, o->output, o->base.json, why) : rc;
}

static int record_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct record_options *o = (const struct record_options *)options;
    struct str output = str_of(o->output);
    if (o->snapshots) return run_snapshots(a, o, why);
    if (options->argument_count != 1) {
        fail_set(why, FAIL_USAGE, "record takes one source");
        return fail_hint(why, "timm:NAME, torchvision:NAME, hf:NAME, ultralytics:NAME or "
                              "python:MODULE:FUNCTION");
    }
    int rc = o->output ? 0 : usual_output(a, o, &output, why);
    if (rc == 0) rc = run_recorder(a, o, output.p, why);
    if (rc == 0 && !str_is(output, "-")) rc = report(a, output.p, options->json, why);
    return rc;
}

const struct cli_verb record_verb = {
    .name = "record",
    .summary = "record the tape of any PyTorch model, without a GPU",
    .arguments = "SOURCE",
    .description =
        "Runs two training steps of the model on PyTorch's meta device (no data, no arithmetic, a "
        "few seconds) and records every allocation. SOURCE is\n\ntimm:NAME, torchvision:NAME or "
        "ultralytics:NAME for a model of that library,\nhf:NAME, hf:FOLDER or hf:config.json for "
        "a transformers model, built from its configuration: of that file, of the Hugging Face "
        "cache, or of the table that batchfit list shapes shows (nothing is "
        "fetched),\ntitan:NAME for a Llama as torchtitan trains it (--shard fsdp2),\n"
        "python:MODULE:FUNCTION for your own: "
        "the function returns the model, or (model, loss), or (model, loss, inputs).\n\nIt uses "
        "your own python3, PyTorch and libraries, so the tape matches what you train with.\n\nWith "
        "--device cuda, on a GPU, it really runs the two steps at each batch and takes the history "
        "of PyTorch's allocator, so the tape has the workspaces that cuBLAS and cuDNN request on "
        "that GPU. Such a tape has no times.\n\nWith --from-snapshot FILE, nothing runs: the tape "
        "is the history in a memory snapshot (torch.cuda.memory._dump_snapshot), with phases "
        "derived from its stacks. One snapshot makes a tape for its own batch; two snapshots at "
        "two batches, with --batches 8,16, make one for all batches.",
    .examples =
        "batchfit record timm:swin_base_patch4_window12_384 --precision amp-fp16 --optimizer adamw "
        "-o swin.tape\n"
        "batchfit record python:mypackage.train:build --img-size 512 -o mine.tape\n"
        "batchfit record hf:bert-large-uncased --seq-len 512 --optimizer adamw\n"
        "batchfit record --from-snapshot a.pickle --from-snapshot b.pickle --batches 8,16 -o "
        "mine.tape",
    .options = rows,
    .common =
        "output precision optimizer img-size seq-len num-classes mode checkpointing device python",
    .options_size = sizeof(struct record_options),
    .run = record_run,
};
