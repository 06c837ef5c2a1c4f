// SPDX-License-Identifier: Apache-2.0
// What people read, in their language: gettext's marked sentences and catalogues (po/LANGUAGE.po,
// msgfmt at build), embedded. The lookup is ours and not libc's, which knows no language whose
// locale was not generated, as in most containers, and wants the catalogue beside the program.
//
// Documents, files and logs stay English, and are made by the same functions as what people read:
// so a sentence is English unless it is made within a SAY_OWN_AUTO.
#pragma once

#include "base/str.h"

// The translation while one is wanted, else the sentence itself. Formats keep their specifiers.
__attribute__((format_arg(1))) const char *say(const char *english);
// A text that another place has made: known as a whole, by the format that it was made with
// (say_match.c), or in its parts. Tables and prose (view/show) say their names, cells and
// paragraphs through it. What it gives is to be shown soon: it keeps about a megabyte.
struct str say_str(struct str english);
#define _(english) say(english)

// The same whether it is wanted or not: for errors and --help, which nobody else reads.
__attribute__((format_arg(1))) const char *say_own(const char *english);

// Until the end of the block sentences are in the language of LC_ALL, LC_MESSAGES or LANG (LANGUAGE
// chooses another), where it writes UTF-8.
#define SAY_OWN_AUTO __attribute__((cleanup(say_own_end), unused)) int own = say_own_begin()
// The same where the condition holds, as it is elsewhere.
#define SAY_OWN_IF(condition)                               \
    __attribute__((cleanup(say_own_end), unused)) int own = \
        (condition) ? say_own_begin() : say_own_keep()
int say_own_begin(void);
int say_own_keep(void);
void say_own_end(const int *own);
