// SPDX-License-Identifier: Apache-2.0
#include "base/unit.h"

#include <math.h>

static const struct {
    const char *name;
    double factor;
} byte_units[] = {
    {"", 1},       {"b", 1},        {"k", 0x1p10},   {"kib", 0x1p10}, {"kb", 1e3},
    {"m", 0x1p20}, {"mib", 0x1p20}, {"mb", 1e6},     {"g", 0x1p30},   {"gib", 0x1p30},
    {"gb", 1e9},   {"t", 0x1p40},   {"tib", 0x1p40}, {"tb", 1e12},
};

static struct str number_part(struct str text) {
    ptrdiff_t i = 0;
    while (i < text.len && ((text.p[i] >= '0' && text.p[i] <= '9') || text.p[i] == '.')) i++;
    return str_slice(text, 0, i);
}

bool unit_parse_bytes(struct str text, int64_t *ret_bytes) {
    text = str_trim(text);
    struct str number = number_part(text);
    struct str unit = str_trim(str_slice(text, number.len, text.len));
    double value;
    if (!str_to_double(number, &value)) return false;
    for (size_t i = 0; i < sizeof byte_units / sizeof *byte_units; i++) {
        if (!str_equal_nocase(unit, str_of(byte_units[i].name))) continue;
        double bytes = value * byte_units[i].factor;
        if (bytes > 0x1p60) return false;
        *ret_bytes = (int64_t)llround(bytes);
        return true;
    }
    return false;
}

bool unit_parse_share(struct str text, double *ret_share) {
    text = str_trim(text);
    bool percent = str_ends(text, STR("%"));
    if (percent) text.len--;
    double value;
    if (!str_to_double(text, &value)) return false;
    if (percent) value /= 100;
    if (!(value >= 0 && value < 1)) return false;
    *ret_share = value;
    return true;
}

static struct str three_digits(struct arena *a, double value, const char *unit) {
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return str_format(a, "%.*f %s", decimals, value, unit);
}

struct str unit_bytes(struct arena *a, int64_t bytes) {
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes > -1024 && bytes < 1024) return str_format(a, "%d B", (int)bytes);
    double value = (double)bytes / 1024;
    size_t i = 0;
    while (fabs(value) >= 1023.5 && i < 3) {
        value /= 1024;
        i++;
    }
    return three_digits(a, value, names[i]);
}

struct str unit_count(struct arena *a, int64_t count) {
    if (count < 1000) return str_format(a, "%d", (int)count);
    if (count < 1000000) return three_digits(a, (double)count / 1e3, "k");
    if (count < 1000000000) return three_digits(a, (double)count / 1e6, "M");
    return three_digits(a, (double)count / 1e9, "B");
}

struct str unit_number(struct arena *a, double value) {
    if (isnan(value)) return (struct str){0};
    bool is_long = value >= 9999.5 || value <= -9999.5; // %g would write an exponent
    return str_format(a, is_long ? "%.0f" : "%.4g", value);
}

double unit_share(int64_t part, int64_t whole) {
    return part >= 0 && whole > 0 ? (double)part / (double)whole : (double)NAN;
}

int64_t unit_round_up(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

void unit_keep_most(int64_t *most, int64_t value) {
    if (value > *most) *most = value;
}

bool unit_parse_time(struct str text, double *ret_s) {
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    double value, total = 0;
    bool is_bare = str_to_double(text, &value);
    if (is_bare) total = value * 60;
    for (size_t i = 0; i < sizeof units / sizeof *units && text.len > 0 && !is_bare; i++) {
        struct str rest = text, number = str_cut(&rest, units[i].letter);
        if (!rest.p) continue;
        if (!str_to_double(number, &value) || !(value >= 0)) return false;
        total += value * units[i].seconds;
        text = rest;
    }
    *ret_s = total;
    return (is_bare || text.len == 0) && total > 0 && total < 6e7;
}

bool unit_parse_counted(struct str text, int64_t *ret_count, struct str *ret_name) {
    text = str_trim(text);
    struct str rest = text, number = str_trim(str_cut(&rest, 'x'));
    bool is_counted = rest.p && number.len > 0;
    for (ptrdiff_t i = 0; i < number.len && is_counted; i++) is_counted = str_is_digit(number.p[i]);
    *ret_count = 0;
    *ret_name = is_counted ? str_trim(rest) : text;
    if (is_counted && (!str_to_i64(number, ret_count) || *ret_count < 1)) return false;
    return ret_name->len > 0;
}
