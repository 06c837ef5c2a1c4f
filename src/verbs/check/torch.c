// SPDX-License-Identifier: Apache-2.0
// Asks the user's Python which PyTorch it has: python/batchfit/installed.py is handed over as text,
// so that the question is asked from the user's environment and writes nothing.
#include "verbs/check/check.h"

#include "base/data.h"
#include "measure/launch/launch.h"

// A first import over a network file system takes its time; a GPU that hangs takes for ever.
enum { DEADLINE_MS = 30000, OUTPUT_MAX = 1 << 20 };

static int known_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_boolean(value)) return json_is_true(value);
    return json_is_integer(value) ? (int)json_integer_value(value) : -1;
}

// Import hooks and site customizations may print before it: the document is the last line.
static struct str last_line(struct str text) {
    struct str last = {0};
    while (text.p) {
        struct str line = str_trim(str_line(&text));
        if (line.len > 0) last = line;
    }
    return last;
}

static void read_answer(struct arena *a, const json_t *answer, struct rules_torch *t) {
    t->python_version = json_text_at(a, answer, "python");
    t->version = json_text_at(a, answer, "torch");
    t->error = json_text_at(a, answer, "error");
    t->state = t->version.len > 0 ? RULES_TORCH_FOUND : RULES_TORCH_MISSING;
    t->cuda = json_text_at(a, answer, "cuda");
    t->hip = json_text_at(a, answer, "hip");
    t->cudnn = json_text_at(a, answer, "cudnn");
    t->archs = json_text_at(a, answer, "archs");
    t->libraries = json_text_at(a, answer, "libraries");
    t->cuda_error = json_text_at(a, answer, "cuda_error");
    t->cuda_available = known_of(answer, "cuda_available");
    t->cuda_devices = known_of(answer, "cuda_devices");
    t->has_triton = known_of(answer, "triton");
    t->has_compiler = known_of(answer, "compiler");
}

struct rules_torch check_torch_unasked(void) {
    return (struct rules_torch){
        .cuda_available = -1, .cuda_devices = -1, .has_triton = -1, .has_compiler = -1};
}

void check_ask_torch(struct arena *a, const char *python, struct rules_torch *ret_torch) {
    struct rules_torch t = check_torch_unasked();
    t.python = str_of(launch_python_program(python));
    struct os_captured said = {0};
    struct fail why = {0};
    struct str script;
    int rc = data_find(a, "python/batchfit/installed.py", &script, &why);
    char *const argv[] = {str_z(a, t.python), (char[]){"-c"}, rc == 0 ? str_z(a, script) : NULL,
                          NULL};
    setenv("PYTHONPATH", launch_python_own_path(a, (struct str){0}).p, 1);
    if (rc == 0) rc = os_capture(a, argv, DEADLINE_MS, OUTPUT_MAX, &said, &why);
    struct str line = last_line(said.out);
    json_t *answer = line.len > 0 ? json_loadb(line.p, (size_t)line.len, 0, NULL) : NULL;
    if (rc < 0) {
        t.state = RULES_TORCH_NO_PYTHON;
        t.error = str_copy(a, str_of(why.message));
    } else if (said.timed_out) {
        t.state = RULES_TORCH_HANGS;
        t.error =
            str_format(a, "%.*s did not answer within %d s", STR_ARG(t.python), DEADLINE_MS / 1000);
    } else if (json_is_object(answer)) {
        read_answer(a, answer, &t);
    } else {
        t.state = RULES_TORCH_MISSING;
        t.error =
            str_format(a, "ended with status %d: %.*s", said.status, STR_ARG(last_line(said.err)));
    }
    json_decref(answer);
    *ret_torch = t;
}
