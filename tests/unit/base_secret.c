// SPDX-License-Identifier: Apache-2.0
// What of a command line is hidden where it is written or shown, and what is not.
#include "unit.h"

#include "base/out.h"

enum { WORDS_MOST = 8 };

static const struct {
    const char *words[WORDS_MOST], *shown[WORDS_MOST];
} cases[] = {
    {{"train.py", "--api-key", "X1", "--lr", "0.1"},
     {"train.py", "--api-key", "***", "--lr", "0.1"}},
    {{"--api_key=X1", "--token=X2"}, {"--api_key=***", "--token=***"}},
    {{"--password", "two words", "b"}, {"--password", "***", "b"}},
    {{"--password=two words \"x\""}, {"--password=***"}},
    {{"--hub-token", "X", "--db-password-hash=Y"},
     {"--hub-token", "***", "--db-password-hash=***"}},
    {{"env", "HF_TOKEN=X", "WANDB_API_KEY=Y", "MY_KEY=Z", "CLIENT_SECRET_1=W"},
     {"env", "HF_TOKEN=***", "WANDB_API_KEY=***", "MY_KEY=***", "CLIENT_SECRET_1=***"}},
    {{"--env", "TOKEN=X", "--env=AWS_SECRET_ACCESS_KEY=Y"},
     {"--env", "TOKEN=***", "--env=AWS_SECRET_ACCESS_KEY=***"}},
    {{"hub.token=X", "+login.password=Y", "trainer.apiKey=Z"},
     {"hub.token=***", "+login.password=***", "trainer.apiKey=***"}},
    {{"-H", "Authorization: Bearer X"}, {"-H", "Authorization: Bearer ***"}},
    {{"Bearer", "X", "b"}, {"Bearer", "***", "b"}},
    {{"s3://k:X@h/p", "https://X@github.com/a@b", "postgres://u:p@x@h"},
     {"s3://k:***@h/p", "https://***@github.com/a@b", "postgres://u:***@h"}},
    {{"hf_abcdefghijklmnopqr", "x=sk-abcdefghijklmnop1234,b", "AKIAIOSFODNN7EXAMPLE"},
     {"***", "x=***,b", "***"}},
    {{"sh", "-c", "HF_TOKEN=X python t.py"}, {"sh", "-c", "HF_TOKEN=***"}},
    {{"sh", "-c", "exec python t.py --api-key X --lr 1; echo 'https://u:X@h/'"},
     {"sh", "-c", "exec python t.py --api-key *** --lr 1; echo 'https://u:***@h/'"}},
    {{"{\"api_key\": \"X\", \"lr\": 1}"}, {"{\"api_key\": \"***\", \"lr\": 1}"}},
    {{"--token"}, {"--token"}},
    {{"--token", "--lr", "1"}, {"--token", "--lr", "1"}},
    {{"--access-key", "X", "--secret", "Y"}, {"--access-key", "***", "--secret", "***"}},
    {{"env", "PGPASSWORD=X", "python", "--authToken", "Y", "--dbpassword", "Z"},
     {"env", "PGPASSWORD=***", "python", "--authToken", "***", "--dbpassword", "***"}},
    {{"--openaiApiKey=X", "trainer.hubToken=Y", "MYSQLPASSWD=Z"},
     {"--openaiApiKey=***", "trainer.hubToken=***", "MYSQLPASSWD=***"}},
    // What is no secret stays.
    {{"python", "train.py", "--batch-size", "{batch}", "--key", "batch=train.bs", ""},
     {"python", "train.py", "--batch-size", "{batch}", "--key", "batch=train.bs", ""}},
    {{"--tokenizer", "gpt2", "--max-tokens=512", "--sort-key", "len", "--monkey=1"},
     {"--tokenizer", "gpt2", "--max-tokens=512", "--sort-key", "len", "--monkey=1"}},
    {{"s3://bucket/data", "https://host:80/a@b", "user@host:/p", "hf_hub", "sk-learn", "a:b=c"},
     {"s3://bucket/data", "https://host:80/a@b", "user@host:/p", "hf_hub", "sk-learn", "a:b=c"}},
    {{"--author", "Kim", "--pathways=3", "secretary.py", "data/token/x.py"},
     {"--author", "Kim", "--pathways=3", "secretary.py", "data/token/x.py"}},
};

static void the_rule(void **state) {
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        char **shown = secret_masked(&a, (char *const *)(uintptr_t)cases[i].words);
        for (int k = 0; cases[i].words[k] || shown[k]; k++) {
            if (shown[k] && cases[i].shown[k] && strcmp(shown[k], cases[i].shown[k]) == 0) continue;
            print_error("%s: %s, not %s\n", cases[i].words[k], shown[k], cases[i].shown[k]);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_rule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
