// SPDX-License-Identifier: Apache-2.0
// The variables that a trial's command gets: where its scratch folder is, how its steps travel, and
// what the caller wants.
#include "measure/trial/trial_int.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCRATCH_VARIABLES = 5, // with the NULL
    TMP_PATH_BYTES = 74,
};

static bool is_set_in(char *const *list, const char *variable) {
    size_t name = strcspn(variable, "=") + 1;
    for (; list && *list; list++) {
        if (strncmp(*list, variable, name) == 0) return true;
    }
    return false;
}

// What the command may leave in the folder for temporary files goes with the scratch folder:
// Python's data workers leave theirs (pymp-…) when they are killed. Not where the path would become
// too long for the sockets in them (unix(7): 108 bytes; multiprocessing adds 32). TorchInductor's
// cache stays where it is without us (torch/_inductor/runtime/cache_dir_utils.py of 2.x,
// default_cache_dir): nobody wants each trial to compile again.
static void describe_scratch(struct arena *a, const struct guard *g, bool is_whole,
                             char **variables) {
    const char *user = getenv("LOGNAME"), *tmp = getenv("TMPDIR");
    if (!user || !*user) user = getenv("USER");
    int count = 0;
    while (variables[count]) count++;
    variables[count++] = (char *)str_format(a, "BATCHFIT_SCRATCH=%.*s", STR_ARG(g->out)).p;
    if (!is_whole) variables[count++] = (char *)"BATCHFIT_TRIAL=1";
    if (g->tmp.len <= TMP_PATH_BYTES && !is_whole) {
        variables[count++] = (char *)str_format(a, "TMPDIR=%.*s", STR_ARG(g->tmp)).p;
        if (!getenv("TORCHINDUCTOR_CACHE_DIR")) {
            variables[count++] =
                (char *)str_format(a, "TORCHINDUCTOR_CACHE_DIR=%s/torchinductor_%s",
                                   tmp && *tmp ? tmp : "/tmp", user && *user ? user : "root")
                    .p;
        }
    }
    variables[count] = NULL;
}

char *const *trial_environment_of(struct arena *a, const struct trial_request *request,
                                  const struct guard *g, const struct transport *t,
                                  char *const *wanted) {
    extern char **environ;
    char *own[TRANSPORT_VARIABLES + SCRATCH_VARIABLES];
    trial_transport_describe(t, a, own);
    describe_scratch(a, g, request->whole != NULL, own);
    ptrdiff_t count = 0, total = TRANSPORT_VARIABLES + SCRATCH_VARIABLES;
    for (char *const *e = environ; e && *e; e++) total++;
    for (char *const *e = wanted; e && *e; e++) total++;
    char **all = arena_new(a, char *, total);
    for (char *const *e = environ; e && *e; e++) {
        if (!is_set_in(own, *e) && !is_set_in(wanted, *e)) all[count++] = *e;
    }
    for (char *const *e = own; *e; e++) {
        if (!is_set_in(wanted, *e)) all[count++] = *e;
    }
    for (char *const *e = wanted; e && *e; e++) all[count++] = *e;
    return all;
}
