// SPDX-License-Identifier: Apache-2.0
// WebSocket frames (RFC 6455 5), the server's side: a client's byte stream in, the MQTT byte stream
// in it out, unmasked where it lies. Pure: bytes in, bytes out; no connection, no clock.
//
// I1  ws.clear bytes at the front of the raw stream are unmasked already and not yet used.
// I2  Control frames lie between or inside messages and never hold more than 125 bytes.
#pragma once
#include "base/bytes.h"

#define WS_HEAD_MAX 14u      // of a client's frame: 2 + 8 + 4
#define WS_OUT_HEAD_MAX 4u   // of ours: at most 65 535 bytes a frame, not masked
#define WS_CONTROL_MAX 125u  // RFC 6455 5.5

enum ws_opcode {
  WS_CONTINUATION = 0,
  WS_TEXT = 1,
  WS_BINARY = 2,
  WS_CLOSE = 8,
  WS_PING = 9,
  WS_PONG = 10,
};
enum ws_code {  // RFC 6455 7.4.1
  WS_CODE_NONE = 0,
  WS_CODE_NORMAL = 1000,
  WS_CODE_GOING_AWAY = 1001,
  WS_CODE_PROTOCOL = 1002,
  WS_CODE_UNSUPPORTED = 1003,
  WS_CODE_POLICY = 1008,
  WS_CODE_TOO_BIG = 1009,
};

struct ws_head {
  u64 payload_len;
  u8 mask[4];
  u8 len;  // of the head itself, 6..14
  u8 opcode;
  bool fin;
};
// Reads the head of a client's frame. ERR_SHORT: not whole yet. ERR_MALFORMED: not masked, reserved
// bits or opcodes, a length not in its shortest form, a control frame that is long or a fragment.
NODISCARD enum err ws_head_parse(struct bytes b, struct ws_head *out);

struct ws {
  u64 left;   // payload of the present frame not yet used
  u32 clear;  // I1
  u8 mask[4];
  u8 phase;  // index into mask of the first byte not yet used
  u8 opcode;
  bool in_frame;
  bool fin;
  bool in_message;  // a message of several frames has begun
  u8 head_have;
  u8 head[WS_HEAD_MAX];
  u8 control_len, control_have;
  u8 control[WS_CONTROL_MAX];
  u16 code;  // enum ws_code: why WS_TAKE_FAILED
};

enum ws_take {
  WS_TAKE_MORE,    // every byte was used
  WS_TAKE_DATA,    // *data is a piece of the MQTT stream; ws_used gives it back
  WS_TAKE_PING,    // answer with a PONG of control[0..control_len)
  WS_TAKE_CLOSED,  // the peer's CLOSE; ws_close_code is the code to answer with
  WS_TAKE_FAILED,  // code: why
};
// Takes what is at the front of the client's stream: *used bytes of it are done with, and *data
// (WS_TAKE_DATA only, not empty) begins right behind them. MQTT data must be binary [MQTT-6.0.0-1].
enum ws_take ws_take(struct ws *ws, struct span raw, u32 *used, struct span *data);
// `len` bytes of the data were used: they may be taken off the raw stream.
void ws_used(struct ws *ws, u32 len);
// The status code of a received CLOSE to answer with.
enum ws_code ws_close_code(const struct ws *ws);

// Writes the head of one of our frames (whole message, not masked), 2 or 4 bytes, payload_len <=
// 65 535. Returns its length.
u32 ws_head_write(u8 out[WS_OUT_HEAD_MAX], enum ws_opcode opcode, u32 payload_len);
static inline u32 ws_head_len(u32 payload_len) {
  return payload_len < 126 ? 2 : 4;
}
