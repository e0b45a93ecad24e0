// SPDX-License-Identifier: Apache-2.0
// A segment's payload and FIN: what is in order goes to the owner's queue, what came early waits in
// the out-of-order queue and is told to the peer by SACK.
//
// I1  Every byte of the stream is delivered once, in order (RFC 9293 3.4); what was told by SACK is
//     never thrown away again (RFC 2018 8).
// I2  Both queues are bounded in buffers, per connection and per core: a peer that sends single
//     bytes holds no more memory than one that sends full segments. Small pieces are copied behind
//     the last buffer's bytes (TCP_COPY_MAX).
// I3  A connection without an owner holds no received bytes.
// I4  The window doubles when a peer has filled half of it in one round trip, the owner has taken
//     what came, and the core's buffers are mostly free: 64 KiB to 1 MiB. What was promised stays.
#include "net/tcp_conn.h"

#define DELAYED_ACK_NS (20 * TCP_MS)

static u32 chain_len(const struct rxbuf *b) {
  u32 len = 0;
  for (; b != NULL; b = b->next) {
    len += b->len;
  }
  return len;
}

// Drops `n` bytes from the front of a chain; returns what is left (NULL: nothing).
static struct rxbuf *chain_skip(u32 core, struct rxbuf *b, u32 n) {
  while (b != NULL && b->len <= n) {
    struct rxbuf *next = b->next;
    n -= b->len;
    b->next = NULL;
    plat_rx_release(core, b);
    b = next;
  }
  if (b != NULL) {
    b->data += n;
    b->len -= n;
  }
  return b;
}

static struct rxbuf *chain_cut(u32 core, struct rxbuf *chain, u32 keep) {
  if (keep == 0) {
    plat_rx_release(core, chain);
    return NULL;
  }
  struct rxbuf *b = chain;
  while (b->len < keep) {
    keep -= b->len;
    b = b->next;
    ASSERT(b != NULL);
  }
  b->len = keep;
  if (b->next != NULL) {
    plat_rx_release(core, b->next);
    b->next = NULL;
  }
  return chain;
}

// Room behind the last buffer's bytes: a buffer's block is aligned to its size (plat.h).
static u32 tail_room(const struct rxbuf *b) {
  uptr end = ALIGN_UP((uptr)b->data + 1, (uptr)PLAT_RXBUF_SIZE);
  ASSERT((uptr)b->data + b->len <= end);
  return (u32)(end - ((uptr)b->data + b->len));
}

static void append_in_order(struct net *net, struct tcp_conn *c, struct rxbuf *chain) {
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    chain->next = NULL;
    if (c->rx_last != NULL && chain->len <= TCP_COPY_MAX && chain->len <= tail_room(c->rx_last)) {
      memcpy(c->rx_last->data + c->rx_last->len, chain->data, chain->len);
      c->rx_last->len += chain->len;
      c->rx_len += chain->len;
      c->rcv_nxt += chain->len;
      plat_rx_release(net->core->id, chain);
      chain = next;
      continue;
    }
    if (c->rx_last != NULL) {
      c->rx_last->next = chain;
    } else {
      c->rx = chain;
    }
    c->rx_last = chain;
    c->rx_len += chain->len;
    c->rcv_nxt += chain->len;
    c->rx_bufs++;
    net->rx_held++;
    chain = next;
  }
}

// Takes from the out-of-order queue what has become in order.
static void drain_ooo(struct net *net, struct tcp_conn *c) {
  while (c->ooo != NULL && seq_le(c->ooo->frame_len, c->rcv_nxt)) {
    struct rxbuf *b = c->ooo;
    c->ooo = b->next;
    c->ooo_bufs--;
    net->rx_held--;
    b->next = NULL;
    u32 old = c->rcv_nxt - b->frame_len;
    if (old < b->len) {
      append_in_order(net, c, chain_skip(net->core->id, b, old));
    } else {
      plat_rx_release(net->core->id, b);
    }
  }
}

// Inserts one buffer of data [seq, seq+len) that starts beyond rcv_nxt; overlaps are cut off the
// new one, so that what was acknowledged by SACK stays.
// RFC 2883: [begin, end) came twice.
static void note_duplicate(struct tcp_conn *c, u32 begin, u32 end) {
  c->sack_first = begin;
  c->dsack_len = (u16)MIN(end - begin, (u32)U16_MAX);
  c->has_dsack = true;
}

static void insert_ooo(struct net *net, struct tcp_conn *c, struct rxbuf *b, u32 seq) {
  struct rxbuf **at = &c->ooo;
  while (*at != NULL && seq_le((*at)->frame_len + (*at)->len, seq)) {
    at = &(*at)->next;
  }
  if (*at != NULL && seq_le((*at)->frame_len, seq)) {  // its head lies inside *at
    u32 cut = (*at)->frame_len + (*at)->len - seq;
    note_duplicate(c, seq, seq + MIN(cut, b->len));
    if (cut >= b->len) {
      plat_rx_release(net->core->id, b);
      return;
    }
    b = chain_skip(net->core->id, b, cut);
    seq += cut;
    at = &(*at)->next;
  }
  if (*at != NULL && seq_lt((*at)->frame_len, seq + b->len)) {  // its tail overlaps the next
    u32 keep = (*at)->frame_len - seq;
    note_duplicate(c, seq + keep, seq + MIN(b->len, keep + (*at)->len));
    if (keep == 0) {
      plat_rx_release(net->core->id, b);
      return;
    }
    b->len = keep;  // what lies behind comes again if it is missing
  }
  if (c->ooo_bufs >= TCP_OOO_BUFS << c->rcv_grow || net->rx_held >= TCP_HELD_OOO_MAX) {
    net_drop(net, DROP_OUT_OF_ORDER_FULL);
    plat_rx_release(net->core->id, b);
    return;
  }
  b->frame_len = seq;
  b->next = *at;
  *at = b;
  c->ooo_bufs++;
  net->rx_held++;
}

static void queue_ooo(struct net *net, struct tcp_conn *c, struct rxbuf *chain, u32 seq) {
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    u32 len = chain->len;
    chain->next = NULL;
    insert_ooo(net, c, chain, seq);
    seq += len;
    chain = next;
  }
  c->ack_now = true;  // RFC 5681 4.2: at once, so that the sender sees the gap
}

static void on_fin(struct net *net, struct tcp_conn *c) {
  c->rcv_nxt++;
  c->rcv_adv = seq_lt(c->rcv_adv, c->rcv_nxt) ? c->rcv_nxt : c->rcv_adv;
  c->fin_received = true;
  c->ack_now = true;
  c->has_ooo_fin = false;
  tcp_touch(net, c);
  if (c->state == TCP_ESTABLISHED) {
    c->state = TCP_CLOSE_WAIT;
  } else if (c->state == TCP_FIN_WAIT_1) {
    c->state = TCP_CLOSING;
  } else if (c->state == TCP_FIN_WAIT_2) {
    tcp_output(net, c);  // the acknowledgement of the FIN
    tcp_to_time_wait(net, c);
  }
}

static void tell_owner(struct net *net, struct tcp_conn *c, bool had_fin) {
  (void)net;
  if (c->ops == NULL) {
    return;
  }
  if (c->rx_len > 0) {
    c->ops->readable(c->user, c);
  }
  if (c->state != TCP_CLOSED && c->ops != NULL && c->fin_received && !had_fin) {
    c->ops->ended(c->user, c, TCP_END_FIN);
  }
}

static void discard_rx(struct net *net, struct tcp_conn *c) {  // the owner has left
  if (c->rx != NULL) {
    net->rx_held -= c->rx_bufs;
    plat_rx_release(net->core->id, c->rx);
    c->rx = c->rx_last = NULL;
    c->rx_len = 0;
    c->rx_bufs = 0;
  }
}

static void grow_window(const struct net *net, struct tcp_conn *c) {
  u32 now_us = (u32)(net->core->now_ns / 1000);
  u32 round_us = MAX(c->srtt_us, 1000u);
  if (now_us - c->grow_us < round_us) {
    return;
  }
  u32 came = c->rcv_nxt - c->grow_seq;
  bool one_round = now_us - c->grow_us < 2 * round_us;
  c->grow_us = now_us;
  c->grow_seq = c->rcv_nxt;
  if (one_round && came >= (TCP_RX_BYTES << c->rcv_grow) / 2 && c->rcv_grow < TCP_RX_GROW_MAX &&
      c->rcv_shift > 0 && c->rx_len < TCP_RX_BYTES / 4 && net->rx_held < TCP_HELD_OOO_MAX / 2) {
    c->rcv_grow++;
  }
}

// `chain` holds s->len bytes of payload (NULL when none); consumed.
void tcp_take_data(struct net *net, struct tcp_conn *c, const struct segment *s,
                   struct rxbuf *chain) {
  u32 core = net->core->id;
  u32 seq = s->seq;
  u32 len = s->len;
  bool fin = (s->flags & TCPF_FIN) != 0;
  bool had_fin = c->fin_received;
  if (had_fin || c->state > TCP_CLOSE_WAIT || c->state == TCP_SYN_RCVD) {
    len = 0;
    fin = false;
  }
  u32 old = seq_lt(seq, c->rcv_nxt) ? c->rcv_nxt - seq : 0;
  if (old > 0) {
    c->ack_now = true;
    fin = fin && old <= len;
    old = MIN(old, len);
    if (old > 0) {
      note_duplicate(c, seq, seq + old);
    }
  }
  if (net->rx_held >= TCP_HELD_MAX && len > 0) {  // the peer sends it again, to emptier queues
    net_drop(net, DROP_TCP_POOL);
    len = old;
    fin = false;
  }
  u32 edge = c->rcv_adv - (seq + old);
  u32 take = (i32)edge < 0 ? 0 : MIN(len - old, edge);
  fin = fin && take == len - old;
  if (chain != NULL) {
    chain =
        take == 0 ? chain_cut(core, chain, 0) : chain_cut(core, chain_skip(core, chain, old), take);
  }
  seq += old;
  if (chain != NULL && seq != c->rcv_nxt) {
    c->sack_first = seq;
    c->has_dsack = false;
    queue_ooo(net, c, chain, seq);
  } else if (chain != NULL) {
    grow_window(net, c);
    ASSERT(chain_len(chain) == take);
    append_in_order(net, c, chain);
    bool gap = c->ooo != NULL;
    drain_ooo(net, c);
    c->ack_now = c->ack_now || gap;
    if (!c->ack_later) {
      c->ack_later = true;
      c->ack_ns = net->core->now_ns + DELAYED_ACK_NS;
    }
  }
  if (fin && seq + take != c->rcv_nxt) {
    c->has_ooo_fin = true;
    c->ooo_fin = seq + take;
    fin = false;
  }
  if (fin || (c->has_ooo_fin && c->ooo_fin == c->rcv_nxt)) {
    on_fin(net, c);
  }
  tcp_touch(net, c);
  if (c->ops == NULL) {
    discard_rx(net, c);
  } else if (take > 0 || c->fin_received != had_fin) {
    tell_owner(net, c, had_fin);
  }
}
