// SPDX-License-Identifier: Apache-2.0
// A shell script's commands: what stands between its line ends, semicolons and pipes, without the
// shell's own words, and the variables that it sets.
#include "records/datum/shell_int.h"

#include <string.h>

static void drop_word(struct shell_command *c) {
    memmove(c->words, c->words + 1, (size_t)(c->count - 1) * sizeof *c->words);
    c->count--;
}

// "for x in 1 2 3": x is unknown.
static void loop(struct shell *s, const struct shell_command *c) {
    if (c->count < 2) return;
    const struct shell_word w = {.text = str_format(s->arena, "%.*s=", STR_ARG(c->words[1].text)),
                                 .is_known = false};
    if (datum_shell_assigns(w.text) > 0) datum_shell_set(s, &w, NULL, 0);
}

// The words of the shell itself in front of a command. False: there is no command left.
static bool strip(struct shell *s, struct shell_command *c) {
    static const char *const opens[] = {"if", "while", "until", "case", "for", "select", NULL};
    static const char *const closes[] = {"fi", "done", "esac", NULL};
    static const char *const others[] = {"then", "else",  "elif", "do",  "!",
                                         "time", "nohup", "exec", "env", NULL};
    while (c->count > 0 && !c->words[0].is_quoted) {
        const struct str first = c->words[0].text;
        if (str_is_one_of(first, opens)) {
            s->depth++;
            if (str_is(first, "for") || str_is(first, "select")) {
                loop(s, c);
                return false;
            }
        } else if (str_is_one_of(first, closes)) {
            s->depth -= s->depth > 0;
        } else if (datum_shell_declare(s, c)) {
            return false;
        } else if (str_is(first, "function")) {
            drop_word(c); // and its name
            s->awaits_body = true;
            if (c->count == 0) return false;
        } else if (str_is(first, "{") || str_is(first, "}")) {
            datum_shell_body(s, first.p[0] == '{');
        } else if (!str_is_one_of(first, others)) {
            return true;
        }
        drop_word(c);
    }
    return c->count > 0;
}

// What the command has of that name: in front of it, or by "export" of the script. No text:
// nothing.
static struct shell_word environment_of(struct shell *s, const struct shell_command *c,
                                        const char *name) {
    const struct shell_variable *v = datum_shell_variable(s, str_of(name));
    struct shell_word found = {0};
    if (v && v->is_exported && v->count == 1) found = v->words[0];
    for (ptrdiff_t i = 0; i < c->environment_count; i++) {
        struct str value = c->environment[i].text;
        if (!str_is(str_cut(&value, '='), name)) continue;
        found = c->environment[i];
        found.text = value;
    }
    return found;
}

static void add_environment(struct shell *s, struct shell_command *c) {
    static const char *const allocator[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
    c->visible = environment_of(s, c, "CUDA_VISIBLE_DEVICES");
    c->processes = environment_of(s, c, "NPROC_PER_NODE");
    c->machines = environment_of(s, c, "NNODES");
    for (int i = 0; i < 2 && c->allocator.text.len == 0; i++) // by the name of either time
        c->allocator = environment_of(s, c, allocator[i]);
}

static void end_command(struct shell *s) {
    datum_shell_end_word(s);
    struct shell_command c = s->command;
    s->command = (struct shell_command){0};
    if (c.count == 0 || !strip(s, &c)) return;
    ptrdiff_t i = 0;
    while (i < c.count && datum_shell_assigns(c.words[i].text) > 0) i++;
    if (i < c.count) { // variables in front of a command are the command's alone
        c.environment = c.words;
        c.environment_count = i;
        c.words += i;
        c.count -= i;
        c.capacity = c.count;
        add_environment(s, &c);
        datum_shell_builtin(s, &c);
        *arena_push(s->arena, &s->commands->items, &s->commands->count, &s->commands->capacity) = c;
        return;
    }
    for (i = 0; i < c.count; i++) datum_shell_set(s, &c.words[i], NULL, 0);
}

// "case $1 in --batch_size)": what stands in front of the bracket is no command.
static void end_pattern(struct shell *s) {
    datum_shell_end_word(s);
    s->depth += s->command.count > 0 && str_is(s->command.words[0].text, "case");
    s->command = (struct shell_command){0};
}

// "NAME=(": its words, up to the bracket that closes it.
static int take_list(struct shell *s, struct fail *why);

// The body of "read -r -d '' NAME <<EOF": its words, of which only the shell knows those with a $.
static void read_here(struct shell *s, struct str body, int line) {
    const ptrdiff_t count = s->commands->count;
    const struct shell_command *c = count > 0 ? &s->commands->items[count - 1] : NULL;
    struct shell_command words = {0};
    if (!c || c->count < 2 || !str_is(c->words[0].text, "read")) return;
    const struct shell_word name = {
        .text = str_format(s->arena, "%.*s=", STR_ARG(c->words[c->count - 1].text))};
    if (datum_shell_assigns(name.text) <= 0) return;
    for (; body.len > 0; line++) {
        struct str rest = str_line(&body);
        while (rest.len > 0 && words.count < SHELL_WORDS_MAX - s->words) {
            const struct str text = str_trim(str_cut(&rest, ' '));
            if (text.len == 0 || str_is(text, "\\")) continue;
            const bool is_known = str_find(text, STR("$")) < 0 && str_find(text, STR("`")) < 0;
            *arena_push(s->arena, &words.words, &words.count, &words.capacity) =
                (struct shell_word){.text = text, .line = line, .column = 1, .is_known = is_known};
        }
    }
    if (words.count > 0) datum_shell_set(s, &name, words.words, words.count);
}

// The text behind <<WORD, up to the line that is the word; <<- has tabs in front of it.
static void pass_here(struct shell *s, const struct shell_here *here) {
    const struct str all = str_slice(s->text, s->at, s->text.len);
    const int first = s->line;
    ptrdiff_t end = 0;
    struct str rest = all;
    while (rest.len > 0) {
        struct str line = str_line(&rest);
        s->at = rest.p ? rest.p - s->text.p : s->text.len;
        s->line++;
        while (here->has_tabs && str_starts(line, STR("\t"))) line = str_slice(line, 1, line.len);
        if (str_equal(line, here->word)) break;
        end = rest.p ? s->at - (all.p - s->text.p) : all.len;
        if (!rest.p) break;
    }
    read_here(s, str_slice(all, 0, end), first);
    if (!rest.p) s->at = s->text.len;
    s->line_begin = s->at;
}

static void end_line(struct shell *s) {
    s->at++;
    s->line++;
    s->line_begin = s->at;
    for (ptrdiff_t i = 0; i < s->here_count; i++) pass_here(s, &s->heres[i]);
    s->here_count = 0;
}

// A backslash at a line's end, which is nothing: what stands on both sides may be one word.
static bool continues(struct shell *s) {
    const bool has_return = shell_peek(s, 1) == '\r' && shell_peek(s, 2) == '\n';
    if (shell_peek(s, 0) != '\\' || !(has_return || shell_peek(s, 1) == '\n')) return false;
    s->at += has_return ? 3 : 2;
    s->line++;
    s->line_begin = s->at;
    return true;
}

// "2>&1": the number in front is a file's, no word.
static bool is_of_file(const struct shell *s) {
    bool is_number = s->has_word && !s->made.is_quoted && s->made.is_known && s->word.count > 0;
    for (ptrdiff_t i = 0; is_number && i < s->word.count; i++)
        is_number = str_is_digit(s->word.items[i]);
    return is_number;
}

// One character of a word, or what it begins there.
static int take_character(struct shell *s, struct fail *why) {
    const char c = shell_peek(s, 0);
    datum_shell_begin_word(s);
    if (c == '\'' || c == '"') return datum_shell_take_quotes(s, why);
    if (c == '$') {
        datum_shell_take_dollar(s, false);
    } else if (c == '`') {
        datum_shell_take_backticks(s);
    } else {
        s->at += c == '\\' && s->at + 1 < s->text.len;
        buf_byte(&s->word, s->text.p[s->at++]);
    }
    return 0;
}

// "<<EOF", "<<-'EOF'", "> file", "2>&1", "<<< "$text"": its word is none of the command's.
static int redirection(struct shell *s, struct fail *why) {
    if (is_of_file(s)) s->has_word = false;
    const bool is_here =
        shell_peek(s, 0) == '<' && shell_peek(s, 1) == '<' && shell_peek(s, 2) != '<';
    const bool has_tabs = is_here && shell_peek(s, 2) == '-';
    datum_shell_end_word(s);
    while (shell_peek(s, 0) && strchr("<>&-|", shell_peek(s, 0))) s->at++;
    while (shell_peek(s, 0) == ' ' || shell_peek(s, 0) == '\t') s->at++;
    const ptrdiff_t count = s->command.count;
    int status = 0;
    while (s->at < s->text.len && !strchr(" \t\r\n;&|<>()", shell_peek(s, 0)) && !status)
        status = continues(s) ? 0 : take_character(s, why);
    if (is_here && s->has_word)
        *arena_push(s->arena, &s->heres, &s->here_count, &s->here_capacity) =
            (struct shell_here){buf_str(&s->word), has_tabs};
    s->has_word = false;
    s->command.count = count; // "$FILE" of several words
    return status;
}

static void open_bracket(struct shell *s) {
    s->brackets++;
    s->may_run = false;
    s->at++;
}

// One character, or what it begins. 1: a bracket has closed a list.
static int step(struct shell *s, struct fail *why) {
    const char c = shell_peek(s, 0);
    if (continues(s)) return 0;
    if (c == ' ' || c == '\t' || c == '\r') {
        datum_shell_end_word(s);
        s->at++;
    } else if (c == '#' && !s->has_word) {
        while (s->at < s->text.len && shell_peek(s, 0) != '\n') s->at++;
    } else if (c == '\n') {
        s->in_list ? datum_shell_end_word(s) : end_command(s);
        if (!s->in_list) s->may_run = false;
        end_line(s);
    } else if (c == '(' && s->has_word && s->word.count > 0 &&
               s->word.items[s->word.count - 1] == '=') {
        return take_list(s, why);
    } else if (c == ')' && s->in_list) {
        datum_shell_end_word(s);
        s->at++;
        return 1;
    } else if (c == '(' && !s->in_list && datum_shell_is_body(s)) {
        s->command = (struct shell_command){0};
    } else if (c == '(' && !s->in_list && !s->has_word && shell_peek(s, 1) == '(') {
        end_command(s);
        if (!datum_shell_arithmetic(s)) open_bracket(s);
    } else if (strchr(";&|()", c)) {
        const bool is_chain = (c == '&' || c == '|') && shell_peek(s, 1) == c;
        if (c == ')' && !s->in_list && s->brackets == 0)
            end_pattern(s);
        else
            s->in_list ? datum_shell_end_word(s) : end_command(s);
        if (!s->in_list) s->brackets += (c == '(') - (c == ')' && s->brackets > 0);
        if (!s->in_list) s->may_run = is_chain;
        s->at += 1 + is_chain;
    } else if (c == '<' || c == '>') {
        return redirection(s, why);
    } else {
        return take_character(s, why);
    }
    return 0;
}

static int take_list(struct shell *s, struct fail *why) {
    const ptrdiff_t begin = s->at++;
    if (s->in_list)
        return datum_source_fail(s->source, begin, why,
                                 "a list in a list, expected a shell script");
    datum_shell_end_word(s);
    const ptrdiff_t first = s->command.count;
    s->in_list = true;
    int status = 0;
    while (s->at < s->text.len && status == 0 && s->words < SHELL_WORDS_MAX) status = step(s, why);
    s->in_list = false;
    if (status < 0) return status;
    const struct shell_word name = s->command.words[first - 1];
    if (datum_shell_assigns(name.text) > 0)
        datum_shell_set(s, &name, s->command.words + first, s->command.count - first);
    s->command.count = first - 1;
    return 0;
}

int datum_shell_commands(struct arena *a, struct datum_source *source, struct shell_commands *ret,
                         struct fail *why) {
    struct shell s = {.arena = a, .source = source, .line = 1, .commands = ret};
    datum_shell_job(source->text, &ret->job);
    s.text = datum_shell_job_variables(a, &ret->job);
    while (s.at < s.text.len && step(&s, why) == 0) continue;
    s.text = source->text;
    s.at = s.line_begin = 0;
    s.line = 1;
    while (s.at < s.text.len) {
        const int status = step(&s, why);
        if (status < 0) return status;
        if (s.words >= SHELL_WORDS_MAX)
            return fail_set(why, FAIL_INPUT,
                            "%.*s:1:1: more than %d words, expected a shell script",
                            STR_ARG(source->name), SHELL_WORDS_MAX);
    }
    end_command(&s);
    return 0;
}

void datum_shell_note_sourced(struct arena *a, struct datum_source *source,
                              const struct shell_commands *all) {
    static const char *const tools[] = {"activate", "conda",   "bashrc", "profile",
                                        "/etc/",    "modules", "venv",   NULL};
    for (ptrdiff_t i = 0; i < all->count; i++) {
        const struct shell_command *c = &all->items[i];
        const bool is_sourced =
            c->count > 1 && (str_is(c->words[0].text, "source") || str_is(c->words[0].text, "."));
        if (is_sourced && !str_has_one_of(c->words[1].text, tools))
            str_list_format(a, &source->notes,
                            "%.*s (line %d): not read: what it sets is not known",
                            STR_ARG(c->words[1].text), c->line);
    }
}
