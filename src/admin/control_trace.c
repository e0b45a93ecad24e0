// SPDX-License-Identifier: Apache-2.0
// traceClient: what the server tells of a client's packets (server/trace.h) waits in a short ring
// and goes to who asked, in turns of the loop: the server may not call the broker while it tells.
//
// T1  At most RING packets a turn and RATE a second; the others are counted and the count is told.
// T2  It ends by itself: when the time is over, or when who asked is not there any more.
#include "admin/control.h"
#include "admin/control_inner.h"
#include "admin/serve.h"
#include "admin/task.h"
#include "base/fmt.h"
#include "base/utf8.h"

#define RING 64u
#define RATE 200u
#define SECONDS_MOST 300
#define SECONDS_STANDARD 60
#define SEC_NS 1000000000ull

struct seen {
  struct server_packet p;  // its topic: the one below
  u64 unix_ns;
  u8 topic[TRACE_TOPIC_MAX];
};
static struct {
  struct admin_task task;
  bool has_timer, on;
  u32 to_len;
  u8 to[CONTROL_NAME_MAX];  // who asked
  u64 until_ns, second_ns;
  u32 told, left_out;  // of this second
  u32 first, count;
  struct seen seen[RING];
} trace;

static void take(void *ctx, const struct server_packet *p) {
  const struct core *core = ctx;
  if (core->now_ns - trace.second_ns >= SEC_NS) {
    trace.second_ns = core->now_ns;
    trace.told = 0;
  }
  if (trace.count == RING || trace.told == RATE) {
    trace.left_out++;
    return;
  }
  struct seen *s = &trace.seen[(trace.first + trace.count++) % RING];
  trace.told++;
  s->p = *p;
  s->unix_ns = plat_wall().unix_ns;
  ASSERT(p->topic.len <= sizeof s->topic);
  if (p->topic.len > 0) {
    memcpy(s->topic, p->topic.ptr, p->topic.len);
  }
  s->p.topic = bytes_of(s->topic, p->topic.len);
}

static bool send(struct core *core, struct json_out *o) {
  json_close(o, '}');
  ASSERT(o->w.err == ERR_OK);
  return broker_send(core->broker, bytes_of(trace.to, trace.to_len),
                     BYTES_LIT(CONTROL_TOPIC "/trace"), writer_bytes(&o->w), 0);
}

// The server and the broker are not within a call of ours.
static void end(struct core *core, const char *why) {
  u8 text[128];
  struct json_out o = json_out_init(span_of(text, sizeof text));
  server_trace(core->server, bytes_of(NULL, 0), NULL, NULL);
  trace.on = false;
  trace.count = 0;
  wheel_cancel(&core->wheel, trace.task.timer);
  json_open(&o, '{');
  json_field_string(&o, "end", bytes_str(why));
  (void)send(core, &o);
}

static void on_time(struct core *core) {
  if (trace.on && core->now_ns < trace.until_ns) {
    wheel_arm(&core->wheel, trace.task.timer, trace.until_ns);
  } else if (trace.on) {
    end(core, "the time is over");
  }
}

// It may not be valid yet, and a cut may have hit a character: such a topic is written escaped.
static void put_topic(struct json_out *o, struct bytes topic) {
  u8 text[4 * TRACE_TOPIC_MAX];
  struct writer w = writer_init(span_of(text, sizeof text));
  if (utf8_valid(topic.ptr, (u32)topic.len)) {
    json_field_string(o, "topic", topic);
    return;
  }
  fmt_escaped(&w, topic);
  json_field_string(o, "topic", writer_bytes(&w));
}

static bool send_packet(struct core *core, const struct seen *s) {
  static const char *const types[16] = {"0",         "CONNECT",  "CONNACK",     "PUBLISH",
                                        "PUBACK",    "PUBREC",   "PUBREL",      "PUBCOMP",
                                        "SUBSCRIBE", "SUBACK",   "UNSUBSCRIBE", "UNSUBACK",
                                        "PINGREQ",   "PINGRESP", "DISCONNECT",  "AUTH"};
  u8 text[2048];
  struct json_out o = json_out_init(span_of(text, sizeof text));
  json_open(&o, '{');
  json_field_int(&o, "time", (i64)(s->unix_ns / SEC_NS));
  json_field_int(&o, "ms", (i64)(s->unix_ns % SEC_NS / 1000000));
  json_field_string(&o, "direction", s->p.out ? BYTES_LIT("out") : BYTES_LIT("in"));
  json_field_string(&o, "type", bytes_str(types[s->p.type & 15]));
  if (s->p.flags != 0) {
    json_field_int(&o, "flags", s->p.flags);
  }
  if (s->p.id != 0) {
    json_field_int(&o, "packetId", s->p.id);
  }
  if (s->p.topic.len > 0) {
    put_topic(&o, s->p.topic);
  }
  json_field_int(&o, "length", s->p.len);
  if (s->p.payload_known) {
    json_field_int(&o, "payload", s->p.payload_len);
  }
  return send(core, &o);
}

bool control_trace_stage(struct core *core) {
  bool did = trace.on && trace.count > 0;
  bool there = true;
  for (; trace.on && there && trace.count > 0; trace.count--) {
    there = send_packet(core, &trace.seen[trace.first]);
    trace.first = (trace.first + 1) % RING;
  }
  if (trace.on && there && trace.left_out > 0 && core->now_ns - trace.second_ns >= SEC_NS) {
    u8 text[64];
    struct json_out o = json_out_init(span_of(text, sizeof text));
    json_open(&o, '{');
    json_field_int(&o, "leftOut", trace.left_out);
    trace.left_out = 0;
    there = send(core, &o);
  }
  if (trace.on && !there) {
    end(core, "nobody listens");
  }
  return did;
}

static const char *begin(struct control_call *c, struct bytes client, u32 seconds) {
  if (trace.on && !bytes_equal(c->client, bytes_of(trace.to, trace.to_len))) {
    return "somebody else traces: one at a time";
  }
  if (bytes_equal(c->client, client)) {
    return "tracing oneself would not end: ask from another client";
  }
  trace.has_timer = trace.has_timer || admin_task_start(c->core, &trace.task, on_time);
  if (!trace.has_timer) {
    return "no timer is left to end a trace";
  }
  trace.on = true;
  trace.first = trace.count = trace.told = trace.left_out = 0;
  trace.to_len = (u32)c->client.len;
  memcpy(trace.to, c->client.ptr, c->client.len);
  trace.until_ns = c->now_ns + seconds * SEC_NS;
  wheel_arm(&c->core->wheel, trace.task.timer, trace.until_ns);
  server_trace(c->core->server, client, take, c->core);
  return NULL;
}

const char *control_trace_client(struct control_call *c) {
  u8 room[CONTROL_NAME_MAX];
  struct bytes client;
  i64 seconds = control_number(c, "seconds", SECONDS_STANDARD);
  if (seconds == 0) {
    if (trace.on && bytes_equal(c->client, bytes_of(trace.to, trace.to_len))) {
      end(c->core, "as asked");
    }
    return NULL;
  }
  if (!json_string(c->j, json_member(c->j, c->node, "clientid"), span_of(room, sizeof room),
                   &client)) {
    return "Invalid/missing clientid";
  }
  return seconds > SECONDS_MOST ? "Invalid seconds: 0 to 300" : begin(c, client, (u32)seconds);
}
