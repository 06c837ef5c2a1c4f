// SPDX-License-Identifier: Apache-2.0
// batchfit: fits a training job to a GPU. Nothing stands here but the way to the verbs.
#include "base/near.h"
#include "base/os.h"
#include "base/out.h"
#include "base/say.h"
#include "cli/cli.h"
#include "verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_overview(FILE *out) {
    SAY_OWN_AUTO;
    out_say(
        out,
        _("batchfit fits a training job to a GPU: it predicts, without one, whether a\n"
          "PyTorch training fits, and which batch, accumulation and precision to use.\n\nUsage: "
          "batchfit VERB [OPTION...]\n\n"));
    for (int i = 0; verbs[i]; i++) {
        if (!verbs[i]->hidden) out_say(out, "  %-10s %s\n", verbs[i]->name, _(verbs[i]->summary));
    }
    out_say(out, _("\nbatchfit VERB --help explains a verb. To start:\n  batchfit fit --config "
                   "configs/train.yaml --gpu rtx3060 --test-only\n\nExit status: 0 yes, 1 no, "
                   "2 usage, 3 bad input, 4 machine, 5 a bug.\n"));
}

static int unknown_verb(struct arena *a, const char *name, struct fail *why) {
    struct near near = {.typed = str_of(name)};
    for (int i = 0; verbs[i]; i++) {
        if (!verbs[i]->hidden) near_offer(&near, str_of(verbs[i]->name));
    }
    fail_set(why, FAIL_USAGE, "no verb '%s'", name);
    if (near.count == 0) return fail_hint(why, "batchfit --help lists the verbs");
    return fail_hint(why, "nearest: %.*s", STR_ARG(near_text(a, &near)));
}

static bool asks_for_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int run(struct arena *a, int argc, char **argv, struct fail *why) {
    char *of_verb[] = {argv[0], argc > 2 ? argv[2] : NULL, (char *)"--help", NULL};
    if (argc == 3 && strcmp(argv[1], "help") == 0) return run(a, 3, of_verb, why);
    if (argc < 2 || asks_for_help(argv[1])) {
        print_overview(argc < 2 ? stderr : stdout);
        return argc < 2 ? fail_set(why, FAIL_USAGE, "no verb given") : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        out_say(stdout, "batchfit %s\n", BATCHFIT_VERSION);
        return 0;
    }
    const struct cli_verb *verb = cli_verb_find(verbs, str_of(argv[1]));
    if (!verb) return unknown_verb(a, argv[1], why);
    struct cli_compat_words words = {verbs, verb, argc - 1, argv + 1};
    struct cli_options *options = NULL;
    int rc = cli_compat_read(a, &words, why);
    if (rc == 0) rc = cli_options_read(a, words.verb, words.count, words.items, &options, why);
    struct str note = os_home_note(a);
    if (rc < 0 || !options) return rc;
    options->verbs = verbs;
    if (note.len > 0) out_say(stderr, "batchfit: %.*s\n", STR_ARG(note));
    return words.verb->run(a, options, why);
}

// A standard stream that is closed would be the number of the next file that is opened, and what is
// printed would go into it. It is opened the wrong way around, so that writing still fails.
static void hold_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        int held = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
        if (held >= 0 && held != fd) close(held);
    }
}

// What was put into both is clean already, and they may have several lines.
static void say_failure(struct arena *a, const struct fail *why) {
    struct buf b = buf_shown(a);
    const char *message = why->own_message[0] ? why->own_message : why->message;
    const char *hint = why->own_hint[0] ? why->own_hint : why->hint;
    if (message[0]) {
        buf_add(&b, STR("batchfit: "));
        buf_add(&b, str_of(message));
        buf_byte(&b, '\n');
    }
    if (hint[0]) {
        buf_add(&b, STR("  "));
        buf_add(&b, str_of(hint));
        buf_byte(&b, '\n');
    }
    out_buf(stderr, &b);
}

int main(int argc, char **argv) {
    jmp_buf exhausted;
    hold_standard_streams();
    struct arena perm = {.escape = &exhausted};
    struct fail why = {0};
    if (setjmp(exhausted)) {
        out_data(stderr, STR("batchfit: out of memory (this machine's, not the GPU's)\n"));
        return -FAIL_MACHINE;
    }
    int rc = run(&perm, argc, argv, &why);
    bool unwritten = ferror(stdout) != 0;
    errno = 0;
    bool is_lost = fflush(stdout) != 0;
    if (is_lost && errno == EPIPE) { // a verb that asked to be told: it ends as any filter does
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if ((is_lost || unwritten) && rc >= FAIL_NO) {
        rc = fail_set(&why, FAIL_MACHINE, "cannot write to stdout");
    }
    if (rc < 0) say_failure(&perm, &why);
    arena_clear(&perm);
    return rc < 0 ? -rc : 0;
}
