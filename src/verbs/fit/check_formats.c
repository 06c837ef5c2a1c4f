// SPDX-License-Identifier: Apache-2.0
// The gate's answer for other programs: SARIF 2.1.0 (code scanning), JUnit's XML, GitHub's workflow
// commands and one comment in Markdown. Names of files come from whoever opened the pull request:
// each format escapes them in its own way, and none of them can begin a line, an element or a link.
#include "verbs/fit/fit.h"

#include "base/json.h"
#include "base/out.h"

#include <stdio.h>
#include <string.h>

// --- SARIF ---------------------------------------------------------------------------------------

// A relative reference of RFC 3986: all but unreserved bytes and '/' as %XX.
static struct str uri_of(struct arena *a, struct str path) {
    struct buf uri = buf_new(a);
    for (ptrdiff_t i = 0; i < path.len; i++) {
        char c = path.p[i];
        bool is_plain = str_is_alnum(c) || strchr("-._~/", c);
        if (is_plain && c)
            buf_byte(&uri, c);
        else
            buf_format(&uri, "%%%02X", (unsigned char)c);
    }
    return buf_str(&uri);
}

// By the verdict; of a row that passes, the one without any. SARIF's rules and JUnit's types
// (doc/gate.md).
static const struct {
    const char *verdict, *id, *level, *says;
} rules[] = {
    {"DOES NOT FIT", "does-not-fit", "error", "The training needs more memory than the GPU has."},
    {"TOO TIGHT", "too-tight", "error",
     "The training runs, but leaves less memory free than it must."},
    {"NOT JUDGED", "not-judged", "warning",
     "The config could not be judged; the gate does not pass it."},
    {NULL, "not-as-locked", "error", "The memory is not what batchfit.lock expects."},
    {"DOES NOT RUN", "does-not-run", "error",
     "The training stops on this GPU, whatever the memory: it lacks what the config asks for."},
};
enum { RULES = sizeof rules / sizeof *rules, NOT_AS_LOCKED = 3 };

static int rule_of(const struct fit_check_row *row) {
    for (int i = 0; i < RULES; i++)
        if (rules[i].verdict && strcmp(rules[i].verdict, row->verdict) == 0) return i;
    return NOT_AS_LOCKED;
}

// "DOES NOT FIT on RTX 3060: 13 of 11.8 GiB expected. …"
static struct str message_of(struct arena *a, const struct fit_check_row *row) {
    return str_format(a, "%s on %.*s: %.*s", row->verdict, STR_ARG(row->gpu),
                      STR_ARG(fit_check_words(a, row)));
}

static json_t *rules_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < RULES; i++) {
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:{s:s}}", "id", rules[i].id,
                                              "shortDescription", "text", rules[i].says,
                                              "defaultConfiguration", "level", rules[i].level));
    }
    return list;
}

static json_t *result_json(struct arena *a, const struct fit_check_row *row) {
    int rule = rule_of(row);
    struct str uri = uri_of(a, row->config);
    struct str mark = str_format(a, "%.*s:%.*s", STR_ARG(uri), STR_ARG(row->key));
    return json_pack("{s:s, s:i, s:s, s:{s:o}, s:[{s:{s:{s:o}, s:{s:i}}}], s:{s:o}}", "ruleId",
                     rules[rule].id, "ruleIndex", rule, "level", rules[rule].level, "message",
                     "text", json_text(message_of(a, row)), "locations", "physicalLocation",
                     "artifactLocation", "uri", json_text(uri), "region", "startLine",
                     row->line > 0 ? row->line : 1, "partialFingerprints", "configAndGpu/v1",
                     json_text(mark));
}

int fit_check_sarif(const struct fit_check *c, struct fail *why) {
    json_t *results = json_array();
    for (ptrdiff_t i = 0; i < c->count; i++) {
        if (fit_check_is_loud(&c->rows[i]))
            json_array_append_new(results, result_json(c->arena, &c->rows[i]));
    }
    return json_print(json_pack("{s:s, s:s, s:[{s:{s:{s:s, s:s, s:o}}, s:s, s:o}]}", "$schema",
                                "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0",
                                "runs", "tool", "driver", "name", "batchfit", "version",
                                BATCHFIT_VERSION, "rules", rules_json(), "columnKind",
                                "unicodeCodePoints", "results", results),
                      why);
}

// --- JUnit ---------------------------------------------------------------------------------------

// For an attribute or an element; XML has no place for U+FFFE and U+FFFF, written out or not.
static void add_xml(struct arena *a, struct buf *out, struct str text) {
    struct buf kept = buf_new(a);
    while (text.len > 0) {
        struct str at = text;
        uint32_t code = clean_next(&text);
        bool is_none = code == 0xfffe || code == 0xffff;
        buf_add(&kept, is_none ? STR("?") : str_slice(at, 0, at.len - text.len));
    }
    show_escaped(out, clean_text(a, buf_str(&kept)));
}

static void add_case(struct arena *a, const struct fit_check_row *row, struct buf *out) {
    static const char *const elements[] = {
        [FIT_CHECK_FAILS] = "failure", [FIT_CHECK_UNJUDGED] = "error"};
    const bool is_judged = row->state != FIT_CHECK_UNJUDGED;
    const char *element = elements[is_judged ? FIT_CHECK_FAILS : FIT_CHECK_UNJUDGED];
    buf_add(out, STR("    <testcase classname=\""));
    add_xml(a, out, row->config);
    buf_add(out, STR("\" name=\""));
    add_xml(a, out, row->gpu);
    if (!fit_check_is_loud(row)) {
        buf_add(out, STR("\"/>\n"));
        return;
    }
    buf_format(out, "\">\n      <%s type=\"%s\" message=\"", element, rules[rule_of(row)].id);
    add_xml(a, out, message_of(a, row));
    buf_add(out, STR("\"/>\n    </testcase>\n"));
}

int fit_check_junit(const struct fit_check *c, struct fail *why) {
    (void)why;
    struct buf out = buf_new(c->arena);
    int failures = 0;
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_check_row *row = &c->rows[i];
        failures += row->state != FIT_CHECK_UNJUDGED && fit_check_is_loud(row);
    }
    buf_format(&out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
               "  <testsuite name=\"batchfit fit --check\" tests=\"%td\" failures=\"%d\" "
               "errors=\"%d\">\n",
               c->count, failures, c->unjudged);
    for (ptrdiff_t i = 0; i < c->count; i++) add_case(c->arena, &c->rows[i], &out);
    buf_add(&out, STR("  </testsuite>\n</testsuites>\n"));
    out_data(stdout, buf_str(&out));
    return 0;
}

// --- GitHub's workflow commands ------------------------------------------------------------------

// As actions/toolkit's command.ts escapes data, and properties; what else is hidden is written out.
static void add_command(struct buf *out, struct str text, bool is_property) {
    char form[CLEAN_FORM_MOST];
    const char *more = is_property ? ":," : "";
    while (text.len > 0) {
        char c = *text.p;
        if (c != '%' && c != '\r' && c != '\n' && (!c || !strchr(more, c))) {
            buf_add(out, clean_take(&text, form));
            continue;
        }
        buf_format(out, "%%%02X", (unsigned char)c);
        text = str_slice(text, 1, text.len);
    }
}

int fit_check_github(const struct fit_check *c, struct fail *why) {
    (void)why;
    struct arena *a = c->arena;
    struct buf out = buf_new(a);
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_check_row *row = &c->rows[i];
        if (!fit_check_is_loud(row)) continue;
        bool lets_through = row->state == FIT_CHECK_UNJUDGED && c->options->c.allows_unjudged;
        buf_format(&out, "::%s file=", lets_through ? "warning" : "error");
        add_command(&out, row->config, true);
        buf_format(&out, ",line=%d,title=", row->line > 0 ? row->line : 1);
        add_command(&out, str_format(a, "%s: %.*s", row->verdict, STR_ARG(row->gpu)), true);
        buf_add(&out, STR("::"));
        add_command(&out, fit_check_words(a, row), false);
        buf_byte(&out, '\n');
    }
    buf_format(&out, "GPU memory: %.*s\n", STR_ARG(fit_check_summary(c)));
    out_data(stdout, buf_str(&out));
    return 0;
}

// --- Markdown ------------------------------------------------------------------------------------

// Letters, digits and what has no meaning in Markdown stay; all else is a numeric entity, inside of
// <code>, where GitHub and GitLab make no mention, link, emoji or reference to an issue of it.
static void add_code(struct buf *out, struct str text) {
    char form[CLEAN_FORM_MOST];
    buf_add(out, STR("<code>"));
    while (text.len > 0) {
        struct str shown = clean_take(&text, form);
        for (ptrdiff_t i = 0; i < shown.len; i++) {
            char c = shown.p[i];
            bool is_plain = str_is_alnum(c) || (unsigned char)c >= 0x80 || (c && strchr(" /,", c));
            if (is_plain)
                buf_byte(out, c);
            else
                buf_format(out, "&#%d;", c);
        }
    }
    buf_add(out, STR("</code>"));
}

static void add_markdown_row(const struct fit_check *c, const struct fit_check_row *row,
                             struct buf *out) {
    struct arena *a = c->arena;
    const struct answer_memory *m = &row->memory;
    const struct str before = row->before.verdict;
    buf_add(out, STR("| "));
    add_code(out, row->config);
    buf_format(out, " | %.*s | %.*s | ", STR_ARG(row->gpu),
               STR_ARG(fit_check_peak(a, m->expected_bytes)));
    if (m->expected_bytes > 0)
        buf_format(out, "%.0f %% of %.0f %%",
                   100 * (double)m->expected_bytes / (double)m->usable_bytes, 100 * row->limit);
    else
        buf_add(out, STR("–"));
    if (c->has_base) buf_format(out, " | %.*s", STR_ARG(fit_check_change(a, row)));
    const bool is_plain = row->state == FIT_CHECK_PASSES;
    buf_format(out, is_plain ? " | %s" : " | **%s**", row->verdict);
    if (c->has_base && before.len > 0 && !str_is(before, row->verdict))
        buf_format(out, " (was %.*s)", STR_ARG(before));
    if (fit_check_is_off_lock(row)) buf_add(out, STR(" (not as locked)"));
    buf_add(out, STR(" |\n"));
}

int fit_check_markdown(const struct fit_check *c, struct fail *why) {
    (void)why;
    struct buf out = buf_new(c->arena);
    bool has_faults = false;
    // The first line is how a bot finds its comment again.
    buf_format(&out, "<!-- batchfit fit --check -->\n### GPU memory: %.*s\n\n",
               STR_ARG(fit_check_summary(c)));
    buf_format(&out, "| config | GPU | peak | of usable%s | verdict |\n|---|---|--:|--:|%s---|\n",
               c->has_base ? " | change" : "", c->has_base ? "--:|" : "");
    for (ptrdiff_t i = 0; i < c->count; i++) add_markdown_row(c, &c->rows[i], &out);
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_check_row *row = &c->rows[i];
        if (!fit_check_is_loud(row)) continue;
        if (!has_faults) buf_byte(&out, '\n');
        has_faults = true;
        buf_add(&out, STR("- "));
        add_code(&out, row->config);
        buf_format(&out, " on %.*s: ", STR_ARG(row->gpu));
        add_code(&out, fit_check_words(c->arena, row));
        buf_byte(&out, '\n');
    }
    out_data(stdout, buf_str(&out));
    return 0;
}
