// SPDX-License-Identifier: Apache-2.0
// What the verbs' --json documents have in common.
#pragma once

#include "base/fail.h"
#include "base/field.h"

#include <jansson.h>

// A string, or null for an empty view: unknown is not "".
json_t *json_text(struct str s);
json_t *json_size(int64_t value);  // null for 0 and below: not known
json_t *json_count(int64_t value); // null below 0: not known
json_t *json_number(double value); // null for NaN: not known
json_t *json_texts(const struct str_list *texts);
// A member of a record: what is unknown is null.
json_t *json_field(const void *record, const struct field *f);
// The members of a table, which ends at a row without a name: added to an object, or as one.
void json_add_fields(json_t *to, const void *record, const struct field *rows);
json_t *json_fields(const void *record, const struct field *rows);
// The other way: what the object lacks becomes unknown.
void json_read_fields(struct arena *a, const json_t *from, void *record, const struct field *rows);
// A text, a number of an object that was read: empty, NaN where it has none.
struct str json_text_at(struct arena *a, const json_t *object, const char *key);
double json_number_at(const json_t *object, const char *key);
// The text of a document, with jansson's flags. In strings also C1, what turns the direction of
// writing and what has no width are escapes. Empty: it cannot be built.
struct str json_bytes(struct arena *a, const json_t *document, size_t flags);
struct str json_take(struct arena *a, json_t *document, size_t flags); // and releases it
// Prints the document on stdout and releases it. NULL (a value that could not be built) is our bug.
int json_print(json_t *document, struct fail *why);
// The same text, in the arena.
struct str json_document(struct arena *a, json_t *document);
