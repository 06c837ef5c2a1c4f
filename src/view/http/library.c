// SPDX-License-Identifier: Apache-2.0
// libmicrohttpd, loaded when a server is opened: linking it would cost every verb the start of its
// TLS libraries. Types and constants are its header's; the calls used here are those of 0.9.60 on.
#include "view/http/http_int.h"

#include <dlfcn.h>
#include <string.h>

static const char library_name[] = "libmicrohttpd.so.12"; // the same from 0.9.38 to 1.0

#define HTTP_LIBRARY_ROW(name) {"MHD_" #name, offsetof(struct http_library, name)},
static const struct symbol {
    const char *name;
    size_t offset;
} symbols[] = {HTTP_LIBRARY_CALLS(HTTP_LIBRARY_ROW)};

int http_library_load(struct http_library *ret_library, struct fail *why) {
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fail_set(why, FAIL_MACHINE, "%s is not installed; serve needs it: %s", library_name,
                 dlerror());
        return fail_hint(why, "apt install libmicrohttpd12 (newer systems: libmicrohttpd12t64; "
                              "Fedora: dnf install libmicrohttpd)");
    }
    ret_library->handle = handle;
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
