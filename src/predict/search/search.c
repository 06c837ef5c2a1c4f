// SPDX-License-Identifier: Apache-2.0
#include "predict/search/search.h"

static int first_within(const int64_t *falling, int count, search_bound *bound, void *context) {
    int low = 0, high = count;
    while (low < high) {
        int mid = (low + high) / 2;
        if (bound(context, falling[mid]))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

int search_largest(const int64_t *falling, int count, search_bound *bound, search_test *test,
                   void *context, int64_t *ret_value, struct fail *why) {
    for (int i = bound ? first_within(falling, count, bound, context) : 0; i < count; i++) {
        int answer = test(context, falling[i], why);
        if (answer == 0) continue;
        if (answer > 0) *ret_value = falling[i];
        return answer;
    }
    return 0;
}
