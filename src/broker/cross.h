// SPDX-License-Identifier: Apache-2.0
// A broker on several cores: what the files cross*.c share. Internal. b->cross is NULL with one
// core, and then nothing of this runs.
//
// Publishing (cross.c): the index of filters (wants.h) names the cores; each gets one entry that
// names the message's bytes. The entry comes back with how many receivers the message had there:
// then the reference ends, and the publisher's acknowledgement has one core less to wait for.
// Filters (cross_live.c): a core tells the index of the first and the last subscription of a
// filter; a SUBACK waits until every core routes by it.
//
// Client ids (cross_directory.c): each id has an owner core, by its hash, which knows where its
// session is and lets one CONNECT at a time go on; a session elsewhere is taken over first
// (cross_takeover.c).
// Posts (cross_post.c) are the control mail of these: never refused, since what is under way is
// bounded (CLAIMS); what does not fit into the ring waits in an outbox, and nothing overtakes it.
//
// I1  A message goes to each core at most once, from one publisher in order: all entries of its
//     routing are put in one go, or none (no room: the publisher is not read).
// I2  What cannot wait (wills, the system's own) stands in `backlog` until there is room; while
//     anything stands there no client's message overtakes it.
// I3  Acknowledgements leave in the order of their packets: one that waits holds up those behind
//     it (control.c).
#pragma once
#include "broker/state.h"
#include "broker/wants.h"
#include "loop/epoch.h"
#include "loop/mailbox.h"

enum {
  MAIL_PUBLISH = MAIL_BROKER_FIRST,
  MAIL_WANT,
  MAIL_LIVE,
  MAIL_ASK,        // a client id's owner: may this CONNECT go on?
  MAIL_GRANT,      // it may, and there its session is
  MAIL_DONE,       // it has, and there it is now
  MAIL_GONE,       // the session of this id has ended
  MAIL_TAKE,       // give me the session of this id
  MAIL_TAKEN,      // there is none (any more); or it cannot be had now
  MAIL_HEAD,       // here it comes: what it is
  MAIL_SUB,        // a subscription
  MAIL_SUBS_END,   // that was the last
  MAIL_REFUSE,     // no memory for it: keep it
  MAIL_CANCELLED,  // it is kept
  MAIL_MARK,       // send your markers
  MAIL_MARKER,     // from here on they are the new core's
  MAIL_ENTRY,      // a message of its queue
  MAIL_INBOUND,    // QoS 2 identifiers received
  MAIL_END,        // that is all
  MAIL_JOIN,       // these and those below: cross_share.c
  MAIL_JOINED,
  MAIL_SHARE_PULL,
  MAIL_SHARE_MESSAGE,
  MAIL_SHARE_BACK,
  MAIL_SHARE_BACK_END,
  MAIL_SHARE_LEAVE,
  MAIL_LEFT,
  MAIL_SHARE_FREE,
};
static_assert((u32)MAIL_SHARE_FREE <= (u32)MAIL_BROKER_LAST, "kinds of the broker's mail");

#define HOLDS 1024u   // SUBACKs that wait, of one core
#define CLAIMS 256u   // CONNECTs under way, of one core
#define EXPORTS 256u  // sessions on their way out, of one core
#define POST_MAX 48u
#define POSTS (16u * CLAIMS)
#define POSTS_LOW (4u * CLAIMS)  // with fewer left no CONNECT is begun
#define INBOUND_A_MAIL 16u
#define NOWHERE 255u

struct broker_shared {
  u32 cores;
  struct siphash_key key;
  struct wants *wants;
};

// Its sender's own until it comes back; only result_* are written by the receiver.
struct publish_mail {
  struct message *message;  // the sender's; its data and what describes it do not change
  u64 stamp;                // of a change of what is retained (retained.c); 0 = none
  u32 ticket;               // of the acknowledgement that waits; NONE = none
  u32 result_matched;       // sessions and groups there
  u32 result_dropped;
};

#define GRAVES 1024u
#define GRAVE_NS (5 * NS)  // far longer than any mail is under way
struct grave {
  u64 at_ns;
  u32 node;
};

struct want_mail {
  u8 *filter;  // a block of the sender's
  u32 len;
  bool want;
  u64 seq;
};

struct live_mail {
  u64 seq;
};

// --- Client ids

struct id_hash {
  u64 h[2];  // two keys: that two ids have the same is not to be expected (2^-128)
};

struct place {  // of an id, at its owner
  struct id_hash id;
  u32 hash_next;
  u32 gen;      // counts its sessions' moves: a late MAIL_GONE is told from a new one
  u32 waiting;  // first CONNECT that waits, by ask.next
  u8 core;      // NOWHERE = no session
  bool locked;  // a CONNECT is under way
};
struct ask {
  u32 next;
  u32 claim;
  u8 core;
};

struct ask_mail {
  struct id_hash id;
  u32 claim;
};
struct grant_mail {
  u32 claim;
  u32 gen;
  u8 core;       // where the session is, or NOWHERE
  bool refused;  // no room
};
struct done_mail {  // also MAIL_GONE
  struct id_hash id;
  u32 gen;  // 0 = as it was
  u8 core;
};

// A CONNECT under way: all of it, since the connection may go.
enum claim_state {
  CLAIM_ASKED,
  CLAIM_TAKING,  // until MAIL_TAKEN or MAIL_HEAD
  CLAIM_SUBS,    // subscriptions come
  CLAIM_LIVE,    // until they are routed by everywhere
  CLAIM_TAIL,    // markers and the queue come
  CLAIM_READY,
};
struct claim {
  void *user;  // NULL: its connection has gone
  u8 *block;   // packet, user name, client id, method and its data
  struct mqtt_connect connect;
  struct broker_identity identity;  // client_id is always set
  struct bytes packet;
  struct id_hash id;
  u64 cut;       // cores whose marker has come
  u64 live_seq;  // of its subscriptions
  struct list tail;
  u32 requeued_tail;  // of `tail`, as session.requeued_tail
  u32 next;           // free, or ready
  u32 gen;
  u32 session;  // that comes over; NONE = none
  u32 export;   // its number on core `from`
  u8 state;
  u8 from;
  u8 refusal;  // enum mqtt_reason
  bool assigned;
  bool failed;
  bool ended;
};

// A session on its way out.
enum export_state { EXPORT_FREE, EXPORT_SUBS, EXPORT_MARKERS, EXPORT_QUEUE };
struct export {
  u64 cut;  // cores whose marker has come
  u32 session;
  u32 claim;  // its number on core `to`
  u32 sub;    // the next to be sent
  u8 to;
  u8 state;
};

struct take_mail {
  const u8 *id;  // of the claim's
  u32 id_len;
  u32 claim;
  bool clean;
};
struct move_mail {  // TAKEN, HEAD, SUBS_END, REFUSE, CANCELLED, MARK, MARKER, END
  u32 claim;
  u32 export;
  u32 number;    // HEAD: expiry_s, END: seq_next
  u8 from, to;   // MARK
  bool refused;  // TAKEN
  bool old;      // MARKER: for the old core
};
struct sub_mail {
  u8 *text;  // group and filter, a block of the sender's
  u32 group_len, filter_len;
  u32 claim;
  u32 identifier;
  u8 qos, flags;
};
struct entry_mail {
  struct message *message;  // the sender's, or NULL
  u32 *ids;                 // a block of the sender's, or NULL
  u32 claim;
  u32 identifier;
  u32 seq;
  u8 qos, state, flags;
  bool requeued;
};
struct inbound_mail {
  u32 claim;
  u32 count;
  u16 id[INBOUND_A_MAIL];
};

struct post {
  u8 body[POST_MAX] ALIGNED(8);
  u32 next;
  u8 kind, len;
};
struct outbox {
  u32 head, tail;
};

// --- Shared groups

enum branch_state { BRANCH_NEW, BRANCH_ASKED, BRANCH_JOINED, BRANCH_LEAVING, BRANCH_LEFT };
struct far {      // at the root, of each core with a branch
  u64 answer_at;  // JOINED is due when routing is so far; 0 = it has been sent
  u32 share;      // its number there
  u32 credit;
};
struct branch {  // beside each struct share
  struct far *far;
  u64 joined;      // root: cores with a branch
  u32 credits;     // root: of all
  u32 root_share;  // branch: the root's number
  u32 asked;       // branch: messages asked for
  u32 waiting;     // branch: first ticket that waits for JOINED
  u32 next;        // of those to be looked at
  u8 owner;
  u8 state;
  u8 turn;  // root: the core that is asked first
  bool root;
  bool looked_at;
  bool giving;  // branch: BACK_END is due
};
struct waiter {
  u32 ticket;
  u32 next;
};
#define WAITERS 1024u

struct join_mail {
  u8 *text;  // group and filter, a block of the sender's
  u32 group_len, filter_len;
  u32 branch;
};
struct share_mail {
  u32 to;    // the receiver's share
  u32 from;  // JOINED: the root's
  u32 count;
  bool refused;
};
struct share_message {
  struct message *message;  // the sender's
  u32 share;                // the receiver's
};

struct gone {
  struct id_hash id;
  u32 gen;
};

struct hold {
  u64 seq;
  u32 ticket;
};

struct cross {
  struct broker_shared *shared;
  // Filters: requests are counted; those up to `live` are routed by on every core.
  u32 dirty;  // first node that has changed, by tnode.cross
  u32 dirty_count;
  u64 seq;       // nodes looked at so far
  u64 seq_sent;  // the last that needed a request
  u64 live;
  struct hold hold[HOLDS];
  u32 hold_first, hold_count;
  // The writer's (core 0): requests applied, being waited for, called live.
  u64 applied[PLAT_CORE_MAX];
  u64 waited[PLAT_CORE_MAX];
  u64 told[PLAT_CORE_MAX];
  u64 grace;  // the epoch that is waited for, 0 = none
  // Publishing
  struct list backlog;  // entries: message; the cores and the stamp in a block of ids
  u64 stamp;            // the latest this core has seen or given
  struct grave grave[GRAVES];
  u32 grave_first, grave_count;
  // Posts
  struct outbox outbox[PLAT_CORE_MAX];
  struct post post[POSTS];
  u32 post_free, post_left;
  // Client ids: those this core owns, and its own CONNECTs
  struct pool places, asks;
  struct table place_table;
  struct claim claim[CLAIMS];
  u32 claim_free, claim_ready, claim_count;
  struct export export[EXPORTS];
  u32 export_count;
  struct gone *gone;  // ring of as many as there can be sessions
  u32 gone_first, gone_count, gone_size;
  // Shared groups
  struct branch *branch;  // by share
  u32 branch_head, branch_tail;
  struct waiter waiter[WAITERS];
  u32 waiter_free;
};

// cross.c
// The other cores that want the name in b->match_levels; all of them when it is to be retained,
// with the stamp of that.
u64 cross_match(struct broker *b, bool retain, u64 *stamp);
bool cross_room(struct broker *b, u64 cores);
// Sends it to each, which cross_room has said yes to.
void cross_send(struct broker *b, struct message *m, u64 cores, u64 stamp);
// The same, when there is room.
void cross_send_later(struct broker *b, struct message *m, u64 cores, u64 stamp);
void grave_dig(struct broker *b, u32 node);  // retained.c: something was deleted here
bool cross_stage(struct broker *b);
// Room for an entry of data and nothing that must go before it.
bool cross_data_room(struct broker *b, u32 to, u32 len);

// cross_post.c
void post_open(struct core *core);
// Control mail, also to this core itself. Never refused.
void post(struct broker *b, u32 to, u32 kind, const void *body, u32 len);
bool post_none(const struct broker *b, u32 to);  // nothing waits in the outbox
bool post_stage(struct broker *b);

// cross_directory.c
u64 directory_bytes(u32 cores, const struct broker_limits *l);
bool directory_open(struct core *core, struct carve *carve);
// Begins a CONNECT that has been found good. MQTT_SERVER_BUSY: too many.
enum mqtt_reason claim_begin(struct broker *b, void *user, const struct mqtt_connect *c,
                             struct bytes packet, const struct broker_identity *id,
                             struct bytes client_id, bool assigned);
void claim_ready(struct broker *b, struct claim *c, enum mqtt_reason refusal);
bool directory_stage(struct broker *b);
// A session ends: its place is told. It has room (broker.c counts).
void directory_gone(struct session *s);

// cross_takeover.c
void takeover_open(struct core *core);
void takeover_begin(struct broker *b, struct claim *c);
bool takeover_stage(struct broker *b);
// Of a session that moves: this routing's message is not this core's to deliver.
bool takeover_skips(const struct session *s);

// cross_share.c
u64 branches_bytes(u32 shares);
void branches_open(struct core *core, struct span memory);
void branch_init(struct broker *b, u32 share, struct bytes filter, struct bytes group);
bool branch_roots(const struct broker *b, u32 share);      // messages are routed to it here
bool branch_elsewhere(const struct broker *b, u32 share);  // other cores may have members
bool branch_idle(const struct broker *b, u32 share);       // without members it may be freed
bool branch_joined(const struct broker *b, u32 share);     // its members get messages
void branch_look(struct broker *b, u32 share);             // the stage has something to do
void branch_look_all(const struct session *s);
bool branch_give(struct broker *b, u32 share, struct message *m);
// The ticket waits until the group is routed to everywhere. False: too many wait.
bool branch_wait(struct broker *b, u32 share, u32 ticket);
bool branch_stage(struct broker *b);

static inline u32 claim_index(const struct broker *b, const struct claim *c) {
  return (u32)(c - b->cross->claim);
}
static inline u64 cross_all(const struct broker *b) {
  u32 cores = b->cross->shared->cores;
  return cores == 64 ? U64_MAX : (1ull << cores) - 1;
}

// cross_live.c
#define CROSS_TOLD 0x80000000u   // tnode.cross: the index has this filter for this core
#define CROSS_DIRTY 0x40000000u  // in the list of those to be looked at; the rest is the next
#define CROSS_NEXT 0x3fffffffu
void live_open(struct core *core);
void live_changed(struct broker *b, u32 node);
// What has been subscribed until now is routed by everywhere once live_until is that far.
u64 live_seq(const struct broker *b);
u64 live_until(const struct broker *b);
bool live_room(const struct broker *b);
// The ticket waits until what has been subscribed until now is.
void live_wait(struct broker *b, u32 ticket);
bool live_stage(struct broker *b);
