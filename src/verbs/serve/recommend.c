// SPDX-License-Identifier: Apache-2.0
// /api/v1/recommend: a TrainJob of Kubeflow's trainer comes in, and what a plugin would patch into
// it goes out. The contract is that of KEP-3328 as it was drafted on 2026-07-01 (kubeflow/trainer,
// pull request 3559, open): a TrainJob that names the plugin in an annotation and is suspended gets
// spec.trainer.numNodes and the annotation that says it is done; a plugin never resumes it. HTTP is
// ours: the contract knows controllers of Kubernetes (contrib/kubernetes/recommend is one).
//
// What is trained stands in the command of the TrainJob, which is read as a script and not run, or
// in the annotation "batchfit", in words of fit. Another process of this program answers it, so
// nothing that is sent can hold or end the server: fit --on kubernetes --json.
#include "verbs/serve/serve.h"

#include "base/json.h"
#include "base/os.h"
#include "base/shell.h"
#include "base/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES_MOST = 64, WORDS_MOST = 32 };
static const int64_t deadline_ms = 5000;
static const char plugin_id[] = "batchfit";
static const char of_plugin[] = "trainer.kubeflow.org/autoconf-plugin";
static const char is_done[] = "trainer.kubeflow.org/autoconf-plugin-done";
static const char of_gpus[] = "nvidia.com/gpu";
static const char contract[] = "KEP-3328, draft of 2026-07-01 (kubeflow/trainer#3559)";

// What a TrainJob may say in words of fit: none of it names a file here.
enum { SAID_BY_JOB = CLI_OF_TRAINING | CLI_OF_MEMORY | CLI_OF_STEP };

struct job {
    struct arena *arena;
    const struct serve_options *options;
    const json_t *spec, *trainer, *annotations;
    int64_t gpus, nodes; // of a node; nodes as the TrainJob has them
    struct str words;    // of the annotation
    struct str script;   // its path; empty: the TrainJob has no command
    struct str gpu_names;
    int64_t effective; // that the words keep; 0: they do not say
    // What fit said of some number of nodes.
    json_t *document;
    struct str failed;
};

static const char *text_at(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

int serve_recommend_check(const struct serve_options *o, struct fail *why) {
    struct str rest = str_of(o->recommend);
    while (rest.p) {
        struct str name;
        int64_t count;
        if (unit_parse_counted(str_cut(&rest, ','), &count, &name)) continue;
        fail_set(why, FAIL_USAGE, "--recommend %s: not GPUs", o->recommend);
        return fail_hint(why,
                         "give the GPUs of the cluster's nodes, with their number: 8xh100,4xl4");
    }
    return 0;
}

// --- The TrainJob --------------------------------------------------------------------------------

// Why it is not ours to answer; NULL: it is.
static const char *why_not(const struct job *job) {
    const char *plugin = text_at(job->annotations, of_plugin);
    const char *done = text_at(job->annotations, is_done);
    if (!plugin || strcmp(plugin, plugin_id) != 0)
        return "its annotation trainer.kubeflow.org/autoconf-plugin is not batchfit";
    if (!json_is_true(json_object_get(job->spec, "suspend"))) return "it is not suspended";
    if (done && strcmp(done, "yes") == 0) return "it is done";
    return NULL;
}

static int64_t number_of(const json_t *value) {
    int64_t number = 0;
    if (json_is_integer(value)) number = json_integer_value(value);
    if (json_is_string(value)) str_to_i64(str_of(json_string_value(value)), &number);
    return number > 0 && number <= 1024 ? number : 0;
}

// The nodes' GPUs that are enough, and how many a node gives: what the TrainJob asks for, else what
// the first kind of node has.
static void read_gpus(struct job *job) {
    const json_t *resources = json_object_get(job->trainer, "resourcesPerNode");
    struct buf names = buf_new(job->arena);
    struct str rest = str_of(job->options->recommend);
    job->gpus = number_of(json_object_get(json_object_get(resources, "limits"), of_gpus));
    if (job->gpus == 0)
        job->gpus = number_of(json_object_get(json_object_get(resources, "requests"), of_gpus));
    if (job->gpus == 0) job->gpus = number_of(json_object_get(job->trainer, "numProcPerNode"));
    while (rest.len > 0) {
        struct str name;
        int64_t count;
        if (!unit_parse_counted(str_cut(&rest, ','), &count, &name)) continue;
        if (count == 0) count = 1;
        if (job->gpus == 0) job->gpus = count;
        if (count >= job->gpus) buf_format(&names, "%.*s,", STR_ARG(name));
    }
    job->gpu_names = buf_str(&names);
    job->nodes = number_of(json_object_get(job->trainer, "numNodes"));
    if (job->nodes == 0) job->nodes = 1;
}

// A name of a model, not of a file of ours, behind "hf:" and the like neither.
static bool is_path(struct str value) {
    const struct str name = str_last(value, ':');
    return name.len > 0 && (strchr("/.~", name.p[0]) || str_find(name, STR("..")) >= 0 ||
                            str_ends(name, STR(".json")) || str_ends(name, STR(".tape")));
}

// Whether an option is one that a TrainJob may say, with its value or as a switch.
static bool is_of_job(const struct job *job, struct str name, struct str value) {
    const struct cli_verb *fit = cli_verb_find(job->options->common.verbs, STR("fit"));
    for (const struct cli_row *row = fit->options; row->name; row++) {
        if (!str_is(name, row->name) || !(row->about & SAID_BY_JOB)) continue;
        if (row->kind == CLI_SWITCH) return value.len == 0;
        return value.p && value.len > 0 && value.p[0] != '-' && !is_path(value);
    }
    return false;
}

// Takes the next word off; empty: there is none.
static struct str next_word(struct str *rest) {
    struct str word = {0};
    while (rest->len > 0 && word.len == 0) word = str_trim(str_cut(rest, ' '));
    return word;
}

// "--lora 16" becomes "--lora=16", so that nothing is left that fit could take for an argument: a
// word behind "--" would be a command, which it runs.
static int read_words(struct job *job, struct fail *why) {
    struct str rest = str_of(text_at(job->annotations, "batchfit")), word = next_word(&rest);
    struct buf words = buf_new(job->arena);
    for (int count = 0; word.len > 0; count++) {
        const struct str said = word;
        struct str value = word, name = str_cut(&value, '=');
        word = next_word(&rest);
        if (!value.p && word.len > 0 && word.p[0] != '-') {
            value = word;
            word = next_word(&rest);
        }
        name = str_starts(name, STR("--")) ? str_slice(name, 2, name.len) : (struct str){0};
        if (count >= WORDS_MOST || !is_of_job(job, name, value))
            return fail_set(why, FAIL_INPUT, "the annotation batchfit: '%.*s' is not allowed here",
                            STR_ARG(said));
        if (str_is(name, "effective-batch-size")) str_to_i64(value, &job->effective);
        buf_format(&words, "--%.*s%s%.*s ", STR_ARG(name), value.len > 0 ? "=" : "",
                   STR_ARG(value));
    }
    job->words = buf_str(&words);
    return 0;
}

static void add_words(struct arena *a, const json_t *list, bool is_script, struct buf *out) {
    json_t *word;
    size_t i;
    json_array_foreach(list, i, word) {
        struct str text = str_of(json_string_value(word));
        if (out->count > 0) buf_byte(out, ' ');
        buf_add(out, is_script ? text : shell_word(a, text));
    }
}

// A shell with its script is that script; anything else is a command of one line.
static struct str script_of(struct job *job) {
    const json_t *command = json_object_get(job->trainer, "command");
    const json_t *args = json_object_get(job->trainer, "args"), *env, *one;
    static const char *const shells[] = {"sh", "bash", "/bin/sh", "/bin/bash", NULL};
    struct buf text = buf_new(job->arena), line = buf_new(job->arena);
    struct str first = str_of(json_string_value(json_array_get(command, 0)));
    struct str second = str_of(json_string_value(json_array_get(command, 1)));
    size_t i;
    buf_add(&text, STR("#!/bin/bash\n"));
    env = json_object_get(job->trainer, "env");
    json_array_foreach(env, i, one) {
        if (!text_at(one, "name") || !text_at(one, "value")) continue;
        buf_format(&text, "%s=%.*s\n", text_at(one, "name"),
                   STR_ARG(shell_word(job->arena, str_of(text_at(one, "value")))));
    }
    if (str_is_one_of(first, shells) && str_starts(second, STR("-")) &&
        str_ends(second, STR("c"))) {
        add_words(job->arena, json_array_size(command) > 2 ? command : args, true, &line);
        struct str script = buf_str(&line);
        if (json_array_size(command) > 2) // without the shell and its option
            script = str_slice(script, first.len + second.len + 2, script.len);
        buf_add(&text, script);
    } else {
        add_words(job->arena, command, false, &line);
        add_words(job->arena, args, false, &line);
        buf_add(&text, buf_str(&line));
    }
    buf_byte(&text, '\n');
    return line.count > 0 ? buf_str(&text) : (struct str){0};
}

// --- fit -----------------------------------------------------------------------------------------

// What was said of the last number of nodes is dropped. True: it holds on some of the GPUs.
static bool ask(struct job *job, int64_t nodes) {
    struct arena *a = job->arena;
    struct os_captured c;
    struct str_words w = {.arena = a};
    struct fail why = {0};
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    struct str rest = job->words;
    json_decref(job->document);
    job->document = NULL;
    str_word_add(&w, (struct str){self, length > 0 ? length : 0});
    str_word_add(&w, STR("fit"));
    while (rest.len > 0) {
        struct str word = str_trim(str_cut(&rest, ' '));
        bool is_kept = !str_starts(word, STR("--effective-batch-size")) || job->script.len == 0;
        if (word.len > 0 && is_kept) str_word_add(&w, word);
    }
    if (job->script.len > 0) str_word_add(&w, str_format(a, "--config=%.*s", STR_ARG(job->script)));
    str_word_add(&w, STR("--on=kubernetes"));
    str_word_add(&w, STR("--json"));
    str_word_add(&w, STR("--no-history"));
    str_word_add(&w, str_format(a, "--gpus=%.*s", STR_ARG(job->gpu_names)));
    str_word_add(&w, str_format(a, "--ranks=%lld", (long long)nodes * job->gpus));
    if (os_capture(a, w.items, deadline_ms, 4 * UNIT_MIB, &c, &why) < 0) {
        job->failed = str_copy(a, str_of(why.message));
        return false;
    }
    if (c.status <= 1) job->document = json_loadb(c.out.p, (size_t)c.out.len, 0, NULL);
    struct str said = str_trim(c.err), name = STR("batchfit: ");
    if (str_starts(said, name)) said = str_slice(said, name.len, said.len);
    name = str_format(a, "%.*s: ", STR_ARG(job->script));
    if (job->script.len > 0 && str_starts(said, name)) said = str_slice(said, name.len, said.len);
    struct str cause = str_line(&said), more = str_trim(said);
    if (more.len > 0) cause = str_format(a, "%.*s (%.*s)", STR_ARG(cause), STR_ARG(more));
    job->failed = job->document ? (struct str){0} : c.timed_out ? STR("it took too long") : cause;
    return job->document && c.status == 0;
}

static json_t *result_of(const struct job *job) {
    return json_array_get(json_object_get(job->document, "results"), 0);
}

static int64_t plan_number(const struct job *job, const char *key) {
    return json_integer_value(json_object_get(json_object_get(result_of(job), "plan"), key));
}

// As many nodes as the TrainJob has. Where the words keep an effective batch, as many as that takes
// of the command's own batch and accumulation; where nobody keeps it and the GPUs share the
// weights, twice as many until it holds. 0: none.
static int64_t choose(struct job *job) {
    bool holds = ask(job, job->nodes);
    if (!job->document) return 0;
    if (job->effective > 0) {
        int64_t of_node = plan_number(job, "batch_size") *
                          plan_number(job, "gradient_accumulation_steps") * job->gpus;
        int64_t nodes = of_node > 0 ? job->effective / of_node : 0;
        bool is_whole = nodes > 0 && nodes <= NODES_MOST && nodes * of_node == job->effective;
        if (is_whole && nodes == job->nodes) return holds ? nodes : 0;
        if (is_whole) return ask(job, nodes) ? nodes : 0;
        job->failed = str_format(job->arena,
                                 "a node trains on %lld samples: no number of nodes "
                                 "makes %lld of them",
                                 (long long)of_node, (long long)job->effective);
        return 0;
    }
    if (holds) return job->nodes;
    const char *shard = text_at(json_object_get(result_of(job), "plan"), "shard");
    for (int64_t n = 2 * job->nodes; shard && n <= NODES_MOST; n *= 2)
        if (ask(job, n)) return n;
    return 0;
}

// --- The answer ----------------------------------------------------------------------------------

static json_t *patch_of(int64_t nodes) {
    return json_pack("{s:{s:{s:s}}, s:{s:{s:I}}}", "metadata", "annotations", is_done, "yes",
                     "spec", "trainer", "numNodes", (json_int_t)nodes);
}

static json_t *answer_of(const struct job *job, int64_t nodes, struct str reason) {
    json_t *result = result_of(job), *own = json_object_get(job->document, "kubernetes");
    json_t *affinity = json_object_get(json_object_get(own, "spec"), "affinity");
    const char *headline = text_at(result, "headline");
    bool applies = nodes > 0;
    return json_pack("{s:i, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:O?, s:O?}", "recommend", 1,
                     "contract", contract, "applies", applies, "reason", json_text(reason), "patch",
                     applies ? patch_of(nodes) : json_null(), "effective_batch_size",
                     json_size(plan_number(job, "effective_batch_size")), "headline",
                     json_text(str_of(headline)), "resourcesPerNode",
                     applies ? json_pack("{s:{s:I}}", "limits", of_gpus, (json_int_t)job->gpus)
                             : json_null(),
                     "affinity", applies && affinity ? affinity : json_null(), "notes",
                     json_object_get(job->document, "notes"));
}

static struct str none_text(const struct job *job) {
    const char *headline = text_at(result_of(job), "headline");
    if (job->failed.len > 0) return job->failed;
    return headline ? str_of(headline) : STR("nothing was answered");
}

static int write_script(struct job *job, char *folder, struct fail *why) {
    struct str text = script_of(job);
    if (text.len == 0) return 0;
    if (!mkdtemp(folder)) return fail_set(why, FAIL_MACHINE, "no folder for temporary files");
    job->script = str_format(job->arena, "%s/trainjob.sh", folder);
    return os_replace(job->arena, job->script.p, text, NULL, why);
}

static json_t *recommend(struct job *job) {
    struct fail why = {0};
    char folder[] = "/tmp/batchfit-recommend-XXXXXX";
    const char *reason = why_not(job);
    int64_t nodes = 0;
    if (reason) return answer_of(job, 0, str_of(reason));
    read_gpus(job);
    int rc = read_words(job, &why);
    if (rc == 0 && job->gpu_names.len == 0)
        rc = fail_set(&why, FAIL_INPUT, "no node has %lld GPUs (serve --recommend %s)",
                      (long long)job->gpus, job->options->recommend);
    if (rc == 0) rc = write_script(job, folder, &why);
    if (rc == 0) nodes = choose(job);
    if (job->script.len > 0) {
        unlink(job->script.p);
        rmdir(folder);
    }
    return answer_of(job, nodes,
                     rc < 0      ? str_of(why.message)
                     : nodes > 0 ? (struct str){0}
                                 : none_text(job));
}

static struct http_page *page_of(struct serve *s, int status, json_t *document) {
    struct str text = json_take(&s->scratch, document, JSON_COMPACT);
    return text.len > 0 ? http_page_new(s->http, status, "application/json", text) : NULL;
}

struct http_page *serve_recommend(void *context, const struct http_request *r) {
    struct serve *s = context;
    struct arena_mark mark = arena_mark(&s->scratch);
    json_t *sent = json_loadb(r->body.p, (size_t)r->body.len, JSON_REJECT_DUPLICATES, NULL);
    const char *kind = text_at(sent, "kind"), *version = text_at(sent, "apiVersion");
    struct job job = {.arena = &s->scratch,
                      .options = s->options,
                      .spec = json_object_get(sent, "spec"),
                      .annotations =
                          json_object_get(json_object_get(sent, "metadata"), "annotations")};
    job.trainer = json_object_get(job.spec, "trainer");
    bool is_one = kind && strcmp(kind, "TrainJob") == 0 && version &&
                  str_starts(str_of(version), STR("trainer.kubeflow.org/"));
    struct http_page *page =
        is_one ? page_of(s, 200, recommend(&job))
               : page_of(s, 400,
                         json_pack("{s:s}", "error",
                                   "not a TrainJob of trainer.kubeflow.org, as JSON"));
    json_decref(job.document);
    json_decref(sent);
    arena_rewind(&s->scratch, mark);
    return page;
}
