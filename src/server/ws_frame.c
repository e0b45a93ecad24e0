// SPDX-License-Identifier: Apache-2.0
// WebSocket frames: see the header for the shape. A message's boundaries mean nothing to MQTT
// [MQTT-6.0.0-2]: packets may span frames and frames may hold several packets, so what comes out is
// one stream.
#include "server/ws_frame.h"

static bool opcode_known(u8 opcode) {
  return opcode <= WS_BINARY || (opcode >= WS_CLOSE && opcode <= WS_PONG);
}

// Bytes of the extended length by the second byte's seven bits.
static u32 extended_len(u8 seven) {
  return seven < 126 ? 0 : seven == 126 ? 2 : 8;
}

static bool head_allowed(const struct ws_head *h, u8 first, u8 seven) {
  bool control = h->opcode >= WS_CLOSE;
  bool shortest = seven < 126 || (seven == 126 && h->payload_len >= 126) ||
                  (seven == 127 && h->payload_len > U16_MAX && h->payload_len >> 63 == 0);
  bool plain = (first & 0x70) == 0;  // RSV1..3: no extension was agreed on
  return plain && shortest && opcode_known(h->opcode) &&
         (!control || (h->fin && h->payload_len <= WS_CONTROL_MAX));
}

enum err ws_head_parse(struct bytes b, struct ws_head *out) {
  struct reader r = reader_init(bytes_sub(b, 0, MIN(b.len, (usize)WS_HEAD_MAX)));
  u8 first = read_u8(&r);
  u8 second = read_u8(&r);
  if (r.err == ERR_OK && (second & 0x80) == 0) {
    return ERR_MALFORMED;  // RFC 6455 5.1: a client masks everything
  }
  u8 seven = second & 0x7f;
  u32 extended = extended_len(seven);
  u64 len = seven;
  if (extended == 2) {
    len = read_be16(&r);
  } else if (extended == 8) {
    len = (u64)read_be32(&r) << 32;
    len |= read_be32(&r);
  }
  *out = (struct ws_head){.payload_len = len,
                          .len = (u8)(6 + extended),
                          .opcode = first & 0x0f,
                          .fin = (first & 0x80) != 0};
  for (u32 i = 0; i < sizeof out->mask; i++) {
    out->mask[i] = read_u8(&r);
  }
  if (r.err != ERR_OK) {
    return r.err;
  }
  return head_allowed(out, first, seven) ? ERR_OK : ERR_MALFORMED;
}

static void unmask(struct span s, const u8 mask[4], u32 phase) {
  u32 i = 0;
  for (; i < s.len && ((phase + i) & 3) != 0; i++) {
    s.ptr[i] ^= mask[(phase + i) & 3];
  }
  u32 word;
  memcpy(&word, mask, sizeof word);
  u64 two = (u64)word << 32 | word;
  for (; s.len - i >= sizeof two; i += (u32)sizeof two) {
    u64 v;
    memcpy(&v, s.ptr + i, sizeof v);
    v ^= two;
    memcpy(s.ptr + i, &v, sizeof v);
  }
  for (; i < s.len; i++) {
    s.ptr[i] ^= mask[(phase + i) & 3];
  }
}

static enum ws_take fail(struct ws *ws, enum ws_code code) {
  ws->code = (u16)code;
  return WS_TAKE_FAILED;
}

// A whole head has been read: is this frame allowed now? RFC 6455 5.4.
static bool begin_frame(struct ws *ws, const struct ws_head *h) {
  bool control = h->opcode >= WS_CLOSE;
  if (!control && (h->opcode == WS_CONTINUATION) != ws->in_message) {
    ws->code = WS_CODE_PROTOCOL;
    return false;
  }
  if (h->opcode == WS_TEXT) {
    ws->code = WS_CODE_UNSUPPORTED;
    return false;
  }
  if (control) {
    ws->control_len = (u8)h->payload_len;
    ws->control_have = 0;
  } else {
    ws->in_message = !h->fin;
  }
  memcpy(ws->mask, h->mask, sizeof ws->mask);
  ws->left = h->payload_len;
  ws->phase = 0;
  ws->opcode = h->opcode;
  ws->in_frame = true;
  return true;
}

// Collects a head. Returns bytes used; in_frame tells whether it is whole, code what is wrong.
static u32 take_head(struct ws *ws, struct bytes raw) {
  u32 used = 0;
  while (used < raw.len && !ws->in_frame && ws->code == WS_CODE_NONE) {
    struct ws_head h;
    ASSERT(ws->head_have < sizeof ws->head);
    ws->head[ws->head_have++] = raw.ptr[used++];
    enum err e = ws_head_parse(bytes_of(ws->head, ws->head_have), &h);
    if (e == ERR_OK) {
      ws->head_have = 0;
      (void)begin_frame(ws, &h);
    } else if (e != ERR_SHORT) {
      ws->code = WS_CODE_PROTOCOL;
    }
  }
  return used;
}

static enum ws_take control_done(struct ws *ws) {
  ws->in_frame = false;
  if (ws->opcode == WS_PING) {
    return WS_TAKE_PING;
  }
  if (ws->opcode == WS_CLOSE) {
    return ws->control_len == 1 ? fail(ws, WS_CODE_PROTOCOL) : WS_TAKE_CLOSED;
  }
  return WS_TAKE_MORE;  // an unasked PONG means nothing
}

static u32 take_control(struct ws *ws, struct span raw) {
  u32 n = (u32)MIN(raw.len, (usize)(ws->control_len - ws->control_have));
  struct span to = span_of(ws->control + ws->control_have, n);
  if (n > 0) {
    memcpy(to.ptr, raw.ptr, n);
    unmask(to, ws->mask, ws->control_have & 3);
  }
  ws->control_have = (u8)(ws->control_have + n);
  return n;
}

enum ws_take ws_take(struct ws *ws, struct span raw, u32 *used, struct span *data) {
  *used = 0;
  *data = span_of(NULL, 0);
  ASSERT(ws->clear == 0 || (ws->in_frame && ws->opcode < WS_CLOSE));
  ASSERT(ws->clear <= raw.len);
  while (ws->code == WS_CODE_NONE) {
    struct span rest = span_of(raw.ptr + *used, raw.len - *used);
    if (ws->in_frame && ws->opcode < WS_CLOSE) {
      u32 n = (u32)MIN((u64)rest.len, ws->left);
      if (n == 0 && ws->left > 0) {
        return WS_TAKE_MORE;
      }
      if (n > 0) {
        *data = span_of(rest.ptr, n);
        unmask(span_of(rest.ptr + ws->clear, n - ws->clear), ws->mask, (ws->phase + ws->clear) & 3);
        ws->clear = n;
        return WS_TAKE_DATA;
      }
      ws->in_frame = false;
    } else if (ws->in_frame) {
      *used += take_control(ws, rest);
      if (ws->control_have < ws->control_len) {
        return WS_TAKE_MORE;
      }
      enum ws_take end = control_done(ws);
      if (end != WS_TAKE_MORE) {
        return end;
      }
    } else if (rest.len == 0) {
      return WS_TAKE_MORE;
    } else {
      *used += take_head(ws, span_bytes(rest));
    }
  }
  return WS_TAKE_FAILED;
}

void ws_used(struct ws *ws, u32 len) {
  ASSERT(len <= ws->clear);
  ASSERT(len <= ws->left);
  ws->clear -= len;
  ws->left -= len;
  ws->phase = (u8)((ws->phase + len) & 3);
  if (ws->left == 0) {
    ws->in_frame = false;
  }
}

enum ws_code ws_close_code(const struct ws *ws) {
  if (ws->control_len < 2) {
    return WS_CODE_NORMAL;
  }
  u16 code = load_be16(ws->control);
  bool legal = (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
               (code >= 3000 && code <= 4999);
  return legal ? WS_CODE_NORMAL : WS_CODE_PROTOCOL;
}

u32 ws_head_write(u8 out[WS_OUT_HEAD_MAX], enum ws_opcode opcode, u32 payload_len) {
  ASSERT(payload_len <= U16_MAX);
  out[0] = (u8)(0x80 | opcode);
  if (payload_len < 126) {
    out[1] = (u8)payload_len;
    return 2;
  }
  out[1] = 126;
  store_be16(out + 2, (u16)payload_len);
  return 4;
}
