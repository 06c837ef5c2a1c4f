// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/os.h"
#include "measure/steps/steps.h"

#include <math.h>
#include <time.h>

static struct steps read_text(struct arena *a, const char *text) {
    struct steps s = steps_new(a);
    struct step_source source = {0};
    steps_feed(&s, &source, str_of(text));
    return s;
}

static void a_step_is_read_with_all_its_fields(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = read_text(
        &a, "{\"v\":1,\"event\":\"start\",\"rank\":1,\"pid\":77,\"framework\":\"torch\","
            "\"framework_version\":\"2.13\",\"device\":\"cuda:1\",\"world\":2}\n"
            "{\"v\":1,\"event\":\"step\",\"rank\":1,\"pid\":77,\"step\":3,\"samples\":16,"
            "\"micro_batches\":[8,8],\"io_ms\":1.5,\"h2d_ms\":0.25,\"forward_ms\":10,"
            "\"backward_ms\":20,\"optimizer_ms\":3,\"other_ms\":0.25,\"total_ms\":35,"
            "\"allocated\":1000,\"reserved\":2000,\"peak_allocated\":3000,"
            "\"peak_reserved\":85899345920,\"alloc_retries\":0,\"t\":12.5,\"dropped\":4}\n");
    assert_int_equal(s.count, 1);
    const struct step *step = &s.items[0];
    assert_int_equal(step->rank, 1);
    assert_int_equal(step->number, 3);
    assert_int_equal(step->samples, 16);
    assert_int_equal(step->micro_batch, 8);
    assert_int_equal(step->micro_count, 2);
    assert_true(step->times.io_ms == 1.5 && step->times.h2d_ms == 0.25 &&
                step->times.forward_ms == 10);
    assert_true(step->times.backward_ms == 20 && step->times.optimizer_ms == 3 &&
                step->times.other_ms == 0.25);
    assert_true(step->times.total_ms == 35);
    assert_int_equal(step->allocated_bytes, 1000);
    assert_int_equal(step->reserved_bytes, 2000);
    assert_int_equal(step->peak_allocated_bytes, 3000);
    assert_int_equal(step->peak_reserved_bytes, INT64_C(80) << 30);
    assert_int_equal(step->alloc_retries, 0);
    assert_int_equal(s.world, 2);
    assert_int_equal(s.dropped_lines, 4);
    assert_int_equal(s.rank_count, 1);
    assert_int_equal(s.ranks[0].pid, 77);
    assert_int_equal(s.ranks[0].state, STEPS_RANK_STARTED);
    assert_int_equal(s.ranks[0].steps, 1);
    assert_true(s.ranks[0].last_ns > 0);
    assert_str(s.ranks[0].device, "cuda:1");
    assert_str(s.ranks[0].framework, "torch");
    assert_str(s.ranks[0].framework_version, "2.13");
    assert_int_equal(s.broken_lines + s.unknown_events, 0);
}

static void the_newest_batch_that_was_taken_is_kept(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = read_text(
        &a, "{\"v\":1,\"event\":\"batch\",\"rank\":1,\"pid\":7,\"batch\":32,\"accumulation\":4}\n"
            "{\"v\":1,\"event\":\"step\",\"rank\":0,\"pid\":6,\"samples\":8}\n"
            "{\"v\":1,\"event\":\"batch\",\"rank\":1,\"pid\":7,\"batch\":16,\"accumulation\":8}\n"
            "{\"v\":1,\"event\":\"batch\",\"rank\":1,\"pid\":7,\"batch\":0,\"accumulation\":8}\n"
            "{\"v\":1,\"event\":\"batch\",\"rank\":1,\"pid\":7,\"batch\":4}\n");
    assert_int_equal(s.rank_count, 2);
    assert_int_equal(s.ranks[0].taken_batch, 16);
    assert_int_equal(s.ranks[0].taken_accumulation, 8);
    assert_int_equal(s.ranks[1].taken_batch, 0);
    assert_int_equal(s.broken_lines + s.unknown_events, 0);
}

static void outputs_are_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s =
        read_text(&a, "{\"v\":1,\"event\":\"outputs\",\"reference\":\"torch\",\"samples\":8,"
                      "\"max_abs\":1e-3,\"mean_abs\":1e-4,\"max_rel\":0.25,\"top1\":1.5}\n");
    assert_true(s.outputs.is_said);
    assert_int_equal(s.outputs.samples, 8);
    assert_true(s.outputs.max_abs == 1e-3 && s.outputs.mean_abs == 1e-4);
    assert_true(s.outputs.max_rel == 0.25);
    assert_true(isnan(s.outputs.mean_rel) && isnan(s.outputs.top1)); // absent, and no share
    assert_str(s.outputs.reference, "torch");
    assert_int_equal(s.outputs.problem.len, 0);
    assert_int_equal(s.unknown_events + s.broken_lines, 0);
}

static void what_is_absent_or_of_another_type_is_not_known(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = read_text(
        &a, "{\"v\":1,\"event\":\"step\",\"new_field\":{\"x\":[1]}}\n"
            "{\"v\":1,\"event\":\"step\",\"samples\":\"32\",\"io_ms\":null,\"forward_ms\":true,"
            "\"backward_ms\":[1],\"optimizer_ms\":-3,\"total_ms\":1e300,\"allocated\":1.5,"
            "\"reserved\":123456789012345678901234567890,\"peak_reserved\":-1,"
            "\"micro_batches\":[8,\"8\"],\"rank\":-5,\"pid\":{},\"dropped\":\"many\"}\n");
    assert_int_equal(s.count, 2);
    assert_int_equal(s.broken_lines, 0);
    for (int i = 0; i < 2; i++) {
        const struct step *step = &s.items[i];
        assert_int_equal(step->rank, 0);
        assert_int_equal(step->samples, -1);
        assert_int_equal(step->micro_batch, -1);
        assert_int_equal(step->micro_count, -1);
        assert_true(isnan(step->times.io_ms) && isnan(step->times.forward_ms) &&
                    isnan(step->times.backward_ms));
        assert_true(isnan(step->times.optimizer_ms) && isnan(step->times.total_ms));
        assert_int_equal(step->allocated_bytes, -1);
        assert_int_equal(step->reserved_bytes, -1);
        assert_int_equal(step->peak_reserved_bytes, -1);
    }
    assert_int_equal(s.covered, STEPS_COVER_SECOND_STEP);
    assert_int_equal(s.dropped_lines, 0);
}

static void broken_lines_are_counted_and_the_first_is_kept(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = read_text(&a, "\n"
                                   "loss \x1b[31m0.5\t\xff\xc2\x9b \xea\xb0\x80\n"
                                   "{\"v\":1,\"event\":\"st\n"
                                   "[1]\n"
                                   "{\"v\":2,\"event\":\"step\"}\n"
                                   "{\"event\":\"step\"}\n"
                                   "{\"v\":1,\"event\":\"step\",\"io_ms\":1e999}\n"
                                   "{\"v\":1,\"event\":\"coffee\"}\n"
                                   "{\"v\":1}\n"
                                   "{\"v\":1,\"event\":\"step\"}\r\n");
    assert_int_equal(s.broken_lines, 6);
    assert_str(s.first_broken, "loss ?[31m0.5 ?? \xea\xb0\x80");
    assert_int_equal(s.unknown_events, 2);
    assert_int_equal(s.count, 1);
}

static void the_first_broken_line_is_cut_between_characters(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    struct buf line = buf_new(&a);
    buf_byte(&line, 'x');
    while (line.count < 900) buf_add(&line, STR("\xea\xb0\x80"));
    steps_line(&s, buf_str(&line));
    assert_int_equal(s.first_broken.len, 199);
    steps_line(&s, STR("another"));
    assert_int_equal(s.broken_lines, 2);
    assert_int_equal(s.first_broken.p[0], 'x');
}

static void lines_are_put_together_from_pieces_of_any_size(void **state) {
    (void)state;
    const char *text = "{\"v\":1,\"event\":\"step\",\"samples\":1}\n\n"
                       "{\"v\":1,\"event\":\"step\",\"samples\":2}\nnonsense\n"
                       "{\"v\":1,\"event\":\"step\",\"samples\":3}\n{\"v\":1,\"eve";
    ptrdiff_t len = (ptrdiff_t)strlen(text);
    for (ptrdiff_t size = 1; size <= len; size++) {
        ARENA_AUTO a = {0};
        struct steps s = steps_new(&a);
        struct step_source source = {0};
        for (ptrdiff_t i = 0; i < len; i += size) {
            ptrdiff_t end = i + size < len ? i + size : len;
            steps_feed(&s, &source, (struct str){text + i, end - i});
        }
        assert_int_equal(s.count, 3);
        for (int i = 0; i < 3; i++) assert_int_equal(s.items[i].samples, i + 1);
        assert_int_equal(s.broken_lines, 1);
    }
}

static void an_overlong_line_is_one_broken_line(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    struct step_source source = {0};
    char flood[4096];
    memset(flood, 'a', sizeof flood);
    for (int i = 0; i < 10000; i++) steps_feed(&s, &source, (struct str){flood, sizeof flood});
    assert_true(source.partial.capacity <= 1 << 18);
    steps_feed(&s, &source, STR("tail\n{\"v\":1,\"event\":\"step\"}\n"));
    assert_int_equal(s.broken_lines, 1);
    assert_int_equal(s.first_broken.len, 200);
    assert_int_equal(s.count, 1);
}

static void what_the_run_has_done_is_seen(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned covered;
    } cases[] = {
        {"{\"v\":1,\"event\":\"step\",\"io_ms\":1}\n", 0},
        {"{\"v\":1,\"event\":\"step\",\"forward_ms\":1}\n", STEPS_COVER_FORWARD},
        {"{\"v\":1,\"event\":\"step\",\"backward_ms\":0}\n", STEPS_COVER_BACKWARD},
        {"{\"v\":1,\"event\":\"step\"}\n{\"v\":1,\"event\":\"step\"}\n", STEPS_COVER_SECOND_STEP},
        // The first step of each of two ranks is no second step.
        {"{\"v\":1,\"event\":\"step\"}\n{\"v\":1,\"event\":\"step\",\"rank\":1}\n", 0},
        {"{\"v\":1,\"event\":\"phase\",\"phase\":\"validation\",\"ms\":3}\n",
         STEPS_COVER_VALIDATION},
        {"{\"v\":1,\"event\":\"phase\",\"phase\":\"checkpoint\",\"ms\":3}\n",
         STEPS_COVER_CHECKPOINT},
        {"{\"v\":1,\"event\":\"phase\",\"phase\":\"lunch\"}\n", 0},
        {"{\"v\":1,\"event\":\"lengths\",\"looked\":64,\"samples\":99,\"longest\":9}\n",
         STEPS_COVER_LONGEST},
        {"{\"v\":1,\"event\":\"step\",\"micro_batches\":[8,8,3]}\n", STEPS_COVER_LAST_BATCH},
        {"{\"v\":1,\"event\":\"step\",\"micro_batches\":[3,8,8]}\n", 0},
        {"{\"v\":1,\"event\":\"step\",\"samples\":8}\n{\"v\":1,\"event\":\"step\",\"samples\":"
         "5}\n",
         STEPS_COVER_SECOND_STEP | STEPS_COVER_LAST_BATCH},
        // Ranks may have batches of their own.
        {"{\"v\":1,\"event\":\"step\",\"micro_batches\":[8]}\n"
         "{\"v\":1,\"event\":\"step\",\"rank\":1,\"micro_batches\":[4]}\n",
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        assert_int_equal(read_text(&a, cases[i].text).covered, cases[i].covered);
    }
    int names = 0;
    while (step_cover_names[names]) names++;
    assert_int_equal(1 << (names - 1), STEPS_COVER_LONGEST);
    assert_string_equal(step_cover_names[2], "second_optimizer_step");
}

static void out_of_memory_is_over_with_the_next_step(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s =
        read_text(&a, "{\"v\":1,\"event\":\"step\",\"pid\":5}\n"
                      "{\"v\":1,\"event\":\"oom\",\"pid\":5,\"phase\":\"backward\","
                      "\"message\":\"CUDA out of memory.\\nTried\\u0007\",\"samples\":64}\n");
    assert_int_equal(s.rank_count, 1);
    assert_true(s.ranks[0].oom_ns > 0);
    assert_str(s.ranks[0].oom_phase, "backward");
    assert_str(s.ranks[0].oom_message, "CUDA out of memory.\nTried?");
    steps_line(&s, STR("{\"v\":1,\"event\":\"step\",\"pid\":5}"));
    assert_int_equal(s.ranks[0].oom_ns, 0);
}

// One word on a checkpoint a line: STATE PATH [MORE]; "step" is a step of 8 samples, "phase" the
// event of that name.
static void say(struct steps *s, const char *words) {
    ARENA_AUTO scratch = {0};
    struct str text = str_of(words);
    while (text.len > 0) {
        struct str line = str_line(&text), state = str_cut(&line, ' '), path = str_cut(&line, ' ');
        struct str more = line.len > 0 ? str_format(&scratch, ",%.*s", STR_ARG(line)) : line;
        struct str event = STR("{\"v\":1,\"event\":\"step\",\"samples\":8}");
        if (str_is(state, "good")) event = STR("{\"v\":1,\"event\":\"end\",\"ok\":true}");
        if (str_is(state, "phase")) {
            event = str_format(&scratch,
                               "{\"v\":1,\"event\":\"phase\",\"phase\":\"checkpoint\","
                               "\"path\":\"%.*s\"}",
                               STR_ARG(path));
        } else if (path.len > 0) {
            event = str_format(&scratch,
                               "{\"v\":1,\"event\":\"checkpoint\",\"state\":\"%.*s\","
                               "\"path\":\"%.*s\"%.*s}",
                               STR_ARG(state), STR_ARG(path), STR_ARG(more));
        }
        steps_line(s, event);
    }
}

// The letter of a path's trust while it runs, and once it has ended: No, Maybe, Sure.
static struct str trust_of(struct arena *a, const struct steps *s, const char *path) {
    const struct step_save *save = steps_save_find(s, str_of(path));
    if (!save) return STR("--");
    return str_format(a, "%c%c", "NMS"[steps_save_trust(s, save, false)],
                      "NMS"[steps_save_trust(s, save, true)]);
}

static const struct {
    const char *words, *path, *trust;
} checkpoint_words[] = {
    {"phase /a", "/a", "SS"}, // of programs in other languages
    {"phase relative", "relative", "--"},
    {"begin /a", "/a", "NN"},
    {"begin /a\nend /a", "/a", "SS"},
    {"end /a", "/a", "SS"},
    {"begin /a\nfailed /a \"error\":\"full\"", "/a", "NN"},
    {"begin /a\nend /a\nbegin /a", "/a", "NN"}, // written over
    {"begin /a\nfailed /a\nbegin /a\nend /a", "/a", "SS"},
    // The event `phase` of who says the other: a time, no checkpoint.
    {"begin /a\nphase /a\nfailed /a", "/a", "NN"},
    // Two ranks, one after the other, or at once; one that fails.
    {"begin /a \"ranks\":2,\"step\":0\nend /a \"step\":0", "/a", "NM"},
    {"begin /a \"ranks\":2,\"step\":0\nend /a \"step\":0\nstep", "/a", "SS"}, // one of them saves
    {"begin /a \"ranks\":2,\"step\":0\nend /a\nbegin /a \"ranks\":2,\"step\":0", "/a", "NN"},
    {"begin /a \"ranks\":2,\"step\":0\nend /a\nbegin /a \"ranks\":2,\"step\":0\nend /a", "/a",
     "SS"},
    {"begin /a \"ranks\":2,\"step\":0\nbegin /a \"ranks\":2,\"step\":0\nend /a", "/a", "NN"},
    {"begin /a \"ranks\":2,\"step\":0\nbegin /a \"ranks\":2,\"step\":0\nfailed /a\nend /a", "/a",
     "NN"},
    {"begin /a \"ranks\":2,\"step\":0\nfailed /a\nbegin /a \"ranks\":2,\"step\":0\nend /a\nstep",
     "/a", "NN"},
    {"begin /a \"ranks\":1,\"step\":0\nfailed /a\nbegin /a \"ranks\":1,\"step\":0\nend /a", "/a",
     "SS"}, // tried again
    // A file in a checkpoint is none; nor is a folder into which files are saved later.
    {"begin /d1\nend /d1\nend /d1/extra", "/d1/extra", "NN"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"", "/d1/a", "NM"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"", "/d1", "NN"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nstep", "/d1/a", "SS"}, // it was one file
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\ngood", "/d1/a", "SS"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1/b "
     "\"by\":\"torch.save\",\"folder\":\"/d1\"",
     "/d1/b", "NN"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1/b "
     "\"by\":\"torch.save\",\"folder\":\"/d1\"",
     "/d1", "NN"}, // how many make one is not known yet
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1/b "
     "\"by\":\"torch.save\",\"folder\":\"/d1\"\nbegin /d1/c",
     "/d1", "NN"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nbegin /d1/b", "/d1/a", "NN"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1/b "
     "\"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1 "
     "\"by\":\"files\"\nstep",
     "/d1", "SS"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1/b "
     "\"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1 "
     "\"by\":\"files\"\nstep",
     "/d1/b", "NN"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1/b "
     "\"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1 "
     "\"by\":\"files\"\nstep\nend /d1/a \"by\":\"torch.save\"",
     "/d1", "NN"},
    {"end /d1/a \"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1/b "
     "\"by\":\"torch.save\",\"folder\":\"/d1\"\nend /d1 "
     "\"by\":\"files\"\nstep\nend /d1/a \"by\":\"torch.save\"",
     "/d1/a", "SS"},
    // Another name.
    {"end /a.tmp\nrenamed /a \"from\":\"/a.tmp\"", "/a", "SS"},
    {"end /a.tmp\nrenamed /a \"from\":\"/a.tmp\"", "/a.tmp", "--"},
    {"end /a\nend /a.tmp\nrenamed /a \"from\":\"/a.tmp\"", "/a", "SS"},
    {"end /t1/a \"by\":\"torch.save\",\"folder\":\"/t1\"\nend /t1/b "
     "\"by\":\"torch.save\",\"folder\":\"/t1\"\nrenamed /d1 "
     "\"from\":\"/t1\"\nend /d1 \"by\":\"files\"",
     "/d1", "SS"},
    {"end /t1/a \"by\":\"torch.save\",\"folder\":\"/t1\"\nend /t1/b "
     "\"by\":\"torch.save\",\"folder\":\"/t1\"\nrenamed /d1 \"from\":\"/t1\"",
     "/d1/b", "NN"},
};

static void checkpoints_by_their_words(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof checkpoint_words / sizeof *checkpoint_words; i++) {
        ARENA_AUTO a = {0};
        struct steps s = read_text(&a, "{\"v\":1,\"event\":\"start\"}\n");
        say(&s, checkpoint_words[i].words);
        struct str got = trust_of(&a, &s, checkpoint_words[i].path);
        if (!str_is(got, checkpoint_words[i].trust)) {
            fail_msg("%s: %s is %.*s, not %s", checkpoint_words[i].words, checkpoint_words[i].path,
                     STR_ARG(got), checkpoint_words[i].trust);
        }
    }
}

static void a_checkpoint_holds_its_steps(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = read_text(&a, "{\"v\":1,\"event\":\"start\"}\n");
    say(&s, "step\nbegin /a \"step\":1\nstep\nend /a"); // behind the training's back
    assert_int_equal(steps_save_find(&s, STR("/a"))->row, 1);
    assert_int_equal(steps_save_find(&s, STR("/a"))->samples, 8);
    say(&s, "begin /b \"background\":true\nend /b \"background\":true");
    assert_int_equal(steps_save_find(&s, STR("/b"))->row, -1); // nobody knows
    assert_int_equal(steps_save_find(&s, STR("/b"))->samples, -1);
    for (int i = 0; i <= STEP_SAVES_MAX; i++) say(&s, str_format(&a, "end /o/%d", i).p);
    assert_true(s.save_count <= STEP_SAVES_MAX);
    assert_null(steps_save_find(&s, STR("/o/0"))); // the newest stay
    assert_non_null(steps_save_find(&s, str_format(&a, "/o/%d", STEP_SAVES_MAX)));
}

static void ends_are_good_or_bad(void **state) {
    (void)state;
    static const struct {
        const char *fields;
        enum step_rank_state state;
    } cases[] = {
        {"\"ok\":true", STEPS_RANK_ENDED_WELL},
        {"\"ok\":false,\"error\":\"ValueError: no\"", STEPS_RANK_ENDED_BADLY},
        {"\"error\":\"ValueError: no\"", STEPS_RANK_ENDED_BADLY},
        {"\"x\":1", STEPS_RANK_ENDED_WELL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct steps s = steps_new(&a);
        steps_line(&s, str_format(&a, "{\"v\":1,\"event\":\"end\",%s}", cases[i].fields));
        assert_int_equal(s.rank_count, 1);
        assert_int_equal(s.ranks[0].state, cases[i].state);
    }
}

static void the_slowest_counts_when_all_report(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    assert_int_equal(steps_of_slowest(&s, 0), 0);
    steps_line(&s, STR("{\"v\":1,\"event\":\"start\",\"pid\":9}")); // a launcher
    for (int i = 0; i < 3; i++) steps_line(&s, STR("{\"v\":1,\"event\":\"step\",\"pid\":10}"));
    assert_int_equal(steps_of_slowest(&s, 0), 3);
    assert_int_equal(steps_of_slowest(&s, 2), 0);
    steps_line(&s, STR("{\"v\":1,\"event\":\"start\",\"pid\":10,\"world\":2}"));
    assert_int_equal(steps_of_slowest(&s, 0), 0);
    steps_line(&s, STR("{\"v\":1,\"event\":\"step\",\"pid\":11,\"rank\":1}"));
    assert_int_equal(steps_of_slowest(&s, 0), 1);
    assert_int_equal(steps_of_slowest(&s, 2), 1);
    assert_int_equal(steps_of_slowest(&s, 1), 1);
}

static void processes_are_told_apart(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s =
        read_text(&a, "{\"v\":1,\"event\":\"step\",\"pid\":1,\"rank\":0,\"dropped\":2}\n"
                      "{\"v\":1,\"event\":\"step\",\"pid\":2,\"rank\":0,\"dropped\":1}\n"
                      "{\"v\":1,\"event\":\"step\",\"rank\":0,\"dropped\":5}\n"
                      "{\"v\":1,\"event\":\"step\",\"rank\":1}\n"
                      "{\"v\":1,\"event\":\"step\",\"rank\":1,\"pid\":3}\n");
    assert_int_equal(s.rank_count, 3);
    assert_int_equal(s.ranks[0].steps, 1);
    assert_int_equal(s.ranks[1].steps, 2); // one that does not give its pid is the latest
    assert_int_equal(s.ranks[2].steps, 2); // and may give it later
    assert_int_equal(s.ranks[2].pid, 3);
    assert_int_equal(s.dropped_lines, 7); // each process counts on its own
    for (int i = 0; i < 5000; i++) {
        steps_line(&s, str_format(&a, "{\"v\":1,\"event\":\"start\",\"pid\":%d}", 100 + i));
    }
    assert_int_equal(s.rank_count, 4096);
}

// Read late, as on a busy machine: by the host's clock, where the program has that one.
static void a_step_ended_when_its_clock_says_so(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    const struct timespec work = {.tv_nsec = 2000000}, late = {.tv_nsec = 40000000};
    nanosleep(&work, NULL);
    const double ended_s = (double)os_now_ns() * 1e-9;
    nanosleep(&late, NULL);
    steps_line(&s, str_format(&a, "{\"v\":1,\"event\":\"step\",\"t\":%.6f}", ended_s));
    steps_line(&s, STR("{\"v\":1,\"event\":\"step\",\"t\":0.25}")); // since it began
    steps_line(&s, str_format(&a, "{\"v\":1,\"event\":\"step\",\"t\":%.6f}", ended_s + 3600));
    steps_line(&s, STR("{\"v\":1,\"event\":\"step\"}"));
    const double wall_s = (double)os_wall_ahead_ns() * 1e-9;
    assert_true(fabs(s.items[0].end_s - wall_s - ended_s) < 1e-3);
    for (ptrdiff_t i = 1; i < 4; i++) assert_true(s.items[i].end_s - wall_s > ended_s + 0.039);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_read_with_all_its_fields),
        cmocka_unit_test(the_newest_batch_that_was_taken_is_kept),
        cmocka_unit_test(outputs_are_read),
        cmocka_unit_test(what_is_absent_or_of_another_type_is_not_known),
        cmocka_unit_test(broken_lines_are_counted_and_the_first_is_kept),
        cmocka_unit_test(the_first_broken_line_is_cut_between_characters),
        cmocka_unit_test(lines_are_put_together_from_pieces_of_any_size),
        cmocka_unit_test(an_overlong_line_is_one_broken_line),
        cmocka_unit_test(what_the_run_has_done_is_seen),
        cmocka_unit_test(out_of_memory_is_over_with_the_next_step),
        cmocka_unit_test(checkpoints_by_their_words),
        cmocka_unit_test(a_checkpoint_holds_its_steps),
        cmocka_unit_test(ends_are_good_or_bad),
        cmocka_unit_test(the_slowest_counts_when_all_report),
        cmocka_unit_test(processes_are_told_apart),
        cmocka_unit_test(a_step_ended_when_its_clock_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
