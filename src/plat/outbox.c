// SPDX-License-Identifier: Apache-2.0
#include "plat/outbox.h"

#include "base/shared.h"

u32 outbox_put(struct outbox *o, const struct tx_frame *frames, u32 count) {
  u32 taken = shared_acquire_u32(&o->taken);  // the owner has read what stood there
  u32 n = 0;
  ASSERT(o->put - taken <= OUTBOX_FRAMES);
  while (n < count && o->put + n - taken < OUTBOX_FRAMES && o->put + n - o->back < OUTBOX_TOKENS) {
    o->frame[(o->put + n) % OUTBOX_FRAMES] = frames[n];
    n++;
  }
  shared_ordered_store_u32(&o->put, o->put + n);  // pairs with outbox_next and outbox_waits
  return n;
}

u32 outbox_done(struct outbox *o, void *tokens[], u32 max) {
  u32 returned = shared_acquire_u32(&o->returned);
  u32 n = 0;
  ASSERT(returned - o->back <= OUTBOX_TOKENS);
  while (n < max && o->back != returned) {
    tokens[n++] = o->token[o->back++ % OUTBOX_TOKENS];
  }
  return n;
}

const struct tx_frame *outbox_next(struct outbox *o) {
  u32 put = shared_acquire_u32(&o->put);
  ASSERT(put - o->taken <= OUTBOX_FRAMES);
  return put == o->taken ? NULL : &o->frame[o->taken % OUTBOX_FRAMES];
}

void outbox_take(struct outbox *o) {
  shared_release_u32(&o->taken, o->taken + 1);
}

void outbox_return(struct outbox *o, void *token) {
  o->token[o->returned % OUTBOX_TOKENS] = token;
  shared_release_u32(&o->returned, o->returned + 1);
}

bool outbox_waits(const struct outbox *o) {
  return shared_ordered_load_u32(&o->put) != o->taken;
}
