// SPDX-License-Identifier: Apache-2.0
// Inside of the datum room: values while they are made.
#pragma once

#include "records/datum/datum.h"

// What all values of a reading are made in, and how many there are: a file of 16 MiB must not cost
// gigabytes.
struct data {
    struct arena *arena;
    int count;
};

struct datum *datum_new(struct data *d, enum datum_kind kind, int line, int column);
struct datum *datum_integer(struct data *d, int64_t value, const struct datum *at);
struct datum *datum_float(struct data *d, double value, const struct datum *at);
// The value itself, of a map and a list too, with another place.
struct datum *datum_at(struct data *d, const struct datum *v, int line, int column);
void datum_push(struct data *d, struct datum *list, struct datum *item);
// The last one wins; the pair keeps its place among the others.
struct datum_pair *datum_set(struct data *d, struct datum *map, struct str key, struct datum *value,
                             int line, int column);
// A list or map of its own with the same items.
struct datum *datum_copy(struct data *d, const struct datum *v);
// All of it, down to the scalars.
struct datum *datum_deep(struct data *d, const struct datum *v, int depth);

int datum_too_many(const struct datum_source *s, struct fail *why); // FAIL_INPUT

// Digits of base 16 only; of at most 8.
bool datum_text_hex(struct str digits, uint32_t *ret);

// Inside of the datum room: the commands of a shell script, variables put in (shell_command.c).

struct shell_gap {
    ptrdiff_t begin, end;
};
struct shell_word {
    struct str text; // not known: as it is written
    int line, column;
    struct shell_gap *gaps; // parts of the text that are not known, where all others are
    ptrdiff_t gap_count, gap_capacity;
    bool is_known, is_quoted;
    bool is_flags; // "$ARGS", of which some case may make flags
};
struct shell_command {
    struct shell_word *words;
    ptrdiff_t count, capacity;
    const struct shell_word *environment; // NAME=value in front of it, which are its alone
    ptrdiff_t environment_count;
    // PYTORCH_ALLOC_CONF, CUDA_VISIBLE_DEVICES, NPROC_PER_NODE and NNODES as it has them; no text:
    // not set.
    struct shell_word allocator, visible, processes, machines;
    int line;
};
struct shell_job { // 0: not said
    int64_t nodes, tasks, tasks_per_node, gpus_per_node;
};
struct shell_commands {
    struct shell_command *items;
    ptrdiff_t count, capacity;
    struct shell_job job;
};
int datum_shell_commands(struct arena *a, struct datum_source *source, struct shell_commands *ret,
                         struct fail *why);
// "source settings.sh": notes that what it sets is not known.
void datum_shell_note_sourced(struct arena *a, struct datum_source *source,
                              const struct shell_commands *all);

// Inside of the datum room: the place in a TOML file, and its scalars (toml_scalar.c).

struct toml {
    struct data data;
    struct datum_source *source;
    struct fail *why;
    struct str text;
    ptrdiff_t at, line_begin;
    int line, depth;
    struct datum **pending; // tables that dotted keys have opened: closed by the next header
    ptrdiff_t pending_count, pending_capacity;
};

__attribute__((format(printf, 3, 4))) int datum_toml_fail(struct toml *t, ptrdiff_t at,
                                                          const char *format, ...);
char datum_toml_peek(const struct toml *t);
bool datum_toml_has(const struct toml *t, struct str what);
void datum_toml_blanks(struct toml *t);
bool datum_toml_line_end(struct toml *t);
// At a quote; in a key a text has one line.
int datum_toml_string(struct toml *t, bool may_be_long, struct str *ret);
// A number, a boolean or a date.
int datum_toml_word(struct toml *t, struct datum *v);
