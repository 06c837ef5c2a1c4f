// SPDX-License-Identifier: Apache-2.0
// What each engine calls a GPU.
//
// Kubernetes: the labels of gpu-feature-discovery (NVIDIA's k8s-device-plugin, README and
// internal/lm/resource.go of 0.17): nvidia.com/gpu.product is the driver's name with "-" for each
// blank, nvidia.com/gpu.memory is nvidia-smi's total in MiB, nvidia.com/gpu.compute.major the
// compute capability's. "Gt" compares with a label as a whole number.
//
// SkyPilot: "[MANUFACTURER:]24GB+[:COUNT]", the memory as it is sold, and the names of its
// catalogue (0.14.1, sky/catalog/data_fetchers, and sky/catalog/__init__.py for the common ones).
#include "verbs/fit/fit.h"

#include "base/unit.h"

#include <stdio.h>

// --- Kubernetes ----------------------------------------------------------------------------------

enum { LABEL_MOST = 63 };

static json_t *expression(const char *key, const char *operator, json_t * values) {
    return json_pack("{s:s, s:s, s:o}", "key", key, "operator", operator, "values", values);
}

static json_t *above(int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return json_pack("[s]", text);
}

static int64_t mib_of(const struct fit_cloud_row *row) {
    return row->card.gpu.total_bytes / UNIT_MIB;
}

// Drivers differ by some per cent in what they print of the same GPU (an A100 of 40 GB: 39538,
// 40537, 40960), but what does not hold the config must stay below.
static int64_t memory_above(const struct fit_cloud *c) {
    int64_t least = INT64_MAX, most_failing = 0;
    for (ptrdiff_t i = c->floor; i < c->count; i++)
        if (c->rows[i].fits && mib_of(&c->rows[i]) < least) least = mib_of(&c->rows[i]);
    for (ptrdiff_t i = 0; i < c->count; i++) {
        int64_t mib = mib_of(&c->rows[i]);
        if (!c->rows[i].fits && mib < least && mib > most_failing) most_failing = mib;
    }
    int64_t usual = least / 100 * 95;
    return usual > most_failing ? usual : most_failing;
}

// "NVIDIA GeForce RTX 3060 (8GB)" is our name of what the driver calls an RTX 3060.
static struct str product_of(struct arena *a, struct str name) {
    ptrdiff_t more = str_find(name, STR(" ("));
    struct str label = str_copy(a, more < 0 ? name : str_slice(name, 0, more));
    return str_slice(str_of(str_z_swapped(a, label, ' ', '-')), 0,
                     label.len < LABEL_MOST ? label.len : LABEL_MOST);
}

static json_t *products(const struct fit_cloud *c) {
    struct str_list names = {0};
    json_t *values = json_array();
    for (ptrdiff_t i = 0; i < c->count; i++) {
        struct str name = product_of(c->q->arena, c->rows[i].card.gpu.name);
        if (!c->rows[i].fits || str_list_has(&names, name)) continue;
        str_list_add(c->q->arena, &names, name);
        json_array_append_new(values, json_text(name));
    }
    return values;
}

static int kubernetes(struct fit_cloud *c, json_t **ret_spec, struct fail *why) {
    json_t *expressions = json_array();
    (void)why;
    if (c->is_named)
        json_array_append_new(expressions, expression("nvidia.com/gpu.product", "In", products(c)));
    json_array_append_new(expressions,
                          expression("nvidia.com/gpu.memory", "Gt", above(memory_above(c))));
    if (c->capability > 0 && !c->is_named) // in whole versions: a minor one has a label of its own
        json_array_append_new(expressions, expression("nvidia.com/gpu.compute.major", "Gt",
                                                      above((c->capability + 9) / 10 - 1)));
    *ret_spec =
        json_pack("{s:[{s:s, s:{s:{s:I}}}], s:{s:{s:{s:[{s:o}]}}}}", "containers", "name",
                  "trainer", "resources", "limits", "nvidia.com/gpu", (json_int_t)c->gpus,
                  "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
                  "nodeSelectorTerms", "matchExpressions", expressions);
    if (c->nodes > 1)
        str_list_format(c->q->arena, &c->notes,
                        "%lld pods of %lld GPUs each: a TrainJob's numNodes, a Job's parallelism",
                        (long long)c->nodes, (long long)c->gpus);
    return 0;
}

// --- SkyPilot ------------------------------------------------------------------------------------

static const struct {
    const char *key, *name;
} sky_names[] = {
    {"a100_sxm4_40gb", "A100"},
    {"a100_pcie_40gb", "A100"},
    {"a100_sxm4_80gb", "A100-80GB"},
    {"a100_80gb_pcie", "A100-80GB"},
    {"a10", "A10"},
    {"a10g", "A10G"},
    {"a30", "A30"},
    {"a40", "A40"},
    {"b200", "B200"},
    {"gh200_480gb", "GH200"},
    {"h100_80gb_hbm3", "H100"},
    {"h100_pcie", "H100"},
    {"h100_nvl", "H100-NVL"},
    {"h200", "H200"},
    {"k80", "K80"},
    {"l4", "L4"},
    {"l40", "L40"},
    {"l40s", "L40S"},
    {"p4", "P4"},
    {"p100_pcie_16gb", "P100"},
    {"p100_sxm2_16gb", "P100"},
    {"t4", "T4"},
    {"v100_pcie_16gb", "V100"},
    {"v100_sxm2_16gb", "V100"},
    {"v100_pcie_32gb", "V100-32GB"},
    {"v100_sxm2_32gb", "V100-32GB"},
    {"rtx_a4000", "RTXA4000"},
    {"rtx_a4500", "RTXA4500"},
    {"rtx_a5000", "RTXA5000"},
    {"rtx_a6000", "RTXA6000"},
    {"rtx_3070", "RTX3070"},
    {"rtx_3080", "RTX3080"},
    {"rtx_3080_ti", "RTX3080-Ti"},
    {"rtx_3090", "RTX3090"},
    {"rtx_3090_ti", "RTX3090-Ti"},
    {"rtx_4080", "RTX4080"},
    {"rtx_4090", "RTX4090"},
    {"rtx_6000_ada", "RTX6000-Ada"},
};

static const char *sky_name(struct str key) {
    for (size_t i = 0; i < sizeof sky_names / sizeof *sky_names; i++)
        if (str_is(key, sky_names[i].key)) return sky_names[i].name;
    return NULL;
}

static int sky_named(struct fit_cloud *c, json_t **ret, struct fail *why) {
    json_t *names = json_object();
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct gpu *gpu = &c->rows[i].card.gpu;
        const char *name = sky_name(gpu->key);
        if (!c->rows[i].fits) continue;
        if (!name) {
            json_decref(names);
            fail_set(why, FAIL_INPUT, "SkyPilot's name for the %.*s is not known here",
                     STR_ARG(show_gpu_name(gpu->name)));
            return fail_hint(why, "without --gpus the answer is its memory");
        }
        json_object_set_new(names, name, json_integer(c->gpus));
    }
    *ret = names;
    return 0;
}

// As sold: the catalogue of SkyPilot rounds so, too.
static json_t *sky_memory(struct fit_cloud *c) {
    int least = c->rows[c->floor].card.gpu.nominal_gb;
    for (ptrdiff_t i = 0; i < c->floor; i++) {
        int failing = c->rows[i].card.gpu.nominal_gb;
        least = failing >= least ? failing + 1 : least;
    }
    char text[64];
    if (c->gpus > 1)
        snprintf(text, sizeof text, "nvidia:%dGB+:%lld", least, (long long)c->gpus);
    else
        snprintf(text, sizeof text, "nvidia:%dGB+", least);
    if (c->capability > 0)
        str_list_format(c->q->arena, &c->notes,
                        "GPUs below compute capability %d.%d, which %s needs%s, may be taken, too; "
                        "--gpus names those that you want",
                        c->capability / 10, c->capability % 10, c->asks,
                        c->capability == ANSWER_BF16 ? " (V100, T4 and older are)" : "");
    return json_string(text);
}

static int skypilot(struct fit_cloud *c, json_t **ret_spec, struct fail *why) {
    json_t *accelerators = NULL;
    int rc = c->is_named ? sky_named(c, &accelerators, why) : 0;
    if (rc < 0) return rc;
    if (!c->is_named) accelerators = sky_memory(c);
    *ret_spec = json_pack("{s:{s:o}}", "resources", "accelerators", accelerators);
    if (c->nodes > 1) json_object_set_new(*ret_spec, "num_nodes", json_integer(c->nodes));
    return 0;
}

const struct fit_cloud_engine fit_cloud_engines[] = {
    {"kubernetes", kubernetes, "in the pod's spec; its container is called trainer here"},
    {"skypilot", skypilot, "in the task's file"},
    {NULL, NULL, NULL},
};
