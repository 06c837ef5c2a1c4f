// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "records/config/config.h"

static const char seed[] = "# 팀원별 권장 설정\nteam_gpu_settings:\n  rtx_4090:\n    batch_size: "
                           "48\n    gradient_accumulation_steps: 1\n"
                           "    mixed_precision: true\n\n  gtx_1080:\n    batch_size: 6  # 작게\n  "
                           "  gradient_accumulation_steps: 8\n"
                           "    mixed_precision: false\n";

static struct config parse(struct arena *a, struct str text) {
    struct config c;
    struct fail why = {0};
    if (config_parse(a, STR("team_settings.yaml"), text, &c, &why)) fail_msg("%s", why.message);
    return c;
}

static void entries_are_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_card *cards;
    int count;
    const struct config c = parse(&a, str_of(seed));
    assert_int_equal(config_team_read(&a, &c, &cards, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_str(cards[1].card, "gtx_1080");
    assert_int_equal(cards[1].batch, 6);
    assert_int_equal(cards[1].accumulation, 8);
    assert_int_equal(cards[1].mixed_precision, -1);
    assert_int_equal(cards[1].effective, 0);
    const struct config none = parse(&a, STR("batch_size: 4\n"));
    assert_int_equal(config_team_read(&a, &none, &cards, &count, NULL), 0);
    assert_int_equal(count, 0);
    const struct config list = parse(&a, STR("team_gpu_settings: [1]\n"));
    assert_int_equal(config_team_read(&a, &list, &cards, &count, NULL), FAIL_INPUT);
}

static void figures_change_and_new_cards_are_appended(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_patched p;
    struct fail why = {0};
    const struct config_card cards[] = {
        {.card = STR("gtx_1080"),
         .batch = 8,
         .accumulation = 6,
         .mixed_precision = -1,
         .effective = 48},
        {.card = STR("rtx_3060"),
         .batch = 12,
         .accumulation = 4,
         .mixed_precision = 1,
         .precision = STR("amp-fp16")},
    };
    const struct config c = parse(&a, str_of(seed));
    if (config_team_write(&a, &c, cards, 2, &p, &why)) fail_msg("%s", why.message);
    assert_str(p.text, "# 팀원별 권장 설정\nteam_gpu_settings:\n  rtx_4090:\n    batch_size: 48\n  "
                       "  gradient_accumulation_steps: 1\n"
                       "    mixed_precision: true\n\n  gtx_1080:\n    batch_size: 8  # 작게\n    "
                       "gradient_accumulation_steps: 6\n"
                       "    mixed_precision: false\n\n  rtx_3060:\n    batch_size: 12\n    "
                       "gradient_accumulation_steps: 4\n"
                       "    mixed_precision: true\n"); // the others have no `precision`
    const struct config again = parse(&a, p.text);
    assert_int_equal(config_team_write(&a, &again, cards, 2, &p, &why), 0);
    assert_false(p.changed);
}

static void a_fresh_file_is_read_back(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_patched p;
    struct config_card *read;
    int count;
    const struct config_card cards[] = {
        {.card = STR("rtx_4090"),
         .batch = 48,
         .accumulation = 1,
         .mixed_precision = 1,
         .precision = STR("amp-bf16"),
         .effective = 48,
         .model = STR("swin_base_patch4_window12_384"),
         .image_size = 384},
        {.card = STR("gtx_1080"),
         .batch = 6,
         .accumulation = 8,
         .mixed_precision = -1,
         .effective = 48},
    };
    assert_int_equal(config_team_write(&a, NULL, cards, 2, &p, NULL), 0);
    assert_true(p.changed && str_starts(p.text, STR("# ")));
    const struct config c = parse(&a, p.text);
    assert_int_equal(config_team_read(&a, &c, &read, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_int_equal(read[0].image_size, 384);
    assert_str(read[0].precision, "amp-bf16");
    assert_str(read[0].model, "swin_base_patch4_window12_384");
    assert_int_equal(read[1].effective, 48);
    const struct config_card bad = {.card = STR("RTX 4090"), .batch = 1};
    assert_int_equal(config_team_write(&a, NULL, &bad, 1, &p, NULL), FAIL_USAGE);
    const struct config other = parse(&a, STR("batch_size: 4\n"));
    assert_int_equal(config_team_write(&a, &other, cards, 1, &p, NULL), FAIL_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read),
        cmocka_unit_test(figures_change_and_new_cards_are_appended),
        cmocka_unit_test(a_fresh_file_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
