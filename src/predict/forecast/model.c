// SPDX-License-Identifier: Apache-2.0
// From a name as it stands in a config to a model that the store has tapes of, or to a shape
// that there are templates for.
#include "base/data.h"
#include "base/near.h"
#include "predict/forecast/forecast_int.h"

// Hub folders, weight files and model files say the same model: google/mt5-large, yolo11l.pt.
static struct str bare_name(struct str spelled) {
    static const char *const suffixes[] = {".pt", ".pth", ".yaml", ".yml", ".safetensors"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (str_ends(spelled, str_of(suffixes[i]))) {
            spelled.len -= str_of(suffixes[i]).len;
            break;
        }
    }
    return str_last(spelled, '/');
}

// Without the source's prefix: "timm:resnet50" -> "resnet50".
static struct str without_source(struct str model) {
    struct str source = str_cut(&model, ':');
    return model.p ? model : source;
}

static bool has_tapes(const struct tape_store *store, struct str model) {
    ptrdiff_t at = 0;
    return tape_store_next(store, model, &at) != NULL;
}

// Rows of data/models.tsv: name, model, image_size.
static int find_alias(struct arena *a, struct str name, struct forecast_model *ret,
                      struct near *near, struct fail *why) {
    struct tsv t;
    int rc = tsv_find(a, "data/models.tsv", &t, why);
    if (rc < 0) return rc;
    while ((rc = tsv_next(&t, why)) > 0) {
        struct str alias = tsv_cell(&t, "name");
        if (near) near_offer(near, alias);
        if (!str_equal_nocase(alias, name)) continue;
        ret->name = tsv_cell(&t, "model");
        ret->image_size = 0;
        (void)str_to_i64(tsv_cell(&t, "image_size"), &ret->image_size);
        return 1;
    }
    return rc;
}

static int unknown_model(struct arena *a, const struct tape_store *store, struct str name,
                         const struct forecast_model *known, struct near *near, struct fail *why) {
    struct str advice, spelled = known->name.len > 0 ? known->name : name;
    struct str before = {0};
    for (ptrdiff_t i = 0; i < store->count; i++) {
        struct str model = tape_store_at(store, i)->header.model;
        if (!str_equal(model, before)) near_offer(near, without_source(model));
        before = model;
    }
    int rc = forecast_record_advice(a, spelled, bare_name(spelled), &advice, why);
    if (rc < 0) return rc;
    fail_set(why, FAIL_INPUT, "no tape for model '%.*s'", STR_ARG(name));
    struct str nearest = near_text(a, near);
    return fail_hint(why, "%s%.*s%sbatchfit list models shows all; %.*s",
                     nearest.len > 0 ? "nearest: " : "", STR_ARG(nearest),
                     nearest.len > 0 ? ". " : "", STR_ARG(advice));
}

int forecast_find_model(struct arena *a, const struct tape_store *store, struct str spelled,
                        struct forecast_model *ret_model, struct fail *why) {
    struct str bare = bare_name(spelled);
    const struct str tries[] = {spelled, bare};
    struct near near = {.typed = without_source(bare)};
    struct forecast_model model = {0};
    for (int i = 0; i < 2; i++) {
        int rc = find_alias(a, tries[i], &model, why ? &near : NULL, why);
        if (rc < 0) return rc;
        if (rc == 0 && has_tapes(store, tries[i])) model.name = tries[i];
        if (model.name.len > 0 && has_tapes(store, model.name)) {
            *ret_model = model;
            return 0;
        }
    }
    struct forecast_model in_timm = {0};
    int rc = model.name.len > 0 ? 0 : forecast_timm_model(a, spelled, &in_timm, why);
    if (rc < 0) return rc;
    if (in_timm.name.len > 0 && has_tapes(store, in_timm.name)) {
        *ret_model = in_timm;
        return 0;
    }
    return why ? unknown_model(a, store, spelled, &model, &near, why) : FAIL_INPUT;
}

static int open_shapes(struct forecast_cache *cache, struct fail *why) {
    if (cache->shapes) return 0;
    struct shape_table *shapes = arena_new(cache->arena, struct shape_table, 1);
    int rc = shape_load(cache->arena, shapes, why);
    if (rc == 0) cache->shapes = shapes;
    return rc;
}

int forecast_open_family(struct forecast_cache *cache, struct str name,
                         struct forecast_family **ret, struct fail *why) {
    struct forecast_family *f = cache->families;
    while (f && !str_equal(f->name, name)) f = f->next;
    if ((*ret = f)) return 0;
    *ret = f = arena_new(cache->arena, struct forecast_family, 1);
    *f = (struct forecast_family){.name = name, .next = cache->families};
    int rc = tape_catalogue_open(cache->arena, cache->templates, name, &f->catalogue, why);
    if (rc == 0) cache->families = f;
    return rc;
}

bool forecast_is_own(const struct forecast_cache *cache, struct str model) {
    return cache->own_shape && str_equal(model, cache->own_name);
}

int forecast_shape(struct forecast_cache *cache, struct str model, const struct shape **ret_shape,
                   struct fail *why) {
    *ret_shape = NULL;
    int rc = open_shapes(cache, why);
    if (rc < 0) return rc;
    bool is_own = forecast_is_own(cache, model);
    if (str_starts(model, STR("hf:"))) model = str_slice(model, 3, model.len);
    const struct shape *s = is_own ? cache->own_shape : shape_find(cache->shapes, model);
    if (!s || !shape_is_plain(cache->shapes, s)) return 0;
    struct forecast_family *family;
    rc = forecast_open_family(cache, shape_template(cache->shapes, s), &family, why);
    if (rc == 0 && family->catalogue.count > 0) *ret_shape = s;
    return rc;
}
