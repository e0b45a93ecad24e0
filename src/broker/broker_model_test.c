// SPDX-License-Identifier: Apache-2.0
// Proves: over long random histories (connect, takeover, clean start, expiry, wills, subscribe,
// publish in every QoS, retained, lost acknowledgements, lost connections, time) every client gets
// exactly what a slow model of lists says: nothing lost, twice, out of order or with another QoS,
// flag or identifier; and every invariant holds after each step. Seeds are fixed. The same with two
// and three cores, each connection on any of them: what one core promises, several do.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/cross_test_support.h"

#include <cmocka.h>

#define SESSIONS 6u
#define EXPECT_MAX 4000u
#define SUBS_MAX 24u
#define TOPICS 10u
#define IDS_MAX 8u

enum { QUEUED, SENT, REL, REL_QUEUED };

struct expected {
  u32 payload;
  u32 topic;
  u8 qos, state;
  bool retain, dup, maybe_dup;
  u32 group;  // of retained messages: any order among them; 0 = none
  u16 pid;
  u32 ids[IDS_MAX];
  u32 id_count;
};
struct model_sub {
  u32 filter;
  u8 qos;
  bool no_local, rap;
  u32 id;
};
struct model_session {
  const struct world *session_core;
  bool exists;
  struct client *c;  // NULL = offline
  struct client client[2];
  u32 turn;
  enum mqtt_version version;
  u32 expiry_s;
  u64 expire_at, will_at;
  bool has_will, will_retain;
  u32 will_topic, will_payload, will_delay;
  u8 will_qos;
  u32 window;
  struct model_sub sub[SUBS_MAX];
  u32 subs;
  struct expected e[EXPECT_MAX];
  u32 count;
  struct {
    u8 type;
    u16 pid;
  } control[200];
  u32 controls;
  u16 open2[64];  // QoS 2 published, not released
  u32 open2_count;
  u16 next_pid;
};
static struct model_session ms[SESSIONS];
static struct {
  u32 payload;  // 0 = none
  u8 qos;
} kept[TOPICS];
static u64 rng_core = 1;
// A stream of its own: with one core the histories stay as they were.
static u32 rnd_other(u32 n) {
  rng_core = rng_core * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(rng_core >> 33) % n;
}

static struct world one;
static struct cluster cl;
static u32 cores;

static void settle(void) {
  if (cores == 1) {
    world_run(&one, 0);
  } else {
    unit_now_ns += 3000000;  // deadlines of two cores are not in one tick of their timers
    cluster_settle(&cl);
  }
}
static struct world *any_core(void) {
  return cores == 1 ? &one : &cl.w[rnd_other(cores)];
}
static u64 rng;
static u32 serial, group;
static u32 delivered, wills, replays, takeovers, resent, moved;

static const char *topics[TOPICS] = {"a",   "a/b", "a/b/c", "a//c", "/",
                                     "b/c", "$x",  "$x/b",  "b",    "c/a/b/c/d"};
static const char *filters[] = {
    "a",  "a/b", "a/+", "+",  "#",    "a/#", "+/b", "+/+", "a/+/c", "/",       "$x/#",
    "$x", "+/#", "b/c", "/+", "a//c", "b/#", "b",   "+/c", "$x/+",  "c/+/b/#", "c/a/b/c/d"};

static u32 rnd(u32 n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(rng >> 33) % n;
}

static void expect_add(struct model_session *s, struct expected e) {
  CHECK(s->count < EXPECT_MAX);
  s->e[s->count++] = e;
}
static void expect_remove(struct model_session *s, u32 i) {
  memmove(&s->e[i], &s->e[i + 1], (s->count - i - 1) * sizeof s->e[0]);
  s->count--;
}

// Returns how many sessions match.
// [MQTT-3.3.4-2] [MQTT-3.3.4-4] [MQTT-3.8.3-3] [MQTT-4.3.3-12] [MQTT-4.3.3-13] [MQTT-4.6.0-5]
// [MQTT-4.6.0-6] [MQTT-3.8.4-4] [MQTT-3.10.4-2] [MQTT-3.10.4-3]
static u32 model_route(u32 topic, u32 payload, u8 qos, bool retain,
                       const struct model_session *from) {
  u32 matched = 0;
  for (u32 i = 0; i < SESSIONS; i++) {
    struct model_session *s = &ms[i];
    struct expected e = {.payload = payload, .topic = topic};
    bool match = false;
    for (u32 k = 0; s->exists && k < s->subs; k++) {
      const struct model_sub *sub = &s->sub[k];
      if (!topic_matches(bytes_str(filters[sub->filter]), bytes_str(topics[topic])) ||
          (sub->no_local && s == from)) {
        continue;
      }
      match = true;
      e.qos = MAX(e.qos, MIN(sub->qos, qos));
      e.retain |= sub->rap && retain;
      if (sub->id > 0) {
        e.ids[e.id_count++] = sub->id;
        CHECK(e.id_count < IDS_MAX);
      }
    }
    matched += match ? 1 : 0;
    if (match && (s->c != NULL || e.qos > 0)) {
      expect_add(s, e);
    }
  }
  if (retain) {
    kept[topic].payload = payload;
    kept[topic].qos = qos;
  }
  return matched;
}

static void model_will(struct model_session *s) {
  if (s->has_will) {
    s->has_will = false;
    s->will_at = U64_MAX;
    wills++;
    (void)model_route(s->will_topic, s->will_payload, s->will_qos, s->will_retain, s);
  }
}
static void model_end(struct model_session *s) {
  model_will(s);
  s->exists = false;
  s->subs = s->count = s->controls = s->open2_count = 0;
}
// The connection is gone, the session stays for the moment.
static void model_unplug(struct model_session *s, bool takeover) {
  s->c = NULL;
  s->controls = 0;
  for (u32 i = 0; i < s->count;) {
    struct expected *e = &s->e[i];
    if (e->qos == 0 && !takeover) {
      expect_remove(s, i);
      continue;
    }
    e->maybe_dup |= e->state == QUEUED;
    e->dup |= e->state == SENT;
    e->state = e->state == SENT ? QUEUED : e->state == REL ? REL_QUEUED : e->state;
    i++;
  }
}
static void model_leave(struct model_session *s, bool normal) {
  model_unplug(s, false);
  if (normal) {
    s->has_will = false;
  }
  if (s->expiry_s == 0) {
    model_end(s);
    return;
  }
  s->expire_at = s->expiry_s == U32_MAX ? U64_MAX : unit_now_ns + s->expiry_s * NS;
  if (s->has_will && s->will_delay == 0) {
    model_will(s);
  } else if (s->has_will) {
    s->will_at = unit_now_ns + s->will_delay * NS;
  }
}
// What falls due until now, in the order of time.
static void model_time(void) {
  for (;;) {
    struct model_session *first = NULL;
    u64 at = unit_now_ns + 1;
    for (u32 i = 0; i < SESSIONS; i++) {
      if (ms[i].exists && ms[i].c == NULL && MIN(ms[i].will_at, ms[i].expire_at) < at) {
        first = &ms[i];
        at = MIN(ms[i].will_at, ms[i].expire_at);
      }
    }
    if (first == NULL) {
      return;
    }
    if (first->expire_at == at) {
      model_end(first);
    } else {
      model_will(first);
    }
  }
}

static void control_due(struct model_session *s, u8 type, u16 pid) {
  CHECK(s->controls < ARRAY_COUNT(s->control));
  s->control[s->controls].type = type;
  s->control[s->controls++].pid = pid;
}

static u32 payload_of(struct bytes b) {
  CHECK(b.len >= 4);
  for (usize i = 4; i < b.len; i++) {
    CHECK(b.ptr[i] == (u8)(b.ptr[3] + i));
  }
  return load_be32(b.ptr);
}
// Length by number, so that some are larger than a pull's span.
static u32 payload_make(u8 *to, u32 number) {
  u32 len = 4 + (number % 7 == 0 ? 3000 : number % 40);
  store_be32(to, number);
  for (u32 i = 4; i < len; i++) {
    to[i] = (u8)(to[3] + i);
  }
  return len;
}

static void show(const struct model_session *s) {
  for (u32 k = 0; k < s->count; k++) {
    fprintf(stderr, "  s%d: %u %s qos %u state %u group %u retain %u dup %u\n", (int)(s - ms),
            s->e[k].payload, topics[s->e[k].topic], s->e[k].qos, s->e[k].state, s->e[k].group,
            s->e[k].retain, s->e[k].dup);
  }
}

static void read_publish(struct model_session *s, struct bytes p) {
  struct mqtt_publish m;
  CHECK(mqtt_decode_publish(s->version, p, &m) == MQTT_SUCCESS);
  u32 number = payload_of(bytes_part(p, m.payload));
  u32 i = 0;
  while (i < s->count && s->e[i].state != QUEUED && s->e[i].state != REL_QUEUED) {
    i++;
  }
  CHECK(i < s->count);
  u32 g = s->e[i].group;  // retained: any order within the group
  for (u32 k = i; g != 0 && k < s->count && s->e[k].group == g; k++) {
    if (s->e[k].state == QUEUED && s->e[k].payload == number &&
        bytes_equal_str(bytes_part(p, m.topic), topics[s->e[k].topic])) {
      struct expected t = s->e[k];
      s->e[k] = s->e[i];
      s->e[i] = t;
      break;
    }
  }
  struct expected *e = &s->e[i];
  CHECK(e->state == QUEUED);
  if (e->payload != number) {
    fprintf(stderr, "got %u instead of\n", number);
    show(s);
  }
  CHECK(e->payload == number);
  CHECK(bytes_equal_str(bytes_part(p, m.topic), topics[e->topic]));
  CHECK(e->qos == m.qos);
  CHECK(e->retain == m.retain);
  CHECK(m.dup == e->dup || (m.dup && e->maybe_dup));
  resent += m.dup ? 1 : 0;
  if (s->version == MQTT_V5) {
    CHECK(m.props.subscription_id_count == e->id_count);
    for (u32 k = 0; k < e->id_count; k++) {
      u32 found = 0;
      for (u32 n = 0; n < e->id_count; n++) {
        found += m.props.subscription_id[n] == e->ids[k] ? 1 : 0;
      }
      CHECK(found > 0);
    }
  }
  delivered++;
  if (m.qos == 0) {
    expect_remove(s, i);
    return;
  }
  for (u32 k = 0; k < s->count; k++) {  // [MQTT-2.2.1-4]
    CHECK(s->e[k].state == QUEUED || s->e[k].pid != m.packet_id || k == i);
  }
  CHECK(e->pid == 0 || e->pid == m.packet_id);  // the same identifier on every resend
  e->pid = m.packet_id;
  e->state = SENT;
}

static void read_control(struct model_session *s, struct bytes p) {
  u8 type = p.ptr[0] >> 4;
  u16 pid = 0;
  if (type >= MQTT_PUBACK && type <= MQTT_PUBCOMP) {
    struct mqtt_ack a;
    CHECK(mqtt_decode_ack(s->version, p, &a) == MQTT_SUCCESS);
    CHECK(a.reason == MQTT_SUCCESS || a.reason == MQTT_NO_MATCHING_SUBSCRIBERS);
    pid = a.packet_id;
  }
  if (s->controls > 0) {
    CHECK(s->control[0].type == type);
    CHECK(s->control[0].pid == pid || type == MQTT_SUBACK || type == MQTT_UNSUBACK);
    memmove(&s->control[0], &s->control[1], --s->controls * sizeof s->control[0]);
    return;
  }
  CHECK(type == MQTT_PUBREL);  // again after a reconnect
  u32 i = 0;
  while (i < s->count && s->e[i].state != QUEUED && s->e[i].state != REL_QUEUED) {
    i++;
  }
  CHECK(i < s->count && s->e[i].state == REL_QUEUED);
  CHECK(s->e[i].pid == pid);
  s->e[i].state = REL;
}

static void op_read(struct model_session *s) {
  s->c->span_len = 1 + rnd(rnd(2) ? 64 : 9000);
  for (struct bytes p = client_next(s->c); p.len > 0; p = client_next(s->c)) {
    if (p.ptr[0] >> 4 == MQTT_PUBLISH) {
      read_publish(s, p);
    } else {
      read_control(s, p);
    }
  }
  s->c->rx_len = s->c->rx_pos = 0;
  CHECK(s->controls == 0);
  u32 inflight = 0;
  for (u32 i = 0; i < s->count; i++) {
    inflight += s->e[i].state == SENT || s->e[i].state == REL ? 1 : 0;
  }
  CHECK(inflight <= s->window);
  for (u32 i = 0; i < s->count; i++) {  // what was not sent is held back by the window alone
    if (s->e[i].state == QUEUED || s->e[i].state == REL_QUEUED) {
      bool held = false;  // of a retained group any may be the head
      for (u32 k = i;
           k < s->count && (k == i || (s->e[i].group != 0 && s->e[k].group == s->e[i].group));
           k++) {
        held |= s->e[k].qos > 0;
      }
      if (!held || inflight != s->window) {
        show(s);
      }
      CHECK(held);
      CHECK(inflight == s->window);
      break;
    }
  }
}

static void op_connect(u32 n) {
  struct model_session *s = &ms[n];
  bool clean = rnd(4) == 0;
  enum mqtt_version v = rnd(3) == 0 ? MQTT_V4 : MQTT_V5;
  u32 choice = rnd(4);
  u32 expiry = choice == 0 ? 0 : choice == 1 ? U32_MAX : 1 + rnd(5);
  u32 window = 1 + rnd(6);
  if (s->c != NULL) {
    takeovers++;
    model_unplug(s, true);
    if (s->has_will && s->will_delay == 0) {
      model_will(s);
    }
  }
  if (s->exists && (clean || s->expiry_s == 0)) {
    model_end(s);
  }
  bool present = s->exists;
  struct client *c = &s->client[s->turn++ % 2];
  struct client *other = &s->client[s->turn % 2];
  bool other_on = other->s != NULL;
  char id[8];
  u8 payload[4096];
  snprintf(id, sizeof id, "s%u", n);
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = expiry},
                                  {.id = MQTT_P_RECEIVE_MAXIMUM, .number = window},
                                  {0}};
  bool will = rnd(3) == 0;
  u32 delay = rnd(2) ? 0 : 1 + rnd(4);
  struct mqtt_prop_out will_props[] = {{.id = MQTT_P_WILL_DELAY, .number = delay}, {0}};
  struct mqtt_connect_out o = {.version = v,
                               .clean_start = clean,
                               .client_id = bytes_str(id),
                               .props = v == MQTT_V5 ? props : NULL};
  s->exists = true;
  s->has_will = will;
  if (will) {
    s->will_payload = ++serial;
    s->will_topic = rnd(TOPICS);
    s->will_qos = (u8)rnd(3);
    s->will_retain = rnd(4) == 0;
    s->will_delay = v == MQTT_V5 ? delay : 0;
    o.has_will = true;
    o.will_topic = bytes_str(topics[s->will_topic]);
    o.will_payload = bytes_of(payload, payload_make(payload, s->will_payload));
    o.will_qos = s->will_qos;
    o.will_retain = s->will_retain;
    o.will_props = v == MQTT_V5 ? will_props : NULL;
  }
  s->version = v;
  s->expiry_s = v == MQTT_V5 ? expiry : clean ? 0 : U32_MAX;
  s->window = v == MQTT_V5 ? window : 20;
  s->expire_at = s->will_at = U64_MAX;
  // The CONNACK alone is read here: the rest is for op_read.
  c->span_len = 1;
  c->version = v;
  u8 buf[8192];
  struct writer out = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_connect(&out, &o);
  CHECK(out.err == ERR_OK);
  struct mqtt_connect d;
  CHECK(mqtt_decode_connect(writer_bytes(&out), &d) == MQTT_SUCCESS);
  struct broker_identity who = {.qos_max = 2};
  c->awake = c->kicked = false;
  c->rx_pos = c->rx_len = 0;
  const struct world *before = s->session_core;
  c->w = any_core();
  moved += present && before != c->w ? 1 : 0;
  s->session_core = c->w;
  CHECK(broker_on_connect(c->w->b, c, &d, writer_bytes(&out), &who, unit_now_ns, &c->s,
                          &c->keep_alive_s) == MQTT_SUCCESS);
  c->entering = c->s == NULL;
  if (c->entering) {
    settle();
  }
  CHECK(!c->entering);
  CHECK(c->s != NULL);
  CHECK(other_on == (other->kicked && other->reason == MQTT_SESSION_TAKEN_OVER) || !other_on);
  CHECK(other->s == NULL);
  s->c = c;
  u8 first[256];
  u32 have = 0;
  struct mqtt_header h;
  do {
    CHECK(broker_pull(c->s, span_of(first + have, 1), unit_now_ns) == 1);
    have++;
  } while (mqtt_fixed_header(bytes_of(first, have), &h) != ERR_OK ||
           have < h.header_len + h.remaining_len);
  CHECK(!broker_mid_packet(c->s));
  c->awake = broker_has_output(c->s);
  CHECK(mqtt_decode_connack(v, bytes_of(first, have), &c->connack) == MQTT_SUCCESS);
  CHECK(c->connack.session_present == present);
}

static void op_subscribe(struct model_session *s) {
  u32 queued = 0;
  for (u32 i = 0; i < s->count; i++) {
    queued += s->e[i].state == QUEUED || s->e[i].state == REL_QUEUED ? 1 : 0;
  }
  if (queued > 10 || s->subs + 1 >= SUBS_MAX) {
    return;
  }
  struct model_sub sub = {.filter = rnd(ARRAY_COUNT(filters)), .qos = (u8)rnd(3)};
  bool v5 = s->version == MQTT_V5;
  sub.no_local = v5 && rnd(4) == 0;
  sub.rap = v5 && rnd(3) == 0;
  u32 matching = 0;  // keeps the identifiers of one delivery within what one packet carries
  for (u32 i = 0; i < s->subs; i++) {
    matching += s->sub[i].id > 0 ? 1 : 0;
  }
  sub.id = v5 && matching < 5 && rnd(2) ? 1 + rnd(100000) : 0;
  u8 handling = v5 ? (u8)rnd(3) : 0;
  u32 at = 0;
  while (at < s->subs && s->sub[at].filter != sub.filter) {
    at++;
  }
  bool existed = at < s->subs;
  s->sub[at] = sub;
  s->subs += existed ? 0 : 1;
  u8 options = (u8)(sub.qos | (sub.no_local ? 4 : 0) | (sub.rap ? 8 : 0) | handling << 4);
  control_due(s, MQTT_SUBACK, 0);
  CHECK(client_subscribe_id(s->c, filters[sub.filter], options, sub.id, 1) == MQTT_SUCCESS);
  if (handling == 0 || (handling == 1 && !existed)) {
    group++;
    for (u32 t = 0; t < TOPICS; t++) {
      if (kept[t].payload != 0 &&
          topic_matches(bytes_str(filters[sub.filter]), bytes_str(topics[t]))) {
        expect_add(s, (struct expected){.payload = kept[t].payload,
                                        .topic = t,
                                        .qos = MIN(kept[t].qos, sub.qos),
                                        .retain = true,
                                        .group = group,
                                        .ids = {sub.id},
                                        .id_count = sub.id > 0 ? 1 : 0});
        replays++;
      }
    }
    settle();
  }
}

static void op_unsubscribe(struct model_session *s) {
  u32 filter = rnd(ARRAY_COUNT(filters));
  for (u32 i = 0; i < s->subs; i++) {
    if (s->sub[i].filter == filter) {
      s->sub[i] = s->sub[--s->subs];
      break;
    }
  }
  control_due(s, MQTT_UNSUBACK, 0);
  CHECK(client_unsubscribe(s->c, filters[filter], 1) == MQTT_SUCCESS);
}

static void op_publish(struct model_session *s) {
  u8 payload[4096];
  u32 topic = rnd(TOPICS);
  u32 number = ++serial;
  bool erase = rnd(12) == 0;
  bool retain = erase || rnd(5) == 0;
  u8 qos = (u8)rnd(3);
  if (erase) {
    qos = 0;  // an empty payload is not forwarded here: its own test does that
    for (u32 i = 0; i < SESSIONS; i++) {
      for (u32 k = 0; k < ms[i].subs; k++) {
        if (topic_matches(bytes_str(filters[ms[i].sub[k].filter]), bytes_str(topics[topic]))) {
          return;
        }
      }
    }
  }
  if (qos == 2 && s->open2_count >= 40) {
    return;
  }
  do {
    s->next_pid = (u16)(s->next_pid % 300 + 1);
    for (u32 i = 0; i < s->open2_count; i++) {
      if (s->open2[i] == s->next_pid) {
        s->next_pid = (u16)(s->next_pid % 300 + 1);
        i = U32_MAX;
      }
    }
  } while (false);
  u16 pid = qos > 0 ? s->next_pid : 0;
  u32 len = erase ? 0 : payload_make(payload, number);
  struct mqtt_publish_out o = {.qos = qos,
                               .retain = retain,
                               .packet_id = pid,
                               .topic = bytes_str(topics[topic]),
                               .payload_len = len};
  u32 copies = qos == 2 ? 1 + rnd(3) : 1;  // QoS 2: repeated before PUBREL, delivered once
  for (u32 i = 0; i < copies; i++) {
    o.dup = i > 0;
    if (qos > 0) {
      control_due(s, qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, pid);
    }
    if (i == 0 && !erase) {
      (void)model_route(topic, number, qos, retain, s);
    }
    CHECK(client_publish_with(s->c, &o, bytes_of(payload, len)) == MQTT_SUCCESS);
  }
  if (erase) {
    kept[topic].payload = 0;
  }
  if (qos == 2) {
    s->open2[s->open2_count++] = pid;
  }
}

static void op_release(struct model_session *s) {  // PUBREL of an own QoS 2 message
  if (s->open2_count == 0) {
    return;
  }
  u32 i = rnd(s->open2_count);
  u16 pid = s->open2[i];
  s->open2[i] = s->open2[--s->open2_count];
  control_due(s, MQTT_PUBCOMP, pid);
  CHECK(client_ack(s->c, MQTT_PUBREL, pid, 0) == MQTT_SUCCESS);
}

static void op_ack(struct model_session *s) {
  u32 i = rnd(2) ? 0 : rnd(s->count + 1);
  while (i < s->count && s->e[i].state != SENT && s->e[i].state != REL) {
    i++;
  }
  if (i >= s->count) {
    return;
  }
  struct expected *e = &s->e[i];
  u16 pid = e->pid;
  if (e->qos == 1) {
    expect_remove(s, i);
    CHECK(client_ack(s->c, MQTT_PUBACK, pid, 0) == MQTT_SUCCESS);
  } else if (e->state == SENT && s->version == MQTT_V5 && rnd(6) == 0) {
    expect_remove(s, i);
    CHECK(client_ack(s->c, MQTT_PUBREC, pid, 0x83) == MQTT_SUCCESS);
  } else if (e->state == SENT) {
    e->state = REL;
    control_due(s, MQTT_PUBREL, pid);
    CHECK(client_ack(s->c, MQTT_PUBREC, pid, 0) == MQTT_SUCCESS);
  } else {
    expect_remove(s, i);
    CHECK(client_ack(s->c, MQTT_PUBCOMP, pid, 0) == MQTT_SUCCESS);
  }
}

static void op_leave(struct model_session *s) {
  if (rnd(2) && s->c->awake) {  // the connection breaks in the middle of a packet
    u8 piece[40];
    (void)broker_pull(s->c->s, span_of(piece, 1 + rnd(39)), unit_now_ns);
  }
  struct client *c = s->c;
  u32 how = rnd(3);
  if (how == 0) {
    model_leave(s, true);
    CHECK(client_disconnect(c, 0, NULL) == MQTT_SUCCESS);
  } else if (how == 1 && s->version == MQTT_V5) {
    model_leave(s, false);
    CHECK(client_disconnect(c, MQTT_DISCONNECT_WITH_WILL, NULL) == MQTT_SUCCESS);
  } else {
    model_leave(s, false);
    client_detach(c);
  }
}

// With several cores from deadline to deadline, so that they fall due in the order of time.
static void op_time(u64 ns) {
  u64 end = unit_now_ns + ns;
  while (cores > 1) {
    u64 next = end;
    for (u32 i = 0; i < SESSIONS; i++) {
      if (ms[i].exists && ms[i].c == NULL) {
        next = MIN(next, MIN(ms[i].will_at, ms[i].expire_at));
      }
    }
    if (next >= end) {
      break;
    }
    unit_now_ns = MAX(unit_now_ns, next + 2200000);
    model_time();
    settle();
  }
  unit_now_ns = MAX(unit_now_ns, end);
  model_time();
  settle();
}

static void step(void) {
  u32 n = rnd(SESSIONS);
  struct model_session *s = &ms[n];
  u32 op = rnd(100);
  if (op < 4) {
    op_time(1007300000ull);
    return;
  }
  if (s->c == NULL) {
    if (op < 50) {
      op_connect(n);
    }
    return;
  }
  if (op < 6) {
    op_connect(n);  // takeover
  } else if (op < 9) {
    op_leave(s);
  } else if (op < 20) {
    op_subscribe(s);
  } else if (op < 25) {
    op_unsubscribe(s);
  } else if (op < 50) {
    op_publish(s);
  } else if (op < 58) {
    op_release(s);
  } else if (op < 80) {
    op_read(s);
  } else {
    op_ack(s);
  }
  if (s->controls > 150) {
    op_read(s);
  }
}

static void check(void) {
  if (cores == 1) {
    broker_check(one.b);
  } else {
    cluster_check(&cl);
  }
}

static void histories(u32 seeds) {
  for (u32 seed = 1; seed <= seeds; seed++) {
    rng = seed * 0x9e3779b97f4a7c15ull;
    memset(ms, 0, sizeof ms);
    memset(kept, 0, sizeof kept);
    if (cores == 1) {
      world_open(&one);
    } else {
      cluster_open(&cl, cores, NULL);
    }
    for (u32 i = 0; i < SESSIONS; i++) {
      client_init(&ms[i].client[0], any_core(), MQTT_V5);
      client_init(&ms[i].client[1], any_core(), MQTT_V5);
    }
    for (u32 k = 0; k < 1500; k++) {
      step();
      if (cores > 1) {
        settle();
      }
      if (k % 8 == 0) {
        check();
      }
    }
    for (u32 i = 0; i < SESSIONS; i++) {
      client_free(&ms[i].client[0]);
      client_free(&ms[i].client[1]);
    }
    if (cores == 1) {
      world_close(&one);
    } else {
      cluster_close(&cl);
    }
  }
}

static void random_histories(void **state) {
  (void)state;
  cores = 1;
  histories(60);
  printf("model: %u delivered, %u resent, %u wills, %u retained, %u takeovers\n", delivered, resent,
         wills, replays, takeovers);
  CHECK(delivered > 10000);
  CHECK(resent > 100);
  CHECK(wills > 100);
  CHECK(replays > 500);
  CHECK(takeovers > 100);
}

static void random_histories_of_two_cores(void **state) {
  (void)state;
  cores = 2;
  histories(20);
}

static void random_histories_of_three_cores(void **state) {
  (void)state;
  cores = 3;
  histories(20);
  CHECK(moved > 500);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_histories),
                                     cmocka_unit_test(random_histories_of_two_cores),
                                     cmocka_unit_test(random_histories_of_three_cores)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
