// SPDX-License-Identifier: Apache-2.0
// A catalogue is gettext's .mo file ("The Format of GNU MO Files"): two tables of lengths and
// offsets, the sentences sorted, each ended by a zero byte.
#include "base/say_int.h"

#include "base/data.h"
#include "base/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_WORDS = 5, MAGIC_WORD = 0, COUNT_WORD = 2, FROM_WORD = 3, TO_WORD = 4 };
static const uint32_t magic = 0x950412de; // in this machine's order of bytes

static struct {
    bool is_chosen;
    const unsigned char *catalogue; // NULL: English
    int wanted;                     // SAY_OWN_AUTO within which we are
    struct say_pair *formats;       // of it, those that have figures
    ptrdiff_t format_count;
} language;

// What was made of sentences with figures. The older half is given back when the newer is full:
// nobody shows a text that long after it was said.
// PARTS_MOST: what a program said has separators without end (JSON).
enum { KEPT_BYTES = 1 << 20, DEEPEST = 8, PARTS_MOST = 100 };
static struct {
    struct arena formats, newer, older;
    ptrdiff_t bytes;
    int depth, parts;
} said;

static uint32_t word_at(const unsigned char *at) {
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

// "ko_KR.UTF-8" has the catalogue "ko", also without its ".UTF-8". Not by data_find: it can fail,
// and errors are said here.
static const unsigned char *catalogue_of(struct str locale) {
    char name[32];
    struct str rest = locale, place = str_cut(&rest, '.'), tongue = str_cut(&place, '_');
    bool writes_utf8 =
        !rest.p || str_equal_nocase(rest, STR("utf-8")) || str_equal_nocase(rest, STR("utf8"));
    if (!writes_utf8 || tongue.len == 0 || tongue.len > 8) return NULL;
    snprintf(name, sizeof name, "po/%.*s.mo", STR_ARG(tongue));
    for (int i = 0; i < data_file_count; i++) {
        const unsigned char *begin = data_files[i].begin;
        bool is_it = strcmp(data_files[i].name, name) == 0;
        if (is_it && data_files[i].end - begin >= HEADER_WORDS * 4 && word_at(begin) == magic)
            return begin;
    }
    return NULL;
}

static struct str from_environment(void) {
    static const char *const variables[] = {"LC_ALL", "LC_MESSAGES", "LANG"};
    const char *locale = NULL, *wished = getenv("LANGUAGE");
    for (size_t i = 0; i < 3 && !(locale && *locale); i++) locale = getenv(variables[i]);
    if (!locale || !*locale || str_starts(str_of(locale), STR("C")) || strcmp(locale, "POSIX") == 0)
        return (struct str){0};
    if (!wished || !*wished) return str_of(locale);
    struct str rest = str_of(wished);
    return str_cut(&rest, ':');
}

static const unsigned char *own_catalogue(void) {
    if (!language.is_chosen) language.catalogue = catalogue_of(from_environment());
    language.is_chosen = true;
    return language.catalogue;
}

static const char *translation(const unsigned char *m, const char *english) {
    const unsigned char *from = m + word_at(m + 4L * FROM_WORD),
                        *to = m + word_at(m + 4L * TO_WORD);
    uint32_t low = 0, high = word_at(m + 4L * COUNT_WORD);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp((const char *)m + word_at(from + 8L * middle + 4), english);
        if (order == 0) return (const char *)m + word_at(to + 8L * middle + 4);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return english;
}

const char *say_own(const char *english) {
    // The empty sentence is the catalogue's header.
    return *english && own_catalogue() ? translation(language.catalogue, english) : english;
}

const char *say(const char *english) {
    return language.wanted > 0 ? say_own(english) : english;
}

static void read_formats(void) {
    const unsigned char *m = language.catalogue;
    uint32_t count = word_at(m + 4L * COUNT_WORD);
    const unsigned char *from = m + word_at(m + 4L * FROM_WORD),
                        *to = m + word_at(m + 4L * TO_WORD);
    language.formats = arena_new(&said.formats, struct say_pair, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        struct say_pair p = {.english = (const char *)m + word_at(from + 8L * i + 4),
                             .own = (const char *)m + word_at(to + 8L * i + 4)};
        p.letters = say_letters(p.english);
        p.longest = say_longest(p.english);
        if (p.letters > 0) language.formats[language.format_count++] = p;
    }
}

static struct str say_piece(struct str english);
static struct str say_whole(struct str english);

// "a smaller batch + LoRA", "slower; needs a library": what is before and what is after are
// sentences, the latter perhaps with the separator.
static bool say_parts(struct str english, ptrdiff_t at, struct str separator, struct str *ret) {
    struct str head = str_slice(english, 0, at), more = str_slice(english, at, english.len);
    struct str own_head = say_piece(head), own_more = say_whole(more), own_tail = {0};
    bool is_more = own_more.p != more.p;
    if (!is_more) {
        struct str tail = str_slice(more, separator.len, more.len);
        own_tail = say_piece(tail);
        is_more = own_tail.p != tail.p;
        own_more = separator;
    }
    *ret = str_format(&said.newer, "%.*s%.*s%.*s", STR_ARG(own_head), STR_ARG(own_more),
                      STR_ARG(own_tail));
    return is_more || own_head.p != head.p;
}

static bool has_word(struct str text) {
    int letters = 0;
    for (ptrdiff_t i = 0; i < text.len && letters < 2; i++) {
        unsigned char c = (unsigned char)(text.p[i] | 0x20);
        letters = c >= 'a' && c <= 'z' ? letters + 1 : 0;
    }
    return letters >= 2;
}

// A sentence of the catalogue, with or without figures.
static struct str say_whole(struct str english) {
    char text[1024];
    struct str own = english;
    if (!has_word(english) || english.len >= (ptrdiff_t)sizeof text) return english;
    snprintf(text, sizeof text, "%.*s", STR_ARG(english));
    const char *whole = say_own(text);
    if (whole != text) return str_of(whole);
    bool is_said =
        say_matched(&said.newer, language.formats, language.format_count, english, say_piece, &own);
    return is_said ? own : english;
}

// In its parts: at the separators from the first on.
static bool say_split(struct str english, struct str *ret) {
    static const char *const separators[] = {"; ", " + ", ": ", ", "};
    enum { SEPARATORS = sizeof separators / sizeof *separators };
    for (ptrdiff_t begin = 0;;) {
        ptrdiff_t first = english.len;
        const char *chosen = NULL;
        for (int i = 0; i < SEPARATORS; i++) {
            struct str rest = str_slice(english, begin, english.len);
            ptrdiff_t at = str_find(rest, str_of(separators[i]));
            if (at < 0 || begin + at >= first) continue;
            first = begin + at;
            chosen = separators[i];
        }
        if (!chosen) return false;
        if (say_parts(english, first, str_of(chosen), ret)) return true;
        begin = first + 1;
    }
}

static struct str say_piece(struct str english) {
    if (said.depth == DEEPEST || said.parts >= PARTS_MOST || !has_word(english)) return english;
    said.depth++;
    said.parts++;
    struct str own = say_whole(english);
    bool is_said = own.p != english.p || say_split(english, &own);
    said.depth--;
    if (!is_said) return english;
    said.bytes += own.len;
    return own;
}

struct str say_str(struct str english) {
    if (language.wanted == 0 || english.len == 0 || !own_catalogue()) return english;
    if (!language.formats) read_formats();
    if (said.bytes > KEPT_BYTES) {
        arena_clear(&said.older);
        said.older = said.newer;
        said.newer = (struct arena){0};
        said.bytes = 0;
    }
    said.parts = 0;
    return say_piece(english);
}

int say_own_begin(void) {
    return ++language.wanted;
}

int say_own_keep(void) {
    return language.wanted + 1;
}

void say_own_end(const int *own) {
    language.wanted = *own - 1;
}
