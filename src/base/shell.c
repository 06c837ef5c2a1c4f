// SPDX-License-Identifier: Apache-2.0
#include "base/shell.h"

#include "base/out.h"

#include <string.h>

// Letters, digits, what no shell looks at, and all that is not ASCII.
static bool is_plain(struct str word) {
    for (ptrdiff_t i = 0; i < word.len; i++) {
        char c = word.p[i];
        if (!str_is_alnum(c) && !(c & 0x80) && (c == 0 || !strchr("_@%+:,./-=", c))) return false;
    }
    return word.len > 0;
}

struct str shell_word(struct arena *a, struct str word) {
    char form[CLEAN_FORM_MOST];
    struct buf b = buf_new(a);
    bool has_hidden = !str_equal(clean_text(a, word), word);
    if (is_plain(word) && !has_hidden) return word;
    buf_add(&b, has_hidden ? STR("$'") : STR("'"));
    while (word.len > 0) {
        struct str shown = clean_take(&word, form);
        if (shown.p != form && shown.p[0] == '\'')
            buf_add(&b, has_hidden ? STR("\\'") : STR("'\\''"));
        else if (shown.p != form && shown.p[0] == '\\' && has_hidden)
            buf_add(&b, STR("\\\\"));
        else
            buf_add(&b, shown);
    }
    buf_byte(&b, '\'');
    return buf_str(&b);
}

struct str shell_command(struct arena *a, char *const *words) {
    struct buf b = buf_new(a);
    char **masked = secret_masked(a, words);
    for (ptrdiff_t i = 0; masked[i]; i++) {
        struct str word = str_of(masked[i]);
        bool assigns = i == 0 && str_find(word, STR("=")) >= 0; // a shell would take it for one
        if (i) buf_byte(&b, ' ');
        buf_add(&b, assigns && is_plain(word) ? str_format(a, "'%.*s'", STR_ARG(word))
                                              : shell_word(a, word));
    }
    return buf_str(&b);
}
