// SPDX-License-Identifier: Apache-2.0
// Inside of the datum room: values while they are made.
#pragma once

#include "records/datum/datum.h"

// What all values of a reading are made in, and how many there are: a file of 16 MiB must not cost
// gigabytes.
struct data {
    struct arena *arena;
    int count;
};

struct datum *datum_new(struct data *d, enum datum_kind kind, int line, int column);
struct datum *datum_integer(struct data *d, int64_t value, const struct datum *at);
struct datum *datum_float(struct data *d, double value, const struct datum *at);
// The value itself, of a map and a list too, with another place.
struct datum *datum_at(struct data *d, const struct datum *v, int line, int column);
void datum_push(struct data *d, struct datum *list, struct datum *item);
// The last one wins; the pair keeps its place among the others.
struct datum_pair *datum_set(struct data *d, struct datum *map, struct str key, struct datum *value,
                             int line, int column);
// A list or map of its own with the same items.
struct datum *datum_copy(struct data *d, const struct datum *v);
// All of it, down to the scalars.
struct datum *datum_deep(struct data *d, const struct datum *v, int depth);

int datum_too_many(const struct datum_source *s, struct fail *why); // FAIL_INPUT

// Digits of base 16 only; of at most 8.
bool datum_text_hex(struct str digits, uint32_t *ret);
void datum_text_utf8(struct buf *b, uint32_t character);
