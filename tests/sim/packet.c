// SPDX-License-Identifier: Apache-2.0
// MQTT 3.1.1 and 5.0 as a client writes and reads it: a second, small implementation, so that the
// broker's codec is not its own judge.
#include "tests/sim/game.h"

#include <stdio.h>
#include <string.h>

struct build {
  u8 body[PAYLOAD_MAX + 512];
  u32 len;
};
static struct build b;

static void u8_(u32 v) {
  b.body[b.len++] = (u8)v;
}
static void u16_(u32 v) {
  u8_(v >> 8);
  u8_(v);
}
static void u32_(u32 v) {
  u16_(v >> 16);
  u16_(v);
}
static void text(const char *s) {
  u32 n = (u32)strlen(s);
  u16_(n);
  memcpy(b.body + b.len, s, n);
  b.len += n;
}

static void out_bytes(struct client *c, const u8 *p, u32 len) {
  if (c->out_len + len > OUT_LEN) {
    sim_fail("harness: client %u has more to say than fits", c->number);
  }
  for (u32 i = 0; i < len;) {
    u32 at = (c->out_from + c->out_len + i) % OUT_LEN;
    u32 n = MIN(len - i, OUT_LEN - at);
    memcpy(c->out + at, p + i, n);
    i += n;
  }
  c->out_len += len;
}

static void finish(struct client *c, u8 first) {
  u8 head[5] = {first};
  u32 n = 1;
  u32 left = b.len;
  do {
    head[n++] = (u8)(left % 128 | (left >= 128 ? 128 : 0));
    left /= 128;
  } while (left > 0);
  out_bytes(c, head, n);
  out_bytes(c, b.body, b.len);
  b.len = 0;
  c->sent_ns = sim_now_ns();
}

static u8 pattern(u32 publisher, u32 number, u32 i) {
  return (u8)(publisher * 77 + number * 31 + i * 7 + (i >> 8));
}

static void payload(u32 publisher, u32 kind, u32 number, u32 len) {
  u32 from = b.len;
  u8_('S');
  u8_('M');
  u8_(publisher);
  u8_(kind);
  u32_(number);
  u32_(len);
  u32_(~number);
  for (u32 i = PAYLOAD_HEAD; i < len; i++) {
    b.body[from + i] = pattern(publisher, number, i);
  }
  b.len = from + len;
}

static void topic(u32 publisher, u32 kind) {
  char name[32];
  snprintf(name, sizeof name, "c%u/k%u", publisher, kind);
  text(name);
}

void put_connect(struct client *c, u32 will_number) {
  char id[16];
  text("MQTT");
  u8_(c->version);
  bool clean = c->version == 5 ? c->clean : !c->persistent;
  u8_((clean ? 2 : 0) | (will_number != 0 ? 4 | 1 << 3 : 0));
  u16_(c->keep_alive_s);
  if (c->version == 5) {
    u8_(5);
    u8_(0x11);
    u32_(c->persistent ? 36000 : 0);
  }
  snprintf(id, sizeof id, "client%u", c->number);
  text(id);
  if (will_number != 0) {
    if (c->version == 5) {
      u8_(0);
    }
    topic(c->number, KIND_WILL);
    u16_(24);
    payload(c->number, KIND_WILL, will_number, 24);
  }
  finish(c, 0x10);
}

void put_publish(struct client *c, const struct flight *f, u8 qos, bool dup) {
  topic(c->number, f->kind);
  if (qos > 0) {
    u16_(f->packet_id);
  }
  if (c->version == 5) {
    u8_(0);
  }
  payload(c->number, f->kind, f->number, f->len);
  finish(c, (u8)(0x30 | (dup ? 8 : 0) | qos << 1 | (f->kind == KIND_RETAINED ? 1 : 0)));
}

void put_ack(struct client *c, u8 type, u16 packet_id) {
  u16_(packet_id);
  finish(c, (u8)(type << 4 | (type == 6 ? 2 : 0)));
}

u32 topic_filter(const struct client *c, enum kind kind, char *out, u32 max) {
  const struct want *w = &c->want[kind];
  const char *share = kind == KIND_SHARED ? "$share/g/" : "";
  int n = w->all ? snprintf(out, max, "%s+/k%u", share, kind)
                 : snprintf(out, max, "%sc%u/k%u", share, w->publisher, kind);
  return (u32)n;
}

void put_subscribe(struct client *c, u16 packet_id, enum kind kind) {
  char filter[48];
  topic_filter(c, kind, filter, sizeof filter);
  u16_(packet_id);
  if (c->version == 5) {
    u8_(0);
  }
  text(filter);
  u8_(c->want[kind].qos);
  finish(c, 0x82);
}

void put_unsubscribe(struct client *c, u16 packet_id, enum kind kind) {
  char filter[48];
  topic_filter(c, kind, filter, sizeof filter);
  u16_(packet_id);
  if (c->version == 5) {
    u8_(0);
  }
  text(filter);
  finish(c, 0xa2);
}

void put_ping(struct client *c) {
  finish(c, 0xc0);
}
void put_disconnect(struct client *c) {
  finish(c, 0xe0);
}

// --- reading

u32 packet_whole(const u8 *p, u32 have) {
  u32 len = 0;
  for (u32 i = 1; i < 5; i++) {
    if (i >= have) {
      return 0;
    }
    len |= (u32)(p[i] & 127) << (7 * (i - 1));
    if ((p[i] & 128) == 0) {
      if (len + i + 1 > IN_LEN) {
        sim_fail("a packet of %u bytes came", len);
      }
      return len + i + 1 <= have ? len + i + 1 : 0;
    }
  }
  sim_fail("a remaining length of five bytes came");
}

static NORETURN void malformed(const struct client *c, const char *what) {
  sim_fail("client %u: %s", c->number, what);
}

static u32 read_varint(struct client *c, struct reader *r) {
  u32 v = 0;
  for (u32 i = 0; i < 4; i++) {
    u8 x = read_u8(r);
    v |= (u32)(x & 127) << (7 * i);
    if ((x & 128) == 0) {
      return v;
    }
  }
  malformed(c, "a variable byte integer of five bytes");
}

static u32 number_at(struct bytes b_, u32 *pos) {
  u32 v = 0;
  while (*pos < b_.len && b_.ptr[*pos] >= '0' && b_.ptr[*pos] <= '9') {
    v = v * 10 + (b_.ptr[(*pos)++] - '0');
  }
  return v;
}

static void parse_publish(struct client *c, struct reader *r, struct incoming *m) {
  struct bytes t = reader_bytes(r, read_part(r, read_be16(r)));
  u32 pos = 1;
  u32 publisher = number_at(t, &pos);
  pos += 2;
  u32 kind = number_at(t, &pos);
  if (t.len < 5 || t.ptr[0] != 'c' || pos != t.len) {
    malformed(c, "a PUBLISH with a topic that nobody published to");
  }
  m->packet_id = (m->flags >> 1 & 3) != 0 ? read_be16(r) : 0;
  if (c->version == 5) {
    read_part(r, read_varint(c, r));
  }
  struct bytes body = reader_bytes(r, read_part(r, reader_left(r)));
  if (r->err != ERR_OK || body.len < PAYLOAD_HEAD || body.ptr[0] != 'S' || body.ptr[1] != 'M' ||
      body.ptr[2] != publisher || body.ptr[3] != kind || load_be32(body.ptr + 8) != body.len ||
      load_be32(body.ptr + 4) != ~load_be32(body.ptr + 12)) {
    malformed(c, "a PUBLISH whose payload is not what was sent to its topic");
  }
  m->publisher = publisher;
  m->kind = kind;
  m->number = load_be32(body.ptr + 4);
  for (u32 i = PAYLOAD_HEAD; i < body.len; i++) {
    if (body.ptr[i] != pattern(publisher, m->number, i)) {
      malformed(c, "a payload was changed on its way");
    }
  }
}

void packet_parse(struct client *c, const u8 *p, u32 len, struct incoming *m) {
  u32 head = 1;
  while ((p[head++] & 128) != 0) {
  }
  struct reader r = reader_init(bytes_of(p + head, len - head));
  *m = (struct incoming){.type = p[0] >> 4, .flags = p[0] & 15};
  switch (m->type) {
  case 2:
    m->session_present = read_u8(&r) == 1;
    m->reason = read_u8(&r);
    if (c->version == 5) {
      read_part(&r, read_varint(c, &r));
    }
    break;
  case 3: parse_publish(c, &r, m); return;
  case 4:
  case 5:
  case 6:
  case 7:
    m->packet_id = read_be16(&r);
    m->reason = c->version == 5 && reader_left(&r) > 0 ? read_u8(&r) : 0;
    if (reader_left(&r) > 0) {
      read_part(&r, read_varint(c, &r));
    }
    break;
  case 9:
  case 11:
    m->packet_id = read_be16(&r);
    if (c->version == 5) {
      read_part(&r, read_varint(c, &r));
    }
    m->reason = m->type == 9 || c->version == 5 ? read_u8(&r) : 0;
    break;
  case 13: break;
  case 14:
    m->reason = reader_left(&r) > 0 ? read_u8(&r) : 0;
    read_part(&r, reader_left(&r));
    break;
  default: malformed(c, "a packet of a type that a server does not send");
  }
  if (r.err != ERR_OK || reader_left(&r) != 0) {
    malformed(c, "a malformed packet");
  }
}
