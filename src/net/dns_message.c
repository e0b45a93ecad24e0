// SPDX-License-Identifier: Apache-2.0
// DNS messages. A compressed name's pointers must lead backwards, each before the last, so that
// every walk ends; results are offsets.
//
// D1  Only records whose owner is the question or an alias reached from it count: what else a
//     server (or somebody in its place) adds is not believed.
#include "net/dns_message.h"

#define HEADER_LEN 12u
#define TYPE_CNAME 5u
#define CLASS_IN 1u
#define RECORDS_MAX 64u
#define NAME_WIRE_MAX 255u
#define END U32_MAX

// --- names

static bool letter(u8 c) {
  u8 l = (u8)(c | 0x20);
  return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}
static u8 lower(u8 c) {
  return c >= 'A' && c <= 'Z' ? (u8)(c | 0x20) : c;
}
static struct bytes without_dot(struct bytes name) {
  return name.len > 1 && name.ptr[name.len - 1] == '.' ? bytes_sub(name, 0, name.len - 1) : name;
}

bool dns_name_valid(struct bytes name) {
  name = without_dot(name);
  u32 label = 0;
  for (usize i = 0; i < name.len; i++) {
    if (name.ptr[i] == '.') {
      if (label == 0) {
        return false;
      }
      label = 0;
    } else if (!letter(name.ptr[i]) || ++label > 63) {
      return false;
    }
  }
  return label > 0 && name.len <= DNS_NAME_MAX;
}

void dns_query_write(struct writer *w, u16 id, struct bytes name, u16 type) {
  ASSERT(dns_name_valid(name));
  name = without_dot(name);
  write_be16(w, id);
  write_be16(w, 0x0100);  // recursion desired
  write_be16(w, 1);
  write_be16(w, 0);
  write_be32(w, 0);
  while (name.len > 0) {
    usize n = bytes_find(name, '.');
    write_u8(w, (u8)n);
    write_bytes(w, bytes_sub(name, 0, n));
    name = bytes_skip(name, MIN(n + 1, name.len));
  }
  write_u8(w, 0);
  write_be16(w, type);
  write_be16(w, CLASS_IN);
}

// Where the label at `at` really begins, pointers followed; END when it is malformed.
static u32 follow(struct bytes p, u32 at) {
  u32 limit = at;
  while (at < p.len && (p.ptr[at] & 0xc0) == 0xc0) {
    if (at + 1 >= p.len) {
      return END;
    }
    at = (u32)(p.ptr[at] & 0x3f) << 8 | p.ptr[at + 1];
    if (at >= limit || at < HEADER_LEN) {
      return END;
    }
    limit = at;
  }
  bool whole = at < p.len && p.ptr[at] <= 63 && p.len - at > p.ptr[at];
  return whole ? at : END;
}

// The offset behind the name at `at`, as it stands there; END when it is malformed.
static u32 skip_name(struct bytes p, u32 at) {
  u32 start = at;
  while (at < p.len && at - start <= NAME_WIRE_MAX) {
    u8 len = p.ptr[at];
    if (len == 0) {
      return at + 1;
    }
    if ((len & 0xc0) == 0xc0) {
      return at + 2 <= p.len ? at + 2 : END;
    }
    if (len > 63) {
      return END;
    }
    at += 1u + len;
  }
  return END;
}

static bool same_label(struct bytes p, u32 a, u32 b) {
  for (u32 i = 0; i <= p.ptr[a]; i++) {
    if (lower(p.ptr[a + i]) != lower(p.ptr[b + i])) {
      return false;
    }
  }
  return true;
}

static bool same_name(struct bytes p, u32 a, u32 b) {
  for (u32 walked = 0; walked <= NAME_WIRE_MAX;) {
    a = follow(p, a);
    b = follow(p, b);
    if (a == END || b == END || !same_label(p, a, b)) {
      return false;
    }
    u32 len = p.ptr[a];
    if (len == 0) {
      return true;
    }
    a += 1 + len;
    b += 1 + len;
    walked += 1 + len;
  }
  return false;
}

// --- the answer

struct record {
  u32 owner, data, len;
  u16 type, class;
  u32 ttl_s;
};

static bool take_record(struct reader *r, struct record *out) {
  struct bytes p = bytes_of(r->base, r->end);
  out->owner = r->pos;
  u32 behind = skip_name(p, r->pos);
  if (behind == END || behind > r->end) {
    return false;
  }
  r->pos = behind;
  out->type = read_be16(r);
  out->class = read_be16(r);
  out->ttl_s = read_be32(r);
  struct part data = read_part(r, read_be16(r));
  out->data = data.off;
  out->len = data.len;
  return r->err == ERR_OK;
}

static bool question_matches(struct bytes packet, u16 id, struct bytes name, u16 type) {
  u8 asked[DNS_QUERY_MAX];
  struct writer w = writer_init(span_of(asked, sizeof asked));
  dns_query_write(&w, id, name, type);
  ASSERT(w.err == ERR_OK);
  if (packet.len < w.pos || load_be16(packet.ptr) != id || (packet.ptr[2] & 0xf8) != 0x80 ||
      load_be16(packet.ptr + 4) != 1) {
    return false;
  }
  for (u32 i = HEADER_LEN; i < w.pos; i++) {
    if (lower(packet.ptr[i]) != lower(asked[i])) {
      return false;
    }
  }
  return true;
}

static void take_answer(struct bytes packet, const struct record *rec, u16 type, u32 *owner,
                        struct dns_answer *out) {
  if (rec->class != CLASS_IN || !same_name(packet, rec->owner, *owner)) {
    return;
  }
  out->ttl_s = MIN(out->ttl_s, rec->ttl_s);
  if (rec->type == TYPE_CNAME) {
    *owner = rec->data;
    return;
  }
  const u8 *data = packet.ptr + rec->data;
  bool four = rec->type == DNS_A && rec->len == 4;
  bool six = rec->type == DNS_AAAA && rec->len == 16 && !ip_is4(ip_load6(data));
  if (rec->type == type && (four || six) && out->count < DNS_ADDRESSES_MAX) {
    out->address[out->count++] = four ? ip_of4(load_be32(data)) : ip_load6(data);
  }
}

enum dns_result dns_answer_read(struct bytes packet, u16 id, struct bytes name, u16 type,
                                struct dns_answer *out) {
  *out = (struct dns_answer){.ttl_s = U32_MAX};
  if (packet.len > U16_MAX || !question_matches(packet, id, name, type)) {
    return DNS_NOT_OURS;
  }
  u8 code = packet.ptr[3] & 0x0f;
  if (code != 0) {
    return code == 3 ? DNS_NO_NAME : DNS_FAILED;
  }
  u32 count = load_be16(packet.ptr + 6);
  struct reader r = reader_init(packet);
  u32 owner = HEADER_LEN;
  r.pos = skip_name(packet, HEADER_LEN) + 4;  // the question is whole: it has been compared
  for (u32 i = 0; i < MIN(count, RECORDS_MAX); i++) {
    struct record rec;
    if (!take_record(&r, &rec)) {
      return out->count > 0 ? DNS_FOUND : DNS_FAILED;  // cut off (TC): what is whole counts
    }
    take_answer(packet, &rec, type, &owner, out);
  }
  return out->count > 0 ? DNS_FOUND : DNS_NO_ADDRESS;
}

const char *dns_result_text(enum dns_result result) {
  static const char *const texts[] = {
      [DNS_FOUND] = "found",
      [DNS_NO_NAME] = "there is no such name",
      [DNS_NO_ADDRESS] = "the name has no address",
      [DNS_FAILED] = "the name server could not tell",
      [DNS_NO_ANSWER] = "no name server answered",
      [DNS_NOT_OURS] = "not an answer",
  };
  ASSERT((u32)result < ARRAY_COUNT(texts));
  return texts[result];
}
