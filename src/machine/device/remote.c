// SPDX-License-Identifier: Apache-2.0
// The GPUs of other machines, as their `batchfit serve` tells them (doc/formats/watch.md): each
// field of device_fields by its name there. A machine that does not answer is a GPU that is
// unreachable, with the reason, and comes back as soon as it answers.
#include "machine/device/device_int.h"

#include "base/json.h"
#include "base/os.h"
#include "base/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS INT64_C(1000000)

struct session {
    struct device_session common;
    struct remote_host hosts[REMOTE_HOSTS];
    json_t *documents[REMOTE_HOSTS]; // NULL: the newest question had no answer
    int host_count;
    struct place {
        int host, card; // card -1: the machine had not answered when it was opened
    } * places;
    ptrdiff_t place_count, place_capacity;
    int64_t asked_ns;
    const char *token;
};

// --- Answers -------------------------------------------------------------------------------------

static void take(struct remote_host *h, json_t **document) {
    struct str rest = h->answer, status = str_line(&rest);
    ptrdiff_t head = str_find(h->answer, STR("\r\n\r\n"));
    json_decref(*document);
    *document = NULL;
    if (h->answer.len == 0) return;
    if (str_find(status, STR(" 200")) < 0 || head < 0) {
        bool needs_token = str_find(status, STR(" 401")) >= 0;
        snprintf(h->reason, sizeof h->reason, "%s",
                 needs_token ? "it requires its token: set BATCHFIT_TOKEN"
                             : "it does not answer as batchfit serve does");
        return;
    }
    struct str body = str_slice(h->answer, head + 4, h->answer.len);
    *document = json_loadb(body.p, (size_t)body.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_array(json_object_get(*document, "cards"))) return;
    json_decref(*document);
    *document = NULL;
    snprintf(h->reason, sizeof h->reason, "its answer is not a snapshot of batchfit serve");
}

static void ask(struct session *s) {
    device_remote_fetch(s->hosts, s->host_count, s->token);
    for (int i = 0; i < s->host_count; i++) take(&s->hosts[i], &s->documents[i]);
    s->asked_ns = os_now_ns();
}

static const json_t *card_at(const struct session *s, const struct place *p) {
    const json_t *cards = json_object_get(s->documents[p->host], "cards");
    return json_array_get(cards, (size_t)(p->card < 0 ? 0 : p->card));
}

// --- The list ------------------------------------------------------------------------------------

// "gpu01 RTX 4090"; the maker's words cost the columns that tell the machines apart.
static struct str name_of(struct arena *a, const struct remote_host *h, const json_t *card) {
    static const char *const makers[] = {"NVIDIA ", "GeForce "};
    struct str name = str_of(json_string_value(json_object_get(card, "name")));
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct str maker = str_of(makers[i]);
        if (str_starts(name, maker)) name = str_slice(name, maker.len, name.len);
    }
    return str_format(a, "%.*s%s%.*s", STR_ARG(h->name), name.len ? " " : "", STR_ARG(name));
}

static void add_place(struct arena *a, struct session *s, int host, int card) {
    const struct place place = {host, card};
    struct device_list *list = &s->common.list;
    const json_t *object = card_at(s, &place);
    *arena_push(a, &s->places, &s->place_count, &s->place_capacity) = place;
    *arena_push(a, &list->items, &list->count, &list->capacity) = (struct device){
        .index = (int)list->count - 1,
        .name = name_of(a, &s->hosts[host], object),
        .uuid = json_text_at(a, object, "uuid"),
        .total_bytes = -1,
        .used_bytes = -1,
        .reserved_bytes = -1,
        .free_bytes = -1,
        .is_mig = json_is_true(json_object_get(object, "is_mig")),
    };
}

// A fake driver of one of them is said on the screen of all.
static void add_host(struct arena *a, struct session *s, int host) {
    const json_t *document = s->documents[host];
    int count = (int)json_array_size(json_object_get(document, "cards"));
    const char *standin = json_string_value(json_object_get(document, "standin"));
    for (int i = 0; i < count; i++) add_place(a, s, host, i);
    if (!document) add_place(a, s, host, -1);
    if (standin && s->common.list.standin.len == 0) {
        s->common.list.standin = str_format(a, "%.*s: %s", STR_ARG(s->hosts[host].name), standin);
    }
    if (!document || count > 0) return;
    struct str none = str_format(a, "%.*s: no GPU", STR_ARG(s->hosts[host].name));
    struct str *left = &s->common.list.left_out;
    *left = left->len ? str_format(a, "%.*s; %.*s", STR_ARG(*left), STR_ARG(none)) : none;
}

int device_remote_open(struct arena *a, const char *machine, struct device_session **ret_session,
                       struct fail *why) {
    struct session *s = arena_new(a, struct session, 1);
    struct str rest =
        str_slice(str_of(machine), (ptrdiff_t)strlen(DEVICE_REMOTE), (ptrdiff_t)strlen(machine));
    s->common.root = "/nowhere"; // nothing of this machine is theirs
    s->token = getenv("BATCHFIT_TOKEN");
    while (rest.p) {
        struct str word = str_cut(&rest, ' ');
        if (s->host_count == REMOTE_HOSTS)
            return fail_set(why, FAIL_USAGE, "more than %d machines", REMOTE_HOSTS);
        int rc = device_remote_read_host(a, word, &s->hosts[s->host_count], why);
        if (rc < 0) return rc;
        s->host_count++;
    }
    ask(s);
    for (int i = 0; i < s->host_count; i++) add_host(a, s, i);
    *ret_session = &s->common;
    return 0;
}

// --- Readings ------------------------------------------------------------------------------------

static void read_group(const json_t *object, const char *group, struct device_card *card) {
    const json_t *values = json_object_get(object, group);
    for (int i = 0; i < device_field_count; i++) {
        const struct device_field *field = &device_fields[i];
        if (strcmp(field->group, group) != 0) continue;
        double value = json_number_at(values, field->name);
        device_field_set(card, field, field->is_whole ? value : value / field->factor);
    }
}

static void keep(char *to, size_t size, const json_t *object, const char *key) {
    clean_keep(to, (ptrdiff_t)size, str_of(json_string_value(json_object_get(object, key))));
}

static int64_t whole_at(const json_t *object, const char *key) {
    double value = json_number_at(object, key);
    return value >= 0 && value < 0x1p60 ? (int64_t)value : -1;
}

static int kinds_of(const json_t *names) {
    const json_t *name;
    size_t i;
    int all = 0;
    json_array_foreach(names, i, name) {
        for (int k = 0; k < DEVICE_PROCESS_KINDS; k++) {
            const struct device_kind_name *known = &device_process_kinds[k];
            if (str_is(str_of(json_string_value(name)), known->name)) all |= known->kind;
        }
    }
    return all;
}

static void read_processes(const json_t *object, struct device_card *card) {
    const json_t *process, *list = json_object_get(object, "processes");
    size_t i;
    card->has_processes = json_is_array(list);
    card->process_count = 0;
    card->processes_unlisted =
        (int)json_integer_value(json_object_get(object, "processes_unlisted"));
    json_array_foreach(list, i, process) {
        if (i == DEVICE_PROCESSES) break;
        struct device_process p = device_process_unknown(whole_at(process, "pid"));
        p.kinds = kinds_of(json_object_get(process, "kinds"));
        p.used_bytes = whole_at(process, "used_bytes");
        p.host_bytes = whole_at(process, "host_bytes");
        p.utilisation = json_number_at(process, "utilisation");
        p.age_s = json_number_at(process, "age_s");
        keep(p.name, sizeof p.name, process, "name");
        keep(p.user, sizeof p.user, process, "user");
        keep(p.command, sizeof p.command, process, "command");
        card->processes[card->process_count++] = p;
    }
}

static enum device_state state_of(const json_t *object) {
    const char *name = json_string_value(json_object_get(object, "state"));
    for (int i = DEVICE_WAITS; name && i < DEVICE_STATES; i++) {
        if (strcmp(device_state_name((enum device_state)i), name) == 0) return (enum device_state)i;
    }
    return DEVICE_LOST;
}

void device_remote_sample(struct device_session *session, int place, int asked,
                          struct device_card *card) {
    struct session *s = (struct session *)session;
    const struct place *p = &s->places[place];
    const struct remote_host *h = &s->hosts[p->host];
    if (place == 0 && os_now_ns() - s->asked_ns > 50 * MS_NS) ask(s);
    const json_t *object = card_at(s, p);
    (void)asked;
    if (!object) {
        card->state = DEVICE_UNREACHABLE;
        snprintf(card->reason, sizeof card->reason, "%.*s: %s", STR_ARG(h->name),
                 h->reason[0] ? h->reason : "it no longer has this GPU");
        return;
    }
    ARENA_AUTO a = {0};
    struct str name = name_of(&a, h, object);
    clean_keep(card->facts.name, sizeof card->facts.name, name);
    card->is_unified = json_is_true(json_object_get(object, "is_unified"));
    read_group(object, "memory", card);
    read_group(object, "gauges", card);
    read_group(object, "facts", card);
    keep(card->facts.pci_bus_id, sizeof card->facts.pci_bus_id, json_object_get(object, "facts"),
         "pci_bus_id");
    keep(card->facts.vbios, sizeof card->facts.vbios, json_object_get(object, "facts"), "vbios");
    card->state = state_of(object);
    keep(card->reason, sizeof card->reason, object, "reason");
    read_processes(object, card);
}

void device_remote_join(struct device_session *session, const struct device_card *cards,
                        const int *places, struct device_topology *t) {
    (void)session;
    (void)cards;
    (void)places;
    (void)t; // their servers do not tell
}

static int place_of(const struct session *s, int host, const json_t *card) {
    for (ptrdiff_t i = 0; json_is_integer(card) && i < s->place_count; i++) {
        bool is_it = s->places[i].host == host && s->places[i].card == json_integer_value(card);
        if (is_it) return (int)i;
    }
    return -1;
}

static void tell_runs(const struct session *s, int host, json_t *runs, json_int_t *unlisted) {
    const json_t *run, *theirs = json_object_get(s->documents[host], "runs");
    size_t i;
    *unlisted += json_integer_value(json_object_get(s->documents[host], "runs_unlisted"));
    json_array_foreach(theirs, i, run) {
        json_t *copy = json_is_object(run) ? json_copy((json_t *)run) : NULL;
        int place = place_of(s, host, json_object_get(run, "card"));
        if (!copy || json_array_size(runs) == REMOTE_RUNS) {
            *unlisted += 1;
            json_decref(copy);
            continue;
        }
        json_object_set_new(copy, "host", json_text(s->hosts[host].name));
        json_object_set_new(copy, "card", json_count(place));
        json_array_append_new(runs, copy);
    }
}

void device_remote_tell(struct device_session *session, struct buf *told) {
    const struct session *s = (const struct session *)session;
    json_t *runs = json_array(), *ours = json_array();
    json_int_t unlisted = 0;
    for (int i = 0; i < s->host_count; i++) tell_runs(s, i, runs, &unlisted);
    for (ptrdiff_t i = 0; i < s->place_count; i++) {
        const json_t *memory = json_object_get(card_at(s, &s->places[i]), "memory");
        json_array_append_new(ours, json_count(whole_at(memory, "ours_bytes")));
    }
    json_t *all =
        json_pack("{s:o, s:I, s:o}", "runs", runs, "runs_unlisted", unlisted, "ours_bytes", ours);
    buf_add(told, json_take(told->arena, all, JSON_COMPACT));
}

void device_remote_close(struct device_session *session) {
    struct session *s = (struct session *)session;
    for (int i = 0; i < s->host_count; i++) {
        json_decref(s->documents[i]);
        s->documents[i] = NULL;
        arena_clear(&s->hosts[i].body);
    }
}
