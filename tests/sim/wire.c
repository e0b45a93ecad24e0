// SPDX-License-Identifier: Apache-2.0
// What TCP must keep whatever happens, watched on the broker's NIC: of each connection, what the
// broker says and what has reached it.
//
// W1  It acknowledges nothing that has not reached it, and never takes an acknowledgement back.
// W2  The right edge of the window it offers never moves to the left (RFC 9293 3.8.6), until the
//     peer has ended: TIME-WAIT offers nothing.
// W3  It sends nothing beyond what the peer offered, but a probe of one byte.
// W4  A byte that is sent again is the byte that was sent.
#include "tests/sim/game.h"

#define FLOWS 512u
#define KEPT 65536u  // bytes of what was sent last, a flow

struct flow {
  u16 port;
  u8 host;
  bool used, synced, peer_ended;
  u8 shift_out, shift_in;  // window scales: ours, the peer's
  bool scaled_out, scaled_in;
  u32 reached;      // behind the last byte of the peer that has come
  u32 ack, edge;    // what was acknowledged and offered
  u32 first, sent;  // sequence numbers of what was sent
  u32 allowed;      // right edge that the peer offered
  u8 kept[KEPT];
};
static struct flow *flows;

void wire_init(void) {
  flows = (struct flow *)(void *)sim_shared(FLOWS * sizeof *flows).ptr;
}

// After a cut: its connections are others.
void wire_forget(void) {
  for (u32 i = 0; i < FLOWS; i++) {
    flows[i].used = false;
  }
}

struct seg {
  u32 seq, ack, window, len;
  u8 flags;
  const u8 *data;
  bool scaled;
  u8 shift;
};

static bool parse(struct bytes f, u16 *port, struct seg *s) {
  if (f.len < 54 || load_be16(f.ptr + 12) != 0x0800 || f.ptr[23] != 6) {
    return false;
  }
  const u8 *t = f.ptr + 34;
  u32 header = (u32)(t[12] >> 4) * 4;
  u32 total = load_be16(f.ptr + 16);
  bool from_broker = load_be16(t) == BROKER_PORT || load_be16(t) == BROKER_TLS_PORT;
  *port = load_be16(from_broker ? t + 2 : t);
  *s = (struct seg){.seq = load_be32(t + 4),
                    .ack = load_be32(t + 8),
                    .flags = t[13],
                    .window = load_be16(t + 14),
                    .len = total - 20 - header,
                    .data = t + header};
  for (u32 i = 20; i + 2 < header && t[i] != 0; i += t[i] == 1 ? 1 : MAX(t[i + 1], (u8)2)) {
    if (t[i] == 3) {
      s->scaled = true;
      s->shift = t[i + 2];
    }
  }
  return true;
}

static bool before(u32 a, u32 b) {
  return (i32)(a - b) < 0;
}

static struct flow *flow_of(u8 host, u16 port, bool fresh) {
  struct flow *unused = NULL;
  for (u32 n = 0, i = (host * 31u + port) % FLOWS; n < 16; n++, i = (i + 1) % FLOWS) {
    struct flow *f = &flows[i];
    if (f->used && f->port == port && f->host == host) {
      return f;
    }
    unused = unused == NULL && !f->used ? f : unused;
  }
  if (!fresh) {
    return NULL;
  }
  struct flow *f = unused != NULL ? unused : &flows[(host * 31u + port) % FLOWS];
  *f = (struct flow){.port = port, .host = host, .used = true};
  return f;
}

// A segment that has reached the broker, undamaged.
static void reached(u8 host, u16 port, const struct seg *s) {
  struct flow *f = flow_of(host, port, (s->flags & 2) != 0);
  if (f == NULL || (s->flags & 4) != 0) {
    return;
  }
  u32 end = s->seq + s->len + ((s->flags & 1) != 0 ? 1 : 0) + ((s->flags & 2) != 0 ? 1 : 0);
  if ((s->flags & 2) != 0 && (!f->synced || end != f->reached)) {
    *f = (struct flow){.port = port, .host = host, .used = true};  // a new connection
    f->reached = end;
    f->scaled_in = s->scaled;
    f->shift_in = s->shift;
    f->allowed = 0;
    f->synced = true;
    return;
  }
  if (!f->synced) {
    return;
  }
  // The edge of all that has come, also behind a gap: nothing beyond it may be acknowledged.
  f->reached = before(f->reached, end) ? end : f->reached;
  f->peer_ended |= (s->flags & 1) != 0;
  if ((s->flags & 16) != 0 && f->first != f->sent) {
    u32 edge = s->ack + (s->window << (f->scaled_in && f->scaled_out ? f->shift_in : 0));
    f->allowed = f->allowed == 0 || before(f->allowed, edge) ? edge : f->allowed;
  }
}

static void check_bytes(struct flow *f, const struct seg *s) {
  for (u32 i = 0; i < s->len; i++) {
    u32 seq = s->seq + i;
    u8 *at = &f->kept[seq % KEPT];
    if (!before(seq, f->sent)) {
      *at = s->data[i];
    } else if (f->sent - seq < KEPT && !before(seq, f->first) && *at != s->data[i]) {
      sim_fail("W4: byte %u of the connection to port %u is not the byte that was sent first", seq,
               f->port);
    }
  }
}

static void sent(u8 host, u16 port, const struct seg *s) {
  struct flow *f = flow_of(host, port, false);
  if (f == NULL || !f->synced || (s->flags & 4) != 0) {
    return;
  }
  u32 end = s->seq + s->len + ((s->flags & 3) != 0 ? 1 : 0);
  if ((s->flags & 2) != 0) {
    f->first = s->seq + 1;
    f->sent = f->first;
    f->scaled_out = s->scaled;
    f->shift_out = s->shift;
    f->ack = s->ack;
    f->edge = s->ack + s->window;
    f->allowed = 0;
    return;
  }
  if (f->first == 0) {
    return;
  }
  if (before(f->reached, s->ack) || before(s->ack, f->ack)) {
    sim_fail("W1: port %u: acknowledges %u after %u; %u has come", port, s->ack, f->ack,
             f->reached);
  }
  u32 edge = s->ack + (s->window << (f->scaled_in && f->scaled_out ? f->shift_out : 0));
  u32 grain = f->scaled_out ? 1u << f->shift_out : 1;
  if (!f->peer_ended && before(edge + grain - 1, f->edge)) {
    sim_fail("W2: port %u: the window's edge moves from %u back to %u", port, f->edge, edge);
  }
  if (f->allowed != 0 && s->len > 1 && before(f->allowed, end - (s->flags & 1))) {
    sim_fail("W3: port %u: sends up to %u, the peer takes up to %u", port, end, f->allowed);
  }
  check_bytes(f, s);
  f->ack = s->ack;
  f->edge = before(f->edge, edge) ? edge : f->edge;
  f->sent = before(f->sent, s->seq + s->len) ? s->seq + s->len : f->sent;
}

void wire_frame(bool from_broker, struct bytes frame) {
  u16 port;
  struct seg s;
  if (!parse(frame, &port, &s)) {
    return;
  }
  if (from_broker) {
    sent(frame.ptr[33], port, &s);
  } else {
    reached(frame.ptr[29], port, &s);
  }
}
