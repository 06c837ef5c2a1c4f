// SPDX-License-Identifier: Apache-2.0
// How GPUs are joined, by the fake driver in LD_LIBRARY_PATH and by the recording that it plays.
#include "device_look.h"

#include "machine/device/device.h"

// Two GPUs on a bridge of four links, a third alone that cannot read the others' memory; in words
// as nvidia-smi has them.
static const char three[] =
    "{\"machine\": 1, \"devices\": ["
    "{\"name\": \"a\", \"facts\": {\"pci_bus_id\": \"00000000:1A:00.0\"}, \"topology\": "
    "{\"nvlinks\": [1, 1, 1, 1, \"down\"], \"paths\": [null, 40, 50], \"p2p\": [null, 0, 5]}},"
    "{\"name\": \"a\", \"facts\": {\"pci_bus_id\": \"00000000:1B:00.0\"}, \"topology\": "
    "{\"nvlinks\": [0, 0, 0, 0], \"paths\": [40, null, 50], \"p2p\": [0, null, 99]}},"
    "{\"name\": \"b\", \"facts\": {\"pci_bus_id\": \"00000000:3B:00.0\"}, \"topology\": "
    "{\"nvlinks\": [7, \"?\"], \"paths\": [50, 30]}}]}";

static void assert_three(struct arena *a, const struct device_topology *t) {
    static const char *const words[3][3] = {
        {"", "NV4", "SYS"}, {"NV4", "", "SYS"}, {"SYS", "PHB", ""}};
    assert_int_equal(t->count, 3);
    for (int i = 0; i < 9; i++) {
        if (i / 3 == i % 3) continue;
        struct str word = device_topology_word(a, t, i / 3, i % 3);
        assert_string_equal(str_z(a, word), words[i / 3][i % 3]);
    }
    assert_int_equal(device_topology_up(&t->spots[0]), 4);
    assert_int_equal(device_topology_all(&t->spots[0]), 5);
    assert_int_equal(device_topology_all(&t->spots[2]), 2);
    assert_int_equal(t->pairs[0][1].access, 0);
    assert_int_equal(t->pairs[0][2].access, 5);
    assert_int_equal(t->pairs[1][2].access, -1);
    assert_int_equal(t->spots[0].numa_node, -1);
    assert_string_equal(t->spots[0].cpus, "");
}

// Read, and played by the driver.
static void a_bridge_and_a_card_alone(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(&a, three);
    setenv("BATCHFIT_STANDIN_MACHINE", folder, 1);
    struct device_topology recorded = look(&a, folder).topology, played = look(&a, NULL).topology;
    assert_three(&a, &recorded);
    assert_three(&a, &played);
    drop_machine(&a, folder);
}

static void a_switch_and_two_nodes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct device_topology t = look(&a, machine_folder(&a, "h100x8")).topology;
    assert_int_equal(device_topology_between(&t, 0, 7), 18);
    assert_int_equal(device_topology_between(&t, 0, 6), 16);
    assert_int_equal(t.spots[7].numa_node, 1);
    assert_string_equal(t.spots[0].cpus, "0-55,112-167");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bridge_and_a_card_alone),
        cmocka_unit_test(a_switch_and_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
