// SPDX-License-Identifier: Apache-2.0
// What an error is about, in the words of its message: the file that is missing, the host that does
// not answer, the module, the model. tests/failures/ has the messages.
#include "measure/failure/failure_int.h"

#include <string.h>

static const struct {
    const char *id; // of a signature
    // What stands between them. `before` NULL: one word; `after` NULL: up to the end of the word.
    const char *before, *after;
} subjects[] = {
    {"missing-file", "No such file or directory: '", "'"},
    {"missing-file", "can't open file '", "'"},
    {"permission", "Permission denied: '", "'"},
    {"permission", "Read-only file system: '", "'"},
    {"disk-full", "No space left on device: '", "'"},
    {"disk-full", "Disk quota exceeded: '", "'"},
    {"no-command", NULL, ": command not found"},
    {"no-command", NULL, ": not found"},
    {"import", "No module named '", "'"},
    {"import", "cannot import name '", "'"},
    {"import", NULL, ": cannot open shared object file"},
    {"import", NULL, ": undefined symbol: "},
    {"import", "AttributeError: module '", "'"},
    {"import", "Failed to import ", " because"},
    {"import", "the package ", " seems to be not installed"},
    {"import", " requires the ", " library but it was not found"},
    {"import", " requires `", "`"},
    {"label-range", "IndexError: ", " is out of bounds"},
    {"install", "No matching distribution found for ", NULL},
    {"install", "satisfies the requirement ", NULL},
    {"install", "Could not build wheels for ", ","},
    {"network", "couldn't connect to '", "'"},
    {"network", "host='", "'"},
    {"network", "https://", "/"},
    {"network-warned", "host='", "'"},
    {"network-warned", "https://", "/"},
    {"hub-offline", "https://huggingface.co/api/models/", NULL},
    {"hub-offline", "https://huggingface.co/", "/resolve/"},
    {"hub-access", "Can't load tokenizer for '", "'"},
    {"hub-access", "Can't load config for '", "'"},
    {"hub-access", "Can't load the model for '", "'"},
    {"hub-access", "Can't load the configuration of '", "'"},
    {"hub-access", "have access to it at https://huggingface.co/", NULL},
    {"hub-access", "Not Found for url: https://huggingface.co/api/models/", NULL},
    {"hub-access", "Not Found for url: https://huggingface.co/", "/resolve/"},
    {"hub-access", "gated repo for url https://huggingface.co/", "/resolve/"},
    {"hub-access", NULL, " is not a local folder and is not a"},
    {"hub-access", NULL, " does not appear to have a file named"},
};

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}

static struct str word_before(struct str text, ptrdiff_t end) {
    ptrdiff_t begin = end;
    while (begin > 0 && !is_blank(text.p[begin - 1])) begin--;
    return str_slice(text, begin, end);
}

static struct str word_from(struct str text) {
    ptrdiff_t end = 0;
    while (end < text.len && !is_blank(text.p[end])) end++;
    while (end > 0 && strchr(".,;:'\"", text.p[end - 1])) end--;
    return str_slice(text, 0, end);
}

static struct str between(struct str text, const char *before, const char *after) {
    const struct str none = {0};
    if (!before) {
        ptrdiff_t end = str_find(text, str_of(after));
        return end < 0 ? none : word_before(text, end);
    }
    ptrdiff_t begin = str_find(text, str_of(before));
    if (begin < 0) return none;
    text = str_slice(text, begin + (ptrdiff_t)strlen(before), text.len);
    if (!after) return word_from(text);
    ptrdiff_t end = str_find(text, str_of(after));
    return end < 0 ? none : str_slice(text, 0, end);
}

struct str failure_subject(const struct failure_signature *row, struct str text) {
    struct str found = {0};
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects && found.len == 0; i++) {
        if (str_is(str_of(row->id), subjects[i].id))
            found = between(text, subjects[i].before, subjects[i].after);
    }
    return found;
}
