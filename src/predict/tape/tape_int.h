// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this room only.
#pragma once

#include "base/data.h"
#include "predict/tape/tape.h"

enum { TAPE_HEADER_MAX = 1 << 20 }; // bytes of line 1

// Text of a piece of a tape file: as it is, or decompressed when it begins like zstd.
// at_most: no more than so many bytes are made; more of them is an error when `whole`.
int tape_unpack(struct arena *a, struct str name, struct str bytes, int64_t at_most, bool whole,
                struct str *ret_text, struct fail *why);
// `length` bytes of text from `offset` on; nothing before or after them is kept.
int tape_unpack_part(struct arena *a, struct str name, struct str bytes, int64_t offset,
                     int64_t length, struct str *ret_text, struct fail *why);

int tape_header_parse(struct arena *a, struct str name, struct str line, struct tape_header *ret,
                      struct fail *why);

// Line 1 of a template.
struct tape_bound;
int tape_template_header_parse(struct arena *a, struct str name, struct str line,
                               struct tape_header *ret, struct tape_bound *ret_bounds,
                               struct fail *why);

// An index.tsv, and where its columns are: it has a thousand rows.
struct tape_index {
    struct tsv table;
    int columns[64]; // in the order of store.c's; -1: there is none
};
struct tape_entry;
// Without rows where FOLDER is empty and the program was built without OWN.
int tape_index_open(struct arena *a, struct str folder, const char *own, struct tape_index *ret,
                    struct fail *why);
// As tsv_next of the rows that have the text (empty: of all), and the row's entry: where the text
// is, and what selects it.
int tape_index_next(struct tape_index *index, struct str having, struct tape_entry *e,
                    struct fail *why);
// The text of NAME in a folder, or where there is none in one of the program's own data.
int tape_store_text(struct arena *a, struct str folder, const char *own, struct str name,
                    struct str *ret, struct fail *why);

// 0: C + K·B can be a size. -1: it is negative at some batch; else the batch, 1 or one of the
// header's, at which it is above TAPE_SIZE_MAX.
int64_t tape_size_wrong_at(const struct tape_header *h, int64_t c, int64_t k);

void tape_put_number(struct buf *out, int64_t value);

// Whether the loss takes 2^n rows of tokens at a time, as liger's does.
bool tape_is_by_rows(const struct tape_header *h);
// Whether "n=" may follow an allocation: there are classes, or chunks of a loss.
bool tape_has_slopes(const struct tape_header *h);
