// SPDX-License-Identifier: Apache-2.0
// Transmit memory and the frames of a turn: a frame is begun in the batch, gets its headers and
// references to txbufs, and is committed or cancelled before the next one is begun.
//
// I1  One frame is being made at a time (nic->making): what needs another one, as an ARP question
//     does, waits until the turn ends.
// I2  A slot and its references live until the device has given the token back (I3 of stack.h).
// I3  What a device does not take stays in the batch, in order.
#include "net/stack.h"

enum err txbuf_init(struct net *net, struct carve *carve, const struct net_limits *limits) {
  const struct {
    struct pool *pool;
    const char *name;
    u32 size, count;
  } table[] = {
      {&net->slots, "tx slots", sizeof(struct tx_slot), limits->tx_slots},
      {&net->small, "txbuf small", sizeof(struct txbuf), limits->txbuf_small},
      {&net->large, "txbuf large", sizeof(struct txbuf), limits->txbuf_large},
      {&net->small_data, "txbuf small data", TXBUF_SMALL, limits->txbuf_small},
      {&net->large_data, "txbuf large data", TXBUF_LARGE, limits->txbuf_large},
  };
  for (u32 i = 0; i < ARRAY_COUNT(table); i++) {
    usize len = pool_bytes(table[i].size, table[i].count);
    struct span memory = carve_take(carve, len, PLAT_PAGE);
    if (memory.ptr == NULL) {
      return ERR_NO_MEMORY;
    }
    pool_init(table[i].pool, table[i].name, memory, table[i].size, table[i].count);
  }
  net->small_reserve = limits->txbuf_small_reserve;
  return ERR_OK;
}

struct txbuf *txbuf_take(struct net *net, u32 min_len, enum txbuf_use use) {
  ASSERT(min_len <= TXBUF_LARGE);
  bool small = min_len <= TXBUF_SMALL;
  if (small && use == TXBUF_DATA && net->small.free_count <= net->small_reserve) {
    small = false;  // the reserve is for control (I3 of txbuf.h); a page will do
  }
  struct pool *pool = small ? &net->small : &net->large;
  struct pool *data = small ? &net->small_data : &net->large_data;
  struct txbuf *b = pool_take(pool);
  if (b == NULL) {
    return NULL;
  }
  b->data = pool_take_raw(data);
  ASSERT(b->data != NULL);
  b->cap = small ? TXBUF_SMALL : TXBUF_LARGE;
  b->refs = 1;
  list_init(&b->link);
  return b;
}

void txbuf_ref(struct txbuf *b) {
  ASSERT(b->refs > 0);
  ASSERT(b->refs < U16_MAX);
  b->refs++;
}

void txbuf_unref(struct net *net, struct txbuf *b) {
  ASSERT(b->refs > 0);
  if (--b->refs > 0) {
    return;
  }
  ASSERT(!list_linked(&b->link));
  bool small = b->cap == TXBUF_SMALL;
  pool_put(small ? &net->small_data : &net->large_data, b->data);
  pool_put(small ? &net->small : &net->large, b);
}

u32 tx_room(const struct nic *nic) {
  return MIN(BATCH - nic->batch_count, nic->net->slots.free_count);
}

bool tx_begin(struct nic *nic, struct frame *f) {
  ASSERT(!nic->making);
  if (nic->batch_count == BATCH) {
    tx_flush(nic);
  }
  if (nic->batch_count == BATCH) {
    net_drop(nic->net, DROP_TX_FULL);
    return false;
  }
  f->slot = pool_take_raw(&nic->net->slots);
  if (f->slot == NULL) {
    net_drop(nic->net, DROP_TX_FULL);
    return false;
  }
  nic->making = true;
  f->slot->ref_count = 0;
  f->tx = &nic->batch[nic->batch_count];
  f->tx->part_count = 1;
  f->tx->csum_start = f->tx->csum_offset = 0;
  f->tx->gso_size = 0;
  f->tx->gso = GSO_NONE;
  f->tx->token = f->slot;
  return true;
}

void tx_ref(struct frame *f, struct txbuf *b, u32 off, u32 len) {
  ASSERT(f->tx->part_count < PLAT_TX_PARTS);
  ASSERT(f->slot->ref_count < SLOT_REFS);
  txbuf_ref(b);
  f->slot->ref[f->slot->ref_count++] = b;
  f->tx->part[f->tx->part_count++] = bytes_of(b->data + off, len);
}

static void release_slot(struct net *net, struct tx_slot *slot) {
  for (u32 i = 0; i < slot->ref_count; i++) {
    txbuf_unref(net, slot->ref[i]);
  }
  pool_put(&net->slots, slot);
}

void tx_cancel(struct nic *nic, struct frame *f) {
  ASSERT(nic->making);
  nic->making = false;
  release_slot(nic->net, f->slot);
}

void tx_commit(struct nic *nic, struct frame *f, u32 header_len) {
  ASSERT(header_len <= HEADERS_MAX);
  ASSERT(nic->making);
  nic->making = false;
  f->tx->part[0] = bytes_of(f->slot->headers, header_len);
  nic->batch_count++;
  nic->net->stats.tx_frames++;
  for (u32 i = 0; i < f->tx->part_count; i++) {
    nic->net->stats.tx_bytes += f->tx->part[i].len;
  }
}

void tx_flush(struct nic *nic) {
  if (nic->batch_count == 0) {
    return;
  }
  u32 taken = plat_tx(nic->net->core->id, nic->index, nic->batch, nic->batch_count);
  ASSERT(taken <= nic->batch_count);
  nic->batch_count -= taken;
  for (u32 i = 0; taken > 0 && i < nic->batch_count; i++) {
    nic->batch[i] = nic->batch[i + taken];
  }
  tx_reclaim(nic);
}

void tx_reclaim(struct nic *nic) {
  void *token[BATCH];
  u32 n = 0;
  do {
    n = plat_tx_done(nic->net->core->id, nic->index, token, BATCH);
    for (u32 i = 0; i < n; i++) {
      release_slot(nic->net, token[i]);
    }
  } while (n == BATCH);
}
