// SPDX-License-Identifier: Apache-2.0
// Text in its tone, for terminals and for HTML. Foreign text cannot do more than be read: control
// characters never pass.
#include "view/show/show.h"

#include "base/out.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_utf8_locale(void) {
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (!value || !*value) continue;
        return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

struct show_style show_style_of(int fd) {
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    bool is_terminal = isatty(fd);
    bool is_dumb = !term || strcmp(term, "dumb") == 0;
    struct show_style style = {
        .utf8 = is_utf8_locale(),
        .colour = is_terminal && !is_dumb && !(no_colour && *no_colour),
    };
    struct winsize size;
    if (is_terminal && ioctl(fd, TIOCGWINSZ, &size) == 0) style.width = size.ws_col;
    return style;
}

// Bold, faint, green, yellow, red: colours of the terminal's own scheme, so light and dark both
// work.
static const char *const tone_codes[SHOW_TONES] = {"", "1", "2", "32", "33", "31"};

// Our own typography has a plain spelling of the same width. Letters are left as they are also
// where the locale does not say UTF-8: containers often have no locale, and their terminals still
// know it.
static char plain_spelling(uint32_t c) {
    static const struct {
        uint32_t c;
        char plain;
    } spellings[] = {{0x2013, '-'},  {0x2014, '-'},  {0x2026, '.'}, {0x00d7, 'x'}, {0x00b7, '.'},
                     {0x2018, '\''}, {0x2019, '\''}, {0x201c, '"'}, {0x201d, '"'}, {0x2264, '<'},
                     {0x2265, '>'},  {0x2248, '~'},  {0x00b5, 'u'}, {0x2192, '>'}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (spellings[i].c == c) return spellings[i].plain;
    }
    return 0;
}

static void add_clean(struct buf *b, struct show_style style, struct str text) {
    char form[CLEAN_FORM_MOST];
    while (text.len > 0) {
        struct str at = text, shown = clean_take(&text, form);
        char plain = style.utf8 || shown.p == form ? 0 : plain_spelling(clean_next(&at));
        if (plain)
            buf_byte(b, plain);
        else
            buf_add_raw(b, shown);
    }
}

struct str show_gpu_name(struct str name) {
    static const char *const makers[] = {"NVIDIA ", "GeForce "};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct str maker = str_of(makers[i]);
        if (str_starts(name, maker)) name = str_slice(name, maker.len, name.len);
    }
    return name;
}

void show_text(struct buf *b, struct show_style style, enum show_tone tone, struct str text) {
    bool is_coloured = style.colour && tone_codes[tone][0] && text.len > 0;
    if (is_coloured) buf_format(b, "\033[%sm", tone_codes[tone]);
    add_clean(b, style, text);
    if (is_coloured) buf_format(b, "\033[0m");
}

void show_padded(struct buf *b, struct show_style style, enum show_tone tone, struct str text,
                 int width, bool right) {
    int blanks = width - show_width(text);
    for (int i = 0; right && i < blanks; i++) buf_byte(b, ' ');
    show_text(b, style, tone, text);
    for (int i = 0; !right && i < blanks; i++) buf_byte(b, ' ');
}

void show_escaped(struct buf *b, struct str text) {
    static const struct {
        char c;
        const char *entity;
    } entities[] = {{'&', "&amp;"},  {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"},
                    {'\'', "&#39;"}, {'\n', "\n"},  {'\t', "\t"}};
    char form[CLEAN_FORM_MOST];
    while (text.len > 0) {
        char first = *text.p;
        struct str shown = clean_take(&text, form);
        for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
            if (first == entities[i].c) shown = str_of(entities[i].entity);
        }
        buf_add_raw(b, shown);
    }
}
