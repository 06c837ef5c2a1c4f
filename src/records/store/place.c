// SPDX-License-Identifier: Apache-2.0
// Where the history is, and in which of the two databases.
#include "records/store/store_int.h"

#include "base/os.h"

#include <stdlib.h>

bool store_is_address(struct str place) {
    return str_find(place, STR("://")) > 0;
}

static struct str own_folder(struct arena *a) {
    const char *state = getenv("XDG_STATE_HOME"), *home = os_home();
    // Relative paths are to be ignored (XDG Base Directory Specification 0.8).
    if (state && *state == '/' && os_trusts(state, state))
        return str_format(a, "%s/batchfit", state);
    if (home) return str_format(a, "%s/.local/state/batchfit", home);
    return (struct str){0};
}

struct str store_place(struct arena *a, const char *option) {
    const char *place = option && *option ? option : getenv("BATCHFIT_STORE");
    return place && *place ? str_copy(a, str_of(place)) : own_folder(a);
}

struct str store_folder(struct arena *a, const char *option) {
    const struct str places[] = {str_of(option), str_of(getenv("BATCHFIT_STORE"))};
    for (int i = 0; i < 2; i++) {
        if (places[i].len > 0 && !store_is_address(places[i])) return str_copy(a, places[i]);
    }
    return own_folder(a);
}

int store_open(struct arena *a, struct str place, struct store **ret_store, struct fail *why) {
    *ret_store = NULL;
    if (place.len == 0) {
        fail_set(why, FAIL_MACHINE, "no place for the history: HOME is not set or not yours");
        return fail_hint(why, "name one with --store DIR or BATCHFIT_STORE");
    }
    if (store_is_address(place))
        return store_open_server(a, place, store_folder(a, NULL), ret_store, why);
    return store_open_file(a, place, "history.db", ret_store, why);
}
