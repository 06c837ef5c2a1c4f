// SPDX-License-Identifier: Apache-2.0
// The progress line. It is drawn over itself and wiped before anything else is printed.
#include "view/show/show.h"

#include "base/os.h"

#include <unistd.h>

enum { REDRAW_NS = 100 * 1000 * 1000, DEFAULT_WIDTH = 80 };

struct show_progress show_progress_open(int fd, struct str name, int64_t total) {
    int64_t now = os_now_ns();
    return (struct show_progress){
        .fd = fd,
        .is_live = isatty(fd),
        .style = show_style_of(fd),
        .name = name,
        .total = total,
        .started_ns = now,
        .drawn_ns = now - REDRAW_NS,
    };
}

static void add_duration(struct buf *b, double seconds) {
    if (seconds < 99.5)
        buf_format(b, "%.0f s", seconds);
    else if (seconds < 99.5 * 60)
        buf_format(b, "%.0f min", seconds / 60);
    else
        buf_format(b, "%.1f h", seconds / 3600);
}

struct str show_duration(struct arena *a, double seconds) {
    struct buf b = buf_new(a);
    add_duration(&b, seconds);
    return buf_str(&b);
}

void show_progress_line(const struct show_progress *p, int64_t now_ns, struct str item, int width,
                        struct buf *b) {
    ptrdiff_t from = b->count;
    double elapsed = (double)(now_ns - p->started_ns) / 1e9;
    double rate = elapsed > 0 ? (double)p->done / elapsed : 0;
    show_text(b, (struct show_style){0}, SHOW_PLAIN, p->name);
    buf_format(b, " %lld", (long long)p->done);
    if (p->total > 0) {
        buf_format(b, "/%lld  %.0f %%", (long long)p->total,
                   100.0 * (double)p->done / (double)p->total);
    }
    // The first second says little of the rate.
    if (elapsed >= 1 && p->done > 0) {
        buf_format(b, rate >= 10 ? "  %.0f/s" : "  %.2g/s", rate);
        if (p->total > p->done) {
            buf_add(b, STR("  "));
            add_duration(b, (double)(p->total - p->done) / rate);
            buf_add(b, STR(" left"));
        }
    }
    if (item.len) {
        buf_add(b, STR("  "));
        show_text(b, (struct show_style){.utf8 = true}, SHOW_PLAIN, item);
    }
    struct str line = {b->items + from, b->count - from};
    b->count = from + show_fit(line, width).len;
}

static void put(int fd, struct str text) {
    while (text.len > 0) {
        ssize_t n = write(fd, text.p, (size_t)text.len);
        if (n <= 0) return; // a progress line is never worth an error
        text = str_slice(text, n, text.len);
    }
}

void show_progress_set(struct show_progress *p, int64_t done, struct str item) {
    p->done = done;
    int64_t now = os_now_ns();
    if (!p->is_live || now - p->drawn_ns < REDRAW_NS) return;
    p->drawn_ns = now;
    ARENA_AUTO scratch = {0};
    struct buf b = buf_new(&scratch);
    buf_add(&b, STR("\r\033[K"));
    show_progress_line(p, now, item, (p->style.width > 0 ? p->style.width : DEFAULT_WIDTH) - 1, &b);
    put(p->fd, buf_str(&b));
}

void show_progress_wipe(const struct show_progress *p) {
    if (p->is_live) put(p->fd, STR("\r\033[K"));
}

void show_progress_close(struct show_progress *p) {
    show_progress_wipe(p);
    p->is_live = false;
}
