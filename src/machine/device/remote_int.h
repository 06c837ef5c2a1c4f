// SPDX-License-Identifier: Apache-2.0
// Other machines, by the HTTP API of their `batchfit serve`.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// One that was silent is left alone for a while: the others are not to wait for it each time.
enum { REMOTE_RUNS = 64 }; // of all machines together
enum { REMOTE_HOSTS = 16, REMOTE_DEADLINE_MS = 2000, REMOTE_REST_MS = 10000 };

struct remote_host {
    struct str name; // as the user wrote it, without scheme and path
    const char *address, *port;
    struct arena body; // of the newest answer
    struct str answer; // what came back, with its head; empty: nothing
    char reason[120];  // why nothing did
    int64_t again_ns;  // not before then
};

// "gpu01", "gpu01:8080", "http://[::1]:8080/". FAIL_USAGE.
int device_remote_read_host(struct arena *a, struct str text, struct remote_host *ret_host,
                            struct fail *why);
// GET /api/v1/snapshot of all of them at once, within the deadline. `token` may be NULL.
void device_remote_fetch(struct remote_host *hosts, int count, const char *token);
