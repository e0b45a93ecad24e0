// SPDX-License-Identifier: Apache-2.0
// Sending: segments are cut from the queue when the turn ends, as large as the peer's window, the
// congestion window and the device's segmentation allow. RFC 9293 3.8, RFC 5681, RFC 7323.
#include "net/tcp_flight.h"

#define TS_OPTION_LEN 12u
#define SACK_BLOCKS_MAX 3u
#define SUPER_MAX 61440u  // payload of a super-segment

u32 tcp_window(const struct tcp_conn *c) {
  u32 used = c->rx_len;
  u32 most = TCP_RX_BYTES << c->rcv_grow;
  u32 bytes = used < most ? most - used : 0;
  if (c->rx_bufs >= TCP_RX_BUFS) {
    bytes = 0;
  }
  u32 promised = c->rcv_adv - c->rcv_nxt;  // RFC 9293 3.8.6: never taken back
  u32 grown = seq_lt(c->rcv_nxt, c->rcv_adv) ? promised : 0;
  // Receiver's silly window avoidance (3.8.6.2.2): grow by a segment or half the buffer, or not.
  u32 step = MIN(c->mss, most / 2);
  return bytes >= grown + step ? bytes : grown;
}

// The block of adjacent buffers at *b; moves *b behind it.
static struct sack_block next_block(const struct rxbuf **b) {
  struct sack_block block = {(*b)->frame_len, (*b)->frame_len + (*b)->len};
  for (*b = (*b)->next; *b != NULL && (*b)->frame_len == block.end; *b = (*b)->next) {
    block.end += (*b)->len;
  }
  return block;
}

static u32 put_block(u8 *h, u32 at, struct sack_block block) {
  store_be32(h + at, block.begin);
  store_be32(h + at + 4, block.end);
  return at + 8;
}

// The blocks behind h + at: what came twice (RFC 2883 4), what came last (RFC 2018 4), others.
static u32 write_sack(struct tcp_conn *c, u8 *h, u32 at) {
  u32 end = at + 8 * SACK_BLOCKS_MAX;
  if (c->has_dsack) {
    at = put_block(h, at, (struct sack_block){c->sack_first, c->sack_first + c->dsack_len});
    c->has_dsack = false;
  }
  const struct rxbuf *latest = NULL;
  for (const struct rxbuf *b = c->ooo; b != NULL;) {
    const struct rxbuf *first = b;
    struct sack_block block = next_block(&b);
    if (c->sack_first - block.begin < block.end - block.begin) {
      at = put_block(h, at, block);
      latest = first;
      break;
    }
  }
  for (const struct rxbuf *b = c->ooo; b != NULL && at < end;) {
    const struct rxbuf *first = b;
    struct sack_block block = next_block(&b);
    at = first == latest ? at : put_block(h, at, block);
  }
  return at;
}

// Writes timestamps and SACK blocks; returns the header's length.
static u32 write_options(const struct net *net, struct tcp_conn *c, u8 *h, bool with_sack) {
  u32 len = TCP_LEN;
  if (c->ts_ok) {
    h[len] = h[len + 1] = 1;
    h[len + 2] = 8;
    h[len + 3] = 10;
    store_be32(h + len + 4, tcp_clock(net));
    store_be32(h + len + 8, c->ts_recent);
    len += TS_OPTION_LEN;
  }
  if (!with_sack || !c->sack_ok || (c->ooo == NULL && !c->has_dsack)) {
    return len;
  }
  u32 at = write_sack(c, h, len + 4);
  h[len] = h[len + 1] = 1;
  h[len + 2] = 5;
  h[len + 3] = (u8)(at - len - 2);
  return at;
}

static void write_header(const struct tcp_conn *c, u8 *h, u32 seq, u8 flags, u32 header_len) {
  u32 window = tcp_window(c);
  store_be16(h, c->local_port);
  store_be16(h + 2, c->remote_port);
  store_be32(h + 4, seq);
  store_be32(h + 8, c->rcv_nxt);
  h[12] = (u8)(header_len / 4 << 4);
  h[13] = flags;
  store_be16(h + 14, (u16)MIN(window >> c->rcv_shift, U16_MAX));
  store_be16(h + 16, 0);
  store_be16(h + 18, 0);
}

// Where the TCP header of a frame to `target` stands.
static u8 *tcp_place(const struct frame *f, struct ip_addr target) {
  return f->slot->headers + ETH_LEN + ip_header_len(target);
}

// Checksum by the device or here; then IP and Ethernet, and off it goes. Returns false when the
// frame could not be sent now (no MAC).
static bool finish(struct nic *nic, struct frame *f, struct ip_addr source, struct ip_addr target,
                   u32 header_len, u32 payload) {
  u32 start = ETH_LEN + ip_header_len(target);
  u8 *h = f->slot->headers + start;
  struct csum c = {0};
  ip_pseudo(&c, source, target, IP_TCP, header_len + payload);
  if (nic->info.tx_csum) {
    f->tx->csum_start = (u16)start;
    f->tx->csum_offset = 16;
    store_be16(h + 16, csum_fold(&c));
  } else {
    csum_add(&c, bytes_of(h, header_len));
    for (u32 i = 1; i < f->tx->part_count; i++) {
      csum_add(&c, f->tx->part[i]);
    }
    store_be16(h + 16, csum_finish(&c));
  }
  if (ip_header(nic, f->slot->headers, source, target, IP_TCP, header_len + payload) != ERR_OK) {
    tx_cancel(nic, f);
    net_drop(nic->net, DROP_NO_ROUTE);
    return false;
  }
  tx_commit(nic, f, start + header_len);
  nic->net->stats.tcp_segments_out++;
  return true;
}

static void ack_is_out(struct tcp_conn *c) {
  c->ack_now = c->ack_later = false;
  c->ack_ns = U64_MAX;
  c->last_ack_sent = c->rcv_nxt;
  u32 edge = c->rcv_nxt + tcp_window(c);
  if (seq_lt(c->rcv_adv, edge)) {
    c->rcv_adv = edge;
  }
}

// Adds up to `want` queued bytes from (b, off); returns how many fit into the frame's parts.
static u32 gather(const struct tcp_conn *c, struct frame *f, struct txbuf *b, u32 off, u32 want) {
  u32 got = 0;
  while (got < want && f->slot->ref_count < SLOT_REFS && b != NULL) {
    u32 n = MIN((u32)b->len - off, want - got);
    if (n > 0) {
      tx_ref(f, b, (u32)b->off + off, n);
      got += n;
    }
    if (off + n == b->len) {
      b = b->link.next == &c->queue ? NULL : CONTAINER_OF(b->link.next, struct txbuf, link);
      off = 0;
    }
  }
  return got;
}

// Moves the unsent mark by n bytes.
static void advance(struct tcp_conn *c, u32 n) {
  while (n > 0) {
    ASSERT(c->unsent != NULL);
    u32 left = (u32)c->unsent->len - c->unsent_off;
    u32 step = MIN(left, n);
    n -= step;
    c->unsent_off = (u16)(c->unsent_off + step);
    if (c->unsent_off == c->unsent->len && c->unsent->link.next != &c->queue) {
      c->unsent = CONTAINER_OF(c->unsent->link.next, struct txbuf, link);
      c->unsent_off = 0;
    }
  }
}

void tcp_rewind(struct tcp_conn *c) {
  c->snd_nxt = c->snd_una;
  c->fin_sent = false;
  c->unsent = list_empty(&c->queue) ? NULL : CONTAINER_OF(c->queue.next, struct txbuf, link);
  c->unsent_off = 0;
}

struct cut {  // what a segment is to carry
  u32 seq;
  struct txbuf *b;  // holds the byte seq at off
  u32 off, len;
};

// One segment (or super-segment) of up to cut->len bytes, and the FIN when it comes next. Returns
// sequence numbers taken; 0 with *sent = false: not now.
static u32 send_cut(struct net *net, struct tcp_conn *c, const struct cut *cut, bool *sent) {
  struct nic *nic = &net->nic[c->nic];
  struct frame f;
  *sent = false;
  if (tx_room(nic) == 0 || !tx_begin(nic, &f)) {
    return 0;
  }
  u8 *h = tcp_place(&f, c->remote);
  u32 header_len = write_options(net, c, h, cut->len <= c->mss - 36u);
  bool v4 = ip_is4(c->remote);
  bool tso = (v4 ? nic->info.tx_tso4 : nic->info.tx_tso6) && nic->info.tx_csum;
  u32 most = tso ? SUPER_MAX / c->mss * c->mss : c->mss;
  u32 got = cut->len > 0 ? gather(c, &f, cut->b, cut->off, MIN(cut->len, most)) : 0;
  bool last = cut->seq + got == c->snd_end;
  bool fin = last && c->fin_queued && cut->len == got;
  u8 flags = (u8)(TCPF_ACK | (last && got > 0 ? TCPF_PSH : 0) | (fin ? TCPF_FIN : 0));
  write_header(c, h, cut->seq, flags, header_len);
  if (got > c->mss) {
    f.tx->gso = v4 ? GSO_TCP4 : GSO_TCP6;
    f.tx->gso_size = c->mss;
  }
  if (!finish(nic, &f, c->local, c->remote, header_len, got)) {
    return 0;
  }
  *sent = true;
  c->fin_sent = c->fin_sent || fin;
  ack_is_out(c);
  return got + (fin ? 1 : 0);
}

// New data has left: the scoreboard, once more than one segment is out (an exchange of single
// messages does without).
static void note_sent(struct net *net, struct tcp_conn *c, u32 top) {
  bool several = c->snd_max != c->snd_una || top - c->snd_max > c->mss;
  if (c->flight == NULL && c->sack_ok && several && c->retries == 0 && c->dup_acks == 0) {
    tcp_flight_take(net, c);
  }
  if (c->flight != NULL) {
    flight_sent(c->flight, top, tcp_now_us(net));
    c->flight->prr_out += top - c->snd_max;
  }
}

// Up to `len` bytes at snd_nxt.
static void send_data(struct net *net, struct tcp_conn *c, u32 len, bool *sent) {
  struct cut cut = {c->snd_nxt, c->unsent, c->unsent_off, len};
  u32 top = c->snd_nxt + send_cut(net, c, &cut, sent);
  if (!*sent) {
    return;
  }
  u32 got = (seq_lt(c->snd_end, top) ? c->snd_end : top) - c->snd_nxt;
  if (!c->ts_ok && !c->timing && got > 0 && c->snd_nxt == c->snd_max) {  // RFC 6298 3: Karn
    c->timing = true;
    c->rtt_seq = c->snd_nxt + got;
    c->rtt_sent_us = tcp_now_us(net);
  }
  if (c->snd_nxt == c->snd_max && top != c->snd_max) {
    note_sent(net, c, top);
  }
  advance(c, got);
  c->snd_nxt += got;
  c->snd_max = seq_lt(c->snd_max, top) ? top : c->snd_max;
}

// The buffer with the byte `seq`, from the hint or the front of the queue.
static struct cut cut_at(struct tcp_conn *c, u32 seq, u32 len) {
  struct tcp_flight *f = c->flight;
  if (f->hint == NULL || seq_lt(seq, f->hint_seq)) {
    f->hint = list_empty(&c->queue) ? NULL : CONTAINER_OF(c->queue.next, struct txbuf, link);
    f->hint_seq = c->snd_una;
  }
  while (f->hint != NULL && seq_le(f->hint_seq + f->hint->len, seq)) {
    f->hint_seq += f->hint->len;
    f->hint = f->hint->link.next == &c->queue
                  ? NULL
                  : CONTAINER_OF(f->hint->link.next, struct txbuf, link);
  }
  return (struct cut){seq, f->hint, seq - f->hint_seq, len};
}

u32 tcp_send_again(struct net *net, struct tcp_conn *c, u32 begin, u32 end) {
  struct tcp_flight *f = c->flight;
  bool sent = false;
  ASSERT(seq_le(c->snd_una, begin));
  ASSERT(seq_lt(begin, end));
  u32 data_end = seq_lt(c->snd_end, end) ? c->snd_end : end;
  struct cut cut = cut_at(c, begin, data_end - begin);
  u32 took = send_cut(net, c, &cut, &sent);
  if (!sent) {
    return 0;
  }
  ASSERT(took > 0);
  flight_sent_again(f, begin, begin + took, tcp_now_us(net));
  f->prr_out += took;
  f->undo_left += took;
  f->rto_from_ns = begin == c->snd_una ? net->core->now_ns : f->rto_from_ns;
  net->stats.tcp_retransmits++;
  return took;
}

// RFC 9293 3.10.7.4 wants SND.NXT, as the peer saw it: what a timeout put back was sent all the
// same. Beyond the peer's window it would not be acceptable there.
u32 tcp_ack_seq(const struct tcp_conn *c) {
  u32 edge = c->snd_una + c->snd_wnd;
  return seq_lt(edge, c->snd_max) ? edge : c->snd_max;
}

static void send_ack(struct net *net, struct tcp_conn *c) {
  struct nic *nic = &net->nic[c->nic];
  struct frame f;
  if (!tx_begin(nic, &f)) {
    return;  // ack_now stays: the next flush tries again
  }
  u8 *h = tcp_place(&f, c->remote);
  u32 header_len = write_options(net, c, h, true);
  write_header(c, h, tcp_ack_seq(c), TCPF_ACK, header_len);
  if (finish(nic, &f, c->local, c->remote, header_len, 0)) {
    ack_is_out(c);
  }
}

void tcp_send_syn(struct net *net, struct tcp_conn *c) {
  tcp_send_syn_at(net, c, tcp_clock(net));
}

void tcp_send_syn_at(struct net *net, struct tcp_conn *c, u32 ts) {
  u8 flags = c->state == TCP_SYN_SENT ? TCPF_SYN : TCPF_SYN | TCPF_ACK;
  struct nic *nic = &net->nic[c->nic];
  struct frame f;
  if (!tx_begin(nic, &f)) {
    return;
  }
  u8 *h = tcp_place(&f, c->remote);
  write_header(c, h, c->snd_una - 1, flags, TCP_LEN);
  store_be16(h + 14, (u16)MIN(TCP_RX_BYTES, U16_MAX));  // RFC 7323 2.2: never scaled in a SYN
  struct writer w = writer_init(span_of(h + TCP_LEN, 40));
  write_be16(&w, 2 << 8 | 4);
  write_be16(&w, (u16)tcp_mss_of(ip_mtu(nic, c->remote), c->remote));
  if (c->sack_ok && !c->ts_ok) {
    write_bytes(&w, BYTES_LIT("\x01\x01\x04\x02"));
  }
  if (c->ts_ok) {  // SACK permitted in the place of its padding
    write_bytes(&w, c->sack_ok ? BYTES_LIT("\x04\x02\x08\x0a") : BYTES_LIT("\x01\x01\x08\x0a"));
    write_be32(&w, ts);
    write_be32(&w, c->ts_recent);
  }
  if (c->rcv_shift > 0) {
    write_bytes(&w, BYTES_LIT("\x01\x03\x03"));
    write_u8(&w, c->rcv_shift);
  }
  ASSERT(w.err == ERR_OK);
  ASSERT(w.pos % 4 == 0);
  h[12] = (u8)((TCP_LEN + w.pos) / 4 << 4);
  if (finish(nic, &f, c->local, c->remote, TCP_LEN + w.pos, 0)) {
    c->rcv_adv = c->rcv_nxt + MIN(TCP_RX_BYTES, U16_MAX);
    c->last_ack_sent = c->rcv_nxt;
  }
}

void tcp_send_bare(struct net *net, const struct bare *b) {
  struct nic *nic = &net->nic[b->nic];
  struct frame f;
  if (!tx_begin(nic, &f)) {
    return;
  }
  u8 *h = tcp_place(&f, b->flow.remote);
  struct writer w = writer_init(span_of(h, TCP_LEN + TS_OPTION_LEN));
  write_be16(&w, b->flow.local_port);
  write_be16(&w, b->flow.remote_port);
  write_be32(&w, b->seq);
  write_be32(&w, b->ack);
  write_u8(&w, b->has_ts ? 0x80 : 0x50);
  write_u8(&w, b->flags);
  write_be16(&w, 0);
  write_be32(&w, 0);
  if (b->has_ts) {
    write_bytes(&w, BYTES_LIT("\x01\x01\x08\x0a"));
    write_be32(&w, b->ts_value);
    write_be32(&w, b->ts_echo);
  }
  ASSERT(w.err == ERR_OK);
  if (finish(nic, &f, b->flow.local, b->flow.remote, w.pos, 0) && (b->flags & TCPF_RST) != 0) {
    net->stats.tcp_resets_out++;
  }
}

// Usable window: what may be sent now beyond snd_nxt.
static u32 usable(const struct tcp_conn *c) {
  u32 flight = c->snd_nxt - c->snd_una;
  u32 window = c->snd_wnd > flight ? c->snd_wnd - flight : 0;
  u32 pipe = c->flight != NULL ? flight_pipe(c, c->flight) : flight;
  u32 room = c->cwnd > pipe ? c->cwnd - pipe : 0;
  if (c->flight != NULL && c->force) {
    room = MAX(room, c->mss);  // a tail loss probe
  }
  return MIN(window, room);
}

static void arm_rtx(struct net *net, struct tcp_conn *c) {
  if (c->flight != NULL) {
    tlp_schedule(net, c);
    rack_arm(net, c);
    return;
  }
  if (c->rtx_ns == U64_MAX) {
    c->rtx_ns = net->core->now_ns + c->rto_ms * TCP_MS;
    c->stuck_s = c->stuck_s == 0 ? tcp_second(net) : c->stuck_s;
  }
}

// Sender's silly window avoidance (RFC 9293 3.8.6.2.1); no Nagle: a turn has batched already.
static bool worth_sending(const struct tcp_conn *c, u32 len, u32 waiting) {
  return len > 0 && (len == waiting || len >= c->mss || len >= c->snd_wnd_max / 2);
}

// What is lost goes before what is new (RFC 6675 5, NextSeg rule 1).
static void send_lost(struct net *net, struct tcp_conn *c) {
  u32 begin;
  u32 end;
  while (c->flight != NULL && flight_first_lost(c->flight, &begin, &end)) {
    u32 len = tcp_flight_again(c, begin, end);
    if (len == 0 || tcp_send_again(net, c, begin, begin + len) == 0) {
      break;
    }
    c->force = false;
    rack_arm(net, c);
  }
}

void tcp_output(struct net *net, struct tcp_conn *c) {
  if (c->state == TCP_CLOSED || c->state == TCP_SYN_SENT) {
    return;
  }
  if (c->state == TCP_SYN_RCVD) {
    if (c->ack_now) {
      send_ack(net, c);  // to a SYN or segment that does not fit ours
    }
    return;
  }
  send_lost(net, c);
  bool sent = true;
  while (sent) {
    u32 waiting = c->snd_end - c->snd_nxt;
    u32 len = MIN(waiting, usable(c));
    bool fin_only = waiting == 0 && c->fin_queued && !c->fin_sent;
    if (!worth_sending(c, len, waiting) && !fin_only && !(c->force && len > 0)) {
      break;
    }
    c->force = false;
    send_data(net, c, len, &sent);
    arm_rtx(net, c);
  }
  if (c->snd_end != c->snd_nxt && c->snd_nxt == c->snd_una && usable(c) < c->mss) {
    arm_rtx(net, c);  // zero or silly window with nothing in flight: the timer probes
  }
  u32 window = tcp_window(c);
  bool opened = seq_lt(c->rcv_adv + 2u * c->mss, c->rcv_nxt + window) ||
                (c->rcv_adv == c->rcv_nxt && window > 0);
  if (c->ack_now || (c->ack_later && c->rcv_nxt - c->last_ack_sent >= 2u * c->mss) ||
      (opened && c->state <= TCP_FIN_WAIT_2 && !c->fin_received)) {
    send_ack(net, c);
  }
  if (tx_room(&net->nic[c->nic]) == 0) {
    tcp_touch(net, c);  // what is left goes out when the device gives slots back
  }
  tcp_rearm(net, c);
}

void tcp_retransmit_first(struct net *net, struct tcp_conn *c) {
  u32 nxt = c->snd_nxt;
  u16 off = c->unsent_off;
  struct txbuf *unsent = c->unsent;
  bool fin_sent = c->fin_sent;
  bool sent = false;
  tcp_rewind(c);
  u32 len = MIN(MIN(c->snd_end - c->snd_una, c->snd_max - c->snd_una), c->mss);
  send_data(net, c, len, &sent);  // only what was sent before
  c->timing = false;
  net->stats.tcp_retransmits++;
  if (seq_lt(c->snd_nxt, nxt)) {  // back to where sending had come
    c->snd_nxt = nxt;
    c->unsent = unsent;
    c->unsent_off = off;
  }
  c->fin_sent = c->fin_sent || fin_sent;
}

void tcp_probe(struct net *net,
               struct tcp_conn *c) {  // RFC 9293 3.8.6.1: one byte beyond the window
  bool sent = false;
  tcp_flight_drop(net, c);
  tcp_rewind(c);
  send_data(net, c, MIN(c->snd_end - c->snd_una, 1u), &sent);
}

void tcp_acked(struct net *net, struct tcp_conn *c, u32 ack) {
  u32 n = ack - c->snd_una;
  u32 queued = c->snd_end - c->snd_una;
  bool fin_acked = n > queued;
  n = MIN(n, queued);
  ASSERT(!fin_acked || c->fin_sent || seq_lt(c->snd_end, c->snd_max));
  u32 sent = c->snd_nxt - c->snd_una;
  c->snd_una += n;
  if (sent < n) {  // after a rewind the peer acknowledges more than was sent again
    advance(c, n - sent);
    c->snd_nxt = c->snd_una;
  }
  while (n > 0) {
    struct txbuf *b = CONTAINER_OF(c->queue.next, struct txbuf, link);
    if (b->len > n) {
      b->off = (u16)(b->off + n);
      b->len = (u16)(b->len - n);
      c->unsent_off = (u16)(c->unsent_off - (c->unsent == b ? n : 0));
      return;
    }
    n -= b->len;
    if (c->unsent == b) {
      ASSERT(c->unsent_off == b->len);
      c->unsent = NULL;
      c->unsent_off = 0;
    }
    list_remove(&b->link);
    txbuf_unref(net, b);
  }
  if (c->unsent == NULL && !list_empty(&c->queue)) {
    c->unsent = CONTAINER_OF(c->queue.next, struct txbuf, link);
    c->unsent_off = 0;
  }
}
