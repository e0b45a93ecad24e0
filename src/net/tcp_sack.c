// SPDX-License-Identifier: Apache-2.0
// The scoreboard: what of the bytes in flight the peer has told to have (RFC 2018, 2883, 6675),
// in a table of fixed size. When it is full, what is not told apart any more costs a loss seen
// later or a byte sent twice, never a byte lost.
//
// Invariants F1..F4 stand in tcp_flight.h; flight_check tests them.
#include "net/tcp_flight.h"

void tcp_flight_take(struct net *net, struct tcp_conn *c) {
  ASSERT(c->flight == NULL);
  struct tcp_flight *f = net->flights.count == 0 ? NULL : pool_take_raw(&net->flights);
  if (f == NULL) {
    return;
  }
  memset(f, 0, OFFSETOF(struct tcp_flight, range));
  f->base = f->fack = c->snd_una;
  f->rto_from_ns = net->core->now_ns;
  f->reo_ns = f->pto_ns = U64_MAX;
  if (c->snd_una != c->snd_max) {  // sent before, at a time not known
    f->range[0] = (struct range){c->snd_max, range_stamp(tcp_now_us(net), RANGE_AGAIN)};
    f->count = 1;
  }
  c->flight = f;
  c->dup_acks = 0;
  c->fast_dup = false;
}

void tcp_flight_drop(struct net *net, struct tcp_conn *c) {
  if (c->flight == NULL) {
    return;
  }
  pool_put(&net->flights, c->flight);
  c->flight = NULL;
  c->dup_acks = 0;
  c->recover = c->snd_max;
}

static u32 len_of(const struct tcp_flight *f, u32 i) {
  return f->range[i].end - flight_begin(f, i);
}

static void count_out(struct tcp_flight *f, u32 i, u32 len) {
  f->sacked -= range_flags(&f->range[i]) & RANGE_SACKED ? len : 0;
  f->lost -= range_flags(&f->range[i]) & RANGE_LOST ? len : 0;
}

// Whether the second of two neighbours may join the first without a difference.
static bool alike(const struct range *a, const struct range *b) {
  return a->stamp == b->stamp || (a->stamp & b->stamp & RANGE_SACKED) != 0;
}

static u32 later(u32 a, u32 b) {
  u32 flags = (a | b) & RANGE_FLAGS;
  a &= ~RANGE_FLAGS;
  b &= ~RANGE_FLAGS;
  return (seq_lt(a, b) ? b : a) | flags;
}

static void merge_alike(struct tcp_flight *f) {
  u32 n = 0;
  for (u32 i = 0; i < f->count; i++) {
    if (n > 0 && alike(&f->range[n - 1], &f->range[i])) {
      f->range[n - 1].end = f->range[i].end;
      f->range[n - 1].stamp = later(f->range[n - 1].stamp, f->range[i].stamp);
    } else {
      f->range[n++] = f->range[i];
    }
  }
  f->count = n;
}

// Makes `at` (inside range i) a border: i ends there. False: the table is full.
static bool split(struct tcp_flight *f, u32 i, u32 at) {
  ASSERT(i < f->count);
  if (f->count == FLIGHT_RANGES) {
    return false;
  }
  memmove(&f->range[i + 1], &f->range[i], (f->count - i) * sizeof f->range[0]);
  f->range[i].end = at;
  f->count++;
  return true;
}

void flight_sent(struct tcp_flight *f, u32 end, u32 now_us) {
  struct range *last = f->count > 0 ? &f->range[f->count - 1] : NULL;
  if (last != NULL && last->stamp == range_stamp(now_us, 0)) {
    last->end = end;
    return;
  }
  if (f->count == FLIGHT_RANGES) {
    merge_alike(f);
  }
  if (f->count < FLIGHT_RANGES) {
    f->range[f->count++] = (struct range){end, range_stamp(now_us, 0)};
    return;
  }
  last = &f->range[f->count - 1];  // F3
  count_out(f, f->count - 1, len_of(f, f->count - 1));
  *last = (struct range){end, range_stamp(now_us, 0)};
}

// The first range that ends behind `seq`; count: none.
static u32 find(const struct tcp_flight *f, u32 seq) {
  u32 i = 0;
  while (i < f->count && seq_le(f->range[i].end, seq)) {
    i++;
  }
  return i;
}

void flight_sent_again(struct tcp_flight *f, u32 begin, u32 end, u32 now_us) {
  u32 i = find(f, begin);
  ASSERT(i < f->count);
  if (seq_lt(flight_begin(f, i), begin) && split(f, i, begin)) {
    i++;
  }
  if (seq_lt(end, f->range[i].end)) {
    (void)split(f, i, end);  // full: F3, all of it counts as sent
  }
  count_out(f, i, len_of(f, i));
  f->range[i].stamp = range_stamp(now_us, RANGE_AGAIN);
}

void flight_acked(struct tcp_flight *f, u32 ack, u32 now_us, struct delivered *d) {
  u32 gone = 0;
  while (gone < f->count && seq_lt(f->base, ack)) {
    struct range part = f->range[gone];
    part.end = seq_lt(ack, part.end) ? ack : part.end;
    u32 len = part.end - f->base;
    if ((part.stamp & RANGE_SACKED) == 0) {
      d->bytes += len;
      rack_delivered(f, &part, now_us, d);
    }
    count_out(f, gone, len);
    f->base = part.end;
    gone += part.end == f->range[gone].end ? 1 : 0;
  }
  ASSERT(f->base == ack);
  if (gone > 0) {
    memmove(&f->range[0], &f->range[gone], (f->count - gone) * sizeof f->range[0]);
    f->count -= gone;
  }
  f->fack = seq_lt(f->fack, ack) ? ack : f->fack;
}

static void mark_sacked(struct tcp_flight *f, u32 i, u32 now_us, struct delivered *d) {
  if ((f->range[i].stamp & RANGE_SACKED) != 0) {
    return;
  }
  u32 len = len_of(f, i);
  count_out(f, i, len);
  d->bytes += len;
  rack_delivered(f, &f->range[i], now_us, d);
  f->range[i].stamp = (f->range[i].stamp & ~(u32)RANGE_LOST) | RANGE_SACKED;
  f->sacked += len;
}

static void take_block(struct tcp_flight *f, u32 begin, u32 end, u32 now_us, struct delivered *d) {
  u32 i = find(f, begin);
  bool inside = i < f->count && seq_lt(flight_begin(f, i), begin);
  if (inside && (f->range[i].stamp & RANGE_SACKED) == 0 && split(f, i, begin)) {
    i++;
  }
  for (; i < f->count && seq_lt(flight_begin(f, i), end); i++) {
    if ((f->range[i].stamp & RANGE_SACKED) != 0) {
      continue;
    }
    if (seq_lt(flight_begin(f, i), begin) || (seq_lt(end, f->range[i].end) && !split(f, i, end))) {
      return;  // the table is full: a later acknowledgement tells it again
    }
    mark_sacked(f, i, now_us, d);
  }
  f->fack = seq_lt(f->fack, end) ? end : f->fack;
}

// RFC 2883 4: the first block tells of a duplicate when it lies below the acknowledgement or inside
// the second block.
static bool is_dsack(const struct segment *s) {
  const struct sack_block *b = s->opt.sack;
  if (seq_lt(b[0].begin, s->ack)) {
    return true;
  }
  return s->opt.sack_count > 1 && seq_le(b[1].begin, b[0].begin) && seq_le(b[0].end, b[1].end);
}

void flight_take_sack(struct tcp_flight *f, const struct segment *s, u32 now_us,
                      struct delivered *d) {
  u32 bytes = d->bytes;
  u32 top = f->count == 0 ? f->base : f->range[f->count - 1].end;
  for (u32 i = 0; i < s->opt.sack_count; i++) {
    struct sack_block b = s->opt.sack[i];
    if (i == 0 && is_dsack(s) && seq_lt(b.begin, b.end)) {
      d->dsack = true;
      d->dsack_begin = b.begin;
      d->dsack_end = b.end;
      continue;
    }
    // Never what was not sent, nor what is acknowledged already (RFC 2018 3).
    if (seq_lt(b.begin, b.end) && seq_le(f->base, b.begin) && seq_le(b.end, top)) {
      take_block(f, b.begin, b.end, now_us, d);
    }
  }
  if (d->bytes != bytes) {
    merge_alike(f);
  }
}

bool flight_first_lost(const struct tcp_flight *f, u32 *begin, u32 *end) {
  for (u32 i = 0; f->lost > 0 && i < f->count; i++) {
    if ((f->range[i].stamp & RANGE_LOST) != 0) {
      *begin = flight_begin(f, i);
      *end = f->range[i].end;
      return true;
    }
  }
  return false;
}

void flight_mark_lost(struct tcp_flight *f, u32 i) {
  if ((f->range[i].stamp & (RANGE_LOST | RANGE_SACKED)) == 0) {
    f->range[i].stamp |= RANGE_LOST;
    f->lost += len_of(f, i);
  }
}

void flight_forget_sack(struct tcp_flight *f) {
  for (u32 i = 0; i < f->count; i++) {
    f->range[i].stamp &= ~(u32)RANGE_SACKED;
  }
  f->sacked = 0;
}

void flight_check(const struct tcp_conn *c) {
  const struct tcp_flight *f = c->flight;
  u32 sacked = 0;
  u32 lost = 0;
  if (f == NULL) {
    return;
  }
  for (u32 i = 0; i < f->count; i++) {
    u32 flags = f->range[i].stamp;
    ASSERT(seq_lt(flight_begin(f, i), f->range[i].end));
    ASSERT((flags & (RANGE_SACKED | RANGE_LOST)) != (RANGE_SACKED | RANGE_LOST));
    sacked += flags & RANGE_SACKED ? len_of(f, i) : 0;
    lost += flags & RANGE_LOST ? len_of(f, i) : 0;
  }
  ASSERT(f->sacked == sacked);
  ASSERT(f->lost == lost);
  ASSERT(f->count > 0);
  ASSERT(f->base == c->snd_una);
  ASSERT(f->range[f->count - 1].end == c->snd_max);
}
