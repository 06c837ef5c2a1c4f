// SPDX-License-Identifier: Apache-2.0
// Any text as a Python, TOML or shell config, and as a file that it is made of: no crash, no hang,
// every refusal has a reason, nothing is ever written, and the advice is of lines.
//
// Input: the format; then the text. In a Python config what follows "\n#---\n" is its base.
#include "fuzz.h"

#include "records/config/config.h"

#include <stdlib.h>

static int load(void *self, struct arena *a, struct str path, struct str *ret_text,
                struct fail *why) {
    (void)a;
    *ret_text = *(const struct str *)self;
    return path.len % 3 == 0 ? fail_set(why, FAIL_INPUT, "there is no such file") : 0;
}

static int said(int status, const struct fail *why) {
    if (status && (!why->message[0] || why->code == FAIL_BUG)) abort();
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"c/d.py", "d.toml", "d.sh"};
    if (size < 1) return 0;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct config_batches b;
    struct config_edits edits;
    struct config_patched patched;
    struct fail why = {0};
    struct str text = {(const char *)data + 1, (ptrdiff_t)size - 1}, rest = STR("batch_size = 4\n");
    const ptrdiff_t cut = str_find(text, STR("\n#---\n"));
    if (cut >= 0) {
        rest = str_slice(text, cut + 6, text.len);
        text = str_slice(text, 0, cut + 1);
    }
    const struct datum_loader loader = {.read = load, .self = &rest};
    if (said(config_parse_with(&a, str_of(names[data[0] % 3]), text, &loader, &c, &why), &why))
        return 0;
    if (said(config_read_roles(&a, &c, NULL, &r, &why), &why)) return 0;
    said(config_batches(&a, &r, 0, &b, &why), &why);
    const struct config_change change = {.batch = 4, .accumulation = 2, .precision = STR("bf16")};
    if (!said(config_fit(&a, &c, &r, &change, &edits, &why), &why)) abort();
    const struct config_edit edit = {.path = STR("batch_size"), .value = STR("3")};
    if (!said(config_patch(&a, &c, &edit, 1, ~0u, &patched, &why), &why)) abort();
    const struct str advice = config_advice(&a, &r, &change);
    if (advice.len > 0 && advice.p[advice.len - 1] != '\n') abort();
    return 0;
}
