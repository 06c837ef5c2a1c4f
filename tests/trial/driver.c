// SPDX-License-Identifier: Apache-2.0
// A program to be killed: one trial after the other of a command that leaves the worst behind.
//
//     driver SCRATCH_PARENT TOKEN
//
// TOKEN, digits, stands in the arguments of all that the command starts, also where it clears the
// environment. SIGINT interrupts the trial, as in batchfit; then the driver ends.
#include "measure/trial/trial.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile bool interrupted;

static void on_interrupt(int signal) {
    (void)signal;
    interrupted = true;
}

// $0 is the token. A daemon, one that ignores SIGTERM, one without environment, one that is
// stopped, a child that starts others all the time, files and folders; steps, and more strays at
// each.
static const char command[] =
    "say() { eval 'printf \"%s\\n\" \"$1\" >&'\"$BATCHFIT_FD\"; };"
    "(setsid sh -c 'sleep 1000.$0 & sleep 1000.$0' $0 &);"
    "setsid sh -c 'trap \"\" TERM INT; while :; do sleep 1000.$0; done' $0 & "
    "env -i setsid sleep 1000.$0 & "
    "sh -c 'sleep 1000.$0 & kill -STOP $$' $0 & "
    "sh -c 'while :; do sleep .01$0; done' $0 & "
    "mkdir -p \"$BATCHFIT_SCRATCH\"/a/b/c; i=0;"
    "while :; do i=$((i+1)); echo $i; echo $i >\"$BATCHFIT_SCRATCH\"/a/b/c/$i; setsid sleep "
    "1000.$0 & "
    "say \"{\\\"v\\\":1,\\\"event\\\":\\\"step\\\",\\\"step\\\":$i,\\\"pid\\\":$$}\"; sleep .01$0; "
    "done";

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    char *const child[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, argv[2], NULL};
    struct trial_request request = {.argv = child,
                                    .scratch_parent = argv[1],
                                    .steps = 5,
                                    .grace_s = .03,
                                    .interrupted = &interrupted};
    signal(SIGINT, on_interrupt);
    while (!interrupted) {
        ARENA_AUTO a = {0};
        struct trial trial;
        struct fail why = {0};
        if (trial_run(&a, &request, &trial, &why) < 0) {
            fprintf(stderr, "%s\n", why.message);
            return 1;
        }
        if (trial.end != FAILURE_ENOUGH && trial.end != FAILURE_INTERRUPTED) {
            const char *stopped = failure_stop_text(trial.end);
            fprintf(stderr, "%s\n", stopped ? stopped : trial.ending.signature->what);
            return 1;
        }
    }
    return 0;
}
