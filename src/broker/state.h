// SPDX-License-Identifier: Apache-2.0
// The broker's inside, shared by broker/*.c only.
//
// I1  A delivery is in exactly one list: a session's out queue (by class), its inflight list, its
//     control queue, or it is the one being pulled (still first in its queue).
// I2  A session's packet identifiers are 1 + (sequence mod 65535), given when a message is queued;
//     at most QUEUE_SPAN of them are queued or in flight, so that none is used twice.
// I3  A subscription is in its node's list and its session's list; a node without subscriptions and
//     children does not exist.
// I4  message->refs counts deliveries, retained slots and wills.
#pragma once
#include "broker/broker.h"
#include "loop/extent.h"
#include "mqtt/encode.h"
#include "mqtt/topic.h"

#define QUEUE_SPAN 60000u
#define SUB_IDS 3u  // identifiers carried by one delivery
#define FILTER_LEVELS_MAX 200u
#define RECEIVE_MAXIMUM 1000u  // QoS 2 messages a client may have open with us
#define ALIAS_MAX 10u
#define NEVER U64_MAX
#define SECOND_NS 1000000000ull

// A stored application message, or raw bytes of a control packet (SUBACK, CONNACK).
struct message {
  u32 refs;
  u32 topic_len;
  u32 props_len;  // properties as received, less alias and expiry
  u32 payload_len;
  u64 expires_ns;  // NEVER
  u64 size;        // of the allocation
  u8 data[];       // topic, properties, payload
};
static inline struct bytes message_topic(const struct message *m) {
  return bytes_of(m->data, m->topic_len);
}
static inline struct bytes message_props(const struct message *m) {
  return bytes_of(m->data + m->topic_len, m->props_len);
}
static inline struct bytes message_payload(const struct message *m) {
  return bytes_of(m->data + m->topic_len + m->props_len, m->payload_len);
}

enum delivery_flag {
  DELIVERY_RETAIN = 1,
  DELIVERY_DUP = 2,
  DELIVERY_RELEASED = 4,  // QoS 2: PUBREC has come, PUBCOMP is awaited
  DELIVERY_RAW = 8,       // control: m holds the packet's bytes
};
struct delivery {
  struct delivery *next;
  struct message *m;  // NULL: a control packet of `type`, or a QoS 2 message after PUBREC
  u16 pid;
  u8 qos;    // control: packet type
  u8 flags;  // control without m: reason code
  u32 sub_id[SUB_IDS];
};
static_assert(sizeof(struct delivery) == 32, "queue entries are what a broker holds most of");

struct queue {
  struct delivery *first, *last;
};

enum out_class { OUT_CONTROL, OUT_QOS0, OUT_QOS12, OUT_COUNT };

struct subscription {
  struct subscription *node_next, **node_at;
  struct subscription *session_next;
  struct session *session;
  struct node *node;
  struct group *group;  // NULL: not shared
  u32 id;               // subscription identifier, 0 = none
  u8 qos;
  bool no_local, retain_as_published;
};
static_assert(sizeof(struct subscription) <= 64, "budget of a subscription, node apart");

struct group {  // members of one shared subscription ($share/NAME/FILTER)
  struct group *next;
  struct subscription *members;  // rotates
  u32 name_len;
  u8 name[];  // allocated as a message would be
};

// A filter without wildcards (whole text, parent NULL) or a level of one with wildcards.
struct node {
  struct node *hash_next;
  struct node *parent;
  struct node *plus, *hash;  // children '+' and '#'
  struct subscription *subs;
  struct group *groups;
  u64 key;
  u32 children;  // all of them
  u16 text_len;
  u8 kind;   // enum node_kind
  u8 *text;  // own allocation
};
enum node_kind { NODE_EXACT, NODE_LEVEL, NODE_PLUS, NODE_HASH, NODE_ROOT };

struct session {
  struct session *hash_next;
  struct broker *broker;
  void *user;  // the connection, NULL when offline
  u8 *client_id;
  u64 serial;  // tells this session from an earlier one of the same name
  struct queue out[OUT_COUNT];
  struct queue inflight;
  struct delivery *received;  // QoS 2 identifiers received, not released
  struct delivery *pulling;   // partly written
  u32 pulled;                 // bytes of it
  u32 pull_expiry_s;
  u32 queued_count;  // deliveries in OUT_QOS0 and OUT_QOS12
  u32 inflight_count;
  u32 received_count;
  u32 sequence;  // of QoS 1 and 2 deliveries
  u32 max_packet;
  u32 session_expiry_s;
  u32 dropped;
  u16 client_id_len;
  u16 receive_maximum;
  u8 version;
  bool awake;  // wake was called, not yet dry
  bool request_problem;
  bool clean_v4;  // 3.1.1 clean session: ends with the connection
  struct subscription *subs;
  struct bytes *alias;  // ALIAS_MAX entries, own allocations; NULL until used
  // will
  struct message *will;
  u32 will_delay_s;
  u8 will_qos;
  bool will_retain;
  u32 timer;
  u64 will_ns, expiry_ns;  // NEVER
  // while a publish is matched
  struct session *match_next;
  u64 match_epoch;
  u32 match_id[SUB_IDS];
  u8 match_ids, match_qos;
  bool match_rap;
};
static_assert(sizeof(struct session) <= 384, "budget of a session (DESIGN 3)");

struct retained {
  struct retained *hash_next;
  struct message *m;
  u64 key;
  u8 qos;
};

struct replay {  // retained messages on their way to a new subscription
  struct replay *next;
  struct session *session;
  u64 serial;
  u32 at;  // index into the retained pool
  u32 id;
  u32 filter_len;
  u8 *filter;
  u8 qos;
};

struct broker {
  struct core *core;
  struct broker_limits limits;
  struct broker_ops ops;
  struct broker_stats stats;
  struct pool sessions, subs, nodes, deliveries, retained, replays;
  struct pool blob[5];  // 64, 128, 256, 512, 1024 bytes
  struct extent extent;
  struct session **session_hash;
  struct node **node_hash;
  struct retained **retained_hash;
  u32 session_mask, node_mask, retained_mask;
  struct node root;
  u32 wildcard_nodes;  // 0: no walk at all
  struct replay *replay_first, *replay_last;
  u64 epoch, serial;
};

// --- memory (message.c)
void *blob_take(struct broker *b, usize len);  // NULL: the ceiling is reached
void blob_put(struct broker *b, void *p CONSUMES, usize len);
struct message *message_new(struct broker *b, struct bytes topic, u32 props_max, u32 payload_len);
void message_ref(struct message *m);
void message_unref(struct broker *b, struct message *m CONSUMES);

// --- subscriptions (tree.c)
enum err tree_subscribe(struct broker *b, struct session *s, struct bytes filter,
                        const struct subscription *options, bool *existed);
bool tree_unsubscribe(struct broker *b, struct session *s, struct bytes filter);
void tree_remove_all(struct broker *b, struct session *s);
// Collects the sessions that match into a list by match_next; NULL when nobody does. `from` is the
// publisher (no local), or NULL.
struct session *tree_match(struct broker *b, struct bytes topic, const struct session *from);
void tree_check(const struct broker *b);  // I3, asserted

// --- retained (retained.c)
bool retained_set(struct broker *b, struct message *m, u8 qos);  // false: no room
void retained_clear(struct broker *b, struct bytes topic);
void retained_replay(struct broker *b, struct session *s, struct bytes filter, u8 qos, u32 id);
void replay_drop(struct broker *b, const struct session *s);

// --- queues (queue.c)
void queue_push(struct queue *q, struct delivery *d);
struct delivery *queue_pop(struct queue *q);
void session_wake(struct session *s);
// Queues m for s (a reference is taken). False: dropped and counted.
bool session_deliver(struct session *s, struct message *m, u8 qos, bool retain, const u32 *ids,
                     u32 id_count);
// Queues a control packet without body beyond identifier and reason. False: no entry left.
bool session_control(struct session *s, enum mqtt_type type, u16 pid, enum mqtt_reason reason);
bool session_raw(struct session *s, struct bytes packet);
void delivery_free(struct broker *b, struct delivery *d CONSUMES);
void session_drop_queues(struct session *s);
void session_requeue_inflight(struct session *s);  // after a reconnect: DUP and PUBREL

// --- sessions (session.c)
struct session *session_find(struct broker *b, struct bytes client_id);
void session_end(struct session *s, u64 now_ns);  // will is due, everything is freed
void session_timer(struct core *core, u32 timer, void *owner);

// --- routing (route.c)
// Delivers m to all matching sessions; returns how many sessions took it. *refused: how many could
// not for lack of room.
u32 route(struct broker *b, struct message *m, u8 qos, bool retain, const struct session *from,
          u32 *refused);
