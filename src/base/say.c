// SPDX-License-Identifier: Apache-2.0
// A catalogue is gettext's .mo file ("The Format of GNU MO Files"): two tables of lengths and
// offsets, the sentences sorted, each ended by a zero byte.
#include "base/say.h"

#include "base/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_WORDS = 5, MAGIC_WORD = 0, COUNT_WORD = 2, FROM_WORD = 3, TO_WORD = 4 };
static const uint32_t magic = 0x950412de; // in this machine's order of bytes

static struct {
    bool is_chosen;
    const unsigned char *catalogue; // NULL: English
    int wanted;                     // SAY_OWN_AUTO within which we are
} language;

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

struct str say_str(struct str english) {
    char text[512];
    if (language.wanted == 0 || english.len == 0 || english.len >= (ptrdiff_t)sizeof text)
        return english;
    snprintf(text, sizeof text, "%.*s", STR_ARG(english));
    const char *own = say_own(text);
    return own == text ? english : str_of(own);
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
