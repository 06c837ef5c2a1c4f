// SPDX-License-Identifier: Apache-2.0
// --bucket-cap-mb: an axis whose values the emitter gives to DistributedDataParallel.
#include "job/grid/grid.h"

static const char axis_name[] = "bucket_cap_mb";

int grid_buckets_read(struct arena *a, const char *sizes, struct grid_space *grid,
                      struct fail *why) {
    struct grid_numbers numbers;
    if (!sizes) return 0;
    int rc = grid_read_numbers(a, "--bucket-cap-mb", str_of(sizes), 1, &numbers, why);
    if (rc < 0) return rc;
    struct buf line = buf_new(a);
    buf_format(&line, "%s=", axis_name);
    for (ptrdiff_t i = 0; i < numbers.count; i++) {
        buf_format(&line, "%s%lld", i > 0 ? "," : "", (long long)numbers.items[i]);
    }
    return grid_read_axes(a, buf_z(&line), grid, why);
}

const char *grid_buckets_environment(struct arena *a, const char *environment) {
    return str_format(a, "%s%sBATCHFIT_DDP_BUCKET_CAP_MB={%s}", environment ? environment : "",
                      environment ? "\n" : "", axis_name)
        .p;
}

bool grid_has_buckets(const struct launch_result *result) {
    const struct steps *s = &result->trial.steps;
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].ddp_bucket_mb > 0) return true;
    }
    return false;
}

void grid_buckets_idle(struct grid *b) {
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        if (!str_is(b->grid.axes[i].name, axis_name)) continue;
        b->grid.axes[i].is_idle = true;
        grid_note(b, STR("bucket_cap_mb has no effect here: the program does not use PyTorch's "
                         "DistributedDataParallel; differences between its values are chance"));
    }
}
