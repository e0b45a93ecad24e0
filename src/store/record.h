// SPDX-License-Identifier: Apache-2.0
// The journal's records: what each says, as bytes and as a struct. Pure functions. Byte by byte:
// docs/formats/records.md.
//
// Whoever applies records (the broker's recovery into memory; the database) keeps these rules:
//
// R1  A record says everything it needs: it is applied with what the records before it have left,
//     in the order of LSNs, once. Applying it to what is not there (any more) changes nothing.
// R2  Records of which all but the last carry RECORD_MORE are one group: applied together or not at
//     all. RECORD_BOOT ends a group that was not finished, and so does the journal's end. The bytes
//     of a group are at most RECORD_GROUP_MAX.
// R3  Names are numbers: a session's is the LSN of the RECORD_SESSION that created it, a message's
//     that of its RECORD_PUBLISH, a group of a shared subscription's that of the RECORD_SUBSCRIBE
//     of its first member that is kept. A `target` is a session or a group.
// R4  A group of a shared subscription ends, with its messages, when its last member here does. A
//     session ends with its subscriptions, its queue, its inbound identifiers and its will.
// R5  A message is kept while a queue or the retained messages refer to it.
// R6  A session's next sequence is one more than the highest it ever had: to be kept with the
//     session, since what had that sequence may be gone.
// R7  Times are milliseconds since 1970. A session is connected from its RECORD_SESSION until its
//     RECORD_OFFLINE. After a start none is: who was connected is offline since the start, and its
//     will is due as if the connection had been lost then.
// R8  A body longer than its record goes on in RECORD_CHUNKs of its group, before any reference.
#pragma once
#include "base/bytes.h"

#define RECORD_MORE 0x8000u          // of a type: the group goes on in the next record
#define RECORD_MAX (112u << 10)      // bytes of one record
#define RECORD_GROUP_MAX (3u << 20)  // bytes of the records of a group
#define RECORD_REF_LEN 14u           // bytes of a reference without identifiers
#define RECORD_IDS_MAX 8u            // subscription identifiers of a reference

enum record_kind {
  RECORD_BOOT = 1,        // the program has started, what is before is applied
  RECORD_PUBLISH,         // a message, who gets it, whether it is retained
  RECORD_CHUNK,           // more of a body that did not fit one record, in the same group
  RECORD_QUEUE,           // who else gets a message
  RECORD_REMOVE,          // queue entries that are done with, or (a group's) are a member's
  RECORD_RECEIVED,        // QoS 2, outbound: PUBREC was received
  RECORD_INBOUND_ADD,     // QoS 2, inbound: the identifier waits for PUBREL
  RECORD_INBOUND_REMOVE,  // and does not any more
  RECORD_SESSION,         // a session is made, or connected again; its expiry and will
  RECORD_OFFLINE,         // its connection is gone
  RECORD_SESSION_END,
  RECORD_SUBSCRIBE,
  RECORD_UNSUBSCRIBE,
  RECORD_RETAIN_CLEAR,
  RECORD_CONTROL,  // a named state blob as a whole (dynamic security)
  RECORD_KINDS
};

// A body (several byte strings behind one another) may be longer than a record: `part` is what this
// record has of it, RECORD_CHUNKs of the same group bring the rest; only then do references follow.
struct record_publish {
  u8 qos;
  bool retain;        // the flag as published
  bool keep;          // it becomes its topic's retained message
  bool has_username;  // of who published it
  u8 access_set;      // and under which rules
  u16 inbound_id;     // QoS 2: identifier to be remembered for inbound_session; 0 = none
  u32 topic_len, props_len, client_len, username_len, payload_len;  // the body, in this order
  u64 at_ms;                                                        // when it was published
  u64 expires_ms;                                                   // 0 = never
  u64 inbound_session;
  u64 will_of;  // it is the will of this session, which has none any more; 0 = not a will
  struct bytes part;
  struct bytes refs;
};

struct record_ref {  // one queue's entry
  u64 target;
  u32 seq;  // of a session, QoS > 0: packet identifier = 1 + seq mod 65535; else 0
  u8 qos;
  bool retain;
  u8 id_count;
  struct bytes ids;  // id_count little-endian words
};

// Where the message is found without an index of messages: in the queue of `from`, or (from 0) as
// the retained message of `topic`. A RECORD_QUEUE behind its RECORD_PUBLISH names nothing.
struct record_queue {
  u64 message;  // 0: the RECORD_PUBLISH of this group
  u64 from;
  struct bytes topic;
  struct bytes refs;
};

struct record_session {
  u64 session;  // 0: this record makes it
  bool has_username;
  bool has_will;
  bool will_retain;
  u8 will_qos;
  u8 access_set;
  u32 expiry_s;  // U32_MAX = never
  u32 will_delay_s;
  u32 will_expiry_s;  // from when it is published; U32_MAX = never
  u64 at_ms;
  struct bytes client_id, username, will_topic, will_props, will_payload;
};

struct record_offline {
  u64 session;
  u64 at_ms;  // expiry and will delay count from here
  u32 expiry_s;
  bool has_will;  // false: it is discarded
};

struct record_subscribe {
  u64 session;
  u64 group;  // its number; 0: not shared, or this record makes the group
  u8 qos;
  u8 flags;  // 1 no local, 2 retain as published
  u32 identifier;
  struct bytes name;  // of the group, empty = not shared
  struct bytes filter;
};

struct record {
  u8 kind;    // enum record_kind
  bool more;  // RECORD_MORE
  union {
    struct {
      u64 at_ms;
    } boot;
    struct record_publish publish;
    struct bytes chunk;
    struct record_queue queue;
    struct bytes remove;  // entries for record_remove_next
    struct {
      u64 session;
      u32 seq;
    } received;
    struct {
      u64 session;
      u16 packet_id;
    } inbound;
    struct record_session session;
    struct record_offline offline;
    u64 session_end;
    struct record_subscribe subscribe;  // UNSUBSCRIBE: session, name and filter only
    struct bytes topic;                 // RETAIN_CLEAR
    struct {
      struct bytes name;
      u32 len;  // of the body
      struct bytes part;
    } control;
  };
};

// Appends the record's payload (a journal record's); the type is record_type. References and
// entries of REMOVE are written as the bytes given. ERR_SPACE is the writer's.
void record_write(const struct record *r, struct writer *w);
static inline u16 record_type(const struct record *r) {
  return (u16)(r->kind | (r->more ? RECORD_MORE : 0));
}
// The head of a PUBLISH of whose body part_len bytes follow in this record; the caller appends
// them.
void record_write_publish_head(const struct record_publish *p, u32 part_len, struct writer *w);
// Appends one reference, behind a PUBLISH or QUEUE that was written without or with fewer.
void record_write_ref(const struct record_ref *ref, struct writer *w);
// A target and an entry's sequence; of a group's queue: the low half of the message's number.
void record_write_remove(u64 target, u32 seq, struct writer *w);

// Reads what lies in a journal; borrows `payload`. ERR_UNSUPPORTED: a kind that we do not know;
// ERR_MALFORMED, ERR_SHORT: no record of ours is like that.
NODISCARD enum err record_read(u16 type, struct bytes payload, struct record *out);
// Walks references and REMOVE's entries, *pos from 0. False: the end. They were judged by
// record_read.
bool record_ref_next(struct bytes refs, u32 *pos, struct record_ref *out);
bool record_remove_next(struct bytes entries, u32 *pos, u64 *target, u32 *seq);
static inline u32 record_ref_id(const struct record_ref *r, u32 i) {
  ASSERT(i < r->id_count);
  return load_le32(r->ids.ptr + (usize)i * 4);
}

static inline u64 record_publish_body_len(const struct record_publish *p) {
  return (u64)p->topic_len + p->props_len + p->client_len + p->username_len + p->payload_len;
}
struct record_body {  // a message's body, taken apart
  struct bytes topic, props, client_id, username, payload;
};
// body: record_publish_body_len bytes.
struct record_body record_publish_body(const struct record_publish *p, struct bytes body);
