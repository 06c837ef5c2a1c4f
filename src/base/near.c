// SPDX-License-Identifier: Apache-2.0
#include "base/near.h"

#include <string.h>

enum { NEAR_TEXT = 64 };

static int fold(struct str s, char *ret) {
    int n = 0;
    for (ptrdiff_t i = 0; i < s.len && n < NEAR_TEXT; i++) {
        char c = s.p[i];
        if (c != ' ' && c != '-' && c != '_') ret[n++] = str_lower(c);
    }
    return n;
}

static int least(int a, int b, int c) {
    int m = a < b ? a : b;
    return m < c ? m : c;
}

static int edit_distance(const char *a, int na, const char *b, int nb) {
    int rows[3][NEAR_TEXT + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (int j = 0; j <= nb; j++) above[j] = j;
    for (int i = 1; i <= na; i++) {
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int change = a[i - 1] != b[j - 1];
            row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + change);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < row[j]) row[j] = before[j - 2] + 1;
        }
        int *oldest = before;
        before = above, above = row, row = oldest;
    }
    return above[nb];
}

int near_distance(struct str typed, struct str name) {
    char a[NEAR_TEXT], b[NEAR_TEXT];
    int na = fold(typed, a), nb = fold(name, b);
    int distance = edit_distance(a, na, b, nb);
    bool inside = na >= 3 && memmem(b, (size_t)nb, a, (size_t)na);
    return inside && distance > 1 ? 1 : distance;
}

void near_offer(struct near *n, struct str name) {
    int distance = near_distance(n->typed, name);
    int limit = n->typed.len < 4 ? 1 : (int)(n->typed.len / 2 < 8 ? n->typed.len / 2 : 8);
    if (distance > limit) return;
    for (int i = 0; i < n->count; i++) {
        if (str_equal(n->names[i], name)) return;
    }
    int at = n->count;
    while (at > 0 && n->distances[at - 1] > distance) at--;
    if (at == NEAR_MAX) return;
    int last = n->count < NEAR_MAX ? n->count++ : NEAR_MAX - 1;
    for (int i = last; i > at; i--) {
        n->names[i] = n->names[i - 1];
        n->distances[i] = n->distances[i - 1];
    }
    n->names[at] = name;
    n->distances[at] = distance;
}

struct str near_text(struct arena *a, const struct near *n) {
    struct buf text = buf_new(a);
    for (int i = 0; i < n->count; i++) {
        if (i) buf_add(&text, STR(", "));
        buf_add(&text, n->names[i]);
    }
    return buf_str(&text);
}
