// SPDX-License-Identifier: Apache-2.0
// How a training ended. The texts of tests/failures/ are what real programs printed: ID.txt and
// ID@VARIANT.txt must be taken for ID, not-ID@VARIANT.txt must not. Their first line names the
// program; a second one, "# facts:", gives what is known besides (default: exit status 1).
#include "unit.h"

#include "base/os.h"
#include "base/unit.h"
#include "measure/failure/failure_int.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const struct failure_facts failed = {
    .status = 1 << 8, .has_status = true, .oom_kills = -1, .system_oom_kills = -1};

static struct failure_facts facts_of(struct str words) {
    struct failure_facts f = failed;
    for (struct str value, word; words.len > 0;) {
        int64_t n = 0;
        value = word = str_cut(&words, ' ');
        struct str name = str_cut(&value, '=');
        if (value.len > 0) assert_true(str_to_i64(value, &n));
        if (str_is(name, "status"))
            f.status = (int)n << 8;
        else if (str_is(name, "signal"))
            f.status = (int)n;
        else if (str_is(name, "oom_kills"))
            f.oom_kills = n;
        else if (str_is(name, "system"))
            f.system_oom_kills = n;
        else if (str_is(name, "limit"))
            f.memory_limit_bytes = n;
        else if (str_is(name, "refused"))
            f.is_refused = true;
        else if (str_is(name, "over"))
            f.is_over = true;
        else if (str_is(name, "none"))
            f.has_status = false, f.status = 0;
        else
            fail_msg("an unknown fact: %.*s", STR_ARG(word));
    }
    return f;
}

static struct failure classify_file(struct arena *a, struct str name) {
    struct str path =
        str_format(a, "%s/tests/failures/%.*s", getenv("BATCHFIT_SOURCE"), STR_ARG(name));
    struct str text, facts = {0};
    struct fail why = {0};
    struct failure e;
    if (os_read(a, path.p, 1 << 20, &text, NULL, &why)) fail_msg("%s", why.message);
    struct str source = str_line(&text);
    if (!str_starts(source, STR("# source: "))) fail_msg("%s: no source", path.p);
    if (str_starts(text, STR("# facts: "))) {
        facts = str_line(&text);
        str_cut(&facts, ':');
        facts = str_trim(facts);
    }
    struct failure_facts f = facts_of(facts);
    failure_classify(a, text, &f, &e);
    return e;
}

static void every_text_decides_its_row(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str *names;
    ptrdiff_t count;
    struct fail why;
    int wrong = 0;
    const char *folder = str_format(&a, "%s/tests/failures", getenv("BATCHFIT_SOURCE")).p;
    assert_int_equal(os_list(&a, folder, ".txt", &names, &count, &why), 0);
    assert_true(count > 100);
    for (ptrdiff_t i = 0; i < count; i++) {
        struct str rest = str_slice(names[i], 0, names[i].len - 4), id = str_cut(&rest, '@');
        bool is_not = str_starts(id, STR("not-")) && !str_starts(id, STR("not-a-tty"));
        if (is_not) id = str_slice(id, 4, id.len);
        struct failure e = classify_file(&a, names[i]);
        if (str_is(id, e.signature->id) != is_not) continue;
        wrong++;
        print_message("%.*s is taken for %s: %.*s\n", STR_ARG(names[i]), e.signature->id,
                      STR_ARG(e.line));
    }
    assert_int_equal(wrong, 0);
}

static void every_row_has_a_text(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct failure_signature *row;
    for (int i = 0; (row = failure_signature(i)); i++) {
        struct str path =
            str_format(&a, "%s/tests/failures/%s.txt", getenv("BATCHFIT_SOURCE"), row->id);
        if (!os_exists(path.p)) fail_msg("%s: no text", row->id);
        assert_non_null(row->what);
        assert_non_null(row->hint);
        assert_ptr_equal(failure_signature_named(str_of(row->id)), row); // no two of one name
    }
    assert_null(failure_signature_named(STR("no-such-row")));
}

static void messages_say_what_they_are_about(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct {
        const char *name, *subject;
    } texts[] = {
        {"missing-file.txt", "data/train.csv"},
        {"missing-file@script.txt", "nothere.py"},
        {"permission.txt", "/data/data.csv"},
        {"no-command.txt", "pyhton"},
        {"import.txt", "apex"},
        {"import@name.txt", "nosuch"},
        {"import@pillow.txt", "PIL.Image"},
        {"install.txt", "torch==1.12.1+cu117"},
        {"network.txt", "huggingface.co"},
        {"network-warned.txt", "huggingface.co"},
        {"network@hub.txt", "https://huggingface.co"},
        {"network@socket.txt", ""},
        {"hub-access.txt", "None"},
        {"hub-access@notebook.txt", "distilroberta-base"},
        {"hub-access@tokenizer.txt", "bert-base-uncased"},
        {"hub-access@gated.txt", "meta-llama/Llama-3.1-8B"},
        {"hub-access@401.txt", "meta-llama/Llama-2-7b-hf"},
        {"hub-access@404.txt", "mistralai/Mistral-7B-v9"},
        {"hub-offline.txt", "gpt2"},
        {"import@flash.txt", "flash_attn"},
        {"import@sentencepiece.txt", "SentencePiece"},
        {"label-range.txt", "Target 3"},
        {"cuda-oom.txt", ""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct failure e = classify_file(&a, str_of(texts[i].name));
        if (str_is(e.subject, texts[i].subject)) continue;
        fail_msg("%s: about '%.*s'", texts[i].name, STR_ARG(e.subject));
    }
}

static void who_ended_it_is_known(void **state) {
    (void)state;
    for (int i = 0; failure_signature(i); i++)
        assert_null(failure_stop_text(failure_signature(i)->kind));
    assert_null(failure_stop_text(FAILURE_UNKNOWN));
    for (enum failure_class end = FAILURE_ENOUGH; end <= FAILURE_REFUSED; end++) {
        assert_non_null(failure_stop_text(end));
    }
    assert_non_null(failure_stop_text(FAILURE_STALLED));
    assert_non_null(failure_stop_text(FAILURE_ASKED));
    assert_non_null(failure_stop_text(FAILURE_INTERRUPTED));
}

#define G *1073741824.0
#define M *1048576.0
#define NO -1.0
static const struct {
    const char *line;
    double tried, total, free, in_use, allocated, reserved, unallocated;
    int device;
    enum failure_cause cause;
} numbers[] = {
    {"CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 20.10 GiB "
     "already allocated; 1.25 GiB free; 21.00 GiB reserved in total by PyTorch)",
     2 G, 23.69 G, 1.25 G, NO, 20.10 G, 21 G, 0.9 G, 0, FAILURE_CAUSE_NEED},
    // 287 MiB in pieces of a GPU of 7.8 GiB: it is full.
    {"CUDA out of memory. Tried to allocate 196.00 MiB (GPU 0; 7.79 GiB total capacity; 7.30 GiB "
     "already allocated; 17.31 MiB free; 7.58 GiB reserved in total by PyTorch)",
     196 M, 7.79 G, 17.31 M, NO, 7.3 G, 7.58 G, 0.28 G, 0, FAILURE_CAUSE_NEED},
    {"CUDA out of memory. Tried to allocate 338.00 MiB (GPU 1; 3.95 GiB total capacity; 1.62 GiB "
     "already allocated; 23.00 MiB free; 9.10 MiB cached)",
     338 M, 3.95 G, 23 M, NO, 1.62 G, 1.62 G + 9.1 M, 9.1 M, 1, FAILURE_CAUSE_OTHERS},
    {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a "
     "total "
     "capacty of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process "
     "has "
     "20.81 GiB memory in use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 4.84 "
     "GiB "
     "is reserved by PyTorch but unallocated.",
     3 G, 23.65 G, 1.66 G, 20.81 G, 12.09 G, 16.93 G, 4.84 G, 0, FAILURE_CAUSE_FRAGMENTATION},
    {"CUDA out of memory. Tried to allocate 4.00 GiB. GPU 2 has a total capacity of 23.69 GiB of "
     "which "
     "1.25 GiB is free. Process 1234 has 14.00 GiB memory in use. Including non-PyTorch memory, "
     "this "
     "process has 8.40 GiB memory in use. 20.00 GiB allowed; Of the allocated memory 7.50 GiB is "
     "allocated by PyTorch, with 100.00 MiB allocated in private pools (e.g., CUDA Graphs), and "
     "300.00 MiB is reserved by PyTorch but unallocated.",
     4 G, 23.69 G, 1.25 G, 8.4 G, 7.5 G, 7.5 G + 300 M, 300 M, 2, FAILURE_CAUSE_OTHERS},
    {"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 4.00 GiB of "
     "which "
     "0 bytes is free. Of the allocated memory 3.40 GiB is allocated by PyTorch, and 1.90 MiB is "
     "reserved by PyTorch but unallocated.",
     20 M, 4 G, 0, NO, 3.4 G, 3.4 G + 1.9 M, 1.9 M, 0, FAILURE_CAUSE_NEED},
    // Windows lends the host's memory: 17 of the 11 GiB are allocated, so pieces are not the
    // matter.
    {"CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of 11.00 GiB of "
     "which 0 bytes is free. Of the allocated memory 16.98 GiB is allocated by PyTorch, and 696.75 "
     "MiB is reserved by PyTorch but unallocated.",
     30 M, 11 G, 0, NO, 16.98 G, 16.98 G + 696.75 M, 696.75 M, 0, FAILURE_CAUSE_SPILL},
    {"HIP out of memory. Tried to allocate 432.00 MiB (GPU 3; 15.98 GiB total capacity; 14.90 GiB "
     "already allocated; 12.00 MiB free; 15.10 GiB reserved in total by PyTorch)",
     432 M, 15.98 G, 12 M, NO, 14.9 G, 15.1 G, 0.2 G, 3, FAILURE_CAUSE_NEED},
    {"MPS backend out of memory (MPS allocated: 17.50 GB, other allocated: 1.20 GB, max allowed: "
     "18.13 "
     "GB). Tried to allocate 1024.00 MB on private pool.",
     1024 M, 18.13 G, NO, NO, 17.5 G, NO, NO, -1, FAILURE_CAUSE_NEED},
    {"DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error "
     "code 12",
     4 G, NO, NO, NO, NO, NO, NO, -1, FAILURE_CAUSE_UNKNOWN},
    {"RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 4",
     2.99 G, NO, NO, NO, NO, NO, NO, 4, FAILURE_CAUSE_UNKNOWN},
    {"Unable to allocate 59.6 GiB for an array with shape (1000, 1000, 1000, 8) and data type "
     "float64",
     59.6 G, NO, NO, NO, NO, NO, NO, -1, FAILURE_CAUSE_UNKNOWN},
    {"CUDA out of memory. Tried to\nallocate 2.26 GiB (GPU 0; 6.00\n GiB total capacity; 4.50 GiB "
     "already\nallocated; 200.00 MiB free; 4.60 GiB reserved\nin total by PyTorch)",
     2.26 G, 6 G, 200 M, NO, 4.5 G, 4.6 G, 0.1 G, 0, FAILURE_CAUSE_NEED},
};

static void is_near(int64_t is, double wanted) {
    double off = (double)is - wanted; // the messages round to two digits
    if (off < -2e3 || off > 2e3) fail_msg("%lld, not %.0f", (long long)is, wanted);
}

static void numbers_are_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct failure_numbers n;
        assert_true(failure_read_numbers(str_of(numbers[i].line), &n));
        is_near(n.tried_bytes, numbers[i].tried);
        is_near(n.total_bytes, numbers[i].total);
        is_near(n.free_bytes, numbers[i].free);
        is_near(n.in_use_bytes, numbers[i].in_use);
        is_near(n.allocated_bytes, numbers[i].allocated);
        is_near(n.reserved_bytes, numbers[i].reserved);
        is_near(n.unallocated_bytes, numbers[i].unallocated);
        assert_int_equal(n.device, numbers[i].device);
        assert_int_equal(failure_cause_of(&n), numbers[i].cause);
    }
}

static void other_lines_have_no_numbers(void **state) {
    (void)state;
    static const char *const lines[] = {"",
                                        "Tried to allocate",
                                        "Tried to allocate 5 samples",
                                        "23.69 GiB total capacity; 2 GiB free;",
                                        "Tried to allocate 99999999999999999999 GiB",
                                        "retried to allocate1.0 GiB",
                                        "Tried to allocate 1.2.3 GiB",
                                        "step 3 used 2.00 GiB"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct failure_numbers n = {.device = 77};
        assert_false(failure_read_numbers(str_of(lines[i]), &n));
        assert_int_equal(n.device, 77);
    }
}

static void an_ending_says_what_it_knows(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct failure e = classify_file(&a, STR("cuda-oom.txt"));
    assert_int_equal(e.cause, FAILURE_CAUSE_NEED);
    assert_true(e.numbers.tried_bytes > 22 * UNIT_GIB && e.exit_status == 1 && e.signal == 0);
    assert_true(str_starts(e.exception, STR("torch.OutOfMemoryError: CUDA out of memory.")));
    e = classify_file(&a, STR("cuda-oom@wrapped.txt"));
    is_near(e.numbers.total_bytes, 6 G);
    e = classify_file(&a, STR("cpu-allocator@ranks.txt"));
    assert_true(str_starts(e.exception, STR("RuntimeError: [enforce fail at alloc_cpu.cpp")));
    assert_int_equal(e.numbers.tried_bytes, 268435456);
    e = classify_file(&a, STR("own-error@ranks.txt"));
    assert_str(e.exception, "ValueError: loss is not finite");
    assert_true(str_find(e.last_lines, STR("[rank1]: ValueError: loss is not finite")) > 0);
    e = classify_file(&a, STR("killed@signal.txt"));
    assert_true(e.signal == SIGKILL && e.exit_status == -1 && e.line.len == 0);
    e = classify_file(&a, STR("clean.txt"));
    assert_int_equal(e.signature->kind, FAILURE_CLEAN);
    assert_int_equal(e.exception.len, 0);
    const struct failure_facts none = {.oom_kills = -1, .system_oom_kills = -1};
    failure_classify(&a, STR("ValueError: loss is not finite\n"), &none, &e); // a log
    assert_int_equal(e.exit_status, -1);
}

static void the_last_lines_are_few_and_plain(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct failure e;
    struct buf b = buf_new(&a);
    for (int i = 0; i < 40; i++) buf_format(&b, "\033[1;31mstep\033[0m %d\r\n\n", i);
    buf_add(&b, STR("90%\r100%\r\033]0;title\007done\n"));
    failure_classify(&a, buf_str(&b), &failed, &e);
    assert_true(str_starts(e.last_lines, STR("step 31\nstep 32\n")));
    assert_true(str_ends(e.last_lines, STR("step 39\n90%\n100%\ndone\n")));
    assert_string_equal(e.signature->id, "exit-status");
}

// The same text, other facts.
static void facts_decide(void **state) {
    (void)state;
    static const struct {
        struct failure_facts facts;
        const char *id;
        enum failure_class kind;
    } rows[] = {
        {{SIGKILL, true, 1, 1, 0}, "cgroup-oom-kill", FAILURE_MEMORY},
        {{1 << 8, true, 1, -1, 0}, "cgroup-oom-kill", FAILURE_MEMORY},
        {{SIGKILL, true, -1, 3, 0}, "system-oom-kill", FAILURE_MEMORY},
        {{137 << 8, true, 0, 3, 0}, "system-oom-kill", FAILURE_MEMORY},
        {{1 << 8, true, 0, 3, 0}, "exit-status", FAILURE_CRASH},
        {{SIGKILL, true, 0, 0, 1 << 30}, "killed", FAILURE_KILLED},
        {{137 << 8, true, -1, -1, 0}, "killed", FAILURE_KILLED},
        {{SIGSEGV, true, -1, -1, 1 << 30}, "limit-crash", FAILURE_MEMORY},
        {{0, false, -1, -1, 1 << 30, true}, "limit-spin", FAILURE_MEMORY},
        {{SIGKILL, true, -1, 0, 1 << 30, false, true}, "limit-over", FAILURE_MEMORY},
        {{SIGSEGV | 0x80, true, -1, -1, 0}, "crash", FAILURE_KILLED},
        {{SIGBUS, true, -1, -1, 0}, "bus-error", FAILURE_MEMORY},
        {{SIGTERM, true, -1, -1, 0}, "interrupted", FAILURE_KILLED},
        {{0, true, -1, -1, 0}, "clean", FAILURE_CLEAN},
        {{0, true, 2, 2, 0}, "clean", FAILURE_CLEAN},
        {{0, false, -1, -1, 0}, "clean", FAILURE_CLEAN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO a = {0};
        struct failure e;
        failure_classify(&a, STR("step 1\nstep 2\n"), &rows[i].facts, &e);
        assert_string_equal(e.signature->id, rows[i].id);
        assert_int_equal(e.signature->kind, rows[i].kind);
        failure_classify(&a, (struct str){0}, &rows[i].facts, &e);
        assert_string_equal(e.signature->id, rows[i].id);
    }
}

static void launchers_prefixes_are_known(void **state) {
    (void)state;
    static const char *const prefixes[] = {"",
                                           "[rank0]: ",
                                           "[default1]:",
                                           "0: ",
                                           "[1,0]<stderr>:",
                                           "(RayTrainWorker pid=12, ip=10.0.0.1) ",
                                           "2024-11-20 14:37:16 [rank3]: ",
                                           "2024-11-20 14:37:16,123 "};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        ARENA_AUTO a = {0};
        struct failure e;
        struct str text = str_format(
            &a, "%sTraceback (most recent call last):\n%s  File \"t.py\", line 1\n%sBoom: x\n",
            prefixes[i], prefixes[i], prefixes[i]);
        failure_classify(&a, text, &failed, &e);
        assert_string_equal(e.signature->id, "unknown-error");
        assert_str(e.exception, "Boom: x");
    }
}

static void a_torn_escape_takes_no_line_end(void **state) {
    (void)state;
    static const char *const torn[] = {"\033", "\033[", "\033[3", "\033]0;t", "\033[\r"};
    for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
        ARENA_AUTO a = {0};
        struct failure e;
        struct str text = str_format(&a, "epoch 1%s\nPermissionError: x\n", torn[i]);
        failure_classify(&a, text, &failed, &e);
        assert_string_equal(e.signature->id, "permission");
        assert_str(e.line, "PermissionError: x");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_decides_its_row),
        cmocka_unit_test(every_row_has_a_text),
        cmocka_unit_test(messages_say_what_they_are_about),
        cmocka_unit_test(who_ended_it_is_known),
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(other_lines_have_no_numbers),
        cmocka_unit_test(an_ending_says_what_it_knows),
        cmocka_unit_test(the_last_lines_are_few_and_plain),
        cmocka_unit_test(facts_decide),
        cmocka_unit_test(launchers_prefixes_are_known),
        cmocka_unit_test(a_torn_escape_takes_no_line_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
