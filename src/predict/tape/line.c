// SPDX-License-Identifier: Apache-2.0
// Fields are separated by exactly one blank; an empty field stays one, so that two blanks are seen.
#include "predict/tape/line.h"

#include "base/out.h"
#include "predict/tape/tape_int.h"

#include <stdarg.h>
#include <stdio.h>

static const int64_t number_limit = INT64_C(1) << 62;

int tape_line_bad(const struct tape_line *l, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail_set(l->why, FAIL_INPUT, "%.*s:%d: %s", STR_ARG(l->name), l->line, text);
}

struct str tape_brief(struct str s) {
    return s.len <= 40 ? s : str_slice(s, 0, 40);
}

int tape_line_bad_field(const struct tape_line *l, int i, const char *expected) {
    struct str got = tape_brief(l->fields[i]);
    return tape_line_bad(l, "expected %s, not '%.*s'", expected, STR_ARG(got));
}

bool tape_parse_number(struct str s, int64_t *ret) {
    bool negative = s.len > 0 && s.p[0] == '-';
    if (s.len - negative < 1 || s.len - negative > 19) return false;
    uint64_t value = 0; // 19 digits fit
    for (ptrdiff_t i = negative; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.p[i] - '0';
        if (digit > 9) return false;
        value = value * 10 + digit;
    }
    if (value >= (uint64_t)number_limit) return false;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

int tape_line_number(const struct tape_line *l, int i, const char *expected, int64_t *ret) {
    return tape_parse_number(l->fields[i], ret) ? 0 : tape_line_bad_field(l, i, expected);
}

int tape_line_word(const struct tape_line *l, struct arena *a, int i, const char *what,
                   const char *const *words, int count, uint8_t *ret) {
    const struct str word = l->fields[i];
    for (int w = 0; w < count; w++) {
        if (word.len == 0 || word.p[0] != words[w][0] || !str_is(word, words[w])) continue;
        *ret = (uint8_t)w;
        return 0;
    }
    struct buf expected = buf_new(a);
    buf_format(&expected, "%s (", what);
    for (int w = 0; w < count; w++) buf_format(&expected, "%s%s", w ? " " : "", words[w]);
    buf_byte(&expected, ')');
    return tape_line_bad_field(l, i, buf_z(&expected));
}

int tape_line_mark(const struct tape_line *l, struct arena *a, uint8_t *ret_phase,
                   int32_t *ret_step) {
    int64_t step = 0;
    int code = tape_line_count(l, 3, 3, "m PHASE STEP");
    if (code == 0)
        code = tape_line_word(l, a, 1, "a phase", tape_phase_names, TAPE_PHASE_COUNT, ret_phase);
    if (code == 0) code = tape_line_number(l, 2, "the number of a step", &step);
    if (code < 0) return code;
    if (step < 0 || step > INT32_MAX) return tape_line_bad_field(l, 2, "the number of a step");
    *ret_step = (int32_t)step;
    return 0;
}

int tape_line_details(const struct tape_line *l, struct str text) {
    for (struct str rest = text; rest.p;) {
        struct str value = str_cut(&rest, ' '), key = str_cut(&value, '=');
        if (key.len > 0 && value.len > 0) continue;
        key = tape_brief(key);
        return tape_line_bad(l, "expected key=value, not '%.*s'", STR_ARG(key));
    }
    return 0;
}

int tape_line_stream(const struct tape_line *l, int32_t *ret) {
    struct str word = l->fields[0];
    int64_t stream = 0;
    if (word.len > 1) {
        if (!tape_parse_number(str_slice(word, 2, word.len), &stream) || stream < 1 ||
            stream > TAPE_STREAM_MAX) {
            return tape_line_bad(l, "expected a@STREAM with a stream from 1 to %d",
                                 TAPE_STREAM_MAX);
        }
    }
    *ret = (int32_t)stream;
    return 0;
}

void tape_line_split(struct tape_line *l, const char *p, const char *end) {
    l->count = 0;
    for (bool more = true; more; p++) {
        const char *begin = p;
        bool last = l->count == TAPE_FIELDS_MAX - 1;
        while (p < end && (*p != ' ' || last)) p++;
        l->fields[l->count++] = (struct str){begin, p - begin};
        more = p < end;
    }
}

int tape_line_count(const struct tape_line *l, int least, int most, const char *form) {
    if (l->count >= least && l->count <= most) return 0;
    return tape_line_bad(l, "expected \"%s\", but the line has %d field%s", form, l->count,
                         l->count == 1 ? "" : "s");
}

bool tape_is_text(struct str s) {
    while (s.len > 0) {
        if (s.p[0] >= 0x20 && s.p[0] < 0x7f) { // nearly all
            s = (struct str){s.p + 1, s.len - 1};
            continue;
        }
        ptrdiff_t before = s.len;
        uint32_t c = clean_next(&s);
        bool is_broken = c == CLEAN_BROKEN && before - s.len == 1;
        if (is_broken || c < 0x20 || c == 0x7f) return false;
    }
    return true;
}
