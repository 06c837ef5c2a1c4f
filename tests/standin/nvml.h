// SPDX-License-Identifier: Apache-2.0
// What the parts of the fake driver share.
#ifndef STANDIN_NVML_H
#define STANDIN_NVML_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

// nvmlReturn_t, NVML 13.3.
enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    LIBRARY_NOT_FOUND = 12,
    VERSION_MISMATCH = 25,
};

#define EXPORT __attribute__((visibility("default")))
#define SHARED __attribute__((visibility("hidden")))

SHARED const json_t *standin_machine(void); // NULL: not started
// What is noted for this call of this GPU (or of the machine): waits, and returns the code.
SHARED int standin_play(const json_t *object, const char *function);
// The last sample that has been reached and mentions the key of this group (NULL: the group
// itself), else the GPU's own.
SHARED const json_t *standin_newest(const json_t *device, const char *group, const char *key);
// The value now: the last of the GPU's samples that mentions the key, else the GPU's own. Not
// known: NULL.
SHARED const json_t *standin_value(const json_t *device, const char *group, const char *key);
// The same as a number, counters going on by their rate ("per_second").
SHARED int standin_number(const json_t *device, const char *group, const char *key, int64_t *ret);
SHARED const json_t *standin_card(const json_t *instance); // NULL: it is a GPU itself
SHARED int standin_text(const json_t *object, const char *key, char *text, unsigned size);

#endif
