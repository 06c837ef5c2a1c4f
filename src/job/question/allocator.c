// SPDX-License-Identifier: Apache-2.0
#include "job/question/question_int.h"

// Trainers that set it themselves where the environment does not: Axolotl 0.19, utils/__init__.py,
// set_pytorch_cuda_alloc_conf.
static const struct {
    const char *dialect, *conf;
} own[] = {{"axolotl", "expandable_segments:True"}};

static struct str conf_of(const struct question *q, struct str *ret_from) {
    const struct config_value *v = &q->reading.alloc_conf;
    *ret_from = v->line > 0 ? str_format(q->arena, "line %d", v->line) : q->reading.title;
    if (v->line > 0) return v->type == CONFIG_SPECIAL ? (struct str){0} : v->text;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (str_is(q->reading.dialect, own[i].dialect)) return str_of(own[i].conf);
    return (struct str){0};
}

void question_allocator(struct question *q) {
    struct sim_options options = sim_options_default();
    struct str from = {0}, conf = q->has_config ? conf_of(q, &from) : (struct str){0};
    const bool is_only = str_is(conf, "expandable_segments:True");
    if (conf.len == 0) return;
    if (sim_options_parse(conf, &options, NULL) == 0)
        q->plan.expandable = options.expandable_segments;
    str_list_format(q->arena, &q->notes, "%.*s sets PYTORCH_CUDA_ALLOC_CONF=%.*s: %s%s",
                    STR_ARG(from), STR_ARG(conf),
                    q->plan.expandable ? "expandable segments are counted" : "not counted",
                    is_only ? "" : " (--alloc-conf TEXT counts all of it)");
}
