// SPDX-License-Identifier: Apache-2.0
// zstd for tapes. Text is made piece by piece with a limit, so that a small file cannot fill the
// memory; frames that ask for a window above 32 MiB are refused for the same reason.
#include "predict/tape/tape_int.h"

#include "base/data.h"

#include <string.h>
#include <zstd.h>

enum { EXPECTED_MOST = 1 << 22 }; // of text: a wrong index asks for no more at once
enum { PIECE_BYTES = 1 << 14, WINDOW_LOG_MAX = 25 };

static bool is_packed(struct str bytes) {
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd}; // RFC 8878, 3.1.1
    return bytes.len >= 4 && memcmp(bytes.p, magic, 4) == 0;
}

static void drop_context(ZSTD_DCtx **context) {
    ZSTD_freeDCtx(*context);
}
#define UNPACK_CONTEXT __attribute__((cleanup(drop_context))) ZSTD_DCtx

// What the shipped templates have in common stands once, beside them (tools/templates.py); their
// frames name it by its number. Other files need none.
static int add_dictionary(ZSTD_DCtx *context, struct str name, struct str bytes, struct fail *why) {
    const unsigned id = ZSTD_getDictID_fromFrame(bytes.p, (size_t)bytes.len);
    if (!id) return 0;
    const struct data_file *file = data_embedded("data/templates/dictionary");
    const struct str ours = file ? data_text(file) : STR("");
    if (id != ZSTD_getDictID_fromDict(ours.p, (size_t)ours.len)) {
        fail_set(why, FAIL_INPUT,
                 "%.*s: zstd cannot decompress it: its dictionary, %u, is not batchfit's",
                 STR_ARG(name), id);
        return fail_hint(why, "compress it without a dictionary");
    }
    const size_t code = ZSTD_DCtx_loadDictionary(context, ours.p, (size_t)ours.len);
    return ZSTD_isError(code) ? fail_set(why, FAIL_MACHINE, "no memory for zstd") : 0;
}

// Where decompressed text goes: the bytes from `skip` on, until `want` of them are there.
struct sink {
    struct buf text;
    int64_t skip, want;
};

static void sink_take(struct sink *s, const char *piece, int64_t len) {
    int64_t skipped = len < s->skip ? len : s->skip;
    s->skip -= skipped;
    int64_t rest = len - skipped, room = s->want - s->text.count;
    buf_add(&s->text, (struct str){piece + skipped, rest < room ? rest : room});
}

// 1: the input ended inside a frame, 0: at the end of one or the sink is full.
static int unpack_into(struct str name, struct str bytes, struct sink *sink, struct fail *why) {
    UNPACK_CONTEXT *context = ZSTD_createDCtx();
    if (!context) return fail_set(why, FAIL_MACHINE, "no memory for zstd");
    ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    int code = add_dictionary(context, name, bytes, why);
    if (code < 0) return code;
    char piece[PIECE_BYTES];
    ZSTD_inBuffer in = {bytes.p, (size_t)bytes.len, 0};
    size_t left = 1;
    for (bool more = true; more && sink->text.count < sink->want;) {
        ZSTD_outBuffer out = {piece, sizeof piece, 0};
        left = ZSTD_decompressStream(context, &out, &in);
        if (ZSTD_isError(left))
            return fail_set(why, FAIL_INPUT, "%.*s: zstd cannot decompress it: %s", STR_ARG(name),
                            ZSTD_getErrorName(left));
        sink_take(sink, piece, (int64_t)out.pos);
        // A full piece may leave text inside zstd although all input is taken.
        more = in.pos < in.size || out.pos == out.size;
    }
    return left != 0 && sink->text.count < sink->want;
}

int tape_unpack(struct arena *a, struct str name, struct str bytes, int64_t at_most, bool whole,
                struct str *ret_text, struct fail *why) {
    if (!is_packed(bytes)) {
        bool cut = bytes.len > at_most;
        if (cut && whole) {
            return fail_set(why, FAIL_INPUT, "%.*s: more than %lld bytes of text", STR_ARG(name),
                            (long long)at_most);
        }
        *ret_text = cut ? str_slice(bytes, 0, at_most) : bytes;
        return 0;
    }
    struct sink sink = {.text = buf_new(a), .want = whole ? at_most + 1 : at_most};
    int code = unpack_into(name, bytes, &sink, why);
    if (code < 0) return code;
    if (code == 1 && whole) {
        return fail_set(why, FAIL_INPUT, "%.*s: the compressed file is truncated", STR_ARG(name));
    }
    if (sink.text.count > at_most) {
        return fail_set(why, FAIL_INPUT, "%.*s: more than %lld bytes of text", STR_ARG(name),
                        (long long)at_most);
    }
    *ret_text = buf_str(&sink.text);
    return 0;
}

int tape_unpack_part(struct arena *a, struct str name, struct str bytes, int64_t offset,
                     int64_t length, struct str *ret_text, struct fail *why) {
    struct sink sink = {.text = buf_new(a), .skip = offset, .want = length};
    buf_expect(&sink.text, length < EXPECTED_MOST ? length : EXPECTED_MOST);
    if (is_packed(bytes)) {
        int code = unpack_into(name, bytes, &sink, why);
        if (code < 0) return code;
    } else {
        sink_take(&sink, bytes.p, bytes.len);
    }
    if (sink.text.count < length) {
        return fail_set(why, FAIL_INPUT, "%.*s: no %lld bytes of text at %lld", STR_ARG(name),
                        (long long)length, (long long)offset);
    }
    *ret_text = buf_str(&sink.text);
    return 0;
}
