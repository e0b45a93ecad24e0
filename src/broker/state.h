// SPDX-License-Identifier: Apache-2.0
// What the files of broker/ share: the structures and the functions between them. Internal.
//
// Links between objects of one pool are indices (NONE = no object): half the size of a pointer.
#pragma once
#include "broker/block.h"
#include "broker/broker.h"
#include "broker/durable.h"
#include "mqtt/encode.h"
#include "mqtt/topic.h"

#define NONE U32_MAX
#define LEVELS_MAX 200u         // of a filter, as mosquitto; a name's deeper levels match only '#'
#define INBOUND_QOS2_MAX 1024u  // open QoS 2 identifiers of one client; beyond: 0x93
#define CONTROL_MAX 1024u       // acknowledgements waiting for one client; then it is not read
#define RECEIVE_MAXIMUM 1000u   // announced in CONNACK; more is tolerated
#define QOS0_QUEUE_FACTOR 4u    // a connected client's QoS 0 backlog, in session_queued_max
#define REPLAY_LOW 32u          // a replay tops a session's queue up to this many entries
#define REPLAY_STEPS 256u       // nodes a replay looks at in one slice
#define REPLAY_SLICES 16u       // slices a turn
#define CONTROL_TOPICS 4u
#define MOUNTS_MAX 18u  // none, and one a listener
#define NS 1000000000ull
#define NEVER_NS U64_MAX

// --- Messages

// A message as it is stored and forwarded: one block. `data` is the body of a v5 QoS 0 PUBLISH:
// two length bytes, topic, property length, properties that are forwarded, payload.
struct message {
  u32 refs;
  u32 raw_off;  // of the properties themselves; their length stands before
  u32 payload_off;
  u32 len;         // of what is sent of data
  u32 origin_len;  // who published it stands behind (access.c); 0 = not kept
  u16 topic_len;
  u8 qos;
  bool retain;
  u64 expires_ns;  // NEVER_NS = never
  u64 lsn;         // its number on the disk (durable.c); 0 = it is not there
  u8 data[];
};

struct message_in {  // what a message is made of, borrowed
  struct bytes topic;
  struct bytes props;  // property bytes as received (may hold some that are not forwarded)
  bool props_clean;    // all of them are forwarded
  struct bytes payload;
  u8 qos;
  bool retain;
  u64 expires_ns;
  const struct access_who *origin;  // NULL = the system
  u8 origin_set;
};

// --- Topic levels

struct level {
  u32 off;
  u32 len;
  u32 hash;
};
struct levels {
  struct bytes topic;
  u32 count;
  bool more;  // the topic goes on behind the last of them
  struct level level[LEVELS_MAX + 1];
};
// A node's own level: short ones inline, long ones in a block.
#define LEVEL_INLINE 24u
struct level_text {
  u32 hash;
  u16 len;
  union {
    u8 text[LEVEL_INLINE];
    u8 *block;
  };
};

// --- Subscriptions

struct tnode {
  struct level_text text;
  u32 hash_next;
  u32 parent;
  u32 plus;      // child '+'
  u32 rest;      // child '#'
  u32 children;  // all of them
  u32 subs;      // first subscription that ends here
  u32 shares;    // first shared group that ends here
  u32 cross;     // cross.h; 0 with one core
};
static_assert(sizeof(struct tnode) == 64, "budget of a topic node");

enum { SUB_NO_LOCAL = 1, SUB_RAP = 2 };
struct sub {
  struct session *session;
  u32 node;
  u32 node_next, node_prev;
  u32 session_next, session_prev;
  u32 hash_next;
  u32 route_next;  // next matched subscription of the same session in this routing
  u32 identifier;  // 0 = none
  u32 share;       // group, NONE = not shared
  u16 due;         // shared: messages it was asked to take
  u8 qos;
  u8 flags;
};
static_assert(sizeof(struct tnode) + sizeof(struct sub) + 16 <= 128, "budget of a subscription");

// --- Retained messages

struct rnode {
  struct level_text text;
  struct message *message;  // NULL = an inner node
  u64 expires_ns;           // of retained_expiry_s; NEVER_NS = never
  u32 hash_next;
  u32 parent;
  u32 child, next, prev;  // first child, siblings
  u32 refs;               // children + message + replays standing here + graves
  u64 stamp;              // of the last change; 0 with one core
};

// A wildcard subscription's walk over the retained tree, in slices. It pins the node it stands on,
// so that the tree may change between slices.
struct replay {
  struct session *session;
  u8 *filter;  // block
  u32 filter_len;
  u32 node;
  u32 depth;         // levels above node
  u32 sub;           // the subscription it serves
  u32 next;          // of the session's replays
  bool fresh;        // nothing looked at yet
  struct link link;  // in broker.replays
};

// --- Queues

enum { ENTRY_QUEUED = 0, ENTRY_SENT = 1, ENTRY_RELEASED = 2 };  // SENT: an acknowledgement is due
enum { ENTRY_RETAIN = 1, ENTRY_IDS = 2, ENTRY_DUP = 4 };
struct entry {
  struct message *message;  // NULL once released (QoS 2)
  u32 next;
  u32 seq;         // QoS > 0: packet identifier = 1 + seq mod 65535
  u32 identifier;  // the one subscription identifier, or (ENTRY_IDS) how many in the list
  u8 qos;
  u8 state;
  u8 flags;
  union {
    u32 ids;    // ENTRY_IDS: granule of the block that holds them
    u32 share;  // else: the group it came from, NONE = none
  };
  u32 lsn;  // low half: of the record that the client must not be ahead of (durable.c)
};
static_assert(sizeof(struct entry) <= 32, "budget of a queue entry");

// A control packet that waits to be sent, or an inbound QoS 2 identifier that waits for PUBREL.
struct control {
  u8 *block;  // the packet's bytes (SUBACK, UNSUBACK); NULL = an acknowledgement or PINGRESP
  u32 len;
  u32 next;
  u32 ticket;  // NONE = waits for nothing but those before it
  u16 packet_id;
  u8 type;
  u8 reason;
};
static_assert(sizeof(struct control) <= 24, "budget of a control packet");

// What an acknowledgement waits for (ticket.c).
struct ticket {
  u64 lsn;      // of the record that the disk's part is about; 0 = it has none
  u32 next;     // of those that wait for the disk
  u32 session;  // whose acknowledgement it is; NONE: the connection is gone
  u32 parts;    // not home yet: other cores, and the disk
  bool kept;    // another core has a receiver that took the message
  bool full;    // another core has receivers, and none took it
};

struct list {  // singly linked, by index
  u32 head, tail, count;
  u64 bytes;  // of the entries' messages
};

// A shared subscription's group at one node (share.c); members are linked by node_next, node_prev.
struct share {
  u32 node;
  u32 next;    // next group of the node's list
  u32 first;   // first member
  u32 cursor;  // the member to be asked next, NONE = the first
  u32 count;
  u32 online;      // members that are connected
  u32 offered;     // messages that members were asked to take
  u32 taken;       // messages taken so far
  u32 taken_seen;  // by the stage
  u32 route_next;  // next matched group of this routing
  struct list queue;
  struct list back;  // on their way back from a member
  struct link wait;  // in broker.wait_list
  u64 number;        // on the disk; 0: no member is there
  u32 kept;          // members that are
  bool full;
  bool away;  // another core is asked before a member here
  bool seen;  // offers stood at the last stage
  struct level_text name;
};

// --- Sessions

// A session's client id and user name behind one another: short ones inline, long ones in a block.
#define NAMES_INLINE 32u
struct names {
  union {
    u8 text[NAMES_INLINE];
    u8 *block;
  };
  u16 id_len, username_len;
};

struct session {
  struct broker *b;
  void *user;  // the connection; NULL = offline
  struct names names;
  struct message *will;
  u8 **aliases;      // block of topic_alias_max blocks, each: two length bytes, topic
  u8 **aliases_out;  // ours, likewise
  u64 expire_at_ns;
  u64 will_at_ns;
  u64 route_gen;
  u64 access_salt;                      // makes this identity's remembered answers its own
  u64 rate_messages_ns, rate_bytes_ns;  // publish.c: when what was taken will have been paid for
  u64 number;                           // on the disk (durable.c); 0 = it is not there
  u32 index;
  u32 hash_next;
  u32 timer;  // WHEEL_NONE while nothing is due
  u32 expiry_s;
  u32 connect_expiry_s;
  u32 will_delay_s;
  u32 packet_max;  // the client's
  u32 send_max;    // QoS > 0 in flight
  struct list queue;
  struct list inflight;      // count includes a QoS > 0 entry that is being streamed
  struct list control;       // may be sent; count: of `held` too
  u32 held_head, held_tail;  // behind them: those that wait for a ticket, or for one before them
  u16 held_subacks;          // of these; what is queued goes out behind them
  u32 inbound;               // QoS 2 identifiers received, not released
  u32 inbound_count;
  u32 seq_next;
  u32 stream;      // entry being written, NONE = none
  u32 stream_off;  // bytes of it (or of the first control) written
  u32 stream_expiry_s;
  u16 stream_alias;  // alias.c; 0 = the topic is sent by name
  u16 alias_out_max, alias_out_count;
  u32 subs;    // not shared
  u32 shared;  // shared
  u32 sub_count;
  u32 due;  // messages of shared subscriptions it was asked to take
  u32 replay;
  u32 route_next;
  u32 route_subs;
  u32 requeued_tail;  // queue.c I4
  u32 stall_next;     // of the sessions that wait for the global ceiling of inflight
  u32 doom_next;      // of the sessions to be disconnected
  u32 disk_next;      // of those whose next message waits for the disk
  u32 dropped[BROKER_DROPPED_COUNT];
  u32 credential;
  u32 place_gen;   // cross_directory.c; 0 with one core
  u16 move;        // cross_takeover.c; 0 = it stays
  u8 mount_index;  // into broker.mounts
  u8 version;
  u8 qos_max;  // of the listener: publishes, will and granted subscriptions
  u8 route_qos;
  bool route_retain;
  bool ready;
  bool normal_end;  // DISCONNECT 0 was received
  bool has_username;
  u8 access_set;
  bool stream_alias_new;  // the topic goes with it
  bool stalled;
  u8 doom;            // the reason to be disconnected with in the next turn; 0 = none
  bool stuck;         // did not take what it was offered; until it is pulled (share.c)
  bool bridge;        // 3.1 and 3.1.1: its subscriptions are as 5.0's no local, retain as published
  bool problem_info;  // it wants reason strings [MQTT-3.1.2-29]
  bool opening;       // its CONNACK waits for the disk: nothing leaves before it [MQTT-3.2.0-1]
  bool disk_waits;
  bool relaxed;  // its listener's: acknowledgements do not wait for the disk
};
static_assert(sizeof(struct session) <= 384, "budget of a session");

static inline const u8 *names_text(const struct names *n) {
  return (u32)n->id_len + n->username_len > NAMES_INLINE ? n->block : n->text;
}
static inline struct bytes names_id(const struct names *n) {
  return bytes_of(names_text(n), n->id_len);
}
static inline struct bytes names_username(const struct names *n) {
  return bytes_of(names_text(n) + n->id_len, n->username_len);
}

struct table {
  u32 *bucket;
  u32 mask;
};

struct access_set {
  struct access_rules rules;  // allows NULL: everything
  bool check_subscribe;
};

struct broker {
  struct core *core;
  struct cross *cross;  // NULL: there is one core
  struct broker_limits limits;
  bool more_ceilings;  // of queues, than session_queued_max
  struct broker_ops ops;
  struct broker_stats stats;
  struct blocks blocks;
  struct pool sessions, subs, nodes, entries, controls, rnodes, replays, shares, tickets;
  struct table session_table, sub_table, node_table, rnode_table;
  u32 root, rroot;
  struct link replay_list;
  struct link wait_list;  // groups of shared subscriptions with messages
  u64 route_gen;
  u64 id_counter;
  u32 route_head, route_tail;  // sessions of this routing, by route_next
  u32 route_shared;            // groups of this routing, by share.route_next
  struct access_set access[BROKER_ACCESS_SETS];
  bool access_on;  // any set has rules
  u64 access_salt;
  struct control_topic {
    struct bytes topic;
    broker_control *take;
    void *ctx;
  } control_topic[CONTROL_TOPICS];
  u64 access_hash;    // of the name being delivered
  u64 *access_cache;  // access.c
  u32 access_mask;
  u32 stall_head, stall_tail;  // by stall_next
  u32 doom_head;               // by doom_next
  u64 expiry_turn;             // the turn in which expiry_work was done (session.c)
  u32 expiry_work;
  u32 disk_head, disk_tail;  // tickets that wait for the disk, by LSN
  u32 mail_refs;             // of messages, held by mail to other cores
  struct durable durable;
  struct restore *restore;          // NULL: not while the disk is read
  struct bytes mounts[MOUNTS_MAX];  // [0] = none; borrowed from the listeners
  u32 sub_ticket;                   // of the SUBACK that is being made
  u32 route_ticket;                 // of the acknowledgement, NONE = none
  u8 route_from;                    // core of the message that is being routed
  u8 mounted[U16_MAX];              // a topic behind its mount point
  struct levels match_levels;       // of the name being routed
  struct levels filter_levels;      // of a filter being added or replayed
  struct levels name_levels;        // of a retained name
};

static inline struct session *session_at(const struct broker *b, u32 i) {
  return pool_at(&b->sessions, i);
}
static inline struct sub *sub_at(const struct broker *b, u32 i) {
  return pool_at(&b->subs, i);
}
static inline struct tnode *node_at(const struct broker *b, u32 i) {
  return pool_at(&b->nodes, i);
}
static inline struct entry *entry_at(const struct broker *b, u32 i) {
  return pool_at(&b->entries, i);
}
static inline struct control *control_at(const struct broker *b, u32 i) {
  return pool_at(&b->controls, i);
}
static inline struct rnode *rnode_at(const struct broker *b, u32 i) {
  return pool_at(&b->rnodes, i);
}
static inline struct replay *replay_at(const struct broker *b, u32 i) {
  return pool_at(&b->replays, i);
}
static inline struct ticket *ticket_at(const struct broker *b, u32 i) {
  return pool_at(&b->tickets, i);
}
static inline struct share *share_at(const struct broker *b, u32 i) {
  return pool_at(&b->shares, i);
}

// message.c
// NULL when the message memory is full. One reference. OWNED.
struct message *message_make(struct broker *b, const struct message_in *in);
// Our copy of another core's message. NULL without memory. OWNED.
struct message *message_adopt(struct broker *b, const struct message *remote);
void message_unref(struct broker *b, struct message *m CONSUMES);
static inline struct message *message_ref(struct message *m) {
  m->refs++;
  return m;
}
static inline struct bytes message_topic(const struct message *m) {
  return bytes_of(m->data + 2, m->topic_len);
}
// Of the property length.
static inline u32 message_props_off(const struct message *m) {
  return 2u + m->topic_len;
}
static inline u32 message_payload_len(const struct message *m) {
  return m->len - m->payload_off;
}
static inline bool message_expired(const struct message *m, u64 now_ns) {
  return m->expires_ns <= now_ns;
}
u64 expiry_deadline(const struct mqtt_props *props, u64 now_ns);

// levels.c
// Splits a name or filter; at most LEVELS_MAX + 1 levels.
void levels_split(struct broker *b, struct bytes topic, struct levels *out);
static inline struct bytes level_bytes(const struct levels *l, u32 i) {
  return bytes_sub(l->topic, l->level[i].off, l->level[i].len);
}
bool level_text_set(struct blocks *a, struct level_text *t, struct bytes text, u32 hash);
void level_text_clear(struct blocks *a, struct level_text *t);
static inline struct bytes level_text_bytes(const struct level_text *t) {
  return bytes_of(t->len <= LEVEL_INLINE ? t->text : t->block, t->len);
}
static inline bool level_text_is(const struct level_text *t, struct bytes text, u32 hash) {
  return t->hash == hash && bytes_equal(level_text_bytes(t), text);
}
static inline u32 table_slot(const struct table *t, u32 a, u32 hash) {
  u64 v = ((u64)a << 32 | hash) * 0x9e3779b97f4a7c15ull;
  return (u32)(v >> 32) & t->mask;
}

// broker.c
u32 broker_shares(const struct broker_limits *l);

// topic_tree.c
void tree_init(struct broker *b);
// The subscription of `s` to `filter` (not shared, valid, at most LEVELS_MAX levels), made when it
// is not there; *existed tells. NULL when a pool is empty.
struct sub *tree_subscribe(struct broker *b, struct session *s, struct bytes filter,
                           struct bytes group, bool *existed);
// Finds it; NULL when there is none.
struct sub *tree_find(struct broker *b, const struct session *s, struct bytes filter,
                      struct bytes group);
void tree_remove(struct broker *b, struct sub *sub CONSUMES);
// Collects the subscriptions that match `name` into route lists (route.c).
void tree_match(struct broker *b, struct bytes name, const struct session *publisher);
// The filter that ends at this node, at the end of `room`. False: it does not fit.
bool tree_filter(const struct broker *b, u32 node, struct span room, struct bytes *out);
// The group at this filter, made when it is not there. NONE: no memory.
u32 tree_group(struct broker *b, struct bytes filter, struct bytes group);
// Frees it when it has no members, here and elsewhere.
void tree_group_prune(struct broker *b, u32 share);
// Frees the node and its ancestors, as far as nothing needs them.
void tree_prune(struct broker *b, u32 node);
void tree_check(const struct broker *b);

// route.c
void route_add(struct broker *b, struct sub *sub, const struct session *publisher);
struct route_result {
  u32 matched;        // sessions and groups
  u32 dropped;        // of these, for want of room
  bool no_memory;     // for the message: nothing was done
  bool not_retained;  // no room in the store: a QoS 0 message was delivered, others were not
};
struct route_result route(struct broker *b, const struct message_in *in,
                          const struct session *publisher, u64 now_ns);
// Routes another core's message to the sessions of this one.
// stamp: of a change of what is retained, 0 = it is none.
struct route_result route_remote(struct broker *b, const struct message *remote, u64 stamp,
                                 u64 now_ns);
// Routes a will or another message object that exists already.
void route_message(struct broker *b, struct message *m, const struct session *publisher,
                   u64 now_ns);

// retained.c
void retained_init(struct broker *b);
// Stores, replaces or (empty payload) removes. False when there is no room.
// What is there with a later stamp stays.
bool retained_set(struct broker *b, struct message *m, u64 stamp);
void retained_delete(struct broker *b, struct bytes topic, u64 stamp);
void retained_bury(struct broker *b, u32 node);  // forgets that something was deleted here
struct message *retained_find(struct broker *b, struct bytes topic);  // NULL: none
// Sends what is retained for a new subscription. False when no replay can be kept.
bool retained_start(struct broker *b, struct sub *sub, struct bytes filter, u64 now_ns);
void retained_cancel(struct broker *b, const struct sub *sub);
void retained_resume(struct session *s);  // the session has been pulled, or is connected again
void retained_park(struct session *s);    // the session is offline
bool retained_stage(struct broker *b, u64 now_ns);
// mount.c
// The topic or filter as the broker has it: behind the mount point. Good until the next call. ptr
// NULL: longer than a topic may be.
struct bytes mount_in(struct broker *b, struct bytes mount, struct bytes topic);
// Bytes at the front of this message's topic that the client does not see.
u32 mount_out(const struct session *s, const struct message *m);
// The place of this mount point among those in use.
u8 mount_index(struct broker *b, struct bytes mount);
static inline struct bytes session_mount(const struct session *s) {
  return s->b->mounts[s->mount_index];
}
void retained_check(const struct broker *b);

// access.c
u64 access_bytes(const struct broker_limits *l);
bool access_init(struct broker *b, struct carve *carve);
static inline struct access_who session_who(const struct session *s) {
  return (struct access_who){.username = names_username(&s->names),
                             .client_id = names_id(&s->names),
                             .has_username = s->has_username};
}
// The session is this identity's from now on.
void access_identity(struct session *s, const struct broker_identity *id);
// WRITE of a name, SUBSCRIBE and UNSUBSCRIBE of a filter.
bool access_allows(const struct session *s, enum access_kind kind, struct bytes topic);
// Before a message's deliveries, and for each of them. Only when b->access_on.
void access_begin(struct broker *b, const struct message *m);
bool access_may_read(const struct session *s, const struct message *m);
// A message to $CONTROL/...: handed to whom it is for. False: to nobody.
bool access_control(struct broker *b, struct bytes topic, const struct access_who *who,
                    struct bytes payload, u64 now_ns);
// May a retained message still be shown: check_retain_source.
bool access_origin_may_write(struct broker *b, const struct message *m);
// The origin's bytes behind a message's data: how many, and written.
u32 access_origin_len(const struct broker *b, const struct message_in *in);
void access_origin_write(const struct message_in *in, u8 *to, u32 len);

// queue.c
static inline void list_reset(struct list *l) {
  *l = (struct list){.head = NONE, .tail = NONE};
}
void entries_push(struct broker *b, struct list *l, u32 index);
u32 entries_pop(struct broker *b, struct list *l);
u32 entries_pop_behind(struct broker *b, struct list *l, u32 prev);
void entry_free(struct broker *b, u32 index);
void queue_append(struct session *s, u32 index);
u32 queue_pop_behind(struct session *s, u32 prev);
void queue_clear(struct session *s);
// Puts these entries before all others; the list is empty then.
void queue_prepend(struct session *s, struct list *front);
void session_count_drop(struct session *s, enum broker_drop why);
// Queues a delivery. False when it was dropped for want of room (counted). `subs`: the matched
// subscriptions' chain for their identifiers. Everything that was in flight goes back to the front
// of the queue.
void queue_requeue(struct session *s);
void session_wake(struct session *s);
bool queue_push(struct session *s, struct message *m, u8 qos, bool retain, u32 subs,
                bool unlimited);

// control.c
// Queues a control packet. False: the pool is empty or the client reads nothing.
// A control packet fits: ask before anything is changed.
bool control_room(const struct session *s);
bool control_push(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block CONSUMES,
                  u32 len);
// The same for one that waits until the ticket's parts are home. CONSUMES the ticket.
bool control_push_after(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block CONSUMES,
                        u32 len, u32 ticket);
// Lets go what waits for nothing any more: a ticket of the session is complete.
void control_release(struct session *s);
void control_clear(struct session *s);
bool inbound_has(const struct session *s, u16 packet_id);
bool inbound_add(struct session *s, u16 packet_id);
bool inbound_remove(struct session *s, u16 packet_id);
static inline u16 entry_packet_id(const struct entry *e) {
  return (u16)(1 + e->seq % 65535u);
}
u32 *entry_ids(const struct broker *b, const struct entry *e);

// ticket.c
// A ticket without parts for an acknowledgement of this session; NONE: the pool is empty
// (MQTT_SERVER_BUSY). OWNED: goes to control_push_after, or ticket_leave.
u32 ticket_open(struct broker *b, const struct session *s);
// So many parts more, each of which comes home by ticket_home: one a core that was asked.
void ticket_expect(struct broker *b, u32 ticket, u32 parts);
// The disk's part: home once this LSN, the last so far, is durable.
void ticket_expect_lsn(struct broker *b, u32 ticket, u64 lsn);
// What a core's part has found: receivers, and of these without room. Before it comes home.
void ticket_found(struct broker *b, u32 ticket, u32 matched, u32 dropped);
// The reason of a PUBACK or PUBREC, when the publisher's own core has this one.
u8 ticket_reason(const struct broker *b, u32 ticket, u8 own);
// A part is home. The last one releases the acknowledgement.
void ticket_home(struct broker *b, u32 ticket);
// Nobody waits for it any more: it is given back when its parts are home.
void ticket_leave(struct broker *b, u32 ticket CONSUMES);
// Everything up to this LSN is durable.
void ticket_durable(struct broker *b, u64 lsn);

// durable.c. Without a disk none of these is called: `broker_keeps` stands before each.
static inline bool broker_keeps(const struct broker *b) {
  return UNLIKELY(b->durable.store != NULL);
}
// The session outlives its connection on a disk.
static inline bool session_kept(const struct session *s) {
  return UNLIKELY(s->number != 0);
}
// Room for a packet whose records have `len` bytes in all, and for a ticket. MQTT_SERVER_BUSY else.
bool durable_has_room(const struct broker *b, u64 len, u32 count);
static inline bool durable_room(const struct broker *b, u64 len, u32 count) {
  return !broker_keeps(b) || durable_has_room(b, len, count);
}
// A control packet that waits for the records since `mark`, when there are any.
static inline u64 durable_mark(const struct broker *b) {
  return b->durable.last_lsn;
}
// ticket: of other cores' parts; NONE = none.
bool durable_push_after(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block CONSUMES,
                        u32 len, u32 ticket);
static inline bool durable_push(struct session *s, u64 mark, u32 ticket, u8 type, u16 packet_id,
                                u8 reason, u8 *block CONSUMES, u32 len) {
  return durable_mark(s->b) == mark
             ? control_push_after(s, type, packet_id, reason, block, len, ticket)
             : durable_push_after(s, type, packet_id, reason, block, len, ticket);
}
// May this message, whose receivers are in the route lists, be routed?
enum durable_verdict { DURABLE_YES, DURABLE_BUSY, DURABLE_REFUSED };
enum durable_verdict durable_may_route(const struct broker *b, const struct message_in *in,
                                       bool retain, const struct session *publisher);
// Between these two every durable_ref of the message goes into its one record. kept: it has become
// the retained one.
void durable_route_begin(struct broker *b, struct message *m, bool kept);
void durable_route_end(struct broker *b);
void durable_ref(struct session *s, struct entry *e);
void durable_group_ref(struct broker *b, const struct share *g, struct message *m);
// A message goes from a group to one of its members, or back.
void durable_moved(struct broker *b, const struct session *s, const struct share *g,
                   struct entry *e, bool to_session);
void durable_removed(const struct session *s, const struct entry *e);
// Before an entry is freed.
static inline void durable_done(const struct session *s, const struct entry *e) {
  if (broker_keeps(s->b)) {
    durable_removed(s, e);
  }
}
void durable_group_done(struct broker *b, const struct share *g, const struct message *m);
bool durable_removes_room(const struct broker *b);
bool durable_flush_removes(struct broker *b);
void durable_retain_clear(struct broker *b, const struct message *m);
void durable_received(struct session *s, struct entry *e);
void durable_inbound(struct session *s, u16 packet_id, bool add);
// May this client connect? kept: its session outlives the connection. A reason to refuse.
enum mqtt_reason durable_may_connect(const struct broker *b, const struct names *names,
                                     const struct message *will, bool kept);
void durable_session(struct session *s);  // it is connected now
void durable_offline(struct session *s);
void durable_session_end(struct session *s);
void durable_subscribe(struct session *s, const struct sub *sub, struct bytes filter,
                       struct bytes group, bool existed);
void durable_unsubscribe(struct session *s, struct bytes filter, struct bytes group);
// QoS 2: this entry must not be sent before its record is durable; the session is woken then.
bool durable_waits(const struct session *s, const struct entry *e);
void durable_wait(struct session *s);
void durable_forget(struct session *s);

// session.c
struct session *session_find(const struct broker *b, struct bytes id);
// `names` (client id, user name) becomes the session's when there is one; NULL: no memory.
struct session *session_new(struct broker *b, const struct names *names CONSUMES);
// Copies; false without memory. Given back by names_put.
bool names_set(struct broker *b, struct names *out, struct bytes id, struct bytes username);
void names_put(struct broker *b, struct names *n);
void session_disarm(struct session *s);
void session_arm(struct session *s);  // for expire_at_ns and will_at_ns
void session_take_over(struct session *s, u64 now_ns);
void session_drop_will(struct session *s);
void session_end(struct session *s CONSUMES, u64 now_ns);
// Removes an offline session and all it holds; it has no will.
void session_free(struct session *s CONSUMES);
// It is offline from now on, as if its connection had just gone.
void session_left(struct session *s, u64 now_ns);
void session_drop_subs(struct session *s);
void session_timer(struct core *core, u32 timer, void *owner);
// Ends the session's connection with a reason; its will is due.
void session_kick(struct session *s, enum mqtt_reason reason, u64 now_ns);

// connect.c
// What is left of a CONNECT that was found good; id->client_id is its session's. `assigned`: by us.
enum mqtt_reason connect_finish(struct broker *b, void *user, const struct mqtt_connect *c,
                                struct bytes packet, const struct broker_identity *id,
                                bool assigned, u64 now_ns, struct session **out, u16 *keep_alive_s);

// alias.c
void alias_open(struct session *s, u32 client_max);
void alias_close(struct session *s);
void alias_choose(struct session *s, const struct message *m);
void alias_commit(struct session *s, const struct message *m);

// share.c
// Queues a message for a group. False: no room (counted).
bool share_push(struct broker *b, struct share *g, struct message *m);
// From the disk: queued whatever the ceilings; false without memory. And taken out again: by the
// low half of its number.
bool share_restore(struct broker *b, struct share *g, struct message *m);
void share_restore_remove(struct broker *b, struct share *g, u32 lsn);
static inline bool share_can_take(const struct session *s) {
  return s->due > 0 && s->queue.head == NONE && s->inflight.count < s->send_max;
}
// One message that was offered to the session becomes its own. share_can_take.
void share_take(struct session *s);
// Several cores: asks members and other cores; a message from the group's root; what came back to
// the root goes before what waits; how many messages more a member can take.
void share_offer(struct broker *b, struct share *g);
bool share_feed(struct broker *b, struct share *g, struct message *m);
void share_take_back(struct broker *b, u32 share);
void share_drop_first(struct broker *b, struct share *g);
u32 share_member_room(const struct session *s);
void share_available(struct session *s);  // it may be able to take (again)
void share_online(struct session *s);
void share_offline(struct session *s);  // s->user is NULL already
// What is not acknowledged goes to other members: connected ones, or (at the session's end) any.
void share_return(struct session *s, bool at_end);
void share_settle(struct session *s);  // it was pulled
void share_join(struct broker *b, struct sub *sub);
void share_leave(struct broker *b, struct sub *sub);  // before it is unlinked
void share_left(struct broker *b, struct share *g);   // and after
bool share_stage(struct broker *b);
void share_check(const struct broker *b);
// The QoS of a delivery [MQTT-3.8.4-8].
static inline u8 delivery_qos(const struct broker *b, u8 granted, u8 published) {
  return b->limits.upgrade_outgoing_qos ? granted : MIN(granted, published);
}

// ceiling.c
// The session's next message waits for the ceiling of all clients' inflight: it is woken then.
void session_stall(struct session *s);
// It is disconnected at the next stage (not at once: a routing is under way).
void session_doom(struct session *s, enum mqtt_reason reason);
void session_forget(struct session *s);  // it goes: from both lists
bool ceiling_stage(struct broker *b, u64 now_ns);
bool inflight_room(const struct session *s);
void inflight_add(struct session *s, const struct entry *e);
void inflight_sub(struct session *s, const struct entry *e);
static inline u32 entry_len(const struct entry *e) {
  return e->message != NULL ? e->message->len : 0;
}
