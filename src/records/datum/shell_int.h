// SPDX-License-Identifier: Apache-2.0
// Inside of the datum room: a shell script as it is read, one character after the other. What is
// set in an if or a loop, comes from the environment or from another command is unknown.
#pragma once

#include "records/datum/datum_int.h"

enum { SHELL_WORDS_MAX = 100 * 1000 };

// The words of NAME=value, or of NAME=(a b c).
struct shell_variable {
    struct str name;
    struct shell_word *words;
    ptrdiff_t count, capacity;
    bool has_flags; // in some case other than that of the words
    bool is_exported;
    bool is_inside, is_changed; // first set in the function that is read; set outside, and in it
};
struct shell_here { // the word that ends a text behind <<, or <<-
    struct str word;
    bool has_tabs;
};
struct shell {
    struct arena *arena;
    struct datum_source *source;
    struct str text;
    ptrdiff_t at, line_begin;
    int line, depth; // of if, for, while, case
    int brackets;    // of commands that are open
    struct shell_commands *commands;
    struct shell_command command; // so far
    struct shell_variable *variables;
    ptrdiff_t variable_count, variable_capacity;
    struct shell_here *heres; // of this line
    ptrdiff_t here_count, here_capacity;
    uint64_t groups;  // that are open, one bit each: whether "{" begins a function's body
    int functions;    // of them
    bool awaits_body; // behind NAME()
    ptrdiff_t words;  // of all commands
    struct buf word;
    struct shell_word made;          // the word that is being read; text is in `word`
    bool has_word, in_list, may_run; // behind && and ||
};

static inline char shell_peek(const struct shell *s, ptrdiff_t ahead) {
    return s->at + ahead < s->text.len ? s->text.p[s->at + ahead] : 0;
}

static inline bool shell_is_name(char c) {
    return str_is_alnum(c) || c == '_';
}

// shell_word.c: one word, from its first character to its last.

struct shell_variable *datum_shell_variable(struct shell *s, struct str name); // NULL: not set
// "NAME=…", "NAME+=…": where the sign of equality is, whatever is put into its quotes; -1: it is
// none.
ptrdiff_t datum_shell_assigns(struct str text);
bool datum_shell_holds_flags(const struct shell_variable *v, bool is_sure);
void datum_shell_begin_word(struct shell *s);
void datum_shell_end_word(struct shell *s);
// A word that stands elsewhere, from another place on: its gaps are as far from there.
void datum_shell_move_gaps(struct shell *s, struct shell_word *w, const struct shell_word *from,
                           ptrdiff_t by);
void datum_shell_take_dollar(struct shell *s, bool is_quoted);
void datum_shell_take_backticks(struct shell *s);
// FAIL_INPUT: they are never closed.
int datum_shell_take_quotes(struct shell *s, struct fail *why);

// shell_set.c: the variables.

// NAME=value; more: of NAME=(a b c).
void datum_shell_set(struct shell *s, const struct shell_word *w, const struct shell_word *more,
                     ptrdiff_t count);
bool datum_shell_declare(struct shell *s, const struct shell_command *c);
void datum_shell_builtin(struct shell *s, const struct shell_command *c);
bool datum_shell_arithmetic(struct shell *s);
bool datum_shell_is_body(struct shell *s);
void datum_shell_body(struct shell *s, bool opens);

// shell_job.c: what "#SBATCH --nodes=4" asks of Slurm, 0 where it does not say; and as the
// variables that Slurm sets by it, NAME=value in lines.

void datum_shell_job(struct str text, struct shell_job *ret);
struct str datum_shell_job_variables(struct arena *a, const struct shell_job *j);
