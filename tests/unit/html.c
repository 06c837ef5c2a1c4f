// SPDX-License-Identifier: Apache-2.0
// The page as a whole is compared with show_page.html beside this file; BATCHFIT_UPDATE=1 writes
// it.
#include "unit.h"

#include "base/os.h"
#include "base/unit.h"
#include "view/html/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void escaping(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    show_escaped(&b, STR("<a href=\"x\">'&'</a>\n\033[1m\x01 메모리\xff"));
    assert_str(buf_str(&b),
               "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\n\\x1b[1m\\x01 메모리\\xff");
}

// Every text of every part is `text`.
static struct str page_of(struct arena *a, struct str text) {
    double y[] = {1.5 * (double)UNIT_GIB, 3 * (double)UNIT_GIB, 2 * (double)UNIT_GIB};
    double z[] = {(double)UNIT_GIB, NAN, (double)UNIT_GIB};
    const struct chart_series series[] = {{text, y}, {text, z}};
    const struct chart_span spans[] = {{text, 0, 1}, {text, 1, 2}};
    struct chart c = {.kind = CHART_AREAS,
                      .unit = CHART_BYTES,
                      .title = text,
                      .x_name = text,
                      .y_name = text,
                      .point_count = 3,
                      .series = series,
                      .series_count = 2,
                      .spans = spans,
                      .span_count = 2,
                      .limit = 4 * (double)UNIT_GIB,
                      .limit_name = text,
                      .budget = 3.5 * (double)UNIT_GIB,
                      .budget_name = text};
    struct show_table t = show_table_new(a, text);
    show_table_column(&t, str_z(a, text), SHOW_LEFT);
    show_table_column(&t, "n", SHOW_RIGHT);
    show_table_wrapping(&t, "note");
    show_table_cell(&t, SHOW_STRONG, text);
    show_table_format(&t, SHOW_BAD, "%d", 7);
    show_table_cell(&t, SHOW_PLAIN, text);
    struct html_figure figure = {text, text, text, SHOW_GOOD};
    struct buf b = buf_new(a);
    html_open(&b, text, text);
    html_verdict(&b, SHOW_GOOD, text, text);
    html_figures(&b, &figure, 1);
    html_section(&b, text);
    html_paragraph(&b, SHOW_PLAIN, text);
    html_paragraph(&b, SHOW_WARN, text);
    html_chart(&b, &c, a);
    c.kind = CHART_LINES;
    c.unit = CHART_NUMBERS;
    html_chart(&b, &c, a);
    html_table(&b, &t);
    html_list(&b, &text, 1);
    html_code(&b, text);
    html_close(&b, text);
    return buf_str(&b);
}

static void the_page_is_as_it_was(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str page = page_of(&a, STR("RTX 3060 메모리"));
    ptrdiff_t body = str_find(page, STR("</style>"));
    assert_true(body > 0);
    page = str_slice(page, body, page.len);
    const char *source = getenv("BATCHFIT_SOURCE");
    char path[500];
    snprintf(path, sizeof path, "%s/tests/unit/show_page.html", source ? source : ".");
    struct fail why = {0};
    if (getenv("BATCHFIT_UPDATE")) assert_int_equal(os_replace(&a, path, page, NULL, &why), 0);
    struct str golden;
    if (os_read(&a, path, UNIT_MIB, &golden, NULL, &why) < 0) fail_msg("%s", why.message);
    if (!str_equal(page, golden)) {
        while (page.len > 0) {
            struct str now = str_line(&page), before = str_line(&golden);
            if (!str_equal(now, before)) fail_msg("now %.*s", STR_ARG(now));
        }
        fail_msg("the page is shorter than %s", path);
    }
}

// Tags open and close in pairs, and attributes hold no quote: walks the page as a strict reader.
static void assert_well_formed(struct str page) {
    struct str open[64];
    int depth = 0;
    for (ptrdiff_t i = 0; i < page.len; i++) {
        if (page.p[i] != '<') continue;
        ptrdiff_t end = i + 1, quotes = 0;
        while (end < page.len && (page.p[end] != '>' || quotes % 2)) quotes += page.p[end++] == '"';
        assert_true(end < page.len);
        struct str tag = str_slice(page, i + 1, end), name = tag;
        name = str_cut(&name, ' ');
        i = end;
        if (name.p[0] == '/') {
            assert_true(depth > 0);
            assert_true(str_equal(open[--depth], str_slice(name, 1, name.len)));
            continue;
        }
        bool is_single =
            str_ends(tag, STR("/")) || str_is(name, "meta") || str_is(name, "!doctype");
        if (is_single) continue;
        assert_true(depth < 64);
        open[depth++] = name;
    }
    assert_int_equal(depth, 0);
}

static void names_cannot_become_markup(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char *const evil[] = {
        "</title><script>alert(1)</script>",
        "\"><script>alert(1)</script>",
        "' onmouseover='alert(1)",
        "</style><img src=x onerror=alert(1)>",
        "<!--",
        "]]>",
        "\" onload=\"alert(1)",
        "&lt;script&gt;",
        "<\xff>",
        "</svg></figure></pre></td>",
    };
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        struct str page = page_of(&a, str_of(evil[i]));
        assert_int_equal(str_find(page, STR("<script")), -1);
        assert_int_equal(str_find(page, STR("<img")), -1);
        assert_int_equal(str_find(page, STR("<!--")), -1);
        assert_int_equal(str_find(page, STR("\" onload=\"")), -1);
        assert_int_equal(str_find(page, STR("' onmouseover")), -1);
        assert_well_formed(page);
    }
}

static void the_page_needs_nothing_from_outside(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str page = page_of(&a, STR("x"));
    static const char *const outside[] = {"http:", "https:", "//",      "url(", "@import",
                                          "src=",  "href=",  "<script", "<link"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        if (str_find(page, str_of(outside[i])) >= 0) fail_msg("%s", outside[i]);
    }
    assert_true(str_find(page, STR("prefers-color-scheme:dark")) > 0);
    assert_true(str_find(page, STR("default-src 'none'")) > 0);
}

static void a_chart_says_its_peak_in_words(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    double y[5000];
    for (int i = 0; i < 5000; i++) y[i] = (double)UNIT_MIB * (i == 3777 ? 900 : 100 + i % 50);
    struct chart_series series = {STR("activations"), y};
    struct chart c = {.unit = CHART_BYTES,
                      .title = STR("t"),
                      .x_name = STR("event"),
                      .point_count = 5000,
                      .series = &series,
                      .series_count = 1,
                      .limit = NAN,
                      .budget = NAN};
    struct buf b = buf_new(&a);
    chart_svg(&c, &a, &b);
    struct str svg = buf_str(&b);
    assert_true(str_find(svg, STR("aria-label=\"Stacked areas of 1 series over event. The sum "
                                  "peaks at 3777: 900 MiB, of which activations 900 MiB.\"")) > 0);
    assert_true(str_find(svg, STR(">peak 900 MiB</text>")) > 0);
    assert_true(str_find(svg, STR("event 3777: 900 MiB")) > 0); // the strip of the peak
    assert_true(svg.len < 60000);
    c.series_count = 0;
    b = buf_new(&a);
    chart_svg(&c, &a, &b);
    assert_int_equal(b.count, 0);
}

static void points_have_their_own_names(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    double y[] = {100, 190, (double)NAN, 350};
    const struct str names[] = {STR("1"), STR("64"), STR("<1024>"), STR("8192")};
    struct chart_series series[] = {{STR("workers 4, <fp32>"), y}};
    struct chart c = {.kind = CHART_LINES,
                      .title = STR("t & t"),
                      .x_name = STR("batch"),
                      .x_texts = names,
                      .point_count = 4,
                      .series = series,
                      .series_count = 1,
                      .limit = (double)NAN,
                      .budget = (double)NAN};
    struct buf b = buf_new(&a);
    chart_svg(&c, &a, &b);
    assert_true(str_find(buf_str(&b), STR(">8192</text>")) > 0);
    assert_true(str_find(buf_str(&b), STR(">&lt;1024&gt;</text>")) > 0);
    assert_true(str_find(buf_str(&b), STR("batch 64\n")) > 0);
    assert_int_equal(str_find(buf_str(&b), STR(">0.5</text>")), -1); // no figures beside them
    assert_well_formed(buf_str(&b));
}

static void a_picture_is_a_file_of_its_own(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    double y[] = {1, 2};
    struct chart_series series[CHART_SERIES_MAX];
    for (int i = 0; i < CHART_SERIES_MAX; i++) {
        series[i] =
            (struct chart_series){STR("a name that takes half of a line, or so it seems"), y};
    }
    struct chart c[2] = {{.kind = CHART_LINES,
                          .title = STR("first & only"),
                          .x_name = STR("batch"),
                          .point_count = 2,
                          .series = series,
                          .series_count = CHART_SERIES_MAX,
                          .limit = (double)NAN,
                          .budget = (double)NAN}};
    c[1] = c[0];
    c[1].point_count = 0; // nothing ran: an empty picture
    struct buf b = buf_new(&a);
    chart_picture(c, 2, &a, &b);
    struct str svg = buf_str(&b);
    assert_true(str_starts(svg, STR("<svg xmlns=\"http://www.w3.org/2000/svg\"")));
    assert_true(str_find(svg, STR("first &amp; only")) > 0);
    assert_int_equal(str_find(svg, STR("<script")), -1);
    assert_well_formed(svg);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escaping),
        cmocka_unit_test(the_page_is_as_it_was),
        cmocka_unit_test(names_cannot_become_markup),
        cmocka_unit_test(the_page_needs_nothing_from_outside),
        cmocka_unit_test(a_chart_says_its_peak_in_words),
        cmocka_unit_test(points_have_their_own_names),
        cmocka_unit_test(a_picture_is_a_file_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
