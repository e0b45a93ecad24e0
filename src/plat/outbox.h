// SPDX-License-Identifier: Apache-2.0
// Frames of a core that has no transmit queue of its own, on their way to the core that has it, and
// their tokens on the way back: one ring each way, one core at each end. The frames' parts stay
// where they are; only the list of them is copied.
//
// I1  taken <= put <= taken + OUTBOX_FRAMES; back <= returned <= put: a frame's place is free once
//     it lies in the device, its token comes back once the device is done.
// I2  At most OUTBOX_TOKENS frames are out at once, so the way back is never full.
#pragma once
#include "plat/plat.h"

#define OUTBOX_FRAMES 64u
#define OUTBOX_TOKENS 256u

struct outbox {
  // Written by the sender; put: released to the owner.
  u32 put ALIGNED(64);
  u32 back;
  // Written by the owner; both released to the sender.
  u32 taken ALIGNED(64);
  u32 returned;
  struct tx_frame frame[OUTBOX_FRAMES];
  void *token[OUTBOX_TOKENS];
};

// --- The sender. Returns how many were taken, from the front.
u32 outbox_put(struct outbox *o, const struct tx_frame *frames, u32 count);
u32 outbox_done(struct outbox *o, void *tokens[], u32 max);

// --- The owner of the queue
// The frame that has waited longest; NULL: none. outbox_take: it is in the device, or was copied.
const struct tx_frame *outbox_next(struct outbox *o);
void outbox_take(struct outbox *o);
void outbox_return(struct outbox *o, void *token);  // no part of it is read any more
// Ordered after the owner's mark that it sleeps (steer.h I4).
bool outbox_waits(const struct outbox *o);
