// SPDX-License-Identifier: Apache-2.0
#include "recover_room.h"

#include <math.h>

static struct recover_event sample_event(enum recover_event_kind kind) {
    struct recover_event e = recover_event_of(kind);
    e.t_s = 1763787600.25;
    e.rules = rules_of(48, 2, 3);
    e.rules.lr = 3e-4;
    str_list_add(&arena, &e.command, STR("python"));
    str_list_add(&arena, &e.command, STR("train \"한\".py"));
    e.config = STR("configs/train.yaml");
    e.folder = STR("/home/you");
    e.attempt = 3;
    e.samples = 1234567890123;
    e.steps = 17;
    e.status = 137;
    e.restarts = 2;
    e.peak_bytes = INT64_C(24) << 30;
    e.size = (struct recover_size){24, 4, 1.0 / 3};
    e.file = (struct recover_file){STR("out/ckpt-\n7.pt"), 1763787600123456789};
    e.end = FAILURE_MEMORY;
    e.action = RECOVER_START;
    e.ending = STR("cuda-oom");
    e.exception = STR("OutOfMemoryError: x");
    e.why = STR("memory ran out");
    e.delay_s = 0.1;
    e.is_counted = e.is_taken = true;
    return e;
}

static void a_line_is_read_as_it_was_written(void **state) {
    (void)state;
    struct buf text = buf_new(&arena);
    for (int kind = RECOVER_BEGIN; kind <= RECOVER_FINISH; kind++) {
        struct recover_event e = sample_event((enum recover_event_kind)kind);
        buf_add(&text, recover_event_line(&arena, &e));
    }
    struct recover_log log;
    struct fail why = {0};
    assert_int_equal(recover_log_read(&arena, buf_str(&text), &log, &why), 0);
    assert_int_equal(log.count, RECOVER_FINISH + 1);
    assert_true(log.is_finished && !log.is_torn);
    assert_int_equal(log.whole_bytes, text.count);
    struct buf again = buf_new(&arena);
    for (ptrdiff_t i = 0; i < log.count; i++)
        buf_add(&again, recover_event_line(&arena, &log.events[i]));
    assert_int_equal(again.count, text.count);
    assert_memory_equal(again.items, text.items, (size_t)text.count);
    assert_int_equal(log.events[0].rules.ranks, 3);
    assert_true(log.events[0].rules.lr == 3e-4);
    assert_str(log.events[0].command.items[1], "train \"한\".py");
    assert_true(log.events[RECOVER_DECIDE].size.lr == 1.0 / 3);
    assert_int_equal(log.events[RECOVER_CHECKPOINT].file.written, 1763787600123456789);
    assert_int_equal(log.events[RECOVER_END].end, FAILURE_MEMORY);
}

static void a_path_of_any_bytes_is_written(void **state) {
    (void)state;
    struct recover_event e = recover_event_of(RECOVER_CHECKPOINT);
    e.file.path = STR("out/\xff.pt");
    struct str line = recover_event_line(&arena, &e);
    assert_true(str_find(line, STR("out/?.pt")) > 0);
}

#define BEGIN                                                                                      \
    "{\"v\":1,\"event\":\"begin\",\"command\":[\"true\"],\"rules\":{\"batch\":8,\"accumulation\":" \
    "1,"                                                                                           \
    "\"ranks\":1,\"least_batch\":1,\"lr_rule\":\"keep\",\"max_restarts\":5,\"backoff_s\":1,"       \
    "\"most_backoff_s\":60,\"near_share\":0.97,\"initial_batch\":0,\"most_batch\":0,"              \
    "\"threshold\":0.9,\"factor\":1.2}}\n"

static void bad_logs_are_refused_with_the_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{}\n", "line 1: not an event of a run"},
        {"{\"v\":2,\"event\":\"begin\"}\n",
         "line 1: log version 2; this batchfit supports up to 1"},
        {"{\"v\":1,\"event\":\"finish\",\"batch\":1,\"accumulation\":1}\n",
         "line 1: the log does not begin"},
        {BEGIN BEGIN, "line 2: a second `begin`"},
        {BEGIN "{\"v\":1,\"event\":\"start\",\"attempt\":1,\"ba\n", "line 2: not a JSON object"},
        {BEGIN "\n", "line 2: not a JSON object"},
        {BEGIN "[1]\n", "line 2: not a JSON object"},
        {BEGIN "{\"v\":1,\"event\":\"stop\"}\n", "line 2: unknown event"},
        {BEGIN "{\"v\":1,\"event\":\"start\",\"attempt\":0,\"batch\":1,\"accumulation\":1}\n",
         "line 2: event start: attempt is missing or wrong"},
        {BEGIN "{\"v\":1,\"event\":\"end\",\"end\":\"tired\"}\n",
         "line 2: event end: end is missing"},
        {BEGIN "{\"v\":1,\"event\":\"finish\",\"batch\":1,\"accumulation\":1}\n"
               "{\"v\":1,\"event\":\"end\",\"end\":\"hang\"}\n",
         "line 3: an event after `finish`"},
        {BEGIN "{\"v\":1,\"event\":\"start\",\"attempt\":1,\"batch\":3,\"accumulation\":2}\n",
         "line 2: event start: batch 3 x 2 does not give the effective batch"},
        {"{\"v\":1,\"event\":\"begin\",\"command\":[],\"rules\":{\"batch\":0}}\n",
         "batch is missing or wrong"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct recover_log log;
        struct fail why = {0};
        assert_int_equal(recover_log_read(&arena, str_of(rows[i].text), &log, &why), FAIL_INPUT);
        assert_non_null(strstr(why.message, rows[i].message));
    }
}

static void a_torn_last_line_is_dropped(void **state) {
    (void)state;
    struct str whole = str_of(BEGIN "{\"v\":1,\"event\":\"end\",\"end\":\"hang\"}\n");
    ptrdiff_t first = (ptrdiff_t)strlen(BEGIN);
    for (ptrdiff_t cut = 0; cut <= whole.len; cut++) {
        struct recover_log log;
        struct fail why = {0};
        assert_int_equal(recover_log_read(&arena, str_slice(whole, 0, cut), &log, &why), 0);
        assert_int_equal(log.count, cut < first ? 0 : cut < whole.len ? 1 : 2);
        assert_int_equal(log.is_torn, cut != 0 && cut != first && cut != whole.len);
        assert_int_equal(log.whole_bytes, cut < first ? 0 : cut < whole.len ? first : whole.len);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_line_is_read_as_it_was_written),
        TEST(a_path_of_any_bytes_is_written),
        TEST(bad_logs_are_refused_with_the_line),
        TEST(a_torn_last_line_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
