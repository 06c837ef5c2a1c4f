// SPDX-License-Identifier: Apache-2.0
// What makes a page live: scripts, and the data that they read.
#include "view/html/html.h"

#define ZLIB_CONST
#include <zlib.h>

void html_script(struct buf *b, const struct html_script *script) {
    buf_add(b, STR("<script>"));
    buf_add(b, script->text);
    buf_add(b, STR("</script>\n"));
}

// In JSON a "<" stands in strings only, where it can be written so that no tag begins.
void html_data(struct buf *b, const char *id, struct str json) {
    buf_format(b, "<script type=\"application/json\" id=\"%s\">", id);
    for (ptrdiff_t i = 0; i < json.len; i++) {
        if (json.p[i] == '<')
            buf_add(b, STR("\\u003c"));
        else
            buf_byte(b, json.p[i]);
    }
    buf_add(b, STR("</script>\n"));
}

static void add_base64(struct buf *b, const unsigned char *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        size_t there = count - i < 3 ? count - i : 3;
        unsigned three = (unsigned)bytes[i] << 16;
        if (there > 1) three |= (unsigned)bytes[i + 1] << 8;
        if (there > 2) three |= bytes[i + 2];
        for (size_t d = 0; d < 4; d++)
            buf_byte(b, (char)(d > there ? '=' : digits[three >> (18 - 6 * d) & 63]));
    }
}

void html_packed(struct buf *b, const char *id, struct str bytes) {
    enum { WINDOW_OF_GZIP = MAX_WBITS + 16, MEMORY = 9 };
    z_stream z = {0};
    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW_OF_GZIP, MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    uLong most = deflateBound(&z, (uLong)bytes.len);
    unsigned char *packed = arena_new(b->arena, unsigned char, (ptrdiff_t)most);
    z.next_in = (const Bytef *)bytes.p;
    z.avail_in = (uInt)bytes.len;
    z.next_out = packed;
    z.avail_out = (uInt)most;
    deflate(&z, Z_FINISH);
    buf_format(b, "<script type=\"application/gzip\" id=\"%s\">", id);
    add_base64(b, packed, (size_t)z.total_out);
    buf_add(b, STR("</script>\n"));
    deflateEnd(&z);
}
