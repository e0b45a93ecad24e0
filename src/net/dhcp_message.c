// SPDX-License-Identifier: Apache-2.0
// The fixed part, and options wherever they stand: behind it, or by option 52 also in the fields of
// the boot file and the server's name.
#include "net/dhcp_message.h"

#define COOKIE 0x63825363u
#define BODY_LEN 236u
#define SNAME_AT 44u
#define FILE_AT 108u

enum option {
  OPT_PAD = 0,
  OPT_MASK = 1,
  OPT_ROUTER = 3,
  OPT_DNS = 6,
  OPT_MTU = 26,
  OPT_REQUESTED = 50,
  OPT_LEASE = 51,
  OPT_OVERLOAD = 52,
  OPT_TYPE = 53,
  OPT_SERVER = 54,
  OPT_PARAMETERS = 55,
  OPT_MAX_SIZE = 57,
  OPT_T1 = 58,
  OPT_T2 = 59,
  OPT_CLIENT_ID = 61,
  OPT_ROUTES = 121,
  OPT_END = 255,
};

u32 dhcp_request_write(struct span out, const struct dhcp_request *r) {
  ASSERT(out.len >= DHCP_REQUEST_MAX);
  memset(out.ptr, 0, DHCP_REQUEST_MAX);
  out.ptr[0] = out.ptr[1] = 1;
  out.ptr[2] = 6;
  store_be32(out.ptr + 4, r->xid);
  store_be16(out.ptr + 8, r->secs);
  store_be16(out.ptr + 10, r->address != 0 ? 0 : 0x8000);  // by broadcast, while we have no address
  store_be32(out.ptr + 12, r->address);
  memcpy(out.ptr + 28, r->mac, 6);
  struct writer w = writer_init(span_of(out.ptr + BODY_LEN, DHCP_REQUEST_MAX - BODY_LEN));
  write_be32(&w, COOKIE);
  write_bytes(&w, bytes_of((u8[]){OPT_TYPE, 1, r->type, OPT_CLIENT_ID, 7, 1}, 6));
  write_bytes(&w, bytes_of(r->mac, 6));
  if (r->requested != 0) {
    write_be16(&w, OPT_REQUESTED << 8 | 4);
    write_be32(&w, r->requested);
  }
  if (r->server != 0) {
    write_be16(&w, OPT_SERVER << 8 | 4);
    write_be32(&w, r->server);
  }
  if (r->type != DECLINE) {  // RFC 2131 table 5
    write_bytes(&w, bytes_of((u8[]){OPT_PARAMETERS, 8, OPT_MASK, OPT_ROUTES, OPT_ROUTER, OPT_DNS,
                                    OPT_MTU, OPT_LEASE, OPT_T1, OPT_T2, OPT_MAX_SIZE, 2, 5, 220},
                             14));
  }
  write_u8(&w, OPT_END);
  ASSERT(w.err == ERR_OK);
  return DHCP_REQUEST_MAX;
}

// --- replies

struct collected {  // of option 121, which may come in pieces (RFC 3396)
  u8 bytes[255];
  u32 len;
  u8 overload;
};

static u32 number_at(struct bytes v) {
  return v.len >= 4 ? load_be32(v.ptr) : 0;
}

static void take_option(struct dhcp_reply *out, struct collected *c, u8 code, struct bytes v) {
  switch (code) {
  case OPT_MASK: out->mask = number_at(v); break;
  case OPT_ROUTER: out->router = number_at(v); break;
  case OPT_DNS:
    out->dns[0] = number_at(v);
    out->dns[1] = v.len >= 8 ? load_be32(v.ptr + 4) : 0;
    break;
  case OPT_MTU: out->mtu = v.len >= 2 ? load_be16(v.ptr) : 0; break;
  case OPT_LEASE: out->lease_s = number_at(v); break;
  case OPT_TYPE: out->type = v.len >= 1 ? v.ptr[0] : 0; break;
  case OPT_SERVER: out->server = number_at(v); break;
  case OPT_T1: out->t1_s = number_at(v); break;
  case OPT_T2: out->t2_s = number_at(v); break;
  case OPT_OVERLOAD: c->overload = v.len >= 1 ? v.ptr[0] : 0; break;
  case OPT_ROUTES:
    if (v.len <= sizeof c->bytes - c->len) {
      memcpy(c->bytes + c->len, v.ptr, v.len);
      c->len += (u32)v.len;
    }
    break;
  default: break;
  }
}

// False: an option that is cut off.
static bool take_options(struct bytes in, struct dhcp_reply *out, struct collected *c) {
  struct reader r = reader_init(in);
  while (reader_left(&r) > 0) {
    u8 code = read_u8(&r);
    if (code == OPT_END) {
      return true;
    }
    if (code == OPT_PAD) {
      continue;
    }
    struct part v = read_part(&r, read_u8(&r));
    if (r.err != ERR_OK) {
      return false;
    }
    take_option(out, c, code, reader_bytes(&r, v));
  }
  return true;
}

// RFC 3442: width, the significant octets, gateway. False: malformed, then none counts.
static bool take_routes(struct bytes v, struct dhcp_reply *out) {
  struct reader r = reader_init(v);
  while (reader_left(&r) > 0) {
    u8 width = read_u8(&r);
    if (width > 32) {
      return false;
    }
    struct part p = read_part(&r, (width + 7u) / 8);
    u32 gateway = read_be32(&r);
    if (r.err != ERR_OK) {
      return false;
    }
    u8 prefix[4] = {0};
    memcpy(prefix, v.ptr + p.off, p.len);
    u32 mask = width == 0 ? 0 : U32_MAX << (32 - width);
    if (out->route_count < ROUTES_MAX) {
      out->route[out->route_count++] = (struct route4){load_be32(prefix) & mask, mask, gateway};
    }
  }
  return true;
}

bool dhcp_reply_parse(struct bytes in, const u8 mac[6], u32 xid, struct dhcp_reply *out) {
  struct collected c = {.len = 0};
  *out = (struct dhcp_reply){.type = 0};
  if (in.len < BODY_LEN + 4 || in.ptr[0] != 2 || load_be32(in.ptr + 4) != xid ||
      memcmp(in.ptr + 28, mac, 6) != 0 || load_be32(in.ptr + BODY_LEN) != COOKIE) {
    return false;
  }
  out->address = load_be32(in.ptr + 16);
  if (!take_options(bytes_skip(in, BODY_LEN + 4), out, &c)) {
    return false;
  }
  if ((c.overload & 1) != 0 && !take_options(bytes_sub(in, FILE_AT, 128), out, &c)) {
    return false;
  }
  if ((c.overload & 2) != 0 && !take_options(bytes_sub(in, SNAME_AT, 64), out, &c)) {
    return false;
  }
  out->has_routes = c.len > 0 && take_routes(bytes_of(c.bytes, c.len), out);
  out->route_count = out->has_routes ? out->route_count : 0;
  return out->type != 0;
}
