// SPDX-License-Identifier: Apache-2.0
// Answers: bytes with their headers, counted by use. libmicrohttpd counts the uses of its own, so a
// page that is dropped while it is being sent is freed afterwards.
#include "view/http/http_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>

enum { PACKED_LEAST = 1024 }; // bytes: what is shorter is one packet anyway

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
    {"Vary", "Accept-Encoding"}, // what is long may be sent by gzip
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
    char *bytes = NULL; // the library's type is not const; it does not write
    memcpy(&bytes, &text.p, sizeof bytes);
    if (page)
        page->response = h->library.create_response_from_buffer((size_t)text.len, bytes, mode);
    if (!page || !page->response) {
        if (mode == MHD_RESPMEM_MUST_FREE) free(bytes);
        free(page);
        return NULL;
    }
    page->users = 1;
    page->status = status;
    page->text = text;
    page->type = type;
    page->cache = cache;
    http_headers(h, page->response, type, cache);
    return page;
}

struct http_page *http_page_new(struct http *h, int status, const char *type, struct str text) {
    char *bytes = malloc(text.len > 0 ? (size_t)text.len : 1);
    if (!bytes) return NULL;
    if (text.len > 0) memcpy(bytes, text.p, (size_t)text.len);
    return page_new(h, status, type, (struct str){bytes, text.len}, "no-store",
                    MHD_RESPMEM_MUST_FREE);
}

static void set_tag(struct http *h, struct http_page *page, uint64_t hash, const char *kind) {
    snprintf(page->tag, sizeof page->tag, "\"%016llx%s\"", (unsigned long long)hash, kind);
    h->library.add_response_header(page->response, "ETag", page->tag);
}

struct http_page *http_page_static(struct http *h, const char *type, struct str text) {
    struct http_page *page =
        page_new(h, MHD_HTTP_OK, type, text, "no-cache", MHD_RESPMEM_PERSISTENT);
    if (!page) return NULL;
    set_tag(h, page, str_hash(text), "");
    return page;
}

struct http_page *http_page_error(struct http *h, int status, const char *what) {
    ARENA_AUTO scratch = {0};
    struct str text = str_format(&scratch, "%d %s\n", status, what);
    return http_page_new(h, status, "text/plain; charset=utf-8", text);
}

// --- In fewer bytes ------------------------------------------------------------------------------

// The text by gzip (RFC 1952), to be freed; empty where that is hardly shorter.
static struct str packed(struct str text) {
    enum { WINDOW_OF_GZIP = MAX_WBITS + 16, MEMORY = 8 };
    z_stream z = {0};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_OF_GZIP, MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return (struct str){0};
    size_t most = (size_t)text.len / 10 * 9;
    char *bytes = malloc(most);
    z.next_in = (const Bytef *)text.p;
    z.avail_in = (uInt)text.len;
    z.next_out = (Bytef *)bytes;
    z.avail_out = bytes ? (uInt)most : 0;
    bool is_whole = bytes && deflate(&z, Z_FINISH) == Z_STREAM_END;
    ptrdiff_t count = (ptrdiff_t)z.total_out;
    deflateEnd(&z);
    if (is_whole) return (struct str){bytes, count};
    free(bytes);
    return (struct str){0};
}

static struct http_page *pack(struct http *h, const struct http_page *page) {
    struct str text = packed(page->text);
    if (text.len == 0) return NULL;
    struct http_page *made =
        page_new(h, page->status, page->type, text, page->cache, MHD_RESPMEM_MUST_FREE);
    if (!made) return NULL;
    h->library.add_response_header(made->response, "Content-Encoding", "gzip");
    if (page->tag[0]) set_tag(h, made, str_hash(page->text), "-z");
    return made;
}

struct http_page *http_page_as_taken(struct http *h, struct http_page *page, struct str accept) {
    bool is_long = page->text.len >= PACKED_LEAST && page->text.len <= INT32_MAX;
    if (!is_long || !http_accepts(accept, "gzip")) return http_page_keep(page);
    if (!page->packed) page->packed = pack(h, page);
    return http_page_keep(page->packed ? page->packed : page);
}

struct http_page *http_page_keep(struct http_page *page) {
    page->users++;
    return page;
}

void http_page_drop(struct http *h, struct http_page *page) {
    if (!page || --page->users > 0) return;
    struct http_page *same = page->packed;
    h->library.destroy_response(page->response);
    free(page);
    http_page_drop(h, same);
}
