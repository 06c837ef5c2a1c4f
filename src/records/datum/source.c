// SPDX-License-Identifier: Apache-2.0
// A file as bytes: what must be refused before any reader sees it, places for messages, and the
// path of a file that it names.
#include "records/datum/datum.h"

#include "base/out.h"
#include "base/shell.h"

#include <stdarg.h>
#include <stdio.h>

void datum_source_place(struct str text, ptrdiff_t at, int *ret_line, int *ret_column) {
    int line = 1, column = 1;
    for (ptrdiff_t i = str_starts(text, STR("\xEF\xBB\xBF")) ? 3 : 0; i < at && i < text.len; i++) {
        const unsigned char byte = (unsigned char)text.p[i];
        if (byte == '\n' || (byte == '\r' && !(i + 1 < text.len && text.p[i + 1] == '\n'))) {
            line++;
            column = 1;
        } else if ((byte & 0xC0) != 0x80) {
            column++;
        }
    }
    *ret_line = line;
    *ret_column = column;
}

int datum_source_fail(const struct datum_source *s, ptrdiff_t at, struct fail *why,
                      const char *format, ...) {
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    int line, column;
    datum_source_place(s->text, at < 0 ? 0 : at, &line, &column);
    return fail_set(why, FAIL_INPUT, "%.*s:%d:%d: %s", STR_ARG(s->name), line, column, message);
}

static bool is_utf8(struct str text, ptrdiff_t *ret_bad) {
    for (struct str rest = text; rest.len > 0;) {
        ptrdiff_t before = rest.len;
        if ((unsigned char)rest.p[0] < 0x80) {
            rest = str_slice(rest, 1, rest.len);
            continue;
        }
        bool is_broken = clean_next(&rest) == CLEAN_BROKEN && before - rest.len == 1;
        if (!is_broken) continue;
        *ret_bad = text.len - before;
        return false;
    }
    return true;
}

// Compressed files by their first bytes.
static const struct {
    const char *begin, *name, *command;
} packed[] = {
    {"\x1F\x8B", "gzip", "gzip -dc <"},
    {"\xFD"
     "7zXZ",
     "xz", "xz -dc <"},
    {"\x28\xB5\x2F\xFD", "zstd", "zstd -dc <"},
    {"BZh9", "bzip2", "bzip2 -dc <"},
    {"PK\x03\x04", "zip", "unzip -p "},
};

static int not_utf8(const struct datum_source *s, ptrdiff_t at, struct fail *why) {
    const unsigned char *bytes = (const unsigned char *)s->text.p;
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        if (!str_starts(s->text, str_of(packed[i].begin))) continue;
        fail_set(why, FAIL_INPUT, "%.*s: compressed with %s, expected a text", STR_ARG(s->name),
                 packed[i].name);
        ARENA_AUTO a = {0};
        return fail_hint(why, "unpack it first: %s%.*s >plain.yaml", packed[i].command,
                         STR_ARG(shell_word(&a, s->name)));
    }
    bool utf16 = s->text.len >= 2 &&
                 ((bytes[0] == 0xFF && bytes[1] == 0xFE) || (bytes[0] == 0xFE && bytes[1] == 0xFF));
    if (utf16) {
        fail_set(why, FAIL_INPUT, "%.*s:1:1: not UTF-8 but UTF-16 or UTF-32, expected UTF-8",
                 STR_ARG(s->name));
        return fail_hint(why, "convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW");
    }
    datum_source_fail(s, at, why, "not UTF-8 (byte 0x%02x), expected UTF-8", bytes[at]);
    return fail_hint(why,
                     "an older editor's Korean file is CP949: iconv -f CP949 -t UTF-8 OLD > NEW");
}

// Characters that PyYAML's reader rejects anywhere (its NON_PRINTABLE, 6.0.3).
static int forbidden(const struct datum_source *s, struct fail *why) {
    const struct str t = s->text;
    for (ptrdiff_t i = 0; i < t.len; i++) {
        const unsigned char b = (unsigned char)t.p[i];
        if (b >= ' ' && b < 0x7F) continue;
        const bool control = (b < 0x20 && b != '\t' && b != '\n' && b != '\r') || b == 0x7F;
        if (b == 0) {
            return datum_source_fail(s, i, why, "NUL byte, expected text (is this a binary file?)");
        }
        if (control)
            return datum_source_fail(s, i, why, "control character 0x%02x, expected text", b);
        const unsigned char next = i + 1 < t.len ? (unsigned char)t.p[i + 1] : 0;
        if (b == 0xC2 && next < 0xA0 && next != 0x85) {
            return datum_source_fail(s, i, why, "control character U+00%02X, expected text", next);
        }
        const unsigned char last = i + 2 < t.len ? (unsigned char)t.p[i + 2] : 0;
        if (i > 0 && b == 0xEF && next == 0xBB && last == 0xBF) {
            datum_source_fail(s, i, why,
                              "a second byte order mark (U+FEFF), which becomes part of a key");
            return fail_hint(why, "delete the invisible character");
        }
    }
    return 0;
}

// Nothing but printable ASCII, tabs and line ends, as most configs are: without a branch, so that
// many bytes are looked at at once.
static bool is_plain(struct str text) {
    unsigned char odd = 0;
    for (ptrdiff_t i = 0; i < text.len; i++) {
        const unsigned char b = (unsigned char)text.p[i];
        const bool is_blank = (b == '\n') | (b == '\t') | (b == '\r');
        odd |= (unsigned char)(((b < 0x20) & !is_blank) | (b > 0x7E));
    }
    return !odd;
}

int datum_source_check(const struct datum_source *s, struct fail *why) {
    if (s->text.len > DATUM_MAX_BYTES) {
        return fail_set(why, FAIL_INPUT, "%.*s: more than 16 MiB, expected a training config",
                        STR_ARG(s->name));
    }
    ptrdiff_t bad;
    const unsigned char *bytes = (const unsigned char *)s->text.p;
    const bool plain = is_plain(s->text);
    if (!plain && s->text.len >= 2 && bytes[0] != 0 && bytes[1] == 0 && is_utf8(s->text, &bad)) {
        fail_set(why, FAIL_INPUT, "%.*s:1:2: NUL byte: not UTF-8 but UTF-16, expected UTF-8",
                 STR_ARG(s->name));
        return fail_hint(why, "convert it: iconv -f UTF-16LE -t UTF-8 OLD > NEW");
    }
    if (!plain && !is_utf8(s->text, &bad)) return not_utf8(s, bad, why);
    int status = plain ? 0 : forbidden(s, why);
    if (status) return status;
    if (str_trim(s->text).len == 0) {
        return fail_set(why, FAIL_INPUT, "%.*s:1:1: the file is empty, expected a training config",
                        STR_ARG(s->name));
    }
    return 0;
}

// "a/b/c.py" and "../d.py" give "a/d.py".
struct str datum_source_beside(struct arena *a, struct str name, struct str reference) {
    struct str_list parts = {0};
    if (str_starts(reference, STR("/"))) return reference;
    struct str both[] = {str_before_last(name, '/'), reference};
    for (int i = 0; i < 2; i++) {
        while (both[i].p && both[i].len > 0) {
            const struct str part = str_cut(&both[i], '/');
            const bool up = str_is(part, "..") && parts.count > 0 &&
                            !str_is(parts.items[parts.count - 1], "..");
            if (up)
                parts.count--;
            else if (part.len > 0 && !str_is(part, "."))
                str_list_add(a, &parts, part);
        }
    }
    struct buf b = buf_new(a);
    if (str_starts(name, STR("/"))) buf_byte(&b, '/');
    for (ptrdiff_t i = 0; i < parts.count; i++) {
        if (i > 0) buf_byte(&b, '/');
        buf_add(&b, parts.items[i]);
    }
    return buf_str(&b);
}
