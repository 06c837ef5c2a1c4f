// SPDX-License-Identifier: Apache-2.0
// Which PyTorch a Python has, by the files that it imports from: in a millisecond, where importing
// takes seconds. The folders are those of CPython's getpath and site modules (3.6 to 3.14),
// Debian's and the environments of venv, virtualenv, uv and conda among them. Refuses, so that
// Python is asked, what cannot be known so: a Python that is a script, has its library in an
// unusual place or is told by $PYTHONHOME, and a torch that is linked from elsewhere. What lines of
// code in .pth files and sitecustomize add is not seen: the answer says that nobody was asked.
#include "verbs/check/check.h"

#include "measure/launch/launch.h"

#include <stdlib.h>
#include <unistd.h>

enum { READ_MAX = 1 << 16, DEPTH_MAX = 4 };

struct site {
    struct arena *arena;
    struct str program; // whole path, links not followed
    struct str real;    // followed
    struct str version; // "3.11"
    struct str_list folders;
};

static bool is_there(struct arena *a, struct str folder, const char *name) {
    return os_exists(str_format(a, "%.*s/%s", STR_ARG(folder), name).p);
}

static void add_folder(struct site *s, struct str folder, int depth);

// The lines of a .pth file that are folders (site.addpackage).
static void add_linked(struct site *s, struct str folder, struct str name, int depth) {
    struct str path = str_format(s->arena, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
    struct str text = os_read_below(s->arena, "", path.p, READ_MAX);
    while (text.p) {
        struct str line = str_trim(str_line(&text));
        if (line.len == 0 || line.p[0] == '#' || str_starts(line, STR("import"))) continue;
        bool is_whole = line.p[0] == '/';
        add_folder(
            s, is_whole ? line : str_format(s->arena, "%.*s/%.*s", STR_ARG(folder), STR_ARG(line)),
            depth);
    }
}

static void add_folder(struct site *s, struct str folder, int depth) {
    struct str *names;
    ptrdiff_t count;
    struct fail why = {0};
    if (str_list_has(&s->folders, folder) || !os_exists(str_z(s->arena, folder))) return;
    str_list_add(s->arena, &s->folders, str_copy(s->arena, folder));
    if (depth >= DEPTH_MAX) return;
    if (os_list(s->arena, str_z(s->arena, folder), ".pth", &names, &count, &why) < 0) return;
    for (ptrdiff_t i = 0; i < count; i++) add_linked(s, folder, names[i], depth + 1);
}

static void add_user_folder(struct site *s) {
    const char *base = getenv("PYTHONUSERBASE"), *home = getenv("HOME"),
               *no = getenv("PYTHONNOUSERSITE");
    if ((no && *no) || !((base && *base) || (home && *home))) return;
    add_folder(s,
               str_format(s->arena, "%s%s/lib/python%.*s/site-packages",
                          base && *base ? base : home, base && *base ? "" : "/.local",
                          STR_ARG(s->version)),
               0);
}

// Those of a Python that is no virtual environment.
static bool add_base(struct site *s, struct str prefix) {
    struct arena *a = s->arena;
    struct str lib = str_format(a, "%.*s/lib/python%.*s", STR_ARG(prefix), STR_ARG(s->version));
    if (!is_there(a, lib, "os.py")) return false;
    add_user_folder(s);
    add_folder(s, str_format(a, "%.*s/site-packages", STR_ARG(lib)), 0);
    if (!str_is(prefix, "/usr") || !os_exists("/usr/lib/python3/dist-packages")) return true;
    add_folder(s, str_format(a, "/usr/local/lib/python%.*s/dist-packages", STR_ARG(s->version)), 0);
    add_folder(s, STR("/usr/lib/python3/dist-packages"), 0);
    add_folder(s, str_format(a, "%.*s/dist-packages", STR_ARG(lib)), 0);
    return true;
}

static bool takes_system(struct str settings) {
    while (settings.p) {
        struct str line = str_line(&settings), key = str_trim(str_cut(&line, '='));
        if (str_is(key, "include-system-site-packages")) {
            return str_equal_nocase(str_trim(line), STR("true"));
        }
    }
    return false;
}

// pyvenv.cfg is beside the program or one folder up.
static bool add_environment(struct site *s) {
    struct arena *a = s->arena;
    struct str folder = os_parent(s->program), above = os_parent(folder);
    struct str base = os_parent(os_parent(s->real));
    const bool beside = is_there(a, folder, "pyvenv.cfg");
    if (!beside && !is_there(a, above, "pyvenv.cfg")) return add_base(s, base);
    struct str root = beside ? folder : above;
    struct str path = str_format(a, "%.*s/pyvenv.cfg", STR_ARG(root));
    add_folder(
        s, str_format(a, "%.*s/lib/python%.*s/site-packages", STR_ARG(root), STR_ARG(s->version)),
        0);
    return !takes_system(os_read_below(a, "", path.p, READ_MAX)) || add_base(s, base);
}

// The Python behind one of pyenv's shims: the first version of $PYENV_VERSION, of .python-version
// in this folder or one above, or of pyenv's own file (pyenv 2.6, "Understanding Python version
// selection"). As it is when it is no shim; empty: a version that is not there by that name.
static struct str behind_shim(struct arena *a, struct str program) {
    struct str shims = os_parent(program), root = os_parent(shims), names;
    char folder[4096];
    if (!str_is(str_last(shims, '/'), "shims") || !is_there(a, root, "versions")) return program;
    names = str_trim(str_of(getenv("PYENV_VERSION")));
    struct str at = str_of(getcwd(folder, sizeof folder));
    while (names.len == 0 && at.len > 0) {
        names = str_trim(os_read_below(a, str_z(a, at), "/.python-version", READ_MAX));
        at = at.len > 1 ? os_parent(at) : (struct str){0};
    }
    if (names.len == 0) names = str_trim(os_read_below(a, str_z(a, root), "/version", READ_MAX));
    struct str name = str_line(&names);
    name = str_cut(&name, ' ');
    name = str_cut(&name, ':');
    struct str path = str_format(a, "%.*s/versions/%.*s/bin/%.*s", STR_ARG(root), STR_ARG(name),
                                 STR_ARG(str_last(program, '/')));
    return name.len > 0 && os_exists(path.p) ? path : (struct str){0};
}

static bool find_folders(struct site *s, const char *python) {
    struct arena *a = s->arena;
    const char *home = getenv("PYTHONHOME");
    s->program = behind_shim(a, os_program(a, str_of(launch_python_program(python))));
    char *real = s->program.len > 0 && !(home && *home) ? realpath(s->program.p, NULL) : NULL;
    s->real = str_copy(a, str_of(real));
    free(real);
    struct str head = {0}, name = str_last(s->real, '/');
    struct fail why = {0};
    if (!str_starts(name, STR("python3.")) ||
        os_read_head(a, str_z(a, s->real), 4, &head, &why) < 0)
        return false;
    if (!str_equal(head, STR("\x7f"
                             "ELF")))
        return false;
    s->version = str_slice(name, (ptrdiff_t)sizeof "python" - 1, name.len);
    struct str given = launch_python_own_path(a, (struct str){0});
    while (given.len > 0)
        add_folder(s, str_cut(&given, ':'), DEPTH_MAX); // .pth files do not count there
    return add_environment(s);
}

// The text behind "NAME =" or "NAME: TYPE =" of torch/version.py, without its quotes; None is
// empty.
static struct str assigned(struct str text, struct str name) {
    while (text.p) {
        struct str line = str_line(&text);
        if (!str_starts(line, name)) continue;
        struct str rest = str_slice(line, name.len, line.len), left = str_trim(str_cut(&rest, '='));
        rest = str_trim(rest);
        if ((left.len > 0 && left.p[0] != ':') || rest.len < 2 ||
            (rest.p[0] != '\'' && rest.p[0] != '"'))
            continue;
        return str_slice(rest, 1, rest.len - 1);
    }
    return (struct str){0};
}

// Any other sign of a torch: one that is linked from elsewhere, or no package.
static bool hints_at_torch(struct arena *a, struct str folder) {
    struct str *names;
    ptrdiff_t count;
    struct fail why = {0};
    if (os_list(a, str_z(a, folder), "", &names, &count, &why) < 0) return true;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (str_is(names[i], "torch") || str_starts(names[i], STR("torch.")) ||
            str_starts(names[i], STR("torch-")) ||
            str_starts(names[i], STR("__editable__.torch-")) ||
            str_starts(names[i], STR("__editable___torch_"))) {
            return true;
        }
    }
    return false;
}

static int has_compiler(struct arena *a) {
    const char *names[] = {getenv("CXX"), "g++", "clang++", "c++"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i] && *names[i] && os_program(a, str_of(names[i])).len > 0) return 1;
    }
    return 0;
}

bool check_read_torch(struct arena *a, const char *python, struct rules_torch *ret_torch) {
    struct site s = {.arena = a};
    struct rules_torch t = check_torch_unasked();
    struct buf where = buf_new(a);
    if (!find_folders(&s, python)) return false;
    t.is_read = true;
    t.python = str_of(launch_python_program(python));
    t.python_version = s.version;
    t.has_compiler = has_compiler(a);
    t.state = RULES_TORCH_MISSING;
    for (ptrdiff_t i = 0; i < s.folders.count; i++) {
        struct str folder = s.folders.items[i];
        struct str text = os_read_below(a, str_z(a, folder), "/torch/version.py", READ_MAX);
        t.version = assigned(text, STR("__version__"));
        if (t.version.len > 0 && is_there(a, folder, "torch/__init__.py")) {
            t.state = RULES_TORCH_FOUND;
            t.cuda = assigned(text, STR("cuda"));
            t.hip = assigned(text, STR("hip"));
            break;
        }
        if (hints_at_torch(a, folder)) return false;
    }
    if (s.folders.count == 0) return false;
    if (t.state == RULES_TORCH_MISSING) {
        buf_format(&where, "no torch in %.*s", STR_ARG(s.folders.items[0]));
        if (s.folders.count > 1)
            buf_format(&where, " and %lld more", (long long)s.folders.count - 1);
        buf_format(&where, " (only its files were read: --detailed imports it)");
        t.error = buf_str(&where);
    }
    *ret_torch = t;
    return true;
}
