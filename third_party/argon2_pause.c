// SPDX-License-Identifier: Apache-2.0
// Where argon2 can wait in the middle: the block filler's call of index_alpha, one for each KiB, and the wiping of the
// memory are led through here (-Dindex_alpha, -Dexplicit_bzero in third_party.mk), so that not a line of it is changed.
#include <string.h>

#include "core.h"

#define WIPE_STEP 8192u

// src/argon/argon.c
void argon_pause(void);
uint32_t argon_index_alpha(const argon2_instance_t *instance, const argon2_position_t *position, uint32_t random,
                           int same_lane);
void argon_wipe(void *memory, size_t len);

uint32_t argon_index_alpha(const argon2_instance_t *instance, const argon2_position_t *position, uint32_t random,
                           int same_lane) {
  argon_pause();
  return index_alpha(instance, position, random, same_lane);
}

void argon_wipe(void *memory, size_t len) {
  unsigned char *at = memory;
  while (len > WIPE_STEP) {
    memset(at, 0, WIPE_STEP);
    at += WIPE_STEP;
    len -= WIPE_STEP;
    argon_pause();
  }
  memset(at, 0, len);
  __asm__ volatile("" : : "r"(memory) : "memory");
}
