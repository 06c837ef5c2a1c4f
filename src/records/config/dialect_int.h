// SPDX-License-Identifier: Apache-2.0
// Inside of the config room: a block of data/dialects.tsv, and where its patterns match.
#pragma once

#include "records/config/tree_int.h"

enum role_sort {
    SORT_COUNT,
    SORT_SIZE,
    SORT_WORKERS,
    SORT_NUMBER,
    SORT_TEXT,
    SORT_LIST, // of texts, read as one with commas
    SORT_BOOL,
    SORT_PRECISION
};
enum role_sort config_role_sort(enum config_role role);
// Not of the figures that few change and every trainer has a default for.
bool config_role_is_told(enum config_role role);

struct role_row {
    struct str places, assumed;
    // Places whose numbers, or names of a list, together are the role's, with their defaults.
    struct str sum;
    char unit; // 0: not said
    enum { INSERT_NO, INSERT_YES, INSERT_WARN } insert;
};
// A setting that the forecast does not count: where it stands, and its name by its value.
struct guard_row {
    struct str kind, places, cases;
};
// When a file is no training, and what people are told of it.
struct inference_row {
    struct str when, why;
};
struct dialect {
    struct str id, title, detect, refuse, rule, record, special, note;
    struct str inherit;  // keys that name other files, laid under this one
    struct str ranks_of; // "a*b/c": what the devices are multiplied with and divided by
    struct str models;   // a map of models, and the keys that name each
    struct str unnamed;  // why no model is named
    struct str choice;   // kinds of guards that are one choice
    struct str backbone_when, backbone_with; // model.c
    struct str several, several_where;       // what it makes of several GPUs, and by which program
    bool editable, stops;                    // stops: no question about a training makes sense
    bool is_strict;                          // its reader refuses a key that is there twice
    struct role_row roles[CONFIG_ROLES];
    struct str options[CONFIG_ROLES]; // "--batch-size {}"
    struct str maybe[CONFIG_ROLES];   // words in the names of keys that may be one
    struct guard_row *guards;
    ptrdiff_t guard_count, guard_capacity;
    struct inference_row *inferences;
    ptrdiff_t inference_count, inference_capacity;
};
struct dialects {
    struct dialect *items;
    ptrdiff_t count, capacity;
};
int config_dialects_load(struct arena *a, struct dialects *ret_dialects, struct fail *why);
// The reading's own; one without rows where nothing matched.
int config_dialect_of(struct arena *a, const struct config_reading *r,
                      const struct dialect **ret_dialect, struct fail *why);

// Every key of the file, so that "anywhere" costs one walk.
struct entry {
    struct str path; // of the map
    struct config_node *map, *key, *value;
    bool evaluation; // below a section that does not train: valid, test, inference, …
    int32_t next;    // place, and 1, of the next one with the same key; 0: none
    bool is_first;   // entry with its key
};
struct scope {
    struct arena *arena;
    const struct config *config;
    struct config_node *root; // of the section that is searched
    struct str prefix;        // its path; empty: the whole file
    struct str home;          // path of the map that holds the batch key, for "@."
    bool above;               // no wildcards: they would look into the other sections
    struct entry *entries;
    ptrdiff_t count, capacity;
    int32_t *slots; // place, and 1, of the first entry with a key; open addressing
    ptrdiff_t slot_count;
    const struct config_node *last_map; // while the entries are collected
    bool last_evaluates;
};
void config_scope_open(struct arena *a, const struct config *c, struct scope *ret_scope);

// When all entries are there: so that a pattern does not walk all of them.
void config_scope_index(struct scope *s);
// The entries with that key, in the order of the file; NULL: no more.
const struct entry *config_scope_first(const struct scope *s, struct str key);
const struct entry *config_scope_next(const struct scope *s, const struct entry *e);

// Whether the entry is inside of the section that is searched.
bool config_scope_holds(const struct scope *s, const struct entry *e);

struct match {
    struct str path;
    struct place place;
    char unit;
};
struct matches {
    struct match *items;
    ptrdiff_t count, capacity;
    int number; // of these matches
};
// Adds what one pattern (braces spelled out) finds in the scope.
void config_scope_find(const struct scope *s, struct str pattern, struct matches *matches);
// Spells out {a,b}.
void config_braces_expand(struct arena *a, struct str text, struct str_list *ret_texts);

// Whether one of the alternatives holds; which one.
bool config_scope_is(const struct scope *s, struct str alternatives, struct str *ret_terms);
// The first dialect whose conditions hold; NULL: none.
const struct dialect *config_dialect_detect(const struct scope *s, const struct dialects *all,
                                            struct str *ret_because);

// --- advice.c ---

// The dialect's words for a role on the command line: "--batch-size 12"; empty: it has none, or the
// file has no place for the key.
struct str config_option(struct arena *a, const struct config_reading *r, const struct dialect *d,
                         enum config_role role, struct str value);

// --- precision.c ---------------------------------------------------------------------------------

// How a precision key is spelled: the word behind "=" in the table.
enum spelling {
    SPELL_NONE,
    SPELL_AMP,
    SPELL_FP16,
    SPELL_BF16,
    SPELL_TYPE,
    SPELL_WORD,
    SPELL_DTYPE,
    SPELL_PURE16,
    SPELL_PUREFP16,
    SPELL_SCALE
};
struct precision_key {
    enum spelling spelling;
    struct match match;
};
struct precision_keys {
    struct precision_key *items;
    ptrdiff_t count, capacity;
};
void config_precision_find(const struct scope *s, struct str places,
                           struct precision_keys *ret_keys);
// The key that the user has named, spelled as its name and value suggest.
void config_precision_guess(const struct scope *s, const struct match *named,
                            struct precision_keys *ret_keys);
// Reads them together: word, type, place of the key that decides.
struct config_value config_precision_read(const struct scope *s, const struct precision_keys *keys,
                                          struct str assumed);
// The fp16 key where that and the bf16 key are both true; NULL: they are not.
const struct precision_key *config_precision_both(const struct scope *s,
                                                  const struct precision_keys *keys);
// The edits that make it `wanted`; false when the file's keys cannot say it.
bool config_precision_edits(const struct scope *s, const struct precision_keys *keys,
                            const struct role_row *row, struct str after, struct str wanted,
                            struct config_edits *edits);

// --- roles.c -------------------------------------------------------------------------------------

struct reader {
    struct arena *arena;
    const struct config *config;
    const struct config_options *options;
    const struct dialect *dialect;
    struct scope scope;
    struct config_reading *reading;
    bool inherits; // other files are laid under this one: what it leaves out is not assumed
    struct fail *why;
    struct str_list unknown; // roles whose value only the program knows
    struct str_list unread;  // those that may stand in what was not read
    struct str_list others;  // and those that come from another file
};

// --- warn.c ---
__attribute__((format(printf, 2, 3))) void config_reader_warn(struct reader *r, const char *format,
                                                              ...);
// What the trainer refuses: a warning, and the first of them the reading's conflict.
__attribute__((format(printf, 2, 3))) void config_reader_refuse(struct reader *r,
                                                                const char *format, ...);
// Batches, lengths and ranks that no trainer of language models takes, and that nothing holds.
void config_reader_counts(struct reader *r);
// Two types of autocast at once.
void config_reader_both_types(struct reader *r);
// Settings with which the trainer takes no accumulation.
void config_reader_unaccumulated(struct reader *r);
// A batch that accelerate splits over the devices.
void config_reader_split(struct reader *r);
// The allocator's settings among a script's variables.
void config_reader_allocator(struct reader *r);
// A checkpointing that saves next to nothing.
void config_reader_selective(struct reader *r);
// Devices that share each sample.
void config_reader_sharing(struct reader *r);

// --- roles.c ---
// Finds the batch key and with it the map in which the training keys are; FAIL_INPUT when the file
// leaves a choice.
int config_reader_batch(struct reader *r);
int config_reader_role(struct reader *r, enum config_role role);
// The role's value stands there and only the program knows it: "batch (line 3: f(x))".
void config_reader_unknown(struct reader *r, enum config_role role, const struct config_value *v);
// What "${a.b}", "!ref <a[b]>" or "@a#b" stands for, where it stands in the file; else the node.
struct config_node *config_node_referenced(struct arena *a, const struct config *c,
                                           struct config_node *n);

// --- refine.c ------------------------------------------------------------------------------------

// Of several places of a role, the one that is read.
ptrdiff_t config_reader_first(const struct reader *r, enum config_role role,
                              const struct matches *all);
// Of a count, a size or a number of workers: its integer, and SPECIAL where it is none.
void config_reader_number(struct reader *r, struct config_value *v, enum config_role role,
                          const struct config_node *n);
void config_reader_bool(struct config_value *v);
// False: none of the places is in the file, or no switch is on.
bool config_reader_names(struct reader *r, struct str places, struct config_value *ret_value);
// False: the last of the places is not in the file, or one has no number.
bool config_reader_sum(struct reader *r, struct str places, struct config_value *ret_value);

// --- launcher.c ----------------------------------------------------------------------------------

// How many processes a script's command starts, where no key of the training says it.
void config_reader_launcher(struct reader *r);
// What a script that is known takes where no flag says it.
void config_reader_script(struct reader *r);

// --- deepspeed.c ---------------------------------------------------------------------------------

// Compares the roles with the DeepSpeed file that the config names; false: there is none at hand.
bool config_reader_deepspeed(struct reader *r);

// --- guard.c -------------------------------------------------------------------------------------

unsigned config_trait_find(struct str word); // 0: there is none
// Fills the reading's guards; `every` are the rows for all dialects.
void config_reader_guards(struct reader *r, const struct dialect *every);

// --- model.c -------------------------------------------------------------------------------------

// The model where several keys, or several models, say it.
void config_reader_model(struct reader *r, const struct dialect *every);

// --- maybe.c -------------------------------------------------------------------------------------

// Names the keys that may be a role which the file seems not to say.
void config_reader_maybe(struct reader *r, const struct dialect *every);

// --- reading.c, patch.c --------------------------------------------------------------------------

struct scope config_reading_scope(struct arena *a, const struct config *c,
                                  const struct config_reading *r);
// What config_patch would say to this edit, without making it.
int config_patch_check(struct arena *a, const struct config *c, const struct config_edit *edit,
                       unsigned flags, struct fail *why);
