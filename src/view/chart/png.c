// SPDX-License-Identifier: Apache-2.0
// An SVG of ours as a PNG, by librsvg's rsvg-convert (as of 2.54: no CSS variables, so these are
// put in; no dark style, so the light one). It reads a file in memory and writes to a pipe.
#include "base/os.h"
#include "view/chart/chart.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000, PNG_MOST_BYTES = 8 << 20 };
static const char program[] = "rsvg-convert";

// Its words have no blanks.
static int run(struct arena *a, struct str words, struct os_captured *ret) {
    return os_capture(a, str_words_of(a, words, ' ').items, PATIENCE_MS, PNG_MOST_BYTES, ret, NULL);
}

static int missing(struct fail *why) {
    fail_set(why, FAIL_MACHINE, "%s is not installed, which makes a .png of the picture", program);
    return fail_hint(why, "install it (Debian: librsvg2-bin), or end the name in .svg or .html");
}

int chart_png_check(struct arena *a, struct fail *why) {
    struct os_captured c;
    bool runs = run(a, str_format(a, "%s --version", program), &c) == 0 && c.status == 0;
    return runs ? 0 : missing(why);
}

// What follows "NAME:" up to the next ";" or "}" where the style sheet defines it first.
static struct str value_of(struct str sheet, struct str name) {
    for (struct str rest = sheet; rest.p;) {
        ptrdiff_t at = str_find(rest, name);
        if (at < 0) break;
        rest = str_slice(rest, at + name.len, rest.len);
        if (rest.len == 0 || rest.p[0] != ':') continue;
        ptrdiff_t end = 1;
        while (end < rest.len && rest.p[end] != ';' && rest.p[end] != '}') end++;
        return str_slice(rest, 1, end);
    }
    return STR("none");
}

static struct str without_variables(struct arena *a, struct str svg) {
    struct buf b = buf_new(a);
    for (ptrdiff_t at; (at = str_find(svg, STR("var("))) >= 0;) {
        buf_add(&b, str_slice(svg, 0, at));
        svg = str_slice(svg, at + 4, svg.len);
        struct str name = str_cut(&svg, ')');
        buf_add(&b, value_of(chart_style_sheet(), name));
        if (!svg.p) return buf_str(&b);
    }
    buf_add(&b, svg);
    return buf_str(&b);
}

int chart_png(struct arena *a, struct str svg, struct str *ret_png, struct fail *why) {
    struct str text = without_variables(a, svg);
    OS_FD fd = memfd_create("batchfit.svg", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text.p, (size_t)text.len) != text.len)
        return fail_set(why, FAIL_MACHINE, "cannot hold the picture: %s", strerror(errno));
    struct str words = str_format(a, "%s -f png -z 2 /proc/%d/fd/%d", program, (int)getpid(), fd);
    struct os_captured c;
    if (run(a, words, &c) < 0) return missing(why);
    if (c.status != 0 || !str_starts(c.out, STR("\x89PNG"))) {
        return fail_set(why, FAIL_MACHINE, "%s ended with %d: %.*s", program, c.status,
                        STR_ARG(str_trim(c.err)));
    }
    *ret_png = c.out;
    return 0;
}
