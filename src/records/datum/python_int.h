// SPDX-License-Identifier: Apache-2.0
// Inside of the datum room: a Python file while it is read. Nothing is run: assignments of plain
// values, dict(...) and arithmetic are followed, and what else there is makes that one name
// unknown.
#pragma once

#include "records/datum/datum_int.h"

// --- python_lex.c --------------------------------------------------------------------------------

enum token_kind {
    TOKEN_END,
    TOKEN_LINE, // the end of a logical line
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_STRING, // with its prefix and quotes
    TOKEN_SIGN,
};
struct token {
    enum token_kind kind;
    struct str text;
    int line, column;
};
struct lexer {
    struct str text;
    ptrdiff_t at, line_begin;
    int line, depth;    // of brackets: line ends inside of them mean nothing
    struct token token; // the current one
    ptrdiff_t end;      // of the token before it
    const char *fault;  // NULL: none; then the current token is TOKEN_END
    ptrdiff_t fault_at;
};
struct lexer datum_lexer_open(struct str text);
void datum_lexer_next(struct lexer *x);
bool datum_lexer_is(const struct lexer *x, const char *sign_or_name);
// What the text of a string token means. False: only the program knows (f"{x}", bytes).
bool datum_lexer_string(struct arena *a, struct str token, struct str *ret);

// --- python.c ------------------------------------------------------------------------------------

struct python_file {
    struct str path;
    struct datum *globals; // NULL: it is being read
};
struct module;
// Parts that need each other find each other here: an argument of a call is an expression, and a
// file that is imported is read as this one.
typedef struct datum *python_expr_reader(struct module *m);
struct python;
typedef struct datum *python_file_reader(struct python *py, struct datum_source source,
                                         unsigned char file, int depth, bool *ret_is_program);
struct python {
    python_file_reader *run;
    struct data data;
    struct datum_source *source;
    struct fail *why;
    int status; // of the first thing that makes all of it unreadable
    struct python_file *files;
    ptrdiff_t file_count, file_capacity;
};
struct module {
    python_expr_reader *expr;
    struct python *py;
    struct datum_source source; // name and text of this file
    unsigned char file;
    struct lexer lex;
    struct datum *globals, *imports;
    struct datum *base; // what the files in _base_ say together; NULL: there are none
    int depth;
    bool is_comprehension; // a "for" was passed over
    bool is_uncertain;     // in a block that may not run
    bool has_read_base;    // mmengine's: maps of other files are its ConfigDict
    bool is_program;
};
static inline const struct token *now(const struct module *m) {
    return &m->lex.token;
}
static inline bool is(const struct module *m, const char *sign) {
    return datum_lexer_is(&m->lex, sign);
}

// --- python_place.c ------------------------------------------------------------------------------

// Ends the reading; the module is at its end afterwards.
__attribute__((format(printf, 3, 4))) void datum_python_stop(struct module *m, ptrdiff_t at,
                                                             const char *format, ...);
void datum_python_next(struct module *m);
struct datum *datum_python_make(struct module *m, enum datum_kind kind, const struct token *at);
// Of what is written from `begin` to the token before this one.
struct datum *datum_python_unknown(struct module *m, const struct token *at, ptrdiff_t begin);
bool datum_python_at_end(const struct module *m); // of an expression
// [*more]
void datum_python_extend(struct module *m, struct datum *list, const struct datum *more);
// Up to what ends an expression, brackets passed over as a whole.
void datum_python_skip(struct module *m);
// Item or attribute; NULL: not known. `key` is a DATUM_TEXT or a DATUM_INT.
struct datum *datum_python_item(const struct datum *from, const struct datum *key);

// --- python_import.c -----------------------------------------------------------------------------

// "from ..x import *": the names go into the globals, or those of other programs into the imports.
void datum_python_import(struct module *m);
// Behind "_base_ = …": reads the files that it names.
void datum_python_bases(struct module *m, const struct datum *value);
// The values of the bases with the module's own over them.
struct datum *datum_python_merged(struct module *m);
void datum_python_merge(struct data *d, struct datum *base, const struct datum *child, int depth);

// --- python_names.c ------------------------------------------------------------------------------

// At a statement: its names in brackets, or several before "=", and those of := are not known.
void datum_python_forget_targets(struct module *m);
// At a header that may run: what stands between "for" and "in", behind "as" and before :=.
void datum_python_forget_header(struct module *m);
// At a statement of a function: "global batch_size".
void datum_python_forget_globals(struct module *m);

// --- python_number.c, python_expr.c --------------------------------------------------------------

struct datum *datum_python_expr(struct module *m);
// Several with commas between them are a tuple.
struct datum *datum_python_exprs(struct module *m);

struct datum *datum_python_binary(struct module *m, struct str sign, const struct datum *a,
                                  const struct datum *b);
struct datum *datum_python_number(struct module *m);

// --- python_program.c ----------------------------------------------------------------------------

// Of a program, which is never run: the arguments that it gives to transformers, trl, peft and
// bitsandbytes where they are plain values, as the flags of a command line would be; NULL: none.
struct datum *datum_python_program(struct python *py, struct datum_source source,
                                   const struct datum *globals);

enum truth { NO, MAYBE, YES };
struct program_block {
    int column;
    enum truth runs, taken; // itself, and any branch of its "if" so far
};
enum { PROGRAM_BLOCKS = 64 };
struct program {
    struct module *m;
    struct datum *map, *usual; // what it trains with; defaults of its own options
    struct str_list read;      // names of calls
    struct str_list loads;     // variables that from_pretrained makes
    // What the trainer gets as its model: a variable, or the model's own name.
    struct str variable;
    struct datum *name, *tokens[2]; // tokens: a tokenizer's max_length, of inputs and of targets
    enum truth adapter;             // whether anything gets one
    bool has_taker, may_quantise;
    struct token line;   // the first of the logical line
    int arguments_line;  // of the training's; 0: not met
    bool is_lost;        // there are two of them, or they are changed as a whole
    bool has_arguments;  // a call makes them
    bool loads_variable; // from_pretrained makes the trainer's variable
    bool is_frozen;      // requires_grad = False
    int call_count, model_count;
    enum truth runs; // the line
    struct program_block blocks[PROGRAM_BLOCKS];
    int block_count;
    int trained_column, class_column; // of the line that trains, or makes a class; 0: not behind it
};

// --- python_flow.c -------------------------------------------------------------------------------

// At the first word of a line: the blocks that it ends, and the one that it begins.
void datum_program_block(struct program *p, const struct token *at);
// Behind "if", up to ":" or "else".
enum truth datum_program_condition(struct program *p);
// torch.bfloat16 is a word, args.batch_size what the command line has unless it says more, and
// whether the GPU has bf16 "auto".
struct datum *datum_program_plain(struct program *p, struct datum *v);

// --- python_training.c ---------------------------------------------------------------------------

// Whether a text may be a program that trains; ret_has_arguments: it makes training arguments.
bool datum_program_may_train(struct str text, bool *ret_has_arguments);
// At a name and a bracket; last: the three tokens before. "trainer.train(": what stands behind it
// in the same block trains no more.
void datum_program_train(struct program *p, const struct token *at, const struct token *last);
void datum_program_call(struct program *p, const struct token *at, const struct token *last);
// The same, only to see what the trainer gets, and which variables are models.
void datum_program_note_model(struct program *p, const struct token *at, const struct token *last);
// os.environ["…"] = "…", at the word environ.
void datum_program_environment(struct program *p);
// Once all is read: what peft and unsloth have where nobody says it, and what is said last.
void datum_program_defaults(struct program *p);
void datum_program_frozen(struct program *p);
// Not known any more; text: what stands there.
void datum_program_forget(struct program *p, const char *key, const char *text,
                          const struct token *at);

// --- python_call.c -------------------------------------------------------------------------------

// At the opening bracket: what has a name, as a map; *ret_list gets the others.
struct datum *datum_python_arguments(struct module *m, const struct token *at,
                                     struct datum **ret_list);
// At the opening bracket. callee NULL: a function by that name.
struct datum *datum_python_call(struct module *m, struct datum *callee, struct str name,
                                const struct token *at, ptrdiff_t begin);
struct datum *datum_python_method(struct module *m, struct datum *self, struct str name,
                                  const struct token *at, ptrdiff_t begin);
// Makes an unknown value a map of which more may be known later.
void datum_python_open(struct module *m, struct datum *v);
