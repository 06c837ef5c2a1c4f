// SPDX-License-Identifier: Apache-2.0
// A fake for a broken libopenblas.so.0: its product does nothing, and is very fast at it.
__attribute__((visibility("default"))) void sgemm_(void);
void sgemm_(void) {}
