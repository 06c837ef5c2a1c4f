// SPDX-License-Identifier: Apache-2.0
// libmicrohttpd, loaded when a server is opened: linking it would cost every verb the start of its
// TLS libraries. A program for any machine (-Dmicrohttpd=linked) has one without TLS inside, and
// loads the machine's where TLS is asked for. Types and constants are its header's; the calls used
// here are those of 0.9.60 on.
#include "view/http/http_int.h"

#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>

static const char library_name[] = "libmicrohttpd.so.12"; // the same from 0.9.38 to 1.0

// Of TLS; the older ones are broken.
static char versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

#define HTTP_LIBRARY_ROW(name) {"MHD_" #name, offsetof(struct http_library, name), true},
static const struct library_symbol symbols[] = {HTTP_LIBRARY_CALLS(HTTP_LIBRARY_ROW){.name = NULL}};

#ifdef HTTP_LIBRARY_LINKED
#define HTTP_LIBRARY_CALL(name) .name = MHD_##name,
static const struct http_library inside = {HTTP_LIBRARY_CALLS(HTTP_LIBRARY_CALL)};
#else
static const struct http_library inside; // none
#endif

static int load(struct http_library *ret_library, struct fail *why) {
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fail_set(why, FAIL_MACHINE, "%s is not installed; serve needs it%s: %s", library_name,
                 inside.start_daemon ? " for TLS" : "", dlerror());
        return fail_hint(why, "apt install libmicrohttpd12 (newer systems: libmicrohttpd12t64; "
                              "Fedora: dnf install libmicrohttpd)");
    }
    ret_library->handle = handle;
    const char *missing = library_find(handle, symbols, ret_library);
    if (!missing) return 0;
    dlclose(handle);
    return fail_set(why, FAIL_MACHINE, "%s has no %s: it is too old", library_name, missing);
}

int http_library_open(bool needs_tls, struct http_library *ret_library, struct fail *why) {
    *ret_library = inside;
    int rc = needs_tls || !inside.start_daemon ? load(ret_library, why) : 0;
    if (rc < 0) return rc;
    // From 1.0 on it refuses a header with a NUL by itself.
    ret_library->cuts_at_nul = str_starts(str_of(ret_library->get_version()), STR("0."));
    return 0;
}

static size_t unescape(void *context, struct MHD_Connection *connection, char *text) {
    (void)context;
    (void)connection;
    return http_unescape(text);
}

// What the library says while it starts: the first line is the reason, the rest what follows from
// it.
struct said {
    char text[256];
};
__attribute__((format(printf, 2, 0))) static void hear(void *context, const char *format,
                                                       va_list args) {
    struct said *said = context;
    if (said->text[0] == 0) vsnprintf(said->text, sizeof said->text, format, args);
}

static int tls_failed(const struct said *said, struct fail *why) {
    struct str text = str_trim(str_of(said->text));
    fail_set(why, FAIL_INPUT, "cannot use the TLS certificate with its key%s%.*s",
             text.len > 0 ? ": " : "", STR_ARG(text));
    return fail_hint(why,
                     "they belong together if these print the same: openssl x509 -in CERT -noout "
                     "-pubkey; openssl pkey -in KEY -pubout");
}

int http_library_start(struct http *h, const struct http_calls *calls, struct fail *why) {
    ARENA_AUTO a = {0};
    static struct said said; // the library keeps its address
    h->is_tls = h->options.tls_cert.len > 0;
    if (h->is_tls && h->library.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        return fail_set(why, FAIL_MACHINE, "libmicrohttpd was built without TLS on this machine");
    }
    const struct MHD_OptionItem plain[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)hear, &said},
        {MHD_OPTION_CONNECTION_LIMIT, HTTP_LINKS, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_REQUEST_BYTES, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, HTTP_IDLE_S, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)unescape, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)calls->on_connection, h},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)calls->on_completed, h},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_KEY, 0, str_z(&a, h->options.tls_key)},
        {MHD_OPTION_HTTPS_MEM_CERT, 0, str_z(&a, h->options.tls_cert)},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, versions},
        {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG | (h->is_tls ? MHD_USE_TLS : 0);
    h->daemon =
        h->library.start_daemon(flags, 0, NULL, NULL, calls->on_request, h, MHD_OPTION_ARRAY, plain,
                                h->is_tls ? MHD_OPTION_ARRAY : MHD_OPTION_END, tls, MHD_OPTION_END);
    if (h->daemon) return 0;
    if (h->is_tls) return tls_failed(&said, why);
    return fail_set(why, FAIL_MACHINE, "libmicrohttpd cannot start a server here");
}
