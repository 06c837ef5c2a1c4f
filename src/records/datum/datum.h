// SPDX-License-Identifier: Apache-2.0
// What a Python, TOML or shell file says, as plain data. Nothing is run and nothing is opened: what
// only the program could know is unknown, and other files come from a loader. Lists and maps are
// shared as Python shares them: a name is another way to the same map. Everything returned lives in
// the arena given first, and refers to the texts.
#pragma once

#include "base/fail.h"
#include "base/str.h"

enum datum_kind {
    DATUM_UNKNOWN, // only the program knows; text: how it is written
    DATUM_NULL,
    DATUM_BOOL,
    DATUM_INT,
    DATUM_FLOAT,
    DATUM_TEXT,
    DATUM_WORD, // a text without quotes, of a shell: 4 is a number
    DATUM_LIST,
    DATUM_MAP,
};
struct datum {
    enum datum_kind kind : 8;
    bool is_open : 1;   // a map: more keys may be in it than are known here
    bool is_tuple : 1;  // a list in round brackets
    bool is_fixed : 1;  // TOML: nothing may be added any more
    bool is_array : 1;  // TOML: a list of tables ([[x]])
    bool is_header : 1; // TOML: a table that has had its header
    bool is_import : 1; // Python: a name of another program's: "torch.optim.AdamW"
    bool is_lazy : 1;   // detectron2's LazyCall of that name
    unsigned char file; // 0: the config; else the place, and 1, in its files
    bool boolean;
    int line, column;
    struct str text;
    union {
        int64_t integer;
        double number;
        struct datum_list *list;
        struct datum_map *map;
    };
};
struct datum_list {
    struct datum **items;
    ptrdiff_t count, capacity;
};
struct datum_pair {
    struct str key;
    int line, column;    // of the key
    struct datum *value; // NULL: deleted
    struct str spelled;  // a flag as it stands in a shell script: "--batch-size"
};
struct datum_map {
    struct datum_pair *pairs;
    ptrdiff_t count, capacity;
    int32_t *slots; // place, and 1; open addressing; NULL: few pairs
    ptrdiff_t slot_count;
};
// NULL: not there.
struct datum_pair *datum_find(const struct datum *map, struct str key);

// A file of 16 MiB must not cost gigabytes.
enum { DATUM_MAX = 250 * 1000, DATUM_DEPTH_MAX = 200, DATUM_MAX_BYTES = 16 << 20 };

// --- The file ------------------------------------------------------------------------------------

// Where the other files of a file come from (mmengine's _base_, detectron2's imports). `path` is
// the file's own name with the reference applied: "configs/_base_/x.py". What may be read is the
// loader's to decide; it fails with the reason.
struct datum_loader {
    int (*read)(void *self, struct arena *a, struct str path, struct str *ret_text,
                struct fail *why);
    void *self;
};
struct datum_source {
    struct str name, text;
    const struct datum_loader *loader; // NULL: every other file is missing
    struct str_list files;             // others that were read for it, as the loader was asked
    struct str_list notes;             // files that were not, and what is not known for it
};

// FAIL_INPUT for what is no text: not UTF-8, compressed, control characters, empty, more than
// DATUM_MAX_BYTES.
int datum_source_check(const struct datum_source *s, struct fail *why);
// Sets *why to "NAME:LINE:COLUMN: message" for a byte offset; below 0 it is the first. FAIL_INPUT.
__attribute__((format(printf, 4, 5))) int datum_source_fail(const struct datum_source *s,
                                                            ptrdiff_t at, struct fail *why,
                                                            const char *format, ...);
// Line and column (in characters) of a byte offset, both from 1.
void datum_source_place(struct str text, ptrdiff_t at, int *ret_line, int *ret_column);
// The path of a file that another one names by where it stands to it.
struct str datum_source_beside(struct arena *a, struct str name, struct str reference);

// --- The readers ---------------------------------------------------------------------------------

// Each gives the map of what the file sets. NULL: none; a program (a training script), or a shell
// script without a command that trains. FAIL_INPUT with the place.
typedef int datum_reader(struct arena *a, struct datum_source *source,
                         const struct datum **ret_root, struct fail *why);
datum_reader datum_python_read, datum_toml_read, datum_shell_read;
