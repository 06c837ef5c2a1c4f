// SPDX-License-Identifier: Apache-2.0
// With the fake driver in LD_LIBRARY_PATH; called with "old", with the one that lacks
// functions.
#include "device_machines.h"

#include "machine/device/device_int.h"

#include <unistd.h>

static void list_machine(struct arena *a, const char *folder, struct device_list *list) {
    struct fail why = {0};
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    assert_int_equal(device_list(a, NULL, list, &why), 0);
}

// The same words as from the recording, and for the wedged one after 3 s and no later.
static void played_machines_are_listed(void **state) {
    (void)state;
    for (int i = 0; i < MACHINES; i++) {
        ARENA_AUTO a = {0};
        struct device_list list;
        int64_t begin = os_now_ns();
        list_machine(&a, machine_folder(&a, machines[i]), &list);
        double seconds = (double)(os_now_ns() - begin) / 1e9;
        assert_machine(&a, machines[i], &list);
        struct str label = str_format(&a, "fake driver, plays the machine \"%s\"", machines[i]);
        assert_string_equal(str_z(&a, list.standin), label.p);
        bool is_wedged = strcmp(machines[i], "wedged") == 0;
        if (seconds < (is_wedged ? 2.9 : 0.0) || seconds > 4) fail_msg("%f s", seconds);
    }
}

static void driver_errors_are_told(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"calls\":{\"nvmlInit_v2\":{\"code\":9}}}", "the NVIDIA kernel driver is not loaded"},
        {"{\"calls\":{\"nvmlInit_v2\":{\"code\":18}}}", "have different versions"},
        {"{\"calls\":{\"nvmlInit_v2\":{\"code\":4}}}", "no permission"},
        {"{\"calls\":{\"nvmlDeviceGetCount_v2\":{\"code\":999}}}", "error 999"},
        {"{\"devices\":[]}", "found no GPU"},
        {"{\"devices\":[{\"mig\":[]}]}", "GPU 0: MIG is on, but there are no instances"},
        {"{\"devices\":[{\"name\":\"x\",\"calls\":{\"nvmlDeviceGetMemoryInfo_v2\":{\"code\":15},"
         "\"nvmlDeviceGetMemoryInfo\":{\"code\":15}}}]}",
         "GPU 0: the driver lost it"},
        {"{\"devices\":[{\"mig\":[{}]}]}", "GPU 0: the NVIDIA driver returned error 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct device_list list;
        const char *folder = make_machine(&a, cases[i].json);
        list_machine(&a, folder, &list);
        drop_machine(&a, folder);
        assert_int_equal(list.count, 0);
        if (!strstr(str_z(&a, list.why_none), cases[i].text)) {
            assert_string_equal(str_z(&a, list.why_none), cases[i].text);
        }
        assert_true(list.standin.len > 0);
    }
}

// The driver comes back after we have given up: nothing of ours may be touched then.
static void a_late_answer_is_dropped(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_list late = {0}, next;
    setenv("BATCHFIT_STANDIN_MACHINE",
           make_machine(&a, "{\"calls\":{\"nvmlInit_v2\":{\"hang_ms\":150}},"
                            "\"devices\":[{\"name\":\"x\"}]}"),
           1);
    device_nvml_list_within(&a, 50, &late);
    assert_int_equal(late.count, 0);
    assert_true(str_starts(late.why_none, STR("the NVIDIA driver did not answer")));
    assert_true(late.standin.len > 0);
    usleep(300000);
    list_machine(&a, getenv("BATCHFIT_STANDIN_MACHINE"), &next);
    assert_int_equal(next.count, 1);
    assert_int_equal(late.count, 0);
    drop_machine(&a, getenv("BATCHFIT_STANDIN_MACHINE"));
}

// 0x02000028 is size | version << 24; the fake refuses any other, as the driver does.
static void used_is_without_the_reserve(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_list list;
    list_machine(&a, machine_folder(&a, "rtx3060"), &list);
    assert_int_equal(list.items[0].used_bytes, (int64_t)412 << 20);
    assert_int_equal(list.items[0].reserved_bytes, (int64_t)256 << 20);
}

static void an_old_driver_lacks_single_fields(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_list list;
    list_machine(&a, machine_folder(&a, "rtx3060"), &list);
    assert_string_equal(str_z(&a, write_list(&a, &list)),
                        "0 NVIDIA GeForce RTX 3060 : 12288 = 668 used + -1 reserved + 11620 free "
                        "MiB\n");
}

int main(int argc, char **argv) {
    const struct CMUnitTest old[] = {
        cmocka_unit_test(an_old_driver_lacks_single_fields),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_errors_are_told), cmocka_unit_test(a_late_answer_is_dropped),
        cmocka_unit_test(used_is_without_the_reserve),
        cmocka_unit_test(played_machines_are_listed), // last: the wedged thread stays behind
    };
    if (argc > 1 && strcmp(argv[1], "old") == 0) return cmocka_run_group_tests(old, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
