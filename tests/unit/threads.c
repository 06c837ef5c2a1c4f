// SPDX-License-Identifier: Apache-2.0
// What doctor says of the logs in tests/doctor/threads: excerpts of what real trainings printed,
// from public issue threads. The first line of each is its source; the second has the causes of
// which one must come first ("healthy": none may), as that thread found them, not as our rules do.
#include "unit.h"

#include "base/os.h"
#include "verbs/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// From here on a cause is said as one that is so, not as one that is likely.
static const double confident = 0.65;
enum { LOGS_LEAST = 150, RIGHT_LEAST_PERCENT = 95 };

struct verdict {
    const char *cause; // NULL: none
    double confidence;
};

static struct verdict ask(struct arena *a, struct str text) {
    static const struct doctor_options options = {0};
    struct doctor d = {.arena = a, .options = &options, .facts = cause_facts_unknown()};
    struct fail why = {0};
    char path[] = "/tmp/batchfit-threads-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.p, (size_t)text.len), text.len);
    close(fd);
    int rc = doctor_read(&d, path, &why);
    unlink(path);
    if (rc < 0) fail_msg("%s", why.message);
    cause_judge(a, &d.facts, &d.causes);
    if (d.causes.count == 0) return (struct verdict){0};
    return (struct verdict){d.causes.items[0].id, cause_confidence(d.causes.items[0].strength)};
}

// "# answer: setup.disk memory.shm (in a few words why)"
static bool is_among(struct str answers, struct verdict v) {
    struct str ids = str_cut(&answers, '(');
    str_cut(&ids, ':');
    return str_has_word(str_trim(ids), str_of(v.cause ? v.cause : "healthy"));
}

static void logs_are_understood(void **state) {
    (void)state;
    ARENA_AUTO names_arena = {0};
    struct str *names;
    ptrdiff_t count, right = 0, confidently_wrong = 0;
    struct fail why;
    struct str folder =
        str_format(&names_arena, "%s/tests/doctor/threads", getenv("BATCHFIT_SOURCE"));
    assert_int_equal(os_list(&names_arena, folder.p, ".log", &names, &count, &why), 0);
    assert_true(count >= LOGS_LEAST);
    for (ptrdiff_t i = 0; i < count; i++) {
        ARENA_AUTO a = {0};
        struct str path = str_format(&a, "%s/%.*s", folder.p, STR_ARG(names[i])), text;
        if (os_read(&a, path.p, 1 << 20, &text, NULL, &why)) fail_msg("%s", why.message);
        struct str source = str_line(&text), answers = str_line(&text);
        assert_true(str_starts(source, STR("# source: https://")));
        assert_true(str_starts(answers, STR("# answer: ")));
        struct verdict v = ask(&a, text);
        bool is_right = is_among(answers, v);
        right += is_right;
        confidently_wrong += !is_right && v.confidence >= confident;
        if (!is_right)
            print_message("# %.*s: taken for %s, %.0f %%\n", STR_ARG(names[i]),
                          v.cause ? v.cause : "healthy", 100 * v.confidence);
    }
    print_message("# %td of %td right, %td confidently wrong\n", right, count, confidently_wrong);
    assert_true(right * 100 >= count * RIGHT_LEAST_PERCENT);
    assert_int_equal(confidently_wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logs_are_understood)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
