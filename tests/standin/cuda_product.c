// SPDX-License-Identifier: Apache-2.0
// An element of a product, computed when it is read.
#include "cuda.h"

#include <math.h>
#include <string.h>

static double number(int type, const void *bits) {
    uint32_t whole = 0;
    uint16_t half;
    float value;
    if (type == 0) {
        memcpy(&value, bits, sizeof value);
        return (double)value;
    }
    memcpy(&half, bits, sizeof half);
    if (type == 2) {
        int exponent = half >> 10 & 31;
        double size = exponent ? ldexp((half & 1023) + 1024, exponent - 25) : 0;
        return half >> 15 ? -size : size;
    }
    whole = (uint32_t)half << 16;
    memcpy(&value, &whole, sizeof value);
    return (double)value;
}

// Cuts off what the type cannot hold.
static void put(int type, void *to, double value) {
    float single = (float)value;
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &single, sizeof bits);
    half = (uint16_t)(bits >> 16);
    if (type == 2) {
        int exponent;
        double fraction = frexp(fabs(value), &exponent); // 0.5 to 1
        int bits16 = (exponent + 14) << 10 | ((int)(fraction * 2048) & 1023);
        half = (uint16_t)(value == 0 ? 0 : bits16);
        if (value < 0) half = (uint16_t)(half | 0x8000);
    }
    memcpy(to, type == 0 ? (void *)&bits : (void *)&half, type == 0 ? 4 : 2);
}

bool standin_read_product(const struct standin_product *p, void *to, uint64_t from, size_t size) {
    size_t each = p->type == 0 ? 4 : 2;
    uint64_t begin = (uint64_t)(uintptr_t)p->c, n = (uint64_t)p->n;
    if (!p->c || size != each || from < begin || from >= begin + n * n * each) return false;
    uint64_t row = (from - begin) / each % n, column = (from - begin) / each / n;
    double sum = 0;
    for (uint64_t k = 0; k < n; k++) {
        sum += number(p->type, (const char *)p->a + (row + k * n) * each) *
               number(p->type, (const char *)p->b + (k + column * n) * each);
    }
    const char *wrong = standin_text("wrong");
    if (wrong && strcmp(wrong, "product") == 0) sum += 100;
    put(p->type, to, sum);
    return true;
}
