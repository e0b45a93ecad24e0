// SPDX-License-Identifier: Apache-2.0
// A fixed list of block operations, one after the other, each waited for: the shape of everything
// that writes tables and superblocks. Stops at the first that fails; nothing is repeated.
#pragma once
#include "base/block.h"

#define SCRIPT_MAX 24u
#define SCRIPT_UNREAD 0x5a  // what memory holds that could not be read

enum script_kind {
  SCRIPT_WRITE,
  SCRIPT_FLUSH,
  SCRIPT_READ,   // one that fails is counted and leaves SCRIPT_UNREAD: copies exist for that
  SCRIPT_VERIFY  // reads into the scratch memory and compares
};

enum script_state { SCRIPT_RUNNING, SCRIPT_DONE, SCRIPT_FAILED };

struct script_step {
  u8 kind;
  u64 at;         // bytes on the disk
  struct span s;  // memory that is written, read into, or compared with
};

struct script {
  struct block *block;
  struct span scratch;  // as long as the longest VERIFY
  struct script_step step[SCRIPT_MAX];
  u32 count;
  u32 next;
  u32 unread;  // READs that failed
  bool waiting;
  u8 state;       // enum script_state
  bool mismatch;  // failed since what was read is not what was written
};

void script_init(struct script *s, struct block *block, struct span scratch);
void script_add(struct script *s, enum script_kind kind, u64 at, struct span memory);
// One step; to be called until the state is not SCRIPT_RUNNING. Takes all completions of the
// device: nobody else may use it meanwhile.
enum script_state script_turn(struct script *s, u64 now_ns);
