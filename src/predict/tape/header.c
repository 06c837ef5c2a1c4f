// SPDX-License-Identifier: Apache-2.0
// Line 1 of a tape: a JSON object. Known keys are a table; a key may be absent or null, then its
// field is unknown; unknown keys stay in the text and are ignored.
#include "predict/tape/tape_int.h"
#include "predict/tape/template.h"

#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>

enum header_type { HEADER_TEXT, HEADER_NUMBER, HEADER_FLAG };

static const struct header_field {
    const char *key;
    enum header_type type;
    size_t offset;
} fields[] = {
#define TEXT(key) \
    { #key, HEADER_TEXT, offsetof(struct tape_header, key) }
#define NUMBER(key) \
    { #key, HEADER_NUMBER, offsetof(struct tape_header, key) }
#define FLAG(key) \
    { #key, HEADER_FLAG, offsetof(struct tape_header, key) }
    TEXT(model),
    TEXT(library),
    TEXT(torch),
    TEXT(recorder),
    TEXT(rules),
    TEXT(mode),
    NUMBER(image_size),
    NUMBER(sequence_length),
    NUMBER(target_length),
    TEXT(precision),
    TEXT(layout),
    TEXT(optimizer),
    NUMBER(accumulation),
    FLAG(checkpointing),
    FLAG(ema),
    FLAG(grad_scaler),
    FLAG(cudnn_benchmark),
    FLAG(prefetch),
    TEXT(zero_grad),
    TEXT(attention),
    NUMBER(classes),
    NUMBER(parameters),
    NUMBER(steps),
    TEXT(adapter),
    TEXT(quant),
    TEXT(weights),
    TEXT(shard),
    NUMBER(ranks),
    TEXT(loss),
    NUMBER(loss_tokens),
    NUMBER(loss_parts),
    NUMBER(host_bytes),
    NUMBER(host_pinned_bytes),
    NUMBER(tp),
    TEXT(compile),
#undef TEXT
#undef NUMBER
#undef FLAG
};
enum { HEADER_COUNT = (int)(sizeof fields / sizeof *fields) };

struct tape_header tape_header_unknown(void) {
    return (struct tape_header){.image_size = TAPE_UNKNOWN,
                                .sequence_length = TAPE_UNKNOWN,
                                .target_length = TAPE_UNKNOWN,
                                .accumulation = TAPE_UNKNOWN,
                                .classes = TAPE_UNKNOWN,
                                .parameters = TAPE_UNKNOWN,
                                .steps = TAPE_UNKNOWN,
                                .ranks = TAPE_UNKNOWN,
                                .loss_tokens = TAPE_UNKNOWN,
                                .loss_parts = TAPE_UNKNOWN,
                                .host_bytes = TAPE_UNKNOWN,
                                .host_pinned_bytes = TAPE_UNKNOWN,
                                .tp = TAPE_UNKNOWN,
                                .checkpointing = TAPE_UNKNOWN,
                                .ema = TAPE_UNKNOWN,
                                .grad_scaler = TAPE_UNKNOWN,
                                .cudnn_benchmark = TAPE_UNKNOWN,
                                .prefetch = TAPE_UNKNOWN,
                                .seconds = NAN};
}

static int header_fail(struct str name, const char *key, const char *expected, struct fail *why) {
    return fail_set(why, FAIL_INPUT, "%.*s:1: \"%s\" is not %s", STR_ARG(name), key, expected);
}

static int read_field(struct arena *a, struct str name, const struct header_field *f, json_t *value,
                      struct tape_header *h, struct fail *why) {
    char *at = (char *)h + f->offset;
    switch (f->type) {
    case HEADER_TEXT:
        if (!json_is_string(value)) return header_fail(name, f->key, "a string", why);
        *(struct str *)at = str_copy(
            a, (struct str){json_string_value(value), (ptrdiff_t)json_string_length(value)});
        return 0;
    case HEADER_NUMBER:
        if (!json_is_integer(value) || json_integer_value(value) < 0) {
            return header_fail(name, f->key, "a whole number of at least 0", why);
        }
        *(int64_t *)at = json_integer_value(value);
        return 0;
    case HEADER_FLAG:
        if (!json_is_boolean(value)) return header_fail(name, f->key, "true or false", why);
        *(int *)at = json_is_true(value);
        return 0;
    }
    return 0;
}

static int read_batches(struct arena *a, struct str name, json_t *list, struct tape_header *h,
                        struct fail *why) {
    size_t count = json_is_array(list) ? json_array_size(list) : 0;
    if (count == 0 || count > 1000) {
        return header_fail(name, "batches", "a list of recorded batches", why);
    }
    int64_t *batches = arena_new(a, int64_t, (ptrdiff_t)count);
    for (size_t i = 0; i < count; i++) {
        batches[i] = json_integer_value(json_array_get(list, i)); // 0 for what is no integer
        if (batches[i] < 1 || batches[i] > INT32_MAX) {
            return header_fail(name, "batches", "a list of recorded batches", why);
        }
    }
    h->batches = batches;
    h->batch_count = (int)count;
    return 0;
}

// Line 1's version: FAIL_INPUT when there is none.
static int read_version(struct str name, json_t *root, int64_t *ret, struct fail *why) {
    if (!json_is_object(root)) {
        return fail_set(why, FAIL_INPUT, "%.*s:1: not a JSON object", STR_ARG(name));
    }
    json_t *version = json_object_get(root, "tape");
    if (!json_is_integer(version)) {
        return fail_set(why, FAIL_INPUT, "%.*s:1: no \"tape\": 1; this is not a tape",
                        STR_ARG(name));
    }
    *ret = json_integer_value(version);
    return 0;
}

// What the two versions have in common.
static int read_fields(struct arena *a, struct str name, json_t *root, struct tape_header *h,
                       struct fail *why) {
    json_t *seconds = json_object_get(root, "seconds");
    for (int i = 0; i < HEADER_COUNT; i++) {
        json_t *value = json_object_get(root, fields[i].key);
        if (!value || json_is_null(value)) continue;
        int code = read_field(a, name, &fields[i], value, h, why);
        if (code < 0) return code;
    }
    if (h->model.len == 0) return header_fail(name, "model", "there", why);
    if (seconds && !json_is_null(seconds)) {
        if (!json_is_number(seconds)) return header_fail(name, "seconds", "a number", why);
        h->seconds = json_number_value(seconds);
    }
    return 0;
}

static int read_object(struct arena *a, struct str name, json_t *root, struct tape_header *h,
                       struct fail *why) {
    int64_t version;
    int code = read_version(name, root, &version, why);
    if (code < 0) return code;
    if (version == TAPE_TEMPLATE_VERSION) {
        code = fail_set(why, FAIL_INPUT, "%.*s:1: a template (tape version 2) has no sizes yet",
                        STR_ARG(name));
        fail_hint(why, "batchfit sim TEMPLATE --dims batch=2,sequence=2048,... gives it some");
        return code;
    }
    if (version != TAPE_VERSION) {
        return fail_set(why, FAIL_INPUT, "%.*s:1: tape version %lld; this program reads version %d",
                        STR_ARG(name), (long long)version, TAPE_VERSION);
    }
    code = read_fields(a, name, root, h, why);
    return code < 0 ? code : read_batches(a, name, json_object_get(root, "batches"), h, why);
}

static bool is_bound(struct tape_bound b) {
    return b.least >= 1 && b.most >= b.least && b.step >= 1 && b.most <= TAPE_DIM_MOST &&
           b.least % b.step == 0;
}

// "sequence": [1, 131072] or "head_size": [8, 256, 8]
static int read_bound(struct str name, const char *key, json_t *list, struct tape_bound *bounds,
                      struct fail *why) {
    int dim = tape_dim_find(str_of(key));
    size_t count = json_is_array(list) ? json_array_size(list) : 0;
    int64_t numbers[3] = {0, 0, 1};
    if (dim < 0 || !key[0] || !key[1]) return header_fail(name, key, "a dimension", why);
    for (size_t i = 0; i < count && i < 3; i++) {
        numbers[i] = json_integer_value(json_array_get(list, i)); // 0 for what is no integer
    }
    bounds[dim] = (struct tape_bound){numbers[0], numbers[1], numbers[2]};
    if (count < 2 || count > 3 || !is_bound(bounds[dim])) {
        return header_fail(name, key, "a list of the least and the most, and perhaps the step",
                           why);
    }
    return 0;
}

static int read_template(struct arena *a, struct str name, json_t *root, struct tape_header *h,
                         struct tape_bound *bounds, struct fail *why) {
    int64_t version;
    int code = read_version(name, root, &version, why);
    if (code < 0) return code;
    if (version != TAPE_TEMPLATE_VERSION) {
        return fail_set(why, FAIL_INPUT, "%.*s:1: tape version %lld; a template has version %d",
                        STR_ARG(name), (long long)version, TAPE_TEMPLATE_VERSION);
    }
    json_t *dims = json_object_get(root, "dims"), *list;
    const char *key;
    if (!json_is_object(dims)) return header_fail(name, "dims", "an object of dimensions", why);
    json_object_foreach(dims, key, list) {
        code = read_bound(name, key, list, bounds, why);
        if (code < 0) return code;
    }
    return read_fields(a, name, root, h, why);
}

static int load_line(struct str name, struct str line, json_t **ret, struct fail *why) {
    json_error_t error;
    *ret = json_loadb(line.p ? line.p : "", (size_t)line.len, JSON_REJECT_DUPLICATES, &error);
    if (*ret) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:1: not a JSON object: %s at column %d", STR_ARG(name),
                    error.text, error.column);
}

int tape_header_parse(struct arena *a, struct str name, struct str line, struct tape_header *ret,
                      struct fail *why) {
    struct tape_header h = tape_header_unknown();
    json_t *root;
    int code = load_line(name, line, &root, why);
    if (code < 0) return code;
    h.json = line;
    code = read_object(a, name, root, &h, why);
    json_decref(root);
    if (code == 0) *ret = h;
    return code;
}

int tape_template_header_parse(struct arena *a, struct str name, struct str line,
                               struct tape_header *ret, struct tape_bound *ret_bounds,
                               struct fail *why) {
    json_t *root;
    int code = load_line(name, line, &root, why);
    if (code < 0) return code;
    *ret = tape_header_unknown();
    code = read_template(a, name, root, ret, ret_bounds, why);
    json_decref(root);
    return code;
}

int tape_read_header(struct arena *a, struct str name, struct str bytes, struct tape_header *ret,
                     struct fail *why) {
    struct str text;
    int code = tape_unpack(a, name, bytes, TAPE_HEADER_MAX, false, &text, why);
    if (code < 0) return code;
    ptrdiff_t end = str_find(text, STR("\n"));
    if (end < 0) {
        return fail_set(why, FAIL_INPUT, "%.*s:1: no line end within the first %lld bytes",
                        STR_ARG(name), (long long)text.len);
    }
    return tape_header_parse(a, name, str_slice(text, 0, end), ret, why);
}

static json_t *field_json(const struct tape_header *h, const struct header_field *f) {
    const char *at = (const char *)h + f->offset;
    if (f->type == HEADER_TEXT) {
        struct str s = *(const struct str *)at;
        return s.len > 0 ? json_stringn(s.p, (size_t)s.len) : NULL;
    }
    if (f->type == HEADER_NUMBER) {
        int64_t n = *(const int64_t *)at;
        return n == TAPE_UNKNOWN ? NULL : json_integer(n);
    }
    int flag = *(const int *)at;
    return flag == TAPE_UNKNOWN ? NULL : json_boolean(flag);
}

struct str tape_header_text(struct arena *a, const struct tape_header *h) {
    if (h->json.len > 0) return h->json;
    json_t *root = json_object(), *batches = json_array();
    json_object_set_new(root, "tape", json_integer(TAPE_VERSION));
    for (int i = 0; i < HEADER_COUNT; i++) {
        json_t *value = field_json(h, &fields[i]);
        if (value) json_object_set_new(root, fields[i].key, value);
    }
    for (int i = 0; i < h->batch_count; i++) {
        json_array_append_new(batches, json_integer(h->batches[i]));
    }
    json_object_set_new(root, "batches", batches);
    if (!isnan(h->seconds)) json_object_set_new(root, "seconds", json_real(h->seconds));
    return json_take(a, root, JSON_COMPACT);
}
