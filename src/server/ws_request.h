// SPDX-License-Identifier: Apache-2.0
// The HTTP request that opens a WebSocket (RFC 6455 4.2) and our answers. Pure: bytes in, bytes
// out.
#pragma once
#include "base/bytes.h"

#define WS_REQUEST_MAX 8192u  // the whole request; browsers send cookies along
#define WS_ORIGINS_MAX 8u

enum ws_protocol {
  WS_PROTOCOL_NONE,
  WS_PROTOCOL_MQTT,      // "mqtt" [MQTT-6.0.0-3]
  WS_PROTOCOL_MQTTV3_1,  // "mqttv3.1", what 3.1 clients ask for
};
struct ws_request {
  struct part key;     // Sec-WebSocket-Key, 24 characters
  struct part origin;  // empty = none was sent
  u8 protocol;         // enum ws_protocol: ours of those offered, "mqtt" first
  bool has_origin;
};
enum ws_answer {
  WS_ANSWER_SWITCH = 101,
  WS_ANSWER_BAD_REQUEST = 400,
  WS_ANSWER_FORBIDDEN = 403,
  WS_ANSWER_METHOD = 405,
  WS_ANSWER_UPGRADE = 426,
  WS_ANSWER_TOO_LARGE = 431,
};
// Length of the request head in `b`, up to and with its empty line; 0 = not whole.
u32 ws_request_len(struct bytes b);
// Judges a whole request head of at most WS_REQUEST_MAX bytes; *out is set with WS_ANSWER_SWITCH.
// *why is a plain sentence otherwise.
enum ws_answer ws_request_parse(struct bytes head, struct ws_request *out, const char **why);
// Whether the origin is one of `origins` (all are with none listed). A request without Origin comes
// from no browser and is not what the list is about.
bool ws_origin_allowed(struct bytes head, const struct ws_request *r, const struct bytes *origins,
                       u32 count);
// Writes 101 with the accept key (28 characters of base64), at most 256 bytes.
void ws_answer_switch(struct writer *w, struct bytes accept, enum ws_protocol protocol);
// Writes a refusal with its reason as text, at most 512 bytes.
void ws_answer_refuse(struct writer *w, enum ws_answer answer, const char *why);
