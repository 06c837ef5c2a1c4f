// SPDX-License-Identifier: Apache-2.0
// How often a comparison of two settings finds a difference that is there, and one that is not: the
// tables of doc/history.md. Prints Markdown; fails when a goal is missed.
#include "pairs.h"

#include <stdio.h>

enum { EXPERIMENTS = 1000, SEED = 20261122 };

static const struct pairs_scene scenes[] = {
    {"steps vary by 2 %", 10, 0.02, 0, 0, 0},
    {"the same, the machine slows down by 3 %", 10, 0.02, 0, 0.03, 0},
    {"the same, trials vary by 0.5 % besides", 10, 0.02, 0.005, 0.03, 0},
    {"trials vary by 2 % as a whole", 10, 0, 0.02, 0, 0},
    {"5 pairs, steps vary by 2 %", 5, 0.02, 0, 0, 0},
    {"30 pairs, trials vary by 2 %", 30, 0, 0.02, 0, 0},
};

static double share(int part) {
    return 100.0 * part / EXPERIMENTS;
}

// The smallest difference, in steps of a tenth of a per cent up to 5 %, that is found in 90 %.
static double smallest_found(struct pairs_scene scene) {
    int misses = 0, finds = 50;
    while (finds - misses > 1) {
        int middle = (misses + finds) / 2;
        scene.difference = middle / 1000.0;
        bool found = pairs_play(&scene, EXPERIMENTS, SEED).found >= EXPERIMENTS * 9 / 10;
        if (found)
            finds = middle;
        else
            misses = middle;
    }
    return finds / 10.0;
}

static bool play_scenes(void) {
    bool good = true;
    printf("| pairs | noise | false positives | interval holds the truth | 2 %% found | smallest "
           "found in "
           "90 %% |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct pairs_scene same = scenes[i], differs = scenes[i];
        differs.difference = 0.02;
        struct pairs_tally none = pairs_play(&same, EXPERIMENTS, SEED);
        struct pairs_tally two = pairs_play(&differs, EXPERIMENTS, SEED);
        printf("| %d | %s | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", same.pairs, same.name,
               share(none.found), share(two.held), share(two.found), smallest_found(same));
        fflush(stdout);
        good &= none.found <= EXPERIMENTS * 5 / 100;
        if (i == 0) good &= two.found >= EXPERIMENTS * 9 / 10;
    }
    return good;
}

static bool check_needed(void) {
    static const struct {
        double difference, noise;
    } asked[] = {{0.02, 0.0063}, {0.02, 0.02}, {0.05, 0.02}, {0.01, 0.02}, {0.2, 0.02}};
    bool good = true;
    printf("\n| difference | a trial's noise | pairs asked for | found with them "
           "|\n|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct pairs_scene scene = {.trial_noise = asked[i].noise,
                                    .difference = asked[i].difference};
        ptrdiff_t pairs = stats_pairs_needed(asked[i].difference, asked[i].noise, 0.95, 0.9);
        scene.pairs = (int)pairs;
        int found = pairs_play(&scene, EXPERIMENTS, SEED).found;
        printf("| %.1f %% | %.2f %% | %td | %.1f %% |\n", 100 * asked[i].difference,
               100 * asked[i].noise, pairs, share(found));
        good &= found >= EXPERIMENTS * 85 / 100;
    }
    return good;
}

int main(void) {
    bool good = play_scenes();
    good &= check_needed();
    return good ? 0 : 1;
}
