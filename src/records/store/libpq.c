// SPDX-License-Identifier: Apache-2.0
// libpq, loaded when an address is opened: who has no server needs no library of it. Types and
// constants are its header's; the calls used here are those of PostgreSQL 9.1 on.
#include "records/store/link_int.h"

#include "base/library.h"

#include <dlfcn.h>

static const char library_name[] = "libpq.so.5"; // the same since PostgreSQL 8.2

#define ROW(name) {"PQ" #name, offsetof(struct store_libpq, name), true},
static const struct library_symbol symbols[] = {STORE_LIBPQ_CALLS(ROW){.name = NULL}};

int store_libpq_load(struct store_libpq *ret_library, struct fail *why) {
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fail_set(why, FAIL_MACHINE, "%s is not installed; a history in PostgreSQL needs it: %s",
                 library_name, dlerror());
        return fail_hint(why, "apt install libpq5 (Fedora: dnf install libpq)");
    }
    const char *missing = library_find(handle, symbols, ret_library);
    if (!missing) return 0;
    dlclose(handle);
    return fail_set(why, FAIL_MACHINE, "%s has no %s: it is too old", library_name, missing);
}
