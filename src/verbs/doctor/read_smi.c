// SPDX-License-Identifier: Apache-2.0
// What nvidia-smi writes when it is left to log, as doctor reads it: --query-gpu=… --format=csv
// (names and units in the first line; tables of people's own scripts, too) and dmon (names and
// units behind '#', repeated). Medians of the gauges over the GPUs that are in use; how often heat
// or the power brake limited the clocks; what the driver says of a GPU that is gone.
#include "base/unit.h"
#include "verbs/doctor/doctor.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum {
    READINGS_LEAST = 5, // for a verdict on how busy a GPU is
    SLOW_SHARE = 10,    // one reading in so many
};
// nvmlClocksEventReasons of nvml.h 12.4: HW slowdown, SW thermal, HW thermal, HW power brake. Not
// the power cap: it is normal at full load.
static const unsigned slow_bits = 0x08 | 0x20 | 0x40 | 0x80;

enum { NOTHING, UTILISATION, USED, TOTAL, REASONS, SLOW, ECC };
// As plain() makes them: those of --query-gpu, of dmon, and as people's own scripts call them.
static const struct {
    const char *names; // of one field, separated by '|'
    int field;
} names[] = {
    {"utilization gpu|gpu utilization|gpu util|utilisation gpu|gpu utilisation|gpu usage|sm",
     UTILISATION},
    {"memory used|gpu memory used|mem used|memory used mb|gpu memory used mb|fb", USED},
    {"memory total|gpu memory total|mem total|memory total mb|gpu memory total mb", TOTAL},
    {"clocks throttle reasons active|clocks event reasons active", REASONS},
    {"clocks throttle reasons hw slowdown|clocks throttle reasons hw thermal slowdown|"
     "clocks throttle reasons hw power brake slowdown|clocks throttle reasons sw thermal slowdown|"
     "clocks event reasons hw slowdown|clocks event reasons hw thermal slowdown|"
     "clocks event reasons hw power brake slowdown|clocks event reasons sw thermal slowdown|tviol",
     SLOW},
    {"ecc errors uncorrected volatile total|dbecc", ECC},
};

// "utilization.gpu [%]", "GPU_Utilization (%)": "utilization gpu", "gpu utilization".
static struct str plain(struct str name, char *room, ptrdiff_t size) {
    ptrdiff_t count = 0;
    name = str_trim(name);
    for (ptrdiff_t i = 0; i < name.len && count < size; i++) {
        char c = name.p[i];
        if (c == '[' || c == '(') break;
        room[count++] = strchr("._- ", c) ? ' ' : (char)tolower((unsigned char)c);
    }
    return str_trim((struct str){room, count});
}

static int field_named(struct str name) {
    char room[64];
    struct str wanted = plain(name, room, sizeof room);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct str rest = str_of(names[i].names);
        while (rest.len > 0) {
            if (str_equal(str_cut(&rest, '|'), wanted)) return names[i].field;
        }
    }
    return NOTHING;
}

// A table of gauges has no loss: that of a trainer is a log.
static bool is_table(struct str first) {
    bool is_gauge = false, has_loss = str_find(first, STR("loss")) >= 0;
    if (str_find(first, STR(",")) < 0) return false;
    while (first.len > 0) is_gauge |= field_named(str_cut(&first, ',')) == UTILISATION;
    return is_gauge && !has_loss;
}

bool doctor_is_smi(struct str first) {
    bool is_csv = str_find(first, STR("utilization.gpu [%]")) >= 0 ||
                  str_find(first, STR("memory.used [MiB]")) >= 0;
    bool is_dmon = str_starts(first, STR("#")) && str_find(first, STR(" gpu ")) > 0 &&
                   str_find(first, STR(" sm ")) > 0;
    return is_csv || is_dmon || is_table(first);
}

static struct str next_cell(struct str *rest, bool is_csv) {
    if (is_csv) return str_trim(str_cut(rest, ','));
    *rest = str_trim(*rest);
    return str_cut(rest, ' ');
}

static void read_names(struct doctor_reading *r, struct str line) {
    struct doctor_smi *s = &r->smi;
    const bool is_dmon = str_starts(line, STR("#"));
    s->is_csv = str_find(line, STR(",")) >= 0; // dmon's, too: --format csv
    s->is_own = !is_dmon && str_find(line, STR("[")) < 0;
    if (is_dmon) line = str_slice(line, 1, line.len);
    for (int column = 0; line.len > 0 && column < DOCTOR_SMI_COLUMNS; column++) {
        struct str cell = next_cell(&line, s->is_csv);
        s->fields[column] = field_named(cell);
    }
}

// "95 %", "7650 MiB"; NaN: "[N/A]", "-".
static double number_of(struct str cell) {
    double value = NAN;
    return str_to_double(str_cut(&cell, ' '), &value) ? value : (double)NAN;
}

// "0x0000000000000024"
static unsigned bits_of(struct str hexadecimal) {
    unsigned value = 0;
    for (ptrdiff_t i = 2; i < hexadecimal.len && str_hex(hexadecimal.p[i]) < 16; i++)
        value = value << 4 | (unsigned)str_hex(hexadecimal.p[i]);
    return value;
}

static bool is_slow(int field, struct str cell) {
    if (field == REASONS) return str_starts(cell, STR("0x")) && (bits_of(cell) & slow_bits);
    return field == SLOW && (str_is(cell, "Active") || number_of(cell) > 0);
}

static void add_finding(struct doctor_reading *r, const char *id, enum finding_severity severity,
                        struct str evidence) {
    struct findings *all = &r->findings;
    *arena_push(r->d->arena, &all->items, &all->count, &all->capacity) =
        (struct finding){.id = id, .severity = severity, .evidence = evidence};
}

// What the driver writes instead of a figure once a GPU is gone.
static void read_lost(struct doctor_reading *r, struct str line) {
    static const char *const words[] = {"[GPU is lost]", "[Unknown Error]", "ERR!"};
    for (size_t i = 0; i < sizeof words / sizeof *words && !r->smi.is_lost; i++) {
        if (str_find(line, str_of(words[i])) < 0) continue;
        r->smi.is_lost = true;
        add_finding(r, "trend.state", FINDING_PROBLEM,
                    str_format(r->d->arena, "line %lld: the driver says %s", (long long)r->lines,
                               words[i]));
    }
}

static void read_row(struct doctor_reading *r, struct str line) {
    struct doctor_smi *s = &r->smi;
    double used = NAN, total = NAN, utilisation = NAN;
    bool slow = false;
    for (int column = 0; line.len > 0 && column < DOCTOR_SMI_COLUMNS; column++) {
        struct str cell = next_cell(&line, s->is_csv);
        int field = s->fields[column];
        if (field == UTILISATION) utilisation = number_of(cell) / 100;
        if (field == USED) used = number_of(cell);
        if (field == TOTAL) total = number_of(cell);
        if (field == ECC && number_of(cell) > s->ecc_errors) s->ecc_errors = number_of(cell);
        slow |= is_slow(field, cell);
    }
    if (isnan(total) && r->d->options->gpu_memory > 0)
        total = (double)r->d->options->gpu_memory / UNIT_MIB;
    doctor_gauges_add(r, utilisation, used, total);
    if (slow && s->slow++ == 0) s->slow_line = r->lines;
    s->rows++;
}

int doctor_reading_smi_line(struct doctor_reading *r, struct str line, struct fail *why) {
    (void)why;
    bool is_units = str_starts(line, STR("#")) && str_find(line, STR("Idx")) > 0;
    if (is_units || str_starts(line, STR("#YYYY"))) return 0;
    if (str_starts(line, STR("#")) || doctor_is_smi(line)) {
        read_names(r, line);
        return 0;
    }
    read_lost(r, line);
    read_row(r, line);
    return 0;
}

// A GPU on which nothing runs is not underused.
static void judge_use(struct doctor_reading *r) {
    struct cause_facts *f = &r->d->facts;
    f->utilisation = doctor_figures_median(&r->utilisation);
    f->memory_share = doctor_figures_median(&r->memory);
    f->gauge_count = r->utilisation.seen;
    bool is_empty = (r->empty > 0 && r->utilisation.seen < READINGS_LEAST) ||
                    (f->utilisation < 0.01 && !(f->memory_share >= 0.1));
    if (!is_empty && r->smi.rows >= READINGS_LEAST) return;
    str_list_format(r->d->arena, &r->d->notes,
                    is_empty ? "nothing ran on the GPU in most of %lld readings: log it while the "
                               "training runs"
                             : "too few readings (%lld) to tell a training's speed: log it for a "
                               "minute, with --format=csv -l 1",
                    (long long)r->smi.rows);
    f->utilisation = NAN;
}

int doctor_reading_smi_end(struct doctor_reading *r, struct fail *why) {
    (void)why;
    struct doctor_smi *s = &r->smi;
    judge_use(r);
    if (s->slow * SLOW_SHARE >= s->rows && s->slow > 0)
        add_finding(r, "trend.throttled", FINDING_WARNING,
                    str_format(r->d->arena,
                               "heat or the power brake limited the clocks in %lld of %lld "
                               "readings, first in line %lld",
                               (long long)s->slow, (long long)s->rows, (long long)s->slow_line));
    if (s->ecc_errors > 0)
        add_finding(r, "trend.ecc", FINDING_PROBLEM,
                    str_format(r->d->arena, "%.0f uncorrected memory errors", s->ecc_errors));
    r->d->read = str_format(r->d->arena, "%s%lld reading%s", s->is_own ? "" : "nvidia-smi, ",
                            (long long)s->rows, s->rows == 1 ? "" : "s");
    return 0;
}
