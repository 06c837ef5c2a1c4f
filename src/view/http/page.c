// SPDX-License-Identifier: Apache-2.0
// Answers: bytes with their headers, counted by use. libmicrohttpd counts the uses of its own, so a
// page that is dropped while it is being sent is freed afterwards.
#include "view/http/http_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// For every answer. The page loads its own script and style and asks its own server; nothing else,
// from nowhere else, and nobody else may embed or read it. Only the door has a form.
#define POLICY(form)                                                                              \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src " \
    "'self'; base-uri 'none'; form-action " form "; frame-ancestors 'none'"
static const char policy[] = POLICY("'none'"), door_policy[] = POLICY("'self'");
static const char *const guards[][2] = {
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Embedder-Policy", "require-corp"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
};

// Spelled as no other page spells it.
static const char door_type[] = "text/html;charset=utf-8";
static const char door[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
    "content=\"width=device-width\"><title>batchfit: token</title></head><body><main><h1>batchfit"
    "</h1><form action=\"/\" method=\"get\"><p><label for=\"token\">This server requires its token"
    "</label></p><p><input id=\"token\" name=\"token\" type=\"password\" required autofocus "
    "autocomplete=\"current-password\"> <button>Open</button></p></form></main></body></html>\n";

struct http_page *http_page_door(struct http *h) {
    return http_page_new(h, MHD_HTTP_UNAUTHORIZED, door_type, str_of(door));
}

void http_headers(const struct http *h, struct MHD_Response *response, const char *type,
                  const char *cache) {
    bool is_door = strcmp(type, door_type) == 0;
    h->library.add_response_header(response, "Content-Security-Policy",
                                   is_door ? door_policy : policy);
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        h->library.add_response_header(response, guards[i][0], guards[i][1]);
    }
    h->library.add_response_header(response, "Content-Type", type);
    h->library.add_response_header(response, "Cache-Control", cache);
}

static struct http_page *page_new(struct http *h, int status, const char *type, struct str text,
                                  const char *cache, enum MHD_ResponseMemoryMode mode) {
    struct http_page *page = calloc(1, sizeof *page);
    if (!page) return NULL;
    char *bytes = NULL; // the library's type is not const; it does not write
    memcpy(&bytes, &text.p, sizeof bytes);
    page->users = 1;
    page->status = status;
    page->response = h->library.create_response_from_buffer((size_t)text.len, bytes, mode);
    if (!page->response) {
        free(page);
        return NULL;
    }
    http_headers(h, page->response, type, cache);
    return page;
}

struct http_page *http_page_new(struct http *h, int status, const char *type, struct str text) {
    return page_new(h, status, type, text, "no-store", MHD_RESPMEM_MUST_COPY);
}

struct http_page *http_page_static(struct http *h, const char *type, struct str text) {
    struct http_page *page =
        page_new(h, MHD_HTTP_OK, type, text, "no-cache", MHD_RESPMEM_PERSISTENT);
    if (!page) return NULL;
    snprintf(page->tag, sizeof page->tag, "\"%016llx\"", (unsigned long long)str_hash(text));
    h->library.add_response_header(page->response, "ETag", page->tag);
    return page;
}

struct http_page *http_page_error(struct http *h, int status, const char *what) {
    ARENA_AUTO scratch = {0};
    struct str text = str_format(&scratch, "%d %s\n", status, what);
    return http_page_new(h, status, "text/plain; charset=utf-8", text);
}

struct http_page *http_page_keep(struct http_page *page) {
    page->users++;
    return page;
}

void http_page_drop(struct http *h, struct http_page *page) {
    if (!page || --page->users > 0) return;
    h->library.destroy_response(page->response);
    free(page);
}
