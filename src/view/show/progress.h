// SPDX-License-Identifier: Apache-2.0
// One line that says how far a long job is: written to a terminal only, redrawn at most ten times a
// second, and wiped at the end.
#pragma once

#include "view/show/style.h"

struct show_progress {
    int fd;
    bool is_live; // false: the descriptor is no terminal, nothing is ever written
    struct show_style style;
    struct str name;
    int64_t total; // 0: unknown
    int64_t done, started_ns, drawn_ns;
};

struct show_progress show_progress_open(int fd, struct str name, int64_t total);
// `item` is what is being worked on; may be empty.
void show_progress_set(struct show_progress *p, int64_t done, struct str item);
// "12 s", "4 min", "1.5 h"
struct str show_duration(struct arena *a, double seconds);
// Takes the line away, where something else is to be said; the next one draws it again.
void show_progress_wipe(const struct show_progress *p);
void show_progress_close(struct show_progress *p);
// The line itself, without control codes: "recording 12/48  25 %  3.1/s  12 s left  resnet50".
void show_progress_line(const struct show_progress *p, int64_t now_ns, struct str item, int width,
                        struct buf *b);
