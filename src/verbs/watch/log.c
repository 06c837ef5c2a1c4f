// SPDX-License-Identifier: Apache-2.0
// Writing logs. The lines of a reading go out in one write; what a full disk has left of them is
// cut off again. The names of the columns are those of `nvidia-smi dmon` (its help, driver 550)
// where it has the figure.
#include "verbs/watch/watch.h"

#include "base/field.h"
#include "base/json.h"
#include "base/os.h"
#include "base/out.h"
#include "measure/observe/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CARDS_MOST = 1024, FIRST_LINE_MOST = 1 << 20 };

struct watch_log {
    struct watch_log *next;
    const char *name;
    int fd;
    bool is_csv, is_file, is_ours_to_close;
    int64_t logged_ns[CARDS_MOST]; // when each GPU's last row was read
    int64_t readings;              // that were logged as documents
};

// After time and gpu. Only the end may grow: scripts count columns.
#define CARD(member) FIELD(struct device_card, member)
#define WATCHED(member) .is_watched = true, .field = FIELD(struct observe_card, member)
static const double PERCENT = 100, MIB = 1.0 / (1 << 20), MB = 1e-6;
static const struct column {
    const char *name;
    int decimals;
    double factor;
    struct field field, more; // of the GPU, or of what was watched of it; what is added to it
    bool is_watched;
} columns[] = {
    {"gpu", 0, 1, CARD(index)},
    {"pwr", 1, 1, CARD(now.power_watts)},
    {"gtemp", 0, 1, CARD(now.temperature_celsius)},
    {"mtemp", 0, 1, CARD(now.memory_temperature_celsius)},
    {"sm", 0, PERCENT, CARD(now.utilisation)},
    {"mem", 0, PERCENT, CARD(now.memory_utilisation)},
    {"enc", 0, PERCENT, CARD(now.encoder_utilisation)},
    {"dec", 0, PERCENT, CARD(now.decoder_utilisation)},
    {"mclk", 0, 1, CARD(now.memory_clock_mhz)},
    {"pclk", 0, 1, CARD(now.sm_clock_mhz)},
    {"pviol", 1, PERCENT, WATCHED(window.power_cap_share)},
    {"tviol", 1, PERCENT, WATCHED(window.sw_thermal_share),
     .more = FIELD(struct observe_card, window.hw_thermal_share)},
    {"fb", 0, MIB, CARD(now.used_bytes)},
    {"rxpci", 1, MB, CARD(now.pcie_rx_bytes_s)},
    {"txpci", 1, MB, CARD(now.pcie_tx_bytes_s)},
    {"total", 0, MIB, CARD(now.total_bytes)},
    {"reserved", 0, MIB, CARD(now.reserved_bytes)},
    {"ours", 0, MIB, WATCHED(ours_bytes)},
    {"throttled", 1, PERCENT, WATCHED(window.throttled_share)},
    {"limit", 1, 1, CARD(now.power_limit_watts)},
    {"energy", 1, 1, WATCHED(since.energy_joules)},
    {"fan", 0, PERCENT, CARD(now.fan)},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void add_header(struct buf *b) {
    buf_add(b, STR("time"));
    for (int i = 0; i < COLUMNS; i++) buf_format(b, ",%s", columns[i].name);
    buf_add(b, STR(",state,uuid\r\n"));
}

static void add_time(struct buf *b) {
    int64_t now_ms = os_wall_ns() / 1000000;
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    buf_format(b, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
               utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(now_ms % 1000));
}

static double value_of(const void *of, const struct column *c) {
    double value = field_number(of, &c->field);
    return (c->more.name ? value + field_number(of, &c->more) : value) * c->factor;
}

static void add_row(struct buf *b, const struct device_card *card,
                    const struct observe_card *watched) {
    add_time(b);
    for (int i = 0; i < COLUMNS; i++) {
        const struct column *c = &columns[i];
        double value = value_of(c->is_watched ? (const void *)watched : (const void *)card, c);
        buf_byte(b, ',');
        if (isfinite(value)) buf_format(b, "%.*f", c->decimals, value);
    }
    buf_format(b, ",%s,", device_state_name(card->state));
    clean_csv(b, str_of(card->facts.uuid));
    buf_add(b, STR("\r\n"));
}

static int failed(const struct watch_log *log, int error, struct fail *why) {
    fail_set(why, FAIL_MACHINE, "%s: cannot write: %s", log->name, strerror(error));
    if (error == ENOSPC || error == EDQUOT) {
        return fail_hint(why, "the disk is full; what was logged before is complete");
    }
    return error == EPIPE ? fail_hint(why, "its reader is gone") : FAIL_MACHINE;
}

static int write_lines(struct watch_log *log, struct str lines, struct fail *why) {
    struct stat st;
    if (lines.len == 0) return 0;
    off_t begin = log->is_file && fstat(log->fd, &st) == 0 ? st.st_size : -1;
    if (begin >= 0 && st.st_nlink == 0) {
        fail_set(why, FAIL_MACHINE, "%s: was removed while logging", log->name);
        return fail_hint(why, "move a log only after batchfit watch has ended");
    }
    for (struct str rest = lines; rest.len > 0;) {
        ssize_t n = write(log->fd, rest.p, (size_t)rest.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            int error = errno;
            if (begin >= 0 && ftruncate(log->fd, begin) < 0) return failed(log, errno, why);
            return failed(log, error, why);
        }
        rest = str_slice(rest, n, rest.len);
    }
    return 0;
}

static void add_rows(struct watch_log *log, const struct observe_view *view, struct buf *b) {
    for (int i = 0; i < view->devices->count && i < CARDS_MOST; i++) {
        const struct device_card *card = &view->devices->cards[i];
        if (card->now.at_ns == 0 || card->now.at_ns == log->logged_ns[i]) continue;
        log->logged_ns[i] = card->now.at_ns;
        add_row(b, card, &view->cards[i]);
    }
}

static int add_document(struct watch_log *log, const struct observe_view *view, struct buf *b,
                        struct fail *why) {
    if (view->readings == log->readings && log->readings > 0) return 0;
    log->readings = view->readings;
    struct str text =
        json_take(b->arena, observe_document(view), JSON_COMPACT | JSON_REAL_PRECISION(10));
    if (text.len == 0) return fail_set(why, FAIL_BUG, "the view is not valid JSON");
    buf_format(b, "%.*s\n", STR_ARG(text));
    return 0;
}

int watch_logs_add(struct watch_log *logs, const struct observe_view *view, struct arena *scratch,
                   struct fail *why) {
    int rc = 0;
    for (struct watch_log *log = logs; log && rc == 0; log = log->next) {
        struct arena_mark mark = arena_mark(scratch);
        struct buf b = buf_new(scratch);
        if (log->is_csv)
            add_rows(log, view, &b);
        else
            rc = add_document(log, view, &b, why);
        if (rc == 0) rc = write_lines(log, buf_str(&b), why);
        arena_rewind(scratch, mark);
    }
    return rc;
}

static bool is_our_document(struct str line) {
    json_t *document = json_loadb(line.p, (size_t)line.len, 0, NULL);
    bool is_ours = json_is_integer(json_object_get(document, "watch"));
    json_decref(document);
    return is_ours;
}

static bool is_ours(const struct watch_log *log, struct arena *a, struct str text) {
    struct buf header = buf_new(a);
    add_header(&header);
    struct str wanted = buf_str(&header);
    return log->is_csv ? str_starts(text, wanted) : is_our_document(str_line(&text));
}

// A line that a crash or a power failure has left unfinished is cut off.
static int cut_tail(struct watch_log *log, off_t size) {
    char tail[4096];
    while (size > 0) {
        off_t from = size > (off_t)sizeof tail ? size - (off_t)sizeof tail : 0;
        ssize_t n = pread(log->fd, tail, (size_t)(size - from), from);
        if (n <= 0) return -1;
        while (n > 0 && tail[n - 1] != '\n') n--;
        if (n > 0) return ftruncate(log->fd, from + n);
        size = from;
    }
    return ftruncate(log->fd, 0);
}

static int go_on(struct watch_log *log, off_t size, struct fail *why) {
    ARENA_AUTO scratch = {0};
    struct str text;
    int rc = os_read_head(&scratch, log->name, FIRST_LINE_MOST, &text, why);
    if (rc < 0) return rc;
    if (!is_ours(log, &scratch, text)) {
        fail_set(why, FAIL_INPUT, "%s: exists, and is not a log with these columns", log->name);
        return fail_hint(why, "name another file, or move this one away");
    }
    return cut_tail(log, size) < 0 ? failed(log, errno, why) : 0;
}

static int open_log(struct watch_log *log, struct fail *why) {
    struct stat st;
    // Reading, too, for the tail; a pipe or a terminal must not be waited for.
    log->fd = open(log->name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (log->fd < 0) log->fd = open(log->name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (log->fd < 0 || fstat(log->fd, &st) < 0) {
        return fail_set(why, FAIL_MACHINE, "%s: %s", log->name, strerror(errno));
    }
    log->is_file = S_ISREG(st.st_mode);
    log->is_ours_to_close = true;
    if (log->is_file && flock(log->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        return fail_set(why, FAIL_MACHINE, "%s: another batchfit watch is writing to it",
                        log->name);
    }
    if (log->is_file && st.st_size > 0) return go_on(log, st.st_size, why);
    if (!log->is_csv) return 0;
    ARENA_AUTO scratch = {0};
    struct buf header = buf_new(&scratch);
    add_header(&header);
    return write_lines(log, buf_str(&header), why);
}

int watch_logs_open(struct arena *a, const char *files, struct watch_log **ret_logs,
                    struct fail *why) {
    *ret_logs = NULL;
    struct watch_log **end = ret_logs;
    for (struct str rest = str_of(files); rest.len > 0;) {
        struct str name = str_cut(&rest, '\n');
        bool is_csv = str_ends(name, STR(".csv")),
             is_lines = str_ends(name, STR(".jsonl")) || str_ends(name, STR(".json"));
        bool is_device = str_starts(name, STR("/dev/"));
        if (!is_csv && !is_lines && !is_device) {
            fail_set(why, FAIL_USAGE, "--log %.*s: unknown format", STR_ARG(name));
            return fail_hint(why, "end the name in .csv, .jsonl or .json: --log FILE.jsonl");
        }
        struct watch_log *log = *end = arena_new(a, struct watch_log, 1);
        log->name = str_z(a, name);
        log->is_csv = !is_lines;
        end = &log->next;
        int rc = open_log(log, why);
        if (rc < 0) return rc;
    }
    return 0;
}

struct watch_log *watch_log_on(struct arena *a, int fd, const char *name,
                               struct watch_log *others) {
    struct watch_log *log = arena_new(a, struct watch_log, 1);
    log->name = name;
    log->fd = fd;
    log->next = others;
    return log;
}

void watch_logs_close(struct watch_log *logs) {
    for (; logs; logs = logs->next) {
        if (logs->is_ours_to_close && logs->fd >= 0) close(logs->fd);
    }
}
