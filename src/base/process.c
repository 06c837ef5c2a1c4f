// SPDX-License-Identifier: Apache-2.0
// What /proc says of a process or a thread in its file `stat`: proc(5) of Linux man-pages 6.
#include "base/os.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The name, field 2, is in brackets and may hold blanks and brackets itself; the fields behind it
// are single words.
bool os_stat_read(const char *path, struct os_stat *ret_stat) {
    char text[1024];
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (length <= 0) return false;
    text[length] = 0;
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || !at[2]) return false;
    struct os_stat s = {.state = at[2]};
    int64_t fields[25] = {0};
    at += 3;
    for (int i = 4; i < 25; i++) {
        char *end;
        fields[i] = strtoll(at, &end, 10);
        if (end == at) return false;
        at = end;
    }
    s.parent = fields[4];
    s.cpu_seconds = (double)(fields[14] + fields[15]) / (double)sysconf(_SC_CLK_TCK);
    s.start_ticks = fields[22];
    s.resident_bytes = fields[24] * sysconf(_SC_PAGESIZE);
    *ret_stat = s;
    return true;
}
