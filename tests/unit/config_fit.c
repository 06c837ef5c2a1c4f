// SPDX-License-Identifier: Apache-2.0
// A change in every dialect: which keys change, that the effective batch is what was asked for,
// that a second run changes nothing, and that no other key of the tree is different afterwards.
#include "unit.h"

#include "base/os.h"
#include "records/config/config.h"
#include "records/config/tree_int.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

struct row {
    const char *name, *file, *before;
    struct config_change change;
    const char *after; // NULL: an error that contains `error`
    const char *error, *note;
    const char *options; // dialect
};

#define PRECISION(word) .precision = {word, sizeof(word) - 1}

static const struct row rows[] = {
    {"pair",
     "c.yaml",
     "train:\n  batch_size: 32 # 배치\n  epochs: 3\n  gradient_accumulation_steps: 1\n",
     {.batch = 8, .accumulation = 4},
     "train:\n  batch_size: 8 # 배치\n  epochs: 3\n  gradient_accumulation_steps: 4\n"},
    {"43 accumulation is absent, section is there",
     "c.yaml",
     "train:\n    lr: 0.1\n    batch_size: 32\n    epochs: 3\n\n# 검증\nvalid:\n    batch_size: "
     "8\n",
     {.batch = 8, .accumulation = 4},
     "train:\n    lr: 0.1\n    batch_size: 8\n    gradient_accumulation_steps: 4\n    epochs: "
     "3\n\n# 검증\nvalid:\n    batch_size: 8\n",
     .note = "training code must read it"},
    {"43 accumulation of one is not added",
     "c.yaml",
     "batch_size: 32\nlr: 1\n",
     {.batch = 8, .accumulation = 1},
     "batch_size: 8\nlr: 1\n"},
    {"44 flat Hugging Face",
     "c.yaml",
     "model_name_or_path: x\nper_device_train_batch_size: 8\nlr: 1\n",
     {.batch = 2, .accumulation = 4},
     "model_name_or_path: x\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nlr: "
     "1\n"},
    {"44 Axolotl",
     "c.yaml",
     "base_model: x\nmicro_batch_size: 8\n",
     {.batch = 2, .accumulation = 4},
     "base_model: x\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"},
    {"44 timm, older than the option",
     "c.yaml",
     "model: x\nopt: sgd\nsched: cosine\nbatch_size: 128\n",
     {.batch = 64, .accumulation = 2},
     "model: x\nopt: sgd\nsched: cosine\nbatch_size: 64\ngrad_accum_steps: 2\n",
     .note = "timm of 2023 or later"},
    {"44 section is null",
     "c.yaml",
     "train:\nbatch_sizes: 1\n",
     {.batch = 8},
     .error = "no key is a known trainer's batch size"},
    {"44 section is empty",
     "c.yaml",
     "train: {}\nx: 1\n",
     {.batch = 8},
     .error = "no key is a known trainer's batch size"},
    {"Detectron2 inherits the key, the section is there",
     "c.yaml",
     "_BASE_: b.yaml\nSOLVER:\n  STEPS: (1, 2)\n",
     {.batch = 8, .accumulation = 1},
     "_BASE_: b.yaml\nSOLVER:\n  STEPS: (1, 2)\n  IMS_PER_BATCH: 8\n"},
    {"Detectron2: what the base says is not known, so nothing can be kept",
     "c.yaml",
     "_BASE_: b.yaml\nSOLVER:\n  STEPS: (1, 2)\n",
     {.batch = 8},
     .error = "no batch size in the file"},
    {"Detectron2 counts all devices",
     "c.yaml",
     "SOLVER:\n  IMS_PER_BATCH: 16\n",
     {.batch = 4, .ranks = 2},
     "SOLVER:\n  IMS_PER_BATCH: 8\n"},
    {"Detectron2 has no accumulation",
     "c.yaml",
     "SOLVER:\n  IMS_PER_BATCH: 16\n",
     {.batch = 4, .accumulation = 4},
     .error = "no accumulation"},
    {"Ultralytics, divisor of nbs",
     "c.yaml",
     "imgsz: 640\nbatch: 64\nnbs: 64\n",
     {.batch = 16, .accumulation = 4},
     "imgsz: 640\nbatch: 16\nnbs: 64\n"},
    {"Ultralytics, nbs has to say it",
     "c.yaml",
     "imgsz: 640\nbatch: 96\n",
     {.batch = 24, .accumulation = 4},
     "imgsz: 640\nbatch: 24\nnbs: 96\n"},
    {"Ultralytics counts all devices",
     "c.yaml",
     "imgsz: 640\nbatch: 64\nnbs: 64\n",
     {.batch = 8, .accumulation = 4, .ranks = 2},
     "imgsz: 640\nbatch: 16\nnbs: 64\n"},
    {"Ultralytics searches itself",
     "c.yaml",
     "imgsz: 640\nbatch: -1\n",
     {.batch = 8, .accumulation = 8},
     .error = "share of one GPU's memory"},
    {"Ultralytics searches itself, consent",
     "c.yaml",
     "imgsz: 640\nbatch: -1\n",
     {.batch = 8, .accumulation = 8, .flags = CONFIG_REPLACE_SPECIAL},
     "imgsz: 640\nbatch: 8\n"},
    {"DeepSpeed, all three",
     "c.json",
     "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 4, "
     "\"gradient_accumulation_steps\": 8}",
     {.batch = 2, .accumulation = 16},
     "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2, "
     "\"gradient_accumulation_steps\": 16}"},
    {"DeepSpeed, all three and two devices",
     "c.json",
     "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 4, "
     "\"gradient_accumulation_steps\": 8}",
     {.batch = 2, .accumulation = 8, .ranks = 2},
     "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2, "
     "\"gradient_accumulation_steps\": 8}"},
    {"DeepSpeed, micro alone",
     "c.json",
     "{\"train_micro_batch_size_per_gpu\": 8}",
     {.batch = 4, .accumulation = 2},
     "{\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2}"},
    {"DeepSpeed, total alone",
     "c.json",
     "{\"train_batch_size\": 32, \"zero_optimization\": {\"stage\": 1}}",
     {.batch = 8, .accumulation = 4},
     "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 8, \"zero_optimization\": "
     "{\"stage\": 1}}"},
    {"DeepSpeed, auto",
     "c.json",
     "{\"train_micro_batch_size_per_gpu\": \"auto\"}",
     {.batch = 4, .accumulation = 1},
     .error = "from the training arguments"},
    {"18 DeepSpeed, number in quotes",
     "c.json",
     "{\"train_micro_batch_size_per_gpu\": \"8\"}",
     {.batch = 4, .accumulation = 2},
     .error = "remove the quotes first"},
    {"Axolotl, total and micro",
     "c.yaml",
     "base_model: x\nmicro_batch_size: 4\nbatch_size: 32\n",
     {.batch = 8, .accumulation = 4},
     "base_model: x\nmicro_batch_size: 8\nbatch_size: 32\n"},
    {"ms-swift, accumulation is written down",
     "c.yaml",
     "model: x\ntrain_type: lora\nper_device_train_batch_size: 2\n",
     {.batch = 4, .accumulation = 4},
     "model: x\ntrain_type: lora\nper_device_train_batch_size: 4\ngradient_accumulation_steps: "
     "4\n"},
    {"litgpt, only the micro key",
     "c.yaml",
     "train:\n  global_batch_size: 16\n  micro_batch_size: 8\n",
     {.batch = 4, .accumulation = 4},
     "train:\n  global_batch_size: 16\n  micro_batch_size: 4\n"},
    {"litgpt, another effective batch",
     "c.yaml",
     "train:\n  global_batch_size: 16\n  micro_batch_size: 8\n",
     {.batch = 4, .accumulation = 2},
     "train:\n  global_batch_size: 8\n  micro_batch_size: 4\n"},
    {"llm-foundry, auto",
     "c.yaml",
     "global_train_batch_size: 64\ndevice_train_microbatch_size: auto\n",
     {.batch = 4, .accumulation = 16},
     .error = "halves the microbatch"},
    {"llm-foundry, auto, consent",
     "c.yaml",
     "global_train_batch_size: 64\ndevice_train_microbatch_size: auto\n",
     {.batch = 4, .accumulation = 16, .flags = CONFIG_REPLACE_SPECIAL},
     "global_train_batch_size: 64\ndevice_train_microbatch_size: 4\n"},
    {"yacs, unit unknown",
     "c.yaml",
     "TRAIN:\n  BATCH_SIZE: 64\n",
     {.batch = 8, .accumulation = 1, .ranks = 2},
     .error = "only your code knows"},
    {"20 batch is an alias",
     "c.yaml",
     "b: &b 16\ntrain:\n  batch_size: *b\n  lr: 1\n",
     {.batch = 8},
     .error = "--force-anchor"},
    {"12 tab", "c.yaml", "batch_size:\t16\n", {.batch = 8}, .error = "c.yaml:1:12: a tab"},
    {"auto_find_batch_size",
     "c.yaml",
     "per_device_train_batch_size: 8\nauto_find_batch_size: true\n",
     {.batch = 4},
     .error = "lowers the batch by itself"},
    {"precision, amp",
     "c.yaml",
     "batch_size: 8\nuse_amp: False\n",
     {PRECISION("amp-fp16")},
     "batch_size: 8\nuse_amp: True\n"},
    {"precision, amp cannot say bf16",
     "c.yaml",
     "batch_size: 8\nuse_amp: true\n",
     {PRECISION("amp-bf16")},
     .error = "no key for precision amp-bf16"},
    {"precision, amp with a type",
     "c.yaml",
     "batch_size: 8\namp: true\namp_dtype: float16\n",
     {PRECISION("amp-bf16")},
     "batch_size: 8\namp: true\namp_dtype: bfloat16\n"},
    {"precision, pair of booleans",
     "c.yaml",
     "per_device_train_batch_size: 8\nfp16: true\nbf16: false\n",
     {PRECISION("amp-bf16")},
     "per_device_train_batch_size: 8\nfp16: false\nbf16: true\n"},
    {"precision, pair of booleans off",
     "c.yaml",
     "per_device_train_batch_size: 8\nfp16: true\n",
     {PRECISION("fp32")},
     "per_device_train_batch_size: 8\nfp16: false\n"},
    {"precision, a key is added",
     "c.yaml",
     "per_device_train_batch_size: 8\nlr: 1\n",
     {PRECISION("amp-bf16")},
     "per_device_train_batch_size: 8\nbf16: true\nlr: 1\n"},
    {"precision, Lightning's old number",
     "c.yaml",
     "seed_everything: 1\ntrainer:\n  precision: 16\n",
     {PRECISION("fp32")},
     "seed_everything: 1\ntrainer:\n  precision: 32\n"},
    {"precision, Lightning's words",
     "c.yaml",
     "seed_everything: 1\ntrainer:\n  precision: '16-mixed'\n",
     {PRECISION("bf16")},
     "seed_everything: 1\ntrainer:\n  precision: 'bf16-true'\n"},
    {"precision, Composer",
     "c.yaml",
     "global_train_batch_size: 8\nprecision: amp_bf16\n",
     {PRECISION("amp-fp16")},
     "global_train_batch_size: 8\nprecision: amp_fp16\n"},
    {"checkpointing on",
     "c.yaml",
     "per_device_train_batch_size: 8\n",
     {.checkpointing = 1},
     "per_device_train_batch_size: 8\ngradient_checkpointing: true\n"},
    {"checkpointing off by a key that says the opposite",
     "c.yaml",
     "stage: sft\nfinetuning_type: lora\nper_device_train_batch_size: 8\n",
     {.checkpointing = -1},
     "stage: sft\nfinetuning_type: lora\nper_device_train_batch_size: "
     "8\ndisable_gradient_checkpointing: true\n"},
    {"checkpointing is on by default",
     "c.yaml",
     "stage: sft\nfinetuning_type: lora\nper_device_train_batch_size: 8\n",
     {.checkpointing = 1},
     "stage: sft\nfinetuning_type: lora\nper_device_train_batch_size: 8\n"},
    {"workers and sizes",
     "c.yaml",
     "batch_size: 8\nnum_workers: 0\nimage_size: 224\n",
     {.workers = 4, .image_size = 384},
     "batch_size: 8\nnum_workers: 4\nimage_size: 384\n"},
    {"no workers",
     "c.yaml",
     "batch_size: 8\nnum_workers: 2\n",
     {.workers = -1},
     "batch_size: 8\nnum_workers: 0\n"},
    {"optimizer",
     "c.yaml",
     "batch_size: 8\noptimizer: AdamW\n",
     {.optimizer = {"SGD", 3}},
     "batch_size: 8\noptimizer: SGD\n"},
    {"reference inside the file",
     "c.yaml",
     "data:\n  bs: 16\ntrain:\n  batch_size: ${data.bs}\n  lr: 1\n",
     {.batch = 8},
     "data:\n  bs: 8\ntrain:\n  batch_size: ${data.bs}\n  lr: 1\n"},
    {"reference to nowhere",
     "c.yaml",
     "train:\n  batch_size: ${oc.env:BS}\n  lr: 1\n",
     {.batch = 8},
     .error = "which the trainer fills in"},
    {"a record is not edited",
     "c.yaml",
     "imgsz: 640\nbatch: 16\nsave_dir: runs/a\n",
     {.batch = 8},
     .error = "record of a finished run"},
    {"a record is edited when asked",
     "c.yaml",
     "imgsz: 640\nbatch: 16\nsave_dir: runs/a\n",
     {.batch = 8, .accumulation = 8},
     "imgsz: 640\nbatch: 8\nsave_dir: runs/a\n",
     .options = "ultralytics"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int fit(struct arena *a, struct str name, struct str text,
               const struct config_change *change, const char *dialect, struct config *c,
               struct config_reading *r, struct config_edits *e, struct config_patched *p,
               struct fail *why) {
    const struct config_options options = {.dialect = str_of(dialect)};
    int status = config_parse(a, name, text, c, why);
    if (!status) status = config_read_roles(a, c, &options, r, why);
    if (!status) status = config_fit(a, c, r, change, e, why);
    return status ? status : config_patch(a, c, e->items, e->count, change->flags, p, why);
}

static void one_row(void **state) {
    const struct row *row = *state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct config_edits e;
    struct config_patched p;
    struct fail why = {0};
    int status = fit(&a, str_of(row->file), str_of(row->before), &row->change, row->options, &c, &r,
                     &e, &p, &why);
    if (!row->after) {
        assert_int_equal(status, FAIL_INPUT);
        if (!strstr(why.message, row->error) && !strstr(why.hint, row->error))
            fail_msg("message is \"%s\"", why.message);
        return;
    }
    if (status) fail_msg("%s (%s)", why.message, why.hint);
    if (!str_equal(p.text, str_of(row->after)))
        fail_msg("got\n%.*s\nexpected\n%s", STR_ARG(p.text), row->after);
    if (row->note)
        assert_true(p.notes.count > 0 && str_find(p.notes.items[0], str_of(row->note)) >= 0);
    status = fit(&a, str_of(row->file), p.text, &row->change, row->options, &c, &r, &e, &p, &why);
    assert_int_equal(status, 0);
    assert_false(p.changed);
}

// --- The property, over all files ----------------------------------------------------------------

struct flat {
    struct arena *arena;
    struct str *items; // "path<1>style<1>text"
    ptrdiff_t count, capacity;
};

static void add_pair(void *self, struct str path, struct config_node *map, struct config_node *key,
                     struct config_node *value) {
    (void)map;
    struct flat *f = self;
    struct str full = config_path_join(f->arena, path, key->text);
    *arena_push(f->arena, &f->items, &f->count, &f->capacity) =
        str_format(f->arena, "%.*s\001%d %d %d\001%.*s\001%d", STR_ARG(full), (int)value->kind,
                   (int)value->style, value->flow, STR_ARG(value->text),
                   value->kind == NODE_LIST ? value->count : 0);
}

static struct flat flatten(struct arena *a, const struct config *c) {
    struct flat f = {.arena = a};
    config_tree_walk(a, c, add_pair, &f);
    return f;
}

static bool asked(struct str item, const struct config_edits *e) {
    struct str path = str_cut(&item, '\001');
    for (ptrdiff_t i = 0; i < e->count; i++) {
        if (str_equal(e->items[i].path, path)) return true;
    }
    return false;
}

static void only_asked_keys_differ(struct arena *a, const struct config *before,
                                   const struct config *after, const struct config_edits *e) {
    struct flat x = flatten(a, before), y = flatten(a, after);
    ptrdiff_t i = 0, j = 0;
    while (i < x.count || j < y.count) {
        if (i < x.count && asked(x.items[i], e))
            i++;
        else if (j < y.count && asked(y.items[j], e))
            j++;
        else if (i < x.count && j < y.count && str_equal(x.items[i], y.items[j]))
            i++, j++;
        else
            fail_msg("%.*s differs", STR_ARG(i < x.count ? x.items[i] : y.items[j]));
    }
}

static int check_change(struct arena *a, struct str name, struct str text,
                        const struct config_change *change) {
    struct config c, again;
    struct config_reading r, s;
    struct config_edits e, unused;
    struct config_patched p, q;
    struct config_batches b;
    struct fail why = {0};
    if (fit(a, name, text, change, NULL, &c, &r, &e, &p, &why)) {
        assert_true(why.message[0] != 0);
        return 0;
    }
    int status = fit(a, name, p.text, change, NULL, &again, &s, &unused, &q, &why);
    if (status) fail_msg("%.*s, second run: %s", STR_ARG(name), why.message);
    assert_false(q.changed);
    only_asked_keys_differ(a, &c, &again, &e);
    if (change->batch) {
        if (config_batches(a, &s, change->ranks, &b, &why))
            fail_msg("%.*s: %s", STR_ARG(name), why.message);
        if (b.micro != change->batch ||
            b.effective != change->batch * change->accumulation * change->ranks) {
            fail_msg("%.*s: %d of %d, asked for %d x %d x %d", STR_ARG(name), (int)b.micro,
                     (int)b.effective, (int)change->batch, (int)change->accumulation,
                     (int)change->ranks);
        }
    }
    if (change->precision.len)
        assert_true(str_equal(s.values[CONFIG_PRECISION].word, change->precision));
    if (change->checkpointing)
        assert_int_equal(s.values[CONFIG_CHECKPOINTING].boolean, change->checkpointing > 0);
    return 1;
}

static int every = 1; // of a file's changes: the first argument

// Every so many of the changes, from another one on for each file.
static int check_file(struct arena *a, int number, struct str name, struct str text) {
    static const char *const precisions[] = {"fp32", "amp-fp16", "amp-bf16", "bf16"};
    int done = 0;
    for (int i = number % every; i < 3 * 3 * 2 * 2; i += every) {
        static const int64_t batches[] = {1, 6, 48}, steps[] = {1, 2, 5};
        const struct config_change change = {
            .batch = batches[i % 3],
            .accumulation = steps[i / 3 % 3],
            .ranks = 1 + i / 9 % 2,
            .flags = i / 18 ? CONFIG_REPLACE_SPECIAL | CONFIG_EDIT_ANCHOR : 0};
        done += check_change(a, name, text, &change);
    }
    for (int i = 0; i < 4; i++) {
        const struct config_change change = {.precision = str_of(precisions[i]),
                                             .checkpointing = i % 2 ? 1 : -1};
        done += check_change(a, name, text, &change);
    }
    return done;
}

static void all_files_keep_everything_else(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *source = getenv("BATCHFIT_SOURCE");
    struct str folder = str_format(&a, "%s/tests/configs", source ? source : ".");
    DIR *d = opendir(folder.p);
    assert_non_null(d);
    int done = 0, number = 0;
    for (const struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.') continue;
        struct str text, path = str_format(&a, "%s/%s", folder.p, entry->d_name);
        assert_int_equal(os_read(&a, path.p, CONFIG_MAX_BYTES, &text, NULL, NULL), 0);
        struct arena_mark mark = arena_mark(&a);
        done += check_file(&a, number++, str_of(entry->d_name), text);
        arena_rewind(&a, mark);
    }
    closedir(d);
    assert_true(done > 400 / every); // not everything refused
}

static void what_is_not_edited_is_advised(void **state) {
    (void)state;
    static const struct {
        const char *file, *text, *advice;
    } cases[] = {
        {"a.py", "_base_ = 'x'\ntrain_dataloader = dict(batch_size=4)\n",
         "--cfg-options train_dataloader.batch_size=8 optim_wrapper.accumulative_counts=2\n"},
        {"a.py", "data = dict(samples_per_gpu=2)\n", "--cfg-options data.samples_per_gpu=8\n"},
        {"a.toml", "[training]\nlocal_batch_size = 4\n",
         "--training.local_batch_size=8\n--training.global_batch_size=32\n"},
        {"a.toml", "[training]\nbatch_size = 4\nseq_len = 64\n",
         "--training.batch_size=8\n--training.global_batch_size=32\n"},
        {"a.toml", "[train]\nbatch_size = 4\n",
         "train.batch_size = 8\ntrain.gradient_accumulation_steps = 2\n"},
        {"a.py", "batch_size = 4\nblock_size = 64\n",
         "--batch_size=8\n--gradient_accumulation_steps=2\n"},
        {"a.py", "batch_size = 4\n", "batch_size = 8\ngradient_accumulation_steps = 2\n"},
        {"a.py", "dataloader = f()\ndataloader.train.total_batch_size = 4\nmodel = g()\n",
         "dataloader.train.total_batch_size=16\n"},
        {"a.sh", "python train.py --batch-size=4 --lr 1\n",
         "--batch-size=8\ngradient_accumulation_steps: 2\n"},
        {"a.sh", "python -m trl sft --per_device_train_batch_size 4 \\\n --model_name_or_path x\n",
         "--per_device_train_batch_size 8\n--gradient_accumulation_steps 2\n"},
        {"a.sh", "python train.py data.batch_size=4 trainer.max_epochs=3\n",
         "data.batch_size=8\ntrainer.accumulate_grad_batches=2\n"},
        {"hyp.yaml", "lr0: 0.1\nanchor_t: 4\nobj_pw: 1\n", "--batch-size 16\n"},
        {"c.yaml", "imgsz: 640\nbatch: 4\nsave_dir: x\n", "batch=16\nnbs=32\n"},
        {"c.yaml", "train:\n  batch_size: 4\n  lr: 1\n",
         "train.batch_size: 8\ntrain.gradient_accumulation_steps: 2\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct config c;
        struct config_reading r;
        const struct config_change change = {.batch = 8, .accumulation = 2, .ranks = 2};
        assert_int_equal(config_parse(&a, str_of(cases[i].file), str_of(cases[i].text), &c, NULL),
                         0);
        assert_int_equal(config_read_roles(&a, &c, NULL, &r, NULL), 0);
        struct str advice = config_advice(&a, &r, &change);
        if (!str_equal(advice, str_of(cases[i].advice))) fail_msg("got\n%.*s", STR_ARG(advice));
    }
}

static void a_file_of_200_lines_takes_milliseconds(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    for (int i = 0; i < 40; i++)
        buf_format(&b,
                   "section_%d:\n  name: 값 %d  # 주석\n  size: [1, 2, 3]\n  deep: {a: 1, b: "
                   "two}\n  on: true\n",
                   i, i);
    buf_add(&b, STR("train:\n  batch_size: 16\n  lr: 0.1\n"));
    const struct config_change change = {.batch = 8, .accumulation = 2};
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct config c;
        struct config_reading r;
        struct config_edits e;
        struct config_patched p;
        const int64_t begin = os_now_ns();
        assert_int_equal(fit(&a, STR("c.yaml"), buf_str(&b), &change, NULL, &c, &r, &e, &p, NULL),
                         0);
        const int64_t took = os_now_ns() - begin;
        best = took < best ? took : best;
    }
    print_message("# 203 lines: %.2f ms\n", (double)best / 1e6);
    assert_true(best <
                100000000); // sanitizers and loaded machines; the figure itself is in the message
}

static void read_gpus(struct arena *a, const char *gpus, struct config_reading *ret) {
    struct config c;
    struct fail why = {0};
    struct str text =
        str_format(a, "seed_everything: 1\ntrainer: {gpus: %s}\ndata: {batch_size: 8}\n", gpus);
    assert_int_equal(config_parse(a, STR("c.yaml"), text, &c, &why), 0);
    assert_int_equal(config_read_roles(a, &c, NULL, ret, &why), 0);
}

// A text with a comma names GPUs; without one it counts them, as a number does.
static void devices_may_be_a_text(void **state) {
    (void)state;
    static const struct {
        const char *gpus;
        int ranks;
    } cases[] = {{"\"0,\"", 1},    {"\"1,\"", 1}, {"\"0,1\"", 2},
                 {"\"0, 1,\"", 2}, {"\"2\"", 2},  {"[1]", 1}};
    ARENA_AUTO a = {0};
    struct config_reading r;
    struct config_batches b;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_gpus(&a, cases[i].gpus, &r);
        assert_int_equal(config_batches(&a, &r, 0, &b, NULL), 0);
        assert_int_equal(b.ranks, cases[i].ranks);
        for (ptrdiff_t w = 0; w < r.warnings.count; w++)
            assert_true(str_find(r.warnings.items[w], STR("comma")) < 0);
    }
    read_gpus(&a, "-1", &r);
    assert_int_equal(r.values[CONFIG_RANKS].type, CONFIG_SPECIAL); // all, however many
}

int main(int argc, char **argv) {
    if (argc > 1) every = atoi(argv[1]);
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(all_files_keep_everything_else),
        cmocka_unit_test(what_is_not_edited_is_advised),
        cmocka_unit_test(devices_may_be_a_text),
        cmocka_unit_test(a_file_of_200_lines_takes_milliseconds),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[ROWS + OTHERS];
    for (int i = 0; i < ROWS; i++) {
        tests[i] =
            (struct CMUnitTest){rows[i].name, one_row, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    }
    memcpy(tests + ROWS, others, sizeof others);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
