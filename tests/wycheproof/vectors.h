// SPDX-License-Identifier: Apache-2.0
// Runs Wycheproof's vectors, as generate.py flattened them, through the library. Freestanding: the
// same code runs in a Linux process and in the kernel.
#pragma once
#include "base/bytes.h"

#define VECTOR_SETS 8u
struct vector_result {
  u32 passed[VECTOR_SETS];
  u32 failed[VECTOR_SETS];
  bool malformed;  // the file is not what generate.py writes
};
// `report` is called for each failure.
void vectors_run(struct bytes file, struct vector_result *result,
                 void (*report)(const char *set, u32 test_case, const char *what));
const char *vectors_set_name(u32 set);
