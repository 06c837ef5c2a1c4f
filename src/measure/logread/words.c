// SPDX-License-Identifier: Apache-2.0
// What all readers of a line need.
#include "measure/logread/logread_int.h"

#include "base/out.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void logread_set_mark(struct logread_mark *m, int64_t number, struct str line) {
    clean_keep(m->text, sizeof m->text, str_trim(line));
    m->line = number;
}

double logread_number_at(struct str s, ptrdiff_t *ret_length) {
    char copy[32];
    ptrdiff_t n = 0;
    while (n < s.len && n < 31 && (isdigit((unsigned char)s.p[n]) || s.p[n] == '.')) n++;
    memcpy(copy, s.p, (size_t)n);
    copy[n] = 0;
    char *end = copy;
    double value = n > 0 ? strtod(copy, &end) : (double)NAN;
    bool is_time =
        n < s.len && s.p[n] == ':' && n + 1 < s.len && isdigit((unsigned char)s.p[n + 1]);
    *ret_length = end == copy + n && n > 0 && !is_time ? n : 0;
    return value;
}

bool logread_has_nocase(struct str s, const char *word) {
    ptrdiff_t n = (ptrdiff_t)strlen(word);
    for (ptrdiff_t i = 0; i + n <= s.len; i++) {
        if (strncasecmp(s.p + i, word, (size_t)n) == 0) return true;
    }
    return false;
}
