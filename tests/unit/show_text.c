// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "view/chart/chart.h"
#include "view/show/show.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const struct show_style ascii, utf8 = {.utf8 = true},
                                      colour = {.utf8 = true, .colour = true};

static void width_counts_columns_not_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int width;
    } cases[] = {
        {"", 0},
        {"RTX 4090", 8},
        {"메모리", 6},
        {"배치 48", 7},
        {"学習", 4},
        {"ﾊﾞｯﾁ", 4},
        {"ｶ", 1},
        {"é", 1},
        {"e\u0301", 1},
        {"\u1100\u1161", 2},
        {"✅", 2},
        {"🏆 a", 4},
        {"–", 1},
        {"█▓", 2},
        {"\xff\xfe", 8}, // \\xff\\xfe
        {"a\xea\xb0", 9},
        {"\u200b", 6},
        {"\xed\xa0\x80", 12},
        {"\xf8\x88\x80", 12},
        {"\xc0\x80", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int width = show_width(str_of(cases[i].text));
        if (width != cases[i].width) fail_msg("%s is %d wide", cases[i].text, width);
    }
    assert_str(show_fit(STR("메모리"), 5), "메모");
    assert_str(show_fit(STR("메모리"), 6), "메모리");
    assert_str(show_fit(STR("abc"), 0), "");
    assert_int_equal(show_fit(STR("e\u0301x"), 1).len, 3);
}

static void text_cannot_drive_the_terminal(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    show_text(&b, utf8, SHOW_PLAIN,
              STR("a\033[2Jb\r\n\x7f\u202e\xc2\x9b"
                  "31m\xff!"));
    assert_str(buf_str(&b), "a\\x1b[2Jb\\r\\n\\x7f\\u202e\\u009b31m\\xff!");
    b = buf_new(&a);
    show_text(&b, colour, SHOW_BAD, STR("OOM"));
    show_text(&b, colour, SHOW_PLAIN, STR(" x"));
    show_text(&b, colour, SHOW_GOOD, STR(""));
    assert_str(buf_str(&b), "\033[31mOOM\033[0m x");
    b = buf_new(&a);
    show_text(&b, ascii, SHOW_BAD, STR("4 × 2 – 메모리…"));
    assert_str(buf_str(&b), "4 x 2 - 메모리.");
}

static struct show_table small_table(struct arena *a) {
    struct show_table t = show_table_new(a, STR("팀 설정"));
    show_table_column(&t, "GPU", SHOW_LEFT);
    show_table_column(&t, "Batch", SHOW_RIGHT);
    show_table_wrapping(&t, "Advice");
    show_table_cell(&t, SHOW_PLAIN, STR("RTX 3060"));
    show_table_format(&t, SHOW_STRONG, "%d", 12);
    show_table_cell(&t, SHOW_PLAIN, STR("accumulate 4 batches; 그래디언트 누적"));
    show_table_cell(&t, SHOW_PLAIN, STR("팀 서버"));
    show_table_unknown(&t);
    show_table_cell(&t, SHOW_BAD, STR("a|b <i>"));
    return t;
}

static void tables_line_up_by_display_width(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct show_table t = small_table(&a);
    struct buf b = buf_new(&a);
    show_table_text(&t, utf8, &b);
    assert_str(buf_str(&b), "팀 설정\n"
                            "GPU       Batch  Advice\n"
                            "────────  ─────  ─────────────────────────────────────\n"
                            "RTX 3060     12  accumulate 4 batches; 그래디언트 누적\n"
                            "팀 서버       –  a|b <i>\n");
    b = buf_new(&a);
    show_table_text(&t, (struct show_style){.width = 40}, &b);
    assert_str(buf_str(&b), "팀 설정\n"
                            "GPU       Batch  Advice\n"
                            "--------  -----  -----------------------\n"
                            "RTX 3060     12  accumulate 4 batches;\n"
                            "                 그래디언트 누적\n"
                            "팀 서버       -  a|b <i>\n");
}

static bool has(struct str text, const char *part) {
    return str_find(text, str_of(part)) >= 0;
}

// Whatever the width: every word is there whole, and a line is too long only where a word is.
static void tables_lose_nothing_at_any_width(void **state) {
    (void)state;
    static const char *const words[] = {"RTX 3060", "12",    "accumulate", "batches;", "그래디언트",
                                        "누적",     "Batch", "팀 서버",    "a|b"};
    for (int width = 17; width < 70; width++) {
        ARENA_AUTO a = {0};
        struct show_table t = small_table(&a);
        struct buf b = buf_new(&a);
        show_table_text(&t, (struct show_style){.width = width, .utf8 = true}, &b);
        struct str rest = buf_str(&b);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            if (!has(rest, words[i])) fail_msg("%s is lost at %d columns", words[i], width);
        }
        while (rest.len > 0) {
            int wide = show_width(str_line(&rest));
            if (wide > width && wide > 20) fail_msg("%d columns at %d", wide, width);
        }
    }
}

static void tables_leave_columns_out_in_their_order_then_stack(void **state) {
    (void)state;
    static const char *const order[] = {"effective", "precision", NULL};
    static const char *const columns[] = {"GPU", "batch", "effective", "precision", "verdict"};
    static const char *const cells[] = {"RTX 3060", "12", "48", "amp-fp16", "FITS"};
    ARENA_AUTO a = {0};
    struct show_table t = show_table_new(&a, (struct str){0});
    for (int i = 0; i < 5; i++) show_table_column(&t, columns[i], i ? SHOW_RIGHT : SHOW_LEFT);
    for (int i = 0; i < 5; i++) show_table_cell(&t, SHOW_PLAIN, str_of(cells[i]));
    show_table_gives_way(&t, order);
    struct buf b = buf_new(&a);
    show_table_text(&t, (struct show_style){.width = 40}, &b);
    assert_str(buf_str(&b), "GPU       batch  precision  verdict\n"
                            "--------  -----  ---------  -------\n"
                            "RTX 3060     12   amp-fp16     FITS\n"
                            "left out at this width: effective\n");
    b = buf_new(&a);
    show_table_text(&t, (struct show_style){.width = 20}, &b);
    assert_str(buf_str(&b), "RTX 3060\n"
                            "  batch      12\n"
                            "  effective  48\n"
                            "  precision\n" // beside it would be 21 columns
                            "    amp-fp16\n"
                            "  verdict    FITS\n");
}

// Long names are broken behind a mark, what follows is indented; short columns stay whole.
static void long_names_fold_before_rows_are_stacked(void **state) {
    (void)state;
    static const char *const cells[] = {"codellama/CodeLlama-7b-Python-hf",
                                        "2026-11-28 08:50",
                                        "6.74 B",
                                        "gpt2",
                                        "yesterday",
                                        "124 M"};
    ARENA_AUTO a = {0};
    struct show_table t = show_table_new(&a, (struct str){0});
    show_table_column(&t, "model", SHOW_LEFT);
    show_table_column(&t, "when", SHOW_LEFT);
    show_table_column(&t, "size", SHOW_RIGHT);
    for (int i = 0; i < 6; i++) show_table_cell(&t, SHOW_PLAIN, str_of(cells[i]));
    struct buf b = buf_new(&a);
    show_table_text(&t, (struct show_style){.width = 50}, &b);
    assert_str(buf_str(&b), "model                     when                size\n"
                            "------------------------  ----------------  ------\n"
                            "codellama/CodeLlama-7b-   2026-11-28 08:50  6.74 B\n"
                            "  Python-hf\n"
                            "gpt2                      yesterday          124 M\n");
}

static void sentences_wrap_at_words_and_not_in_pipes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    show_text(&b, ascii, SHOW_GOOD, STR("FITS  "));
    show_prose(&b, (struct show_style){.width = 20}, SHOW_PLAIN,
               STR("batch 12 on a-very-long-name-of-a-card: 8.6 GiB"), 6, 2);
    assert_str(buf_str(&b), "FITS  batch 12 on\n"
                            "  a-very-long-name-of-a-card:\n"
                            "  8.6 GiB\n");
    b = buf_new(&a);
    show_prose_lines(&b, ascii, STR("one two three\nfour"));
    assert_str(buf_str(&b), "one two three\nfour\n");
    // A line is not longer than an eye follows, however wide the screen.
    assert_int_equal(show_prose_width((struct show_style){.width = 300}), 100);
    assert_str(show_gpu_name(STR("NVIDIA GeForce RTX 3060")), "RTX 3060");
    assert_str(show_gpu_name(STR("NVIDIA A100-SXM4-80GB")), "A100-SXM4-80GB");
    assert_str(show_gpu_name(STR("AMD Instinct MI300X")), "AMD Instinct MI300X");
}

static void tables_as_markdown(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct show_table t = small_table(&a);
    struct buf b = buf_new(&a);
    show_table_markdown(&t, &b);
    assert_str(buf_str(&b), "**팀 설정**\n\n"
                            "| GPU | Batch | Advice |\n"
                            "|---|---:|---|\n"
                            "| RTX 3060 | 12 | accumulate 4 batches; 그래디언트 누적 |\n"
                            "| 팀 서버 | – | a\\|b &lt;i> |\n");
    struct show_table none = show_table_new(&a, STR("x"));
    b = buf_new(&a);
    show_table_markdown(&none, &b);
    show_table_text(&none, utf8, &b);
    show_table_html(&none, &b);
    assert_int_equal(b.count, 0);
}

static void bars_show_parts_mark_and_capacity(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct show_segment parts[] = {{STR("activations"), 10, STR("10 GiB")},
                                         {STR("weights"), 1, STR("1 GiB")},
                                         {STR("nothing"), 0, STR("0")},
                                         {STR("AW"), 0.001, STR("1 MiB")}};
    struct show_bar bar = {.name = STR("팀"),
                           .segments = parts,
                           .segment_count = 4,
                           .capacity = 20,
                           .mark = 16,
                           .mark_text = STR("4 kept free"),
                           .text = STR("11 of 20")};
    struct buf b = buf_new(&a);
    show_bar(&bar, (struct show_style){.width = 40}, &b);
    assert_str(buf_str(&b), "팀  [AAAAAAAAAAAAWB.....|....]  11 of 20\n"
                            "    A activations 10 GiB\n"
                            "    W weights 1 GiB  B AW 1 MiB\n"
                            "    | 4 kept free\n");
    bar.mark = NAN;
    bar.capacity = 5.5;
    b = buf_new(&a);
    show_bar(&bar, (struct show_style){.width = 40}, &b);
    struct str text = buf_str(&b);
    assert_str(str_line(&text), "팀  [AAAAAAAAAAAA]AAAAAAAAAWW   11 of 20");
    // Too narrow for a picture: its legend alone.
    b = buf_new(&a);
    show_bar(&bar, (struct show_style){.width = 24}, &b);
    text = buf_str(&b);
    assert_str(str_line(&text), "팀  11 of 20");
}

static void colours_are_sent_only_where_they_change(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct show_segment part = {STR("all"), 8, STR("8")};
    struct show_bar bar = {.segments = &part, .segment_count = 1, .capacity = 8, .mark = NAN};
    struct buf b = buf_new(&a);
    show_bar(&bar, (struct show_style){.width = 40, .utf8 = true, .colour = true}, &b);
    struct str text = buf_str(&b);
    assert_str(str_line(&text), "▕\033[34m"
                                "██████████████████████████████████████"
                                "\033[0m▏");
}

static void charts_know_their_peak(void **state) {
    (void)state;
    double y[3000], z[3000];
    for (int i = 0; i < 3000; i++) y[i] = i == 1234 ? 64.0 : 16.0, z[i] = i % 2 ? NAN : 16;
    struct chart_series series[] = {{STR("a"), y}, {STR("b"), z}};
    struct chart c = {.kind = CHART_AREAS,
                      .unit = CHART_BYTES,
                      .x_name = STR("step"),
                      .point_count = 3000,
                      .series = series,
                      .series_count = 2,
                      .limit = 100,
                      .budget = NAN,
                      .limit_name = STR("limit")};
    double peak;
    assert_int_equal(chart_peak(&c, &peak), 1234);
    assert_true(peak == 80);
    c.point_count = 0;
    assert_int_equal(chart_peak(&c, NULL), -1);
}

static void progress_says_count_rate_and_time_left(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct show_progress p = show_progress_open(fds[1], STR("recording"), 48);
    assert_false(p.is_live);
    show_progress_set(&p, 12, STR("resnet50"));
    struct buf b = buf_new(&a);
    show_progress_line(&p, p.started_ns + INT64_C(4000000000), STR("resnet50"), 80, &b);
    assert_str(buf_str(&b), "recording 12/48  25 %  3/s  12 s left  resnet50");
    b = buf_new(&a);
    show_progress_line(&p, p.started_ns, STR("x"), 14, &b);
    assert_str(buf_str(&b), "recording 12/4");
    show_progress_close(&p);
    close(fds[1]);
    char byte;
    assert_int_equal(read(fds[0], &byte, 1), 0); // nothing was written to what is no terminal
    close(fds[0]);
}

static void the_style_follows_the_environment(void **state) {
    (void)state;
    setenv("LC_ALL", "ko_KR.UTF-8", 1);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct show_style style = show_style_of(fds[1]);
    assert_true(style.utf8 && !style.colour && style.width == 0);
    setenv("LC_ALL", "C", 1);
    assert_false(show_style_of(fds[1]).utf8);
    close(fds[0]);
    close(fds[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(width_counts_columns_not_bytes),
        cmocka_unit_test(text_cannot_drive_the_terminal),
        cmocka_unit_test(tables_line_up_by_display_width),
        cmocka_unit_test(tables_lose_nothing_at_any_width),
        cmocka_unit_test(tables_leave_columns_out_in_their_order_then_stack),
        cmocka_unit_test(long_names_fold_before_rows_are_stacked),
        cmocka_unit_test(sentences_wrap_at_words_and_not_in_pipes),
        cmocka_unit_test(tables_as_markdown),
        cmocka_unit_test(bars_show_parts_mark_and_capacity),
        cmocka_unit_test(colours_are_sent_only_where_they_change),
        cmocka_unit_test(charts_know_their_peak),
        cmocka_unit_test(progress_says_count_rate_and_time_left),
        cmocka_unit_test(the_style_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
