// SPDX-License-Identifier: Apache-2.0
// libpq, loaded when an address is opened: who has no server needs no library of it. Types and
// constants are its header's; the calls used here are those of PostgreSQL 9.1 on.
#include "records/store/link_int.h"

#include <dlfcn.h>
#include <string.h>

static const char library_name[] = "libpq.so.5"; // the same since PostgreSQL 8.2

#define ROW(name) {"PQ" #name, offsetof(struct store_libpq, name)},
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {STORE_LIBPQ_CALLS(ROW)};

int store_libpq_load(struct store_libpq *ret_library, struct fail *why) {
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fail_set(why, FAIL_MACHINE, "%s is not installed; a history in PostgreSQL needs it: %s",
                 library_name, dlerror());
        return fail_hint(why, "apt install libpq5 (Fedora: dnf install libpq)");
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            dlclose(handle);
            return fail_set(why, FAIL_MACHINE, "%s has no %s: it is too old", library_name,
                            symbols[i].name);
        }
        memcpy((char *)ret_library + symbols[i].offset, &address, sizeof address);
    }
    return 0;
}
