// SPDX-License-Identifier: Apache-2.0
// The WebSocket upgrade request, line by line. Of HTTP only what RFC 6455 4.2.1 asks for is looked
// at; whatever else is in the request is skipped, but never in a form that another HTTP parser
// could read differently (folded lines, bytes outside printable ASCII in names).
#include "server/ws_request.h"

#include "base/fmt.h"

#define KEY_LEN 24u

struct found {
  bool host, upgrade, connection, version, version_seen;
  u32 keys;
};

u32 ws_request_len(struct bytes b) {
  for (usize i = 3; i < b.len; i++) {
    if (b.ptr[i] == '\n' && b.ptr[i - 1] == '\r' && b.ptr[i - 2] == '\n' && b.ptr[i - 3] == '\r') {
      return (u32)i + 1;
    }
  }
  return 0;
}

static u8 lower(u8 c) {
  return c >= 'A' && c <= 'Z' ? (u8)(c | 0x20) : c;
}

static struct bytes trim(struct bytes b) {
  while (b.len > 0 && (b.ptr[0] == ' ' || b.ptr[0] == '\t')) {
    b = bytes_skip(b, 1);
  }
  while (b.len > 0 && (b.ptr[b.len - 1] == ' ' || b.ptr[b.len - 1] == '\t')) {
    b.len--;
  }
  return b;
}

// Takes the next element of a comma-separated list off *list.
static struct bytes take_element(struct bytes *list) {
  usize end = bytes_find(*list, ',');
  struct bytes element = trim(bytes_sub(*list, 0, end));
  *list = bytes_skip(*list, MIN(end + 1, list->len));
  return element;
}

static bool has_element(struct bytes list, const char *word) {
  while (list.len > 0) {
    if (bytes_equal_nocase(take_element(&list), word)) {
      return true;
    }
  }
  return false;
}

// The subprotocols are names to be compared as they are [MQTT-6.0.0-3].
// [MQTT-6.0.0-4]
static void choose_protocol(struct bytes list, struct ws_request *out) {
  while (list.len > 0) {
    struct bytes name = take_element(&list);
    if (bytes_equal_str(name, "mqtt")) {
      out->protocol = WS_PROTOCOL_MQTT;
    } else if (bytes_equal_str(name, "mqttv3.1") && out->protocol == WS_PROTOCOL_NONE) {
      out->protocol = WS_PROTOCOL_MQTTV3_1;
    }
  }
}

static bool key_valid(struct bytes key) {
  if (key.len != KEY_LEN || key.ptr[KEY_LEN - 1] != '=' || key.ptr[KEY_LEN - 2] != '=') {
    return false;
  }
  for (u32 i = 0; i < KEY_LEN - 2; i++) {
    u8 c = key.ptr[i];
    bool letter = lower(c) >= 'a' && lower(c) <= 'z';
    if (!letter && !(c >= '0' && c <= '9') && c != '+' && c != '/') {
      return false;
    }
  }
  return true;
}

static struct part part_in(struct bytes whole, struct bytes sub) {
  ASSERT(sub.len == 0 || (sub.ptr >= whole.ptr && sub.ptr + sub.len <= whole.ptr + whole.len));
  return sub.len == 0 ? (struct part){0, 0}
                      : (struct part){(u32)(sub.ptr - whole.ptr), (u32)sub.len};
}

static void take_field(struct bytes head, struct bytes name, struct bytes value, struct found *f,
                       struct ws_request *out) {
  if (bytes_equal_nocase(name, "host")) {
    f->host = true;
  } else if (bytes_equal_nocase(name, "upgrade")) {
    f->upgrade |= has_element(value, "websocket");
  } else if (bytes_equal_nocase(name, "connection")) {
    f->connection |= has_element(value, "upgrade");
  } else if (bytes_equal_nocase(name, "sec-websocket-version")) {
    f->version_seen = true;
    f->version |= has_element(value, "13");
  } else if (bytes_equal_nocase(name, "sec-websocket-key")) {
    f->keys++;
    out->key = part_in(head, value);
  } else if (bytes_equal_nocase(name, "sec-websocket-protocol")) {
    choose_protocol(value, out);
  } else if (bytes_equal_nocase(name, "origin")) {
    out->has_origin = true;
    out->origin = part_in(head, value);
  }
}

static bool name_valid(struct bytes name) {
  for (usize i = 0; i < name.len; i++) {
    if (name.ptr[i] <= ' ' || name.ptr[i] >= 0x7f) {
      return false;
    }
  }
  return name.len > 0;
}

// Takes a line off *rest, without its end; false when it does not end in CR LF or holds a bare CR.
static bool take_line(struct bytes *rest, struct bytes *line) {
  usize end = bytes_find(*rest, '\n');
  if (end == rest->len || end == 0 || rest->ptr[end - 1] != '\r') {
    return false;
  }
  *line = bytes_sub(*rest, 0, end - 1);
  *rest = bytes_skip(*rest, end + 1);
  return bytes_find(*line, '\r') == line->len;
}

static enum ws_answer bad(const char **why, enum ws_answer answer, const char *text) {
  *why = text;
  return answer;
}

static enum ws_answer judge(struct bytes head, const struct found *f, const struct ws_request *out,
                            const char **why) {
  if (!f->host) {
    return bad(why, WS_ANSWER_BAD_REQUEST, "Host is missing");
  }
  if (!f->upgrade || !f->connection) {
    return bad(why, WS_ANSWER_UPGRADE, "this port speaks WebSocket only");
  }
  if (!f->version) {
    return f->version_seen ? bad(why, WS_ANSWER_UPGRADE, "WebSocket version 13 is spoken here")
                           : bad(why, WS_ANSWER_BAD_REQUEST, "Sec-WebSocket-Version is missing");
  }
  if (f->keys != 1 || !key_valid(bytes_part(head, out->key))) {
    return bad(why, WS_ANSWER_BAD_REQUEST, "Sec-WebSocket-Key is missing or wrong");
  }
  if (out->protocol == WS_PROTOCOL_NONE) {
    return bad(why, WS_ANSWER_BAD_REQUEST, "Sec-WebSocket-Protocol must offer mqtt");
  }
  return WS_ANSWER_SWITCH;
}

enum ws_answer ws_request_parse(struct bytes head, struct ws_request *out, const char **why) {
  struct bytes rest = head;
  struct bytes line;
  struct found f = {.keys = 0};
  *out = (struct ws_request){.protocol = WS_PROTOCOL_NONE};
  if (!take_line(&rest, &line) || line.len < 9 ||
      !bytes_equal_str(bytes_skip(line, line.len - 9), " HTTP/1.1")) {
    return bad(why, WS_ANSWER_BAD_REQUEST, "the request is not HTTP/1.1");
  }
  if (!bytes_starts_with(line, BYTES_LIT("GET "))) {
    return bad(why, WS_ANSWER_METHOD, "only GET opens a WebSocket");
  }
  while (take_line(&rest, &line) && line.len > 0) {
    usize colon = bytes_find(line, ':');
    struct bytes name = bytes_sub(line, 0, colon);
    if (colon == line.len || !name_valid(name)) {
      return bad(why, WS_ANSWER_BAD_REQUEST, "a header line is malformed");
    }
    take_field(head, name, trim(bytes_skip(line, colon + 1)), &f, out);
  }
  if (line.len > 0 || rest.len > 0) {
    return bad(why, WS_ANSWER_BAD_REQUEST, "a header line does not end in CR LF");
  }
  return judge(head, &f, out, why);
}

bool ws_origin_allowed(struct bytes head, const struct ws_request *r, const struct bytes *origins,
                       u32 count) {
  if (count == 0 || !r->has_origin) {
    return true;
  }
  for (u32 i = 0; i < count; i++) {
    if (bytes_equal(bytes_part(head, r->origin), origins[i])) {
      return true;
    }
  }
  return false;
}

void ws_answer_switch(struct writer *w, struct bytes accept, enum ws_protocol protocol) {
  write_str(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n");
  write_str(w, "Sec-WebSocket-Accept: ");
  write_bytes(w, accept);
  write_str(w, "\r\nSec-WebSocket-Protocol: ");
  write_str(w, protocol == WS_PROTOCOL_MQTT ? "mqtt" : "mqttv3.1");
  write_str(w, "\r\n\r\n");
}

static const char *phrase(enum ws_answer answer) {
  switch (answer) {
  case WS_ANSWER_SWITCH: return "Switching Protocols";
  case WS_ANSWER_BAD_REQUEST: return "Bad Request";
  case WS_ANSWER_FORBIDDEN: return "Forbidden";
  case WS_ANSWER_METHOD: return "Method Not Allowed";
  case WS_ANSWER_UPGRADE: return "Upgrade Required";
  case WS_ANSWER_TOO_LARGE: return "Request Header Fields Too Large";
  }
  return "Bad Request";
}

void ws_answer_refuse(struct writer *w, enum ws_answer answer, const char *why) {
  u32 len = (u32)strlen(why) + 1;
  fmt(w, "HTTP/1.1 %u %s\r\n", (u32)answer, phrase(answer));
  if (answer == WS_ANSWER_UPGRADE) {  // RFC 6455 4.4, RFC 9110 15.5.22
    write_str(w, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
  }
  if (answer == WS_ANSWER_METHOD) {
    write_str(w, "Allow: GET\r\n");
  }
  fmt(w, "Connection: close\r\nContent-Type: text/plain\r\nContent-Length: %u\r\n\r\n%s\n", len,
      why);
}
