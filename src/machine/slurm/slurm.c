// SPDX-License-Identifier: Apache-2.0
#include "machine/slurm/slurm.h"

#include "base/os.h"
#include "base/unit.h"

// --- Words of sinfo ------------------------------------------------------------------------------

// Of a node that runs jobs, or will when one is queued for it (slurm.schedmd.com/sinfo.html, "NODE
// STATE CODES").
static const char *const states_up[] = {"idle",        "mixed",   "allocated",    "completing",
                                        "planned",     "blocked", "powered_down", "powering_down",
                                        "powering_up", NULL};

// Behind a state stand flags: "*" does not answer, "$" is in a maintenance reservation; the others
// are of power and reboots.
static bool is_up(struct str state) {
    ptrdiff_t end = state.len;
    while (end > 0 && !str_is_alnum(state.p[end - 1])) {
        char flag = state.p[--end];
        if (flag == '*' || flag == '$') return false;
    }
    return str_is_one_of(str_slice(state, 0, end), states_up);
}

static struct slurm_type *type_named(struct arena *a, struct slurm *s, struct str name) {
    for (ptrdiff_t i = 0; i < s->count; i++) {
        if (str_equal_nocase(s->types[i].name, name)) return &s->types[i];
    }
    struct slurm_type *t = arena_push(a, &s->types, &s->count, &s->capacity);
    *t = (struct slurm_type){.name = name};
    return t;
}

static void add_count(struct arena *a, struct slurm_type *t, struct str partition, int64_t gpus) {
    for (ptrdiff_t i = 0; i < t->count_count; i++) {
        struct slurm_node_count *c = &t->counts[i];
        if (c->gpus != gpus || !str_equal(c->partition, partition)) continue;
        c->nodes++;
        return;
    }
    *arena_push(a, &t->counts, &t->count_count, &t->count_capacity) =
        (struct slurm_node_count){partition, gpus, 1};
}

// One node in one partition.
struct row {
    bool is_first; // of its node
    bool is_up;    // the node
    bool is_open;  // the partition
    bool is_default;
    struct str partition;
};

static void add_type(struct arena *a, struct slurm *s, const struct row *row, struct str name,
                     int64_t gpus) {
    struct slurm_type *t = type_named(a, s, name);
    if (!row->is_up) {
        t->nodes_away += row->is_first;
        return;
    }
    if (row->is_first) {
        t->nodes++;
        t->gpus += gpus;
    }
    if (!row->is_open) return;
    str_list_add_new(a, &t->partitions, row->partition);
    add_count(a, t, row->partition, gpus);
    if (row->is_default) t->in_default = row->partition;
}

// "gpu:a100:4(S:0-1)", "gpu:2", "gpu:1g.10gb:7", "shard:8".
static void add_resource(struct arena *a, struct slurm *s, const struct row *row, struct str text) {
    ptrdiff_t sockets = str_find(text, STR("("));
    struct str rest = sockets < 0 ? text : str_slice(text, 0, sockets), name = {0};
    int64_t gpus = 1;
    if (!str_is(str_cut(&rest, ':'), "gpu")) return;
    struct str word = str_cut(&rest, ':');
    if (word.len > 0 && !str_to_i64(word, &gpus)) name = word;
    if (name.len > 0 && rest.p) str_to_i64(rest, &gpus);
    if (gpus > 0) add_type(a, s, row, name, gpus);
}

// Cuts at a comma that stands in no parentheses: "gpu:a100:4(S:0,2),shard:8".
static struct str cut_resource(struct str *rest) {
    struct str all = *rest;
    int depth = 0;
    for (ptrdiff_t i = 0; i < all.len; i++) {
        depth += (all.p[i] == '(') - (all.p[i] == ')');
        if (depth > 0 || all.p[i] != ',') continue;
        *rest = str_slice(all, i + 1, all.len);
        return str_slice(all, 0, i);
    }
    *rest = (struct str){0};
    return all;
}

static int bad_line(struct str line, struct fail *why) {
    fail_set(why, FAIL_MACHINE, "sinfo printed '%.*s', which is not a node", STR_ARG(line));
    return fail_hint(why, "it was asked for -h -N -o '%s'; is it Slurm's own?", SLURM_FORMAT);
}

int slurm_parse(struct arena *a, struct str text, struct slurm *ret, struct fail *why) {
    struct slurm s = {0};
    struct str last = {0};
    while (text.len > 0) {
        struct str line = str_trim(str_line(&text)), rest = line;
        if (line.len == 0) continue;
        struct str node = str_cut(&rest, '|'), partition = str_cut(&rest, '|');
        struct str starred = str_cut(&rest, '|'), open = str_cut(&rest, '|');
        struct str state = str_cut(&rest, '|');
        if (!rest.p) return bad_line(line, why);
        struct row row = {.is_first = !str_equal(node, last),
                          .is_up = is_up(state),
                          .is_open = str_is(open, "up"),
                          .is_default = str_ends(starred, STR("*")),
                          .partition = str_copy(a, partition)};
        s.nodes += row.is_first;
        last = node;
        rest = str_copy(a, rest);
        while (rest.len > 0) add_resource(a, &s, &row, cut_resource(&rest));
    }
    *ret = s;
    return 0;
}

// --- Asking --------------------------------------------------------------------------------------

static int failed(const struct os_captured *c, struct fail *why) {
    struct str said = str_trim(c->err.len > 0 ? c->err : c->out), line = str_line(&said);
    if (c->timed_out) {
        fail_set(why, FAIL_MACHINE, "sinfo did not answer in %lld s",
                 (long long)(SLURM_DEADLINE_MS / 1000));
        return fail_hint(why, "scontrol ping says whether the controller is up");
    }
    fail_set(why, FAIL_MACHINE, "sinfo failed (exit status %d)%s%.*s", c->status,
             line.len > 0 ? ": " : "", STR_ARG(line));
    return fail_hint(why, "it has to work where you submit jobs: try sinfo -N -o %%G");
}

static int none(const struct slurm *s, const char *partition, struct fail *why) {
    if (s->nodes == 0 && partition) {
        fail_set(why, FAIL_INPUT, "--partition %s: sinfo lists no node in it", partition);
        return fail_hint(why, "sinfo -s lists the partitions");
    }
    fail_set(why, FAIL_MACHINE, "none of the %lld nodes that sinfo lists has GPUs",
             (long long)s->nodes);
    return fail_hint(why, "slurm.conf needs GresTypes=gpu and Gres=gpu:TYPE:COUNT of each node, "
                          "gres.conf its devices");
}

int slurm_read(struct arena *a, const char *partition, struct slurm *ret, struct fail *why) {
    struct str_words words = {.arena = a};
    struct os_captured c;
    struct fail cause = {0};
    static const char *const asks[] = {"sinfo", "-h", "-N", "-o", SLURM_FORMAT};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) str_word_add(&words, str_of(asks[i]));
    if (partition) str_word_add(&words, str_format(a, "--partition=%s", partition));
    if (os_capture(a, words.items, SLURM_DEADLINE_MS, 64 * UNIT_MIB, &c, &cause) < 0) {
        fail_set(why, FAIL_MACHINE, "no Slurm here: %s", cause.message);
        return fail_hint(why, "--on slurm runs where jobs are submitted, and needs sinfo in PATH");
    }
    if (c.timed_out || c.status != 0) return failed(&c, why);
    int rc = slurm_parse(a, c.out, ret, why);
    if (rc < 0 || ret->count > 0) return rc;
    return none(ret, partition, why);
}

// --- What a type is ------------------------------------------------------------------------------

static bool read_digits(struct str text, ptrdiff_t *at, int64_t *ret) {
    ptrdiff_t begin = *at;
    while (*at < text.len && str_is_digit(text.p[*at])) ++*at;
    return str_to_i64(str_slice(text, begin, *at), ret);
}

static bool takes(struct str text, ptrdiff_t *at, const char *letters) {
    for (const char *p = letters; *p; p++, ++*at) {
        if (*at >= text.len || (text.p[*at] | 32) != *p) return false;
    }
    return true;
}

// "3g.20gb" at a place where no word goes on before it.
static int64_t slice_at(struct str type, ptrdiff_t at) {
    int64_t parts = 0, gb = 0;
    if (at > 0 && str_is_alnum(type.p[at - 1])) return 0;
    if (!read_digits(type, &at, &parts) || !takes(type, &at, "g") || at >= type.len) return 0;
    if (type.p[at] != '.' && type.p[at] != '_') return 0;
    at++;
    bool is_slice = read_digits(type, &at, &gb) && takes(type, &at, "gb") && gb < 10000;
    return is_slice ? gb * UNIT_GIB / 100 * 95 : 0;
}

int64_t slurm_slice_bytes(struct str type) {
    int64_t bytes = 0;
    for (ptrdiff_t i = 0; i < type.len && bytes == 0; i++)
        if (str_is_digit(type.p[i])) bytes = slice_at(type, i);
    return bytes;
}

static bool has_nodes(const struct slurm_type *type, struct str partition,
                      const struct slurm_place *place) {
    int64_t nodes = 0;
    for (ptrdiff_t i = 0; i < type->count_count; i++) {
        const struct slurm_node_count *c = &type->counts[i];
        if (c->gpus >= place->gpus && str_equal(c->partition, partition)) nodes += c->nodes;
    }
    return nodes >= place->nodes;
}

bool slurm_place(struct arena *a, const struct slurm_type *type, int64_t ranks,
                 struct slurm_place *ret) {
    for (int64_t nodes = 1; nodes <= ranks && nodes <= type->nodes; nodes++) {
        struct buf names = buf_new(a);
        struct slurm_place place = {ranks / nodes, nodes, {0}};
        bool is_default = type->in_default.len > 0 && has_nodes(type, type->in_default, &place);
        if (ranks % nodes != 0) continue;
        for (ptrdiff_t i = 0; !is_default && i < type->partitions.count; i++) {
            struct str name = type->partitions.items[i];
            if (!has_nodes(type, name, &place)) continue;
            buf_join(&names, ",", name);
        }
        if (!is_default && names.count == 0) continue;
        place.partitions = buf_str(&names);
        *ret = place;
        return true;
    }
    return false;
}
