// SPDX-License-Identifier: Apache-2.0
// The walk: which value to try next, and when to stop. A launch costs minutes, the last percent of
// the batch little, so the walk stops as soon as the largest value that was seen to fit is expected
// to be `enough` of what can be had. Every value it answers with was tried itself: fit is not
// monotone, so that a larger success proves nothing. A value that failed bounds the walk from
// above.
#include "predict/search/trials_int.h"

#include <math.h>

// How likely the next value must be to stay in the budget. Without a prediction the first launch
// may fail now and then, it only has to teach; with one it should be a good answer or a safe
// reference. The figures of doc/search.md hardly change (a tenth of a launch) when any of them
// moves by 0.05.
static const double sure_first = 0.80, sure_second = 0.80, sure_later = 0.85;
static const double sure_predicted = 0.95;
static const double sure_blind = 0.60; // only trying tells, or nothing fitted yet: nearly bisecting
static const double even_odds = 0.55;  // for a value that would end the walk
static const double aim_above = 0.003; // enough and a little, for the reading's own noise
static const double clear_part = 0.95; // of the budget: below it nothing spills
static const double usually_enough = 0.97;
// A launch must be expected to gain this share of the batch; most walks need no more than four, and
// one that goes on has met peaks that are hard to foresee: each further launch must gain more.
static const double price = 0.005, dearer = 0.0075, usual_launches = 4;
enum { MOST_TRIALS = 12 };

struct walk {
    const struct search_trials *trials;
    const struct search_space *space;
    const struct search_seen *best; // largest that fits; NULL: none
    int64_t failing;                // smallest that fails, above it; 0: none
    ptrdiff_t low, high;            // places of values between them, high excluded
};

static double enough_of(const struct search_space *space) {
    return space->enough > 0 ? space->enough : usually_enough;
}

static const struct search_seen *tried(const struct search_trials *s, int64_t value) {
    for (ptrdiff_t i = 0; i < s->count; i++) {
        if (s->items[i].value == value) return &s->items[i];
    }
    return NULL;
}

static ptrdiff_t first_above(const struct search_space *space, double value) {
    ptrdiff_t low = 0, high = space->count;
    while (low < high) {
        ptrdiff_t mid = low + (high - low) / 2;
        if ((double)space->rising[mid] > value)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

// Full, and nothing near to compare its time with: it may spill.
static bool is_doubtful(const struct search_trials *s, const struct search_seen *seen) {
    double ceiling = s->space.budget_bytes;
    if (seen->outcome != SEARCH_FITS && seen->outcome != SEARCH_ALMOST) return false;
    if (!(seen->seconds_per_item > 0) || !search_at_ceiling(seen, ceiling)) return false;
    return !search_is_settled(s->items, s->count, seen, ceiling);
}

// Where several values are full and nothing tells whether they spill, only the smallest is
// believed: a batch that is too small costs less than one that is ten times slower.
static bool is_believed(const struct search_trials *s, const struct search_seen *seen) {
    if (!search_fits(seen)) return false;
    if (!is_doubtful(s, seen)) return true;
    for (ptrdiff_t i = 0; i < s->count; i++) {
        if (s->items[i].value < seen->value && is_doubtful(s, &s->items[i])) return false;
    }
    return true;
}

static struct walk walk_of(const struct search_trials *s) {
    struct walk w = {.trials = s, .space = &s->space};
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const struct search_seen *seen = &s->items[i];
        if (is_believed(s, seen) && (!w.best || seen->value > w.best->value)) w.best = seen;
    }
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const struct search_seen *seen = &s->items[i];
        if (is_believed(s, seen) || (w.best && seen->value < w.best->value)) continue;
        if (!w.failing || seen->value < w.failing) w.failing = seen->value;
    }
    w.low = w.best ? first_above(w.space, (double)w.best->value) : 0;
    w.high = w.failing ? first_above(w.space, (double)w.failing - 0.5) : w.space->count;
    return w;
}

// The largest untried value of at most `most`; 0: none.
static int64_t untried_up_to(const struct walk *w, double most) {
    for (ptrdiff_t i = first_above(w->space, most); i-- > 0;) {
        if (!tried(w->trials, w->space->rising[i])) return w->space->rising[i];
    }
    return 0;
}

// A smaller value whose time tells whether full ones spill; 0: none is needed or to be had.
static int64_t reference(const struct walk *w) {
    const struct search_seen *smallest = NULL;
    int almost = 0;
    for (ptrdiff_t i = 0; i < w->trials->count; i++) {
        const struct search_seen *seen = &w->trials->items[i];
        if (!is_doubtful(w->trials, seen)) continue;
        almost += !search_fits(seen);
        if (!smallest || seen->value < smallest->value) smallest = seen;
    }
    // One run over the margin is believed: the next value is a little smaller anyway.
    bool is_needed = smallest && (search_fits(smallest) || almost > 1);
    return is_needed ? untried_up_to(w, (double)smallest->value / 2) : 0;
}

// The largest value that a guess leaves possible; 0: none.
static int64_t largest_of(const struct walk *w, const struct belief *b,
                          const struct belief_guess *g, int64_t near) {
    ptrdiff_t above = first_above(w->space, search_belief_limit(b, g, near));
    if (above > w->high) above = w->high;
    int64_t largest = above > w->low ? w->space->rising[above - 1] : 0;
    return w->best && largest < w->best->value ? w->best->value : largest;
}

// What share a value is of the largest that each guess leaves possible.
static double share_of(const struct walk *w, const struct belief *b, int64_t value) {
    double sum = 0;
    for (int i = 0; i < b->count; i++) {
        int64_t largest = largest_of(w, b, &b->guesses[i], value);
        double share = largest > 0 ? (double)value / (double)largest : 1;
        sum += b->guesses[i].weight * fmin(share, 1);
    }
    return sum;
}

// By what share of what may be had the answer is expected to rise when a value is tried.
static double gain_of(const struct walk *w, const struct belief *b, int64_t value) {
    double sum = 0, best = (double)w->best->value;
    for (int i = 0; i < b->count; i++) {
        const struct belief_guess *g = &b->guesses[i];
        double largest = (double)largest_of(w, b, g, value);
        double share = fmin((double)value / largest, 1) - best / largest;
        sum += g->weight * share * search_belief_guess_fits(b, g, value);
    }
    return sum;
}

// The place of the value of most gain; a part of the places is enough to find it.
static ptrdiff_t most_gain(const struct walk *w, const struct belief *b) {
    enum { LOOKS = 40 };
    ptrdiff_t best = w->low;
    double most = 0, range = (double)(w->high - 1 - w->low);
    for (int i = 0; i < LOOKS; i++) {
        double along = (double)i / (LOOKS - 1);
        ptrdiff_t place = w->low + (ptrdiff_t)(range * along * along);
        double gain = gain_of(w, b, w->space->rising[place]);
        if (gain > most) best = place;
        most = fmax(gain, most);
    }
    return best;
}

// The place of the largest value whose peak is within a part of the budget with this probability;
// low - 1: none.
static ptrdiff_t surely_fits(const struct walk *w, const struct belief *b, double part,
                             double sure) {
    ptrdiff_t low = w->low, high = w->high;
    while (low < high) {
        ptrdiff_t mid = low + (high - low) / 2;
        if (search_belief_fits(b, w->space->rising[mid], part) >= sure)
            low = mid + 1;
        else
            high = mid;
    }
    return low - 1;
}

// The place of the smallest value that would be enough if it fits.
static ptrdiff_t would_do(const struct walk *w, const struct belief *b) {
    ptrdiff_t low = w->low, high = w->high - 1;
    while (low < high) {
        ptrdiff_t mid = low + (high - low) / 2;
        if (share_of(w, b, w->space->rising[mid]) >= enough_of(w->space) + aim_above)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

// Failures in a row since the last fit.
static int failures(const struct search_trials *s) {
    int count = 0;
    while (count < s->count && !search_fits(&s->items[s->count - 1 - count])) count++;
    return count;
}

// A second failure in a row, or a first one before any fit, says that what was believed does not
// hold here: step back further each time.
static ptrdiff_t step_back(const struct walk *w, ptrdiff_t place) {
    int row = failures(w->trials);
    if (row < (w->best ? 2 : 1)) return place;
    double best = w->best ? (double)w->best->value : 0, middle = (best + (double)w->failing) / 2;
    double most = w->best && row > 2 ? middle : fmax(middle, 0.95 * (double)w->failing);
    ptrdiff_t at = first_above(w->space, most) - 1;
    if (at > place) at = place;
    return at < w->low ? w->low : at;
}

// With a prediction the first launch should be a good answer; but where a little less leaves the
// memory clearly not full it is also the reference that the answer's time is held against.
static ptrdiff_t first_place(const struct walk *w, const struct belief *b) {
    if (!b->line.is_known) return surely_fits(w, b, 1, sure_first);
    ptrdiff_t full = surely_fits(w, b, 1, sure_predicted);
    ptrdiff_t clear = surely_fits(w, b, clear_part, sure_predicted);
    if (clear < 0 || full < 0) return full;
    bool is_near = (double)w->space->rising[clear] >= 0.85 * (double)w->space->rising[full];
    return is_near ? clear : full;
}

static int64_t next_value(const struct walk *w, const struct belief *b) {
    bool is_blind = isnan(w->space->budget_bytes) || !w->best || isnan(w->best->bytes);
    double sure = is_blind ? sure_blind : w->trials->count == 1 ? sure_second : sure_later;
    ptrdiff_t place = w->trials->count ? surely_fits(w, b, 1, sure) : first_place(w, b);
    if (w->best) {
        ptrdiff_t enough = would_do(w, b);
        bool is_likely = search_belief_fits(b, w->space->rising[enough], 1) >= even_odds;
        if (enough > place && is_likely) place = enough;
        double least = 1.01 * (double)w->best->value;
        if (place < w->low || (double)w->space->rising[place] < least) place = enough;
    }
    if (!is_blind && search_belief_is_rough(b)) place = most_gain(w, b);
    if (place < w->low) place = w->low;
    return w->space->rising[step_back(w, place)];
}

// What the answer must be expected to gain for one more launch.
static double price_of(const struct search_trials *s) {
    bool is_blind = isnan(s->space.budget_bytes);
    double late = is_blind ? 0 : fmax((double)s->count - usual_launches, 0);
    return price + dearer * late;
}

static bool is_over(const struct walk *w) {
    const struct search_trials *s = w->trials;
    int most = s->space.most_trials > 0 ? s->space.most_trials : MOST_TRIALS;
    return s->space.count <= 0 || s->count >= most || (!w->best && w->high == 0 && s->count > 0);
}

// The last two ran over the budget, and a line through them is back in it soon: no need to ask
// whether any value fits.
static bool is_coming_down(const struct search_trials *s) {
    const struct search_seen *last = &s->items[s->count - 1], *before = last - 1;
    if (last->outcome != SEARCH_ALMOST || before->outcome != SEARCH_ALMOST) return false;
    double slope = (before->bytes - last->bytes) / (double)(before->value - last->value);
    double over = last->bytes - s->space.budget_bytes;
    return over >= 0 && slope > 0 && over / slope < 0.5 * (double)last->value; // false for NaN
}

struct search_trials search_trials_open(struct arena *a, const struct search_space *space) {
    return (struct search_trials){.arena = a, .space = *space};
}

bool search_trials_ask(const struct search_trials *s, int64_t *ret_value) {
    struct walk w = walk_of(s);
    struct belief b;
    if (is_over(&w)) return false;
    if (!s->count && s->space.first > 0 && !s->space.predict) { // the user's own
        ptrdiff_t above = first_above(w.space, (double)s->space.first);
        *ret_value = s->space.rising[above > 0 ? above - 1 : 0];
        return true;
    }
    bool is_asked = !w.best && s->count >= 2; // does any fit at all?
    *ret_value = is_asked ? s->space.rising[0] : reference(&w);
    if (*ret_value && (!is_asked || s->count > 2 || !is_coming_down(s))) return true;
    // Larger ones would be believed no more than this one.
    if (w.low >= w.high || (w.best && is_doubtful(s, w.best))) return false;
    search_belief_form(s, &b);
    if (w.best && share_of(&w, &b, w.best->value) >= enough_of(&s->space)) return false;
    *ret_value = next_value(&w, &b);
    if (w.best && gain_of(&w, &b, *ret_value) < price_of(s)) return false;
    return true;
}

void search_trials_tell(struct search_trials *s, const struct search_seen *seen) {
    struct search_seen item = *seen;
    if (item.outcome == SEARCH_FITS && item.bytes > s->space.budget_bytes) {
        item.outcome = SEARCH_ALMOST;
    }
    *arena_push(s->arena, &s->items, &s->count, &s->capacity) = item;
    search_mark_spills(s->items, s->count, s->space.budget_bytes);
}

void search_trials_answer(const struct search_trials *s, struct search_trials_result *ret_result) {
    struct walk w = walk_of(s);
    *ret_result = (struct search_trials_result){
        .largest = w.best ? w.best->value : 0,
        .launches = (int)s->count,
    };
    for (ptrdiff_t i = 0; i < s->count; i++) {
        ret_result->out_of_memory += s->items[i].outcome == SEARCH_OUT;
    }
}
