// SPDX-License-Identifier: Apache-2.0
// The user's training config, text in, text out. This room finds keys, says what they mean in the
// trainer's dialect (data/dialects.tsv) and makes the smallest edit that changes them; it knows no
// GPU, no model and no file system. The order of use:
//
//     config_parse        text -> tree, or the reason why not
//     config_read_roles   tree -> dialect, and every role (batch, precision, …) with its place
//     config_batches      roles -> micro-batch, accumulation, effective batch
//     config_fit          a requested change -> the edits this dialect needs for it
//     config_patch        edits -> new text in which nothing else has changed
//
// Where a dialect cannot be edited (Python, TOML, values on the command line), config_fit fails and
// config_advice says what to type instead. Everything returned lives in the arena given first, and
// refers to the text given to config_parse.
//
// To add a dialect: one block of lines in data/dialects.tsv, a file in tests/configs/, a line in
// tests/unit/config_detect.c. Only arithmetic no row can say needs a function
// (src/records/config/fit.c).
#pragma once

#include "base/fail.h"
#include "base/str.h"
#include "records/datum/datum.h"

// --- Reading -------------------------------------------------------------------------------------

enum config_format {
    CONFIG_YAML,
    CONFIG_JSON,   // the name ends in .json: strict JSON or refused
    CONFIG_PYTHON, // read, never run and never edited, as the next two
    CONFIG_TOML,
    CONFIG_SHELL,   // the flags of the command that trains
    CONFIG_FOREIGN, // INI, notebooks: only advised on
};

struct config_node; // private, as the next two
struct dialect;
struct dialects;

// A key that comes again in its map. PyYAML and json.load take the last; OmegaConf and DeepSpeed
// refuse the file.
struct config_repeated {
    struct str key;
    int line, column, first; // first: line where it stood before
};

struct config {
    struct str name, text;
    enum config_format format;
    struct config_node *root; // NULL in a foreign file, and in a program
    // The tree of this file alone, where others are laid under it (YAML, JSON): what is edited.
    // NULL: root is.
    struct config_node *own;
    bool is_layered;  // the files that it names were looked for
    bool is_partial;  // and not all are there: what is in none of the others is not known
    bool is_composed; // by Hydra: this file's values need not win over the others'
    bool is_group;    // of Hydra's: it may be a list
    // Why nothing may be written into this file although it can be read (a tab that the trainer's
    // parser rejects, …); empty: it may.
    struct str unwritable;
    struct config_repeated *repeated; // the first such key; NULL: none
    struct str_list files; // others that were read for it, as the loader was asked for them
    struct str_list notes; // files that were not, and what is not known for it
    const struct dialects *dialects; // the table, where it was read already
};

enum { CONFIG_MAX_BYTES = DATUM_MAX_BYTES };

// Parses the text of a config. Fails with FAIL_INPUT and "NAME:LINE:COLUMN: what" for everything
// that the trainer would not load or read differently from us: bytes that are not UTF-8, two
// documents, anchors defined twice, undefined aliases, more than 16 MiB, …
// The name decides about the format, or "#!/bin/bash" of what has no known ending; nothing is
// opened.
int config_parse(struct arena *a, struct str name, struct str text, struct config *ret_config,
                 struct fail *why);
// The same for a config that may be made of several files. `loader` NULL: as config_parse.
int config_parse_with(struct arena *a, struct str name, struct str text,
                      const struct datum_loader *loader, struct config *ret_config,
                      struct fail *why);
// FAIL_INPUT, with the place, where a key is there twice.
int config_refuse_repeated(const struct config *c, struct fail *why);

// --- Values --------------------------------------------------------------------------------------

// What a value is for a YAML 1.1 trainer (PyYAML).
enum config_type {
    CONFIG_ABSENT,
    CONFIG_NULL, // key without value, ~, null
    CONFIG_INT,
    CONFIG_FLOAT, // 16.0, 1e-4
    CONFIG_BOOL,
    CONFIG_TEXT,
    CONFIG_SPECIAL, // the trainer is to decide or fill in: auto, -1, ???, ${other.key}, f(x)
    CONFIG_NESTED,  // a list or a map
};

struct config_value {
    enum config_type type;
    // "training.batch_size", "stages[1].lr"; keys with a dot in them are quoted: "a.b".lr
    struct str path;
    struct str text;  // as in the file, without quotes
    struct str file;  // the file it comes from, where that is another; empty: the config itself. Of
                      // a default: the script that has it; empty: the trainer
    int line, column; // from 1; 0 when the key is not in the file
    int64_t integer;  // INT, FLOAT without a fraction, the largest of a list of sizes; else 0
    double number;    // INT and FLOAT, the smallest of a list of sizes; NaN otherwise
    bool boolean;     // BOOL
    // Precision only: one of fp32, amp-fp16, amp-bf16, bf16, fp16; empty: not known.
    struct str word;
    // Batch roles: 'D' one device's micro-batch, 'G' summed over the devices, 'T' the effective
    // batch, '?' only the team's code knows.
    char unit;
    // Of a shell script: what stands before the value, "--batch-size ".
    struct str spelled;
    bool assumed;       // not in the file; the figures are the trainer's documented default
    struct str refusal; // why this key must not be written as things are; empty: it may
    // Precision only: where the same stands in a file that is not written, and that the trainer
    // compares ("ds.json:3: bf16.enabled = true"); empty: nowhere.
    struct str bound;
};

// The value at a path, merge keys and aliases followed. ABSENT is not an error; a path that cannot
// be read is (FAIL_USAGE).
int config_get(struct arena *a, const struct config *c, struct str path,
               struct config_value *ret_value, struct fail *why);

// --- Roles ---------------------------------------------------------------------------------------

enum config_role {
    CONFIG_MODEL,
    CONFIG_IMAGE_SIZE,      // pixels of the longer side
    CONFIG_SEQUENCE_LENGTH, // tokens
    CONFIG_TARGET_LENGTH,   // tokens, seq2seq
    CONFIG_BATCH,
    CONFIG_ACCUMULATION,
    CONFIG_EFFECTIVE, // the key that holds the effective batch itself, where a dialect has one
    CONFIG_PRECISION,
    CONFIG_OPTIMIZER,
    CONFIG_LR,
    CONFIG_CHECKPOINTING,
    CONFIG_WORKERS,
    CONFIG_CLASSES,
    CONFIG_EVAL_BATCH,
    CONFIG_EMA,
    CONFIG_CHANNELS_LAST,
    CONFIG_RANKS, // data-parallel devices
    CONFIG_COMPILE,
    CONFIG_WEIGHTS_DTYPE, // type in which pretrained weights are loaded
    CONFIG_LORA_RANK,
    CONFIG_LORA_TARGETS, // names of layers, or what stands for all of them
    CONFIG_LORA_DROPOUT,
    CONFIG_LORA_FOLLOWS,     // an adapter is in the weights' type, where peft would keep it in fp32
    CONFIG_DOUBLE_QUANT,     // of weights in four bits: are their scales quantised, too
    CONFIG_LOSS,             // the class of the loss
    CONFIG_PREFERENCE,       // what may name a loss of preferences
    CONFIG_PRECOMPUTED,      // the scores of a reference model come with the data
    CONFIG_CPO_ALPHA,        // how much a cross-entropy counts beside CPO's or SimPO's loss
    CONFIG_BETA,             // how much the distance to a reference counts in GRPO's loss
    CONFIG_COMPLETION,       // tokens of a completion that is generated
    CONFIG_GENERATION_GROUP, // completions of a prompt that GRPO compares
    CONFIG_GENERATION_STEPS, // micro-steps for which completions are generated at a time
    CONFIG_GENERATION_BATCH, // or how many, on all devices
    CONFIG_ENGINE,           // vLLM generates them
    CONFIG_ENGINE_MODE,      // "colocate" or "server"
    CONFIG_ENGINE_SHARE,     // of the GPU's memory, where it is on the same
    CONFIG_ENGINE_SLEEPS,    // it gives its memory back while the training steps
    CONFIG_ZERO_BUCKET,      // DeepSpeed's reduce_bucket_size, elements
    CONFIG_ZERO_OVERLAP,     // DeepSpeed's overlap_comm
    CONFIG_ZERO_PREFETCH,    // DeepSpeed's numbers of stage 3, elements, in the order of a plan's
    CONFIG_ZERO_PERSIST,
    CONFIG_ZERO_LIVE,
    CONFIG_ZERO_REUSE,
    CONFIG_ZERO_GROUP,
    CONFIG_ZERO_OPTIMIZER_BUFFERS,
    CONFIG_ZERO_PARAM_BUFFERS,
    CONFIG_ZERO_PARAM_BUFFER,
    CONFIG_ZERO_PARAM_MOST,
    CONFIG_ZERO_OPTIMIZER, // where it is kept, "cpu"; in the order of a plan's offloads
    CONFIG_ZERO_PARAM,
    CONFIG_ZERO_PINNED, // pin_memory
    CONFIG_ROLES,
};
// The end of the note "KEY = VALUE (line N) …" of a reading: who changes that key drops it.
#define CONFIG_EVAL_STAYS "is for evaluation and stays unchanged"
const char *config_role_name(enum config_role role); // "batch", "image_size"; the words of --key
// CONFIG_ROLES: no such role.
enum config_role config_role_find(struct str name);

// A size that the file leaves to the model, and of which the trainer is known to do so ("model" in
// data/dialects.tsv).
bool config_is_models_own(const struct config_value *v);

// What the user said about the file; zeroed is fine.
struct config_options {
    struct str dialect; // id of a dialect (--dialect): no detection
    struct str section; // only look below this path first (--section), for files with several runs
    // --key ROLE=PATH: empty entries are found by the dialect.
    struct str keys[CONFIG_ROLES];
    bool inference; // the question is one of inference: guards in its sections count
};

// What a setting means beside its name: the words in brackets behind names in data/dialects.tsv.
enum config_trait {
    CONFIG_EMBEDDINGS = 1 << 0,     // a few numbers a sample, of several samples, and no logits
    CONFIG_NEGATIVES = 1 << 1,      // a sample is told from the others of its micro-batch
    CONFIG_MASKED = 1 << 2,         // the model sees a part of each sample, a decoder all of it
    CONFIG_SEVERAL_SIZES = 1 << 3,  // of images, the largest above the one that is read
    CONFIG_AROUND = 1 << 4,         // a model around the one that is named
    CONFIG_FEW = 1 << 5,            // a head for a few numbers, where others have logits of words
    CONFIG_BESIDE_ADAPTER = 1 << 6, // trained in full where only an adapter is otherwise
    CONFIG_WIDE = 1 << 7,           // more bytes, of a kind that mostly takes some off
    CONFIG_ALL_LOGITS = 1 << 8,     // all logits once more
    CONFIG_OTHER_LENGTH = 1 << 9,   // may be the length of texts, where none is known to be
    CONFIG_UNREAD = 1 << 10,        // a program, or a file of a format that is not read
    CONFIG_OF_NAME = 1 << 11,       // the name of a model of patches says it, too
};

// A setting that changes what memory is needed and that the forecast does not count.
struct config_guard {
    struct str kind; // adapter, quantisation, sharding, offload, parallel, objective, frozen, …
    struct str what; // "LoRA"
    struct str path, value; // value empty: a list or a map
    struct str file;        // the file it stands in, where that is another
    int line;
    unsigned traits; // of enum config_trait
};

struct config_reading {
    struct str name; // of the file, for messages
    enum config_format format;
    struct str dialect;           // "huggingface"; "none" when nothing matched
    struct str title;             // "Hugging Face TrainingArguments"
    const struct dialect *origin; // its rows; NULL where nothing matched
    struct str because;           // the decisive keys
    struct str section;           // the map in which the training keys are; empty: top level
    bool hydra;                   // other files and the command line have a say
    bool stops;                   // a file of another program: nothing can be answered from it
    bool editable;                // false: config_advice
    bool is_sweep;                // its batch is the largest of several that are tried
    struct str refusal; // why not editable, or why this is no training config; empty otherwise
    struct config_value values[CONFIG_ROLES];
    // Of an ensemble, which names several and not one: each once, in the order of the file.
    struct str_list models;
    struct str unnamed;            // why a file of this dialect names no model; empty: it should
    struct str_list likely_models; // no known key names one; keys that may
    // Why this is a config for inference, not for training; empty: it is for training.
    struct str inference;
    struct config_guard *guards;
    ptrdiff_t guard_count, guard_capacity;
    struct config_guard flash; // "flash attention", where it is asked for; `what` empty: it is not
    // What asks for something that only newer GPUs have: "FlashAttention", "TF32".
    struct config_guard *asks;
    ptrdiff_t ask_count, ask_capacity;
    // What the trainer makes of several GPUs where no setting says it, as the guard that it is
    // then; `what` empty: every GPU has all.
    struct config_guard several;
    // For the user to read, most important first: quoted numbers, a second batch_size that nothing
    // reads, evaluation batches that stay as they are, …
    struct str_list warnings;
    struct str unaccumulated; // a setting with which the trainer takes no accumulation; empty: none
    struct str negatives;     // one with which accumulation is another training; empty: none
    struct config_value alloc_conf; // a script's PYTORCH_CUDA_ALLOC_CONF; CONFIG_SPECIAL: not known
    struct str conflict; // what the trainer refuses, so that there is no training; empty: nothing
    // Devices that share each sample (tensor, pipeline, context and sequence parallel): ranks has
    // been divided by them. 1: none do.
    int64_t sharing;
};

// The first of that kind; NULL: there is none.
const struct config_guard *config_guard_of(const struct config_reading *r, const char *kind);
// A setting that no row of a dialect names.
void config_add_guard(struct arena *a, struct config_reading *r, struct config_guard g);
// Lets go of those that the rule does not keep.
typedef bool config_guard_rule(void *context, const struct config_guard *g);
void config_keep_guards(struct config_reading *r, config_guard_rule *keeps, void *context);

// Finds the dialect and every role. A file that is not a training config at all (wandb record,
// sweep, data set, model description, CI) gives 0 with editable false and the reason in refusal.
// FAIL_USAGE: unknown dialect or an unreadable path in the options; FAIL_INPUT: the choice is the
// user's (two sections with the same key: the message names them and the option).
int config_read_roles(struct arena *a, const struct config *c, const struct config_options *options,
                      struct config_reading *ret_reading, struct fail *why);

// One line a dialect, for `list dialects`.
struct config_dialect_row {
    struct str id, title, batch_keys, edit;
};
int config_dialects(struct arena *a, struct config_dialect_row **ret_rows, int *ret_count,
                    struct fail *why);

// --- Batches -------------------------------------------------------------------------------------

struct config_batches {
    int64_t micro;        // samples of one device in one forward/backward
    int64_t accumulation; // micro-steps per optimizer step
    int64_t ranks;
    int64_t effective; // samples per optimizer step
};
// What the learning sees now. ranks 0: take the file's, else 1. FAIL_INPUT when the file does not
// say (no batch, auto, a unit that only the team's code knows and more than one rank): of the
// result only ranks are set then, and effective, where the file has a total but no micro-batch.
int config_batches(struct arena *a, const struct config_reading *r, int64_t ranks,
                   struct config_batches *ret_batches, struct fail *why);

// --- Writing -------------------------------------------------------------------------------------

enum config_flags {
    // Change a value through its anchor or in the base of a merge, for everybody who uses it
    // (--force-anchor).
    CONFIG_EDIT_ANCHOR = 1,
    // Replace null, auto, -1, ${x}, octal and other spellings that mean more than their digits, and
    // replace an alias by the value (--force-special).
    CONFIG_REPLACE_SPECIAL = 2,
};

struct config_edit {
    struct str path;
    // A plain scalar: 12, 0.5, true, bf16-mixed. Written in the file's own spelling of booleans,
    // quotes and floats.
    struct str value;
    bool is_text;     // quote the value where it would be read as a number, boolean or null
    bool insert;      // the key may be absent: put it into the map
    struct str after; // insert: name of the sibling to stand behind; empty: the last pair
    const struct config_edit *children; // insert: a map of these instead of a value
    int child_count;
    struct str note; // for the user, when the edit is made; empty: none
    bool is_unsure;  // a new key that only some programs of this dialect read
};
struct config_edits {
    struct config_edit *items;
    ptrdiff_t count, capacity;
};
void config_edits_add(struct arena *a, struct config_edits *edits, struct config_edit edit);

// What the caller wants the run to be; 0 and empty: leave as it is.
struct config_change {
    int64_t eval_batch;                 // of one device
    int64_t batch, accumulation, ranks; // micro-batch of one device; ranks 0: as config_batches
    struct str precision;               // fp32, amp-fp16, amp-bf16, bf16
    int checkpointing;                  // 1 on, -1 off
    int64_t image_size, sequence_length;
    int64_t workers; // -1: 0 workers
    struct str optimizer;
    unsigned flags; // enum config_flags
};

// The edits that this dialect needs for the change: batch and accumulation together, only the micro
// key where the effective batch is a key of its own, nbs for Ultralytics, … FAIL_INPUT with the
// reason when the file must not be written or cannot say it; then see config_advice.
int config_fit(struct arena *a, const struct config *c, const struct config_reading *r,
               const struct config_change *change, struct config_edits *ret_edits,
               struct fail *why);

struct config_patched {
    struct str text;
    bool changed; // false: the text already says so and is returned as it was
    // "configs/train.yaml:12: train.batch_size: 32 -> 16", a line an edit
    struct str_list changes;
    struct str_list notes; // aliases that follow, figures with a second meaning, …
};
// Applies all edits or none. Only the bytes of the values change; the result is parsed again and
// every node but the targets is compared with the original. FAIL_INPUT with the place and the
// reason when a value must not be replaced (the message names the flag that would allow it).
int config_patch(struct arena *a, const struct config *c, const struct config_edit *edits,
                 ptrdiff_t count, unsigned flags, struct config_patched *ret_patched,
                 struct fail *why);

// What to type when the file is not ours to edit: the trainer's command line option or the line to
// add, one a line, for what the change says. Empty when the dialect has no words for it.
struct str config_advice(struct arena *a, const struct config_reading *r,
                         const struct config_change *change);

// --- The team's file (team_settings.yaml) --------------------------------------------------------

// One entry of the map team_gpu_settings.
struct config_card {
    struct str card;                                    // key: "rtx_3060"
    int64_t batch, accumulation, effective, image_size; // 0: not said
    int mixed_precision;                                // 1 yes, -1 no, 0 not said
    struct str precision, model;                        // empty: not said
};
// The entries in the order of the file. A file without the map gives 0 entries.
int config_team_read(struct arena *a, const struct config *c, struct config_card **ret_cards,
                     int *ret_count, struct fail *why);
// `before` NULL: a fresh document with comments. Otherwise the smallest edit of that file: figures
// of known GPUs are changed, new GPUs are appended, nobody else's entry is touched.
int config_team_write(struct arena *a, const struct config *before, const struct config_card *cards,
                      int count, struct config_patched *ret_patched, struct fail *why);
