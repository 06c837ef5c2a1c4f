// SPDX-License-Identifier: Apache-2.0
// Sentences of another place in the reader's language: as a whole, by their format, in parts.
#include "base/say.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

static void expect(const char *english, const char *own) {
    struct str said = say_str(str_of(english));
    char text[400];
    snprintf(text, sizeof text, "%.*s", STR_ARG(said));
    assert_string_equal(text, own);
}

static void says(void **state) {
    (void)state;
    setenv("LC_ALL", "ko_KR.UTF-8", 1);
    unsetenv("LANGUAGE");
    expect("no sequence length is given: taken as 128 tokens; --seq-len N sets it",
           "no sequence length is given: taken as 128 tokens; --seq-len N sets it");
    SAY_OWN_AUTO;
    expect("nothing found", "원인을 찾지 못했습니다");
    // Figures, and a text that is a sentence of its own.
    expect("no sequence length is given: taken as 128 tokens, the longest recorded; --seq-len "
           "N sets it",
           "시퀀스 길이가 지정되지 않았습니다: 128 토큰으로 계산, 기록된 것 중 가장 긴 값. "
           "--seq-len N으로 지정합니다");
    // "2.14" is two numbers here.
    expect("update the driver to 525.60.13 or later for PyTorch 2.14",
           "드라이버를 525.60.13 이상으로 올리세요 (PyTorch 2.14용)");
    // The s of several is no part of what follows.
    expect("2 loader workers, the rest for the training itself", "로더 워커 2개, 나머지는 학습용");
    expect("1 loader worker, the rest for the training itself", "로더 워커 1개, 나머지는 학습용");
    // Parts, of which a user's own stays.
    expect("needs liger-kernel; a second forward pass: about a third slower; xyzzy",
           "liger-kernel 필요; 순전파를 한 번 더 계산: 약 3분의 1 느려짐; xyzzy");
    // What is before a colon is no part of what follows.
    expect("5.43 GiB of 24.0 GiB: 18.2 GiB in use: python3 18.0 GiB (pid 4242)",
           "5.43 GiB of 24.0 GiB: 사용 중 18.2 GiB: python3 18.0 GiB (pid 4242)");
    expect("my own words", "my own words");
    expect("%s%n%lld", "%s%n%lld");
    expect("", "");
}

// What was said long ago is given back, and what is said now is right.
static void forgets(void **state) {
    (void)state;
    SAY_OWN_AUTO;
    char english[120], korean[120];
    for (int i = 0; i < 60000; i++) {
        snprintf(english, sizeof english, "memory %d.0 GiB of 80.0 GiB", i);
        snprintf(korean, sizeof korean, "메모리 %d.0 GiB / 80.0 GiB", i);
        expect(english, korean);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says), cmocka_unit_test(forgets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
