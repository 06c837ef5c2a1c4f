// SPDX-License-Identifier: Apache-2.0
// Any words as a command: they are expanded or refused with a reason; without braces they come out
// as they went in; and what is expanded again after its braces were doubled stays as it is.
//
// Input: the words, ended by zero bytes.
#include "fuzz.h"

#include "measure/trial/trial.h"

#include <stdlib.h>
#include <string.h>

static void check(bool good) {
    if (!good) abort();
}

static const struct trial_command_value values[] = {
    {STR("batch"), STR("32"), false},
    {STR("b"), STR("{x y}"), false},
    {STR("a"), STR(""), false},
    {STR("o"), STR("off"), true},
};
enum { VALUES = sizeof values / sizeof *values };

static char **read_words(struct arena *a, struct str text) {
    char **words = arena_new(a, char *, text.len + 2);
    for (ptrdiff_t n = 0; text.len > 0; n++) words[n] = str_z(a, str_cut(&text, '\0'));
    return words;
}

static bool same(char *const *a, char *const *b) {
    for (; *a && *b; a++, b++) {
        if (strcmp(*a, *b) != 0) return false;
    }
    return !*a && !*b;
}

static char *doubled(struct arena *a, const char *word) {
    struct buf b = buf_new(a);
    for (; *word; word++) {
        if (*word == '{' || *word == '}') buf_byte(&b, *word);
        buf_byte(&b, *word);
    }
    return buf_z(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct str text;
    char **words = read_words(&a, (struct str){(const char *)data, (ptrdiff_t)size}), **out,
         **again;
    bool has_brace = memchr(data, '{', size) || memchr(data, '}', size);
    if (size == 0) return 0;
    if (trial_command_expand(&a, words, values, VALUES, &out, &why)) {
        check(why.code == FAIL_USAGE && why.message[0] && has_brace);
        return 0;
    }
    check(has_brace || same(words, out));
    check(trial_command_text(&a, out).len >= 0);
    trial_command_mentions(words, STR("batch"));
    if (trial_command_expand_text(&a, str_of(words[0]), values, VALUES, &text, &why) == 0)
        check(text.len == 0 || text.p);
    for (char **w = out; *w; w++) *w = doubled(&a, *w);
    char **before = out;
    check(trial_command_expand(&a, before, values, VALUES, &again, &why) == 0);
    for (char **w = again; *w; w++, before++) check(strcmp(doubled(&a, *w), *before) == 0);
    return 0;
}
