// SPDX-License-Identifier: Apache-2.0
// A block device that fails on purpose: one fault at the nth operation it applies to. Tests count n
// up until the fault does not fire any more, so that every operation has failed once.
#pragma once
#include "base/block.h"

enum block_fault_kind {
  BLOCK_FAULT_NONE,
  BLOCK_FAULT_ERROR,        // any operation: an error, and nothing has happened
  BLOCK_FAULT_TORN,         // a write of several blocks: half of it happens, then an error
  BLOCK_FAULT_TORN_SILENT,  // the same, acknowledged
  BLOCK_FAULT_LOST,         // a write: acknowledged, and has not happened
  BLOCK_FAULT_REORDERED,    // a write: acknowledged, happens only after the next flush is done
  BLOCK_FAULT_MISDIRECTED,  // a write or read: happens one place of its own length further
  BLOCK_FAULT_LYING_FLUSH,  // this flush and all later ones: acknowledged, never done
  BLOCK_FAULT_FLIPPED,      // a read: one bit of it is wrong
  BLOCK_FAULT_STUCK,        // any operation: never completes
  BLOCK_FAULT_COUNT
};

struct block_fault {
  struct block block;  // first
  struct block *under;
  enum block_fault_kind kind;
  u32 nth;   // the fault comes at this one, from 1
  u32 seen;  // operations it applies to
  bool fired;
  struct span scratch;  // for what is reordered
  struct block_op delayed;
  bool have_delayed;
  struct fault_pending {
    struct block_op op;
    u8 how;  // enum block_fault_kind of this operation
    bool used;
    bool ready;  // done without the disk below
  } pending[BLOCK_INFLIGHT_MAX];
};

// scratch: the largest write, for REORDERED; empty otherwise.
void block_fault_init(struct block_fault *f, struct block *under, enum block_fault_kind kind,
                      u32 nth, struct span scratch);
