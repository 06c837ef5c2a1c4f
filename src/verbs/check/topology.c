// SPDX-License-Identifier: Apache-2.0
// How the GPUs are joined: in a sentence where it is the same for all of them, else (and with
// --detailed) as the matrix that `nvidia-smi topo -m` prints.
#include "verbs/check/check.h"
#include "view/show/show.h"

static const struct device_topology *topology_of(const struct check *c) {
    return &c->facts.devices.topology;
}

// The word of all pairs; empty: they differ, or one is not known.
static struct str common_word(struct arena *a, const struct device_topology *t) {
    struct str all = {0};
    for (int i = 0; i < t->count; i++) {
        for (int j = 0; j < t->count; j++) {
            struct str word = device_topology_word(a, t, i, j);
            if (i == j) continue;
            if (word.len == 0 || (all.len > 0 && !str_equal(all, word))) return (struct str){0};
            all = word;
        }
    }
    return all;
}

static bool is_known(const struct device_topology *t, struct arena *a) {
    for (int i = 0; i < t->count; i++) {
        for (int j = 0; j < t->count; j++) {
            if (i != j && device_topology_word(a, t, i, j).len > 0) return true;
        }
    }
    return false;
}

static void add_matrix(struct arena *a, const struct device_topology *t, struct show_style style,
                       struct buf *out) {
    struct show_table table = show_table_new(a, STR("How the GPUs are joined"));
    show_table_column(&table, "#", SHOW_RIGHT);
    for (int j = 0; j < t->count; j++) {
        show_table_column(&table, str_format(a, "%d", t->spots[j].index).p, SHOW_RIGHT);
    }
    show_table_column(&table, "NUMA", SHOW_RIGHT);
    show_table_column(&table, "cores", SHOW_LEFT);
    for (int i = 0; i < t->count; i++) {
        const struct device_spot *s = &t->spots[i];
        show_table_format(&table, SHOW_STRONG, "%d", s->index);
        for (int j = 0; j < t->count; j++) {
            if (i == j)
                show_table_cell(&table, SHOW_DIM, STR("X"));
            else
                show_table_known(&table, SHOW_PLAIN, device_topology_word(a, t, i, j));
        }
        show_table_known(&table, SHOW_PLAIN,
                         s->numa_node >= 0 ? str_format(a, "%d", s->numa_node) : (struct str){0});
        show_table_known(&table, SHOW_PLAIN, str_of(s->cpus));
    }
    show_table_text(&table, style, out);
}

static bool is_in(struct arena *a, const struct device_topology *t, const char *word) {
    for (int i = 0; i < t->count; i++) {
        for (int j = 0; j < t->count; j++) {
            struct str is = i == j ? (struct str){0} : device_topology_word(a, t, i, j);
            if (str_is(is, word)) return true;
            if (str_starts(is, STR("NV")) && str_is(str_of(word), "NV#")) return true;
        }
    }
    return false;
}

// Of the words that are there.
static void add_legend(struct arena *a, const struct device_topology *t, struct show_style style,
                       struct buf *out) {
    struct buf b = buf_new(a);
    const char *word, *meaning;
    for (int i = 0; (meaning = device_topology_meaning(i, &word)); i++) {
        if (is_in(a, t, word)) buf_format(&b, "%s%s %s", b.count > 0 ? "; " : "", word, meaning);
    }
    show_prose(out, style, SHOW_DIM, buf_str(&b), 0, 2);
}

// "; GPUs of NUMA node 0: 0, 1; node 1: 2, 3"; empty: nothing is known, or there is but one.
static struct str nodes_text(struct arena *a, const struct device_topology *t) {
    struct buf b = buf_new(a);
    int nodes = 0, last = -1;
    for (int i = 0; i < t->count; i++) {
        int node = t->spots[i].numa_node;
        if (node < 0) return (struct str){0};
        if (node == last) {
            buf_format(&b, ", %d", t->spots[i].index);
            continue;
        }
        buf_format(&b, "; %snode %d: %d", nodes ? "" : "GPUs of NUMA ", node, t->spots[i].index);
        last = node;
        nodes++;
    }
    return nodes > 1 ? buf_str(&b) : (struct str){0};
}

void check_topology_show(const struct check *c, struct show_style style, struct buf *out) {
    const struct device_topology *t = topology_of(c);
    struct str word = common_word(c->arena, t);
    if (t->count < 2 || !is_known(t, c->arena)) return;
    if (word.len > 0 && !c->options->detailed) {
        struct str text = str_format(c->arena, "between every two GPUs: %.*s%.*s", STR_ARG(word),
                                     STR_ARG(nodes_text(c->arena, t)));
        show_prose(out, style, SHOW_PLAIN, text, 0, 2);
    } else {
        add_matrix(c->arena, t, style, out);
    }
    add_legend(c->arena, t, style, out);
    buf_byte(out, '\n');
}

static json_t *spot_json(const struct device_spot *s) {
    return json_pack("{s:i, s:o, s:o, s:i, s:i}", "card", s->index, "numa_node",
                     json_count(s->numa_node), "cpus", json_text(str_of(s->cpus)), "nvlinks_up",
                     device_topology_up(s), "nvlinks", device_topology_all(s));
}

static json_t *pair_json(struct arena *a, const struct device_topology *t, int i, int j) {
    int access = t->pairs[i][j].access;
    return json_pack("{s:[i, i], s:o, s:i, s:o}", "cards", t->spots[i].index, t->spots[j].index,
                     "joined", json_text(device_topology_word(a, t, i, j)), "nvlinks",
                     device_topology_between(t, i, j), "p2p",
                     access < 0 ? json_null() : json_boolean(access == 0));
}

json_t *check_topology_json(const struct check *c) {
    const struct device_topology *t = topology_of(c);
    json_t *cards = json_array(), *pairs = json_array();
    for (int i = 0; i < t->count; i++) {
        json_array_append_new(cards, spot_json(&t->spots[i]));
        for (int j = i + 1; j < t->count; j++) {
            json_array_append_new(pairs, pair_json(c->arena, t, i, j));
        }
    }
    return json_pack("{s:o, s:o}", "cards", cards, "pairs", pairs);
}
