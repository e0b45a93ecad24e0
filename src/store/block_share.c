// SPDX-License-Identifier: Apache-2.0
#include "store/block_share.h"

#define PORT_SHIFT 56u
#define PORT_MAX (BLOCK_INFLIGHT_MAX / BLOCK_SHARE_PORTS)

static struct block_port *port_of(struct block *b) {
  return (struct block_port *)(void *)b;
}

static u32 share_of(const struct block_info *i) {
  return MAX(1u, MIN(i->inflight_max / BLOCK_SHARE_PORTS, PORT_MAX));
}

static void info(struct block *b, struct block_info *out) {
  block_info(port_of(b)->share->under, out);
  out->inflight_max = share_of(out);
}

static u32 submit(struct block *b, const struct block_op *ops, u32 count) {
  struct block_port *p = port_of(b);
  struct block_info i;
  u32 n = 0;
  block_info(p->share->under, &i);
  for (; n < count && p->held < share_of(&i); n++, p->held++) {
    struct block_op op = ops[n];
    ASSERT(op.token >> PORT_SHIFT == 0);
    op.token |= (u64)p->idx << PORT_SHIFT;
    if (block_submit(p->share->under, &op, 1) == 0) {
      break;
    }
  }
  return n;
}

// Whatever the device has finished, each to its port.
static void collect(struct block_share *s, u64 now_ns) {
  struct block_done done;
  while (block_complete(s->under, now_ns, &done, 1) == 1) {
    u64 idx = done.token >> PORT_SHIFT;
    ASSERT(idx < BLOCK_SHARE_PORTS);
    struct block_port *p = &s->port[idx];
    ASSERT(p->done_count < p->held);
    done.token &= (1ull << PORT_SHIFT) - 1;
    p->done[p->done_count++] = done;
  }
}

static u32 complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  struct block_port *p = port_of(b);
  if (p->held == 0) {
    return 0;
  }
  collect(p->share, now_ns);
  u32 n = MIN(max, p->done_count);
  memcpy(out, p->done, n * sizeof *out);
  memmove(p->done, p->done + n, (p->done_count - n) * sizeof *out);
  p->done_count -= n;
  p->held -= n;
  return n;
}

void block_share_init(struct block_share *s, struct block *under) {
  ASSERT(under != NULL);
  *s = (struct block_share){.under = under};
  for (u32 i = 0; i < BLOCK_SHARE_PORTS; i++) {
    s->port[i].block = (struct block){info, submit, complete};
    s->port[i].share = s;
    s->port[i].idx = (u8)i;
  }
}
