// SPDX-License-Identifier: Apache-2.0
// The broker of one core: sessions, subscriptions, routing, QoS state, retained messages, wills. It
// sees decoded packets and slices of bytes, never a socket, a clock or a core's internals: time is
// a parameter (monotonic ns).
//
// Direction in:  the server decodes a packet (mqtt/) and calls the broker_on_* function of its
// type. Direction out: pull. When a session has something to send the broker puts it on its ready
// list; the server, when the connection has room, calls broker_pull, which writes a byte stream of
// whole control packets into the span it gets, across calls, streaming big payloads piece by piece.
// So nothing is encoded ahead of need.
//
// I1  A session has at most one connection; takeover ends the old one before the new CONNACK is
//     produced.
// I2  Every message object's reference count = queue entries + inflight entries + retained slots
//     + wills that hold it.
// I3  Order per session and topic is the order of arrival [MQTT-4.6.0-5]; acknowledgements leave in
//     the order of their PUBLISHes.
// I4  Nothing here allocates outside its pools: shortage is a reason code or a counted drop.
#pragma once
#include "broker/access.h"
#include "loop/carve.h"
#include "loop/core.h"
#include "mqtt/packet.h"
#include "store/store.h"

struct broker;
struct session;

// What happens to a message for a client whose queue is full.
enum broker_drop_policy {
  BROKER_DROP_NEWEST,  // it is dropped
  BROKER_DROP_OLDEST,  // the oldest that was never sent makes room
  BROKER_DROP_CLIENT,  // a connected client is disconnected (0x97); else as NEWEST
};
// Why a message was not delivered; each is counted by client and in total.
enum broker_drop {
  BROKER_DROPPED_QUEUE,      // the client's own ceiling, in messages or bytes
  BROKER_DROPPED_OLD,        // made room for a newer one
  BROKER_DROPPED_GLOBAL,     // a ceiling of all clients together, or no memory
  BROKER_DROPPED_EXPIRED,    // message expiry [MQTT-3.3.2-5]
  BROKER_DROPPED_TOO_LARGE,  // for the client's maximum packet size [MQTT-3.1.2-24]
  BROKER_DROPPED_RETAINED,   // delivered, but not retained: the store is full (totals only)
  BROKER_DROPPED_COUNT,
};

// Sizes of pools first, then ceilings below them; a ceiling of 0 is none. Bytes are those of topic,
// properties and payload, counted for every queue that holds the message.
struct broker_limits {
  u32 sessions;
  u32 subscriptions;
  u32 topic_nodes;
  u64 message_bytes;  // ceiling of all message objects together
  u32 queue_entries;  // all sessions together, queued and in flight
  u32 retained;

  u32 session_queued_max;        // mosquitto: max_queued_messages, 1000. A connected client's QoS 0
                                 // backlog may be four times as long.
  u64 session_queued_bytes_max;  // mosquitto: max_queued_bytes, 0
  u32 session_inflight_max;      // mosquitto: max_inflight_messages, 20
  u64 session_inflight_bytes_max;  // mosquitto: max_inflight_bytes, 0; one message always fits
  u32 queued_max;                  // these five: all clients together
  u64 queued_bytes_max;
  u32 inflight_max;
  u64 inflight_bytes_max;
  u64 retained_bytes_max;
  enum broker_drop_policy drop_policy;  // NEWEST, as mosquitto
  u32 session_message_rate;             // PUBLISHes a second a client is read for; 0 = any
  u32 session_byte_rate;                // and their bytes a second; 0 = any

  u32 packet_size_max;    // 2 000 000
  u32 payload_size_max;   // mosquitto: message_size_limit; a larger PUBLISH is not forwarded (0x97)
  u32 clients_max;        // mosquitto: global_max_clients, sessions of who is away included
  u32 retained_expiry_s;  // mosquitto: retain_expiry_interval; 0 = never
  u16 topic_alias_max;    // a client may use in what it sends: 10
  u16 topic_alias_max_out;  // we use in what we send; mosquitto: max_topic_alias_broker, 10
  u16 keep_alive_max;       // 0 = none
  u32 v4_expiry_s;          // persistent_client_expiration of 3.1.1; U32_MAX = never
  bool retain_available;
  bool check_retain_source;    // a retained message is withheld once its publisher may not write it
  bool queue_qos0;             // mosquitto: queue_qos0_messages: QoS 0 is kept for who is away
  bool upgrade_outgoing_qos;   // mosquitto: deliver with the subscription's QoS
  bool allow_empty_client_id;  // mosquitto: allow_zero_length_clientid, true
  struct bytes client_id_prefix;      // of assigned ids; "auto-"; at most 32 bytes, borrowed
  struct bytes response_information;  // told who asks for it (3.1.2.11.6); empty = none; borrowed
};
void broker_limits_default(struct broker_limits *out, u64 memory_len);
u64 broker_bytes(const struct broker_limits *limits);
enum err broker_init(struct core *core, struct carve *carve, const struct broker_limits *limits);

// --- Several cores: each has a broker of its own; together they are one.

struct broker_shared;  // what all of them read
// `limits` are those of one core.
u64 broker_shared_bytes(u32 cores, const struct broker_limits *limits);
// NULL: no memory. OWNED by all cores for the program's life.
struct broker_shared *broker_shared_open(struct carve *carve, u32 cores,
                                         const struct broker_limits *limits);
u64 broker_join_bytes(u32 cores, const struct broker_limits *limits);  // of each core
// Right after broker_init, when the core has its mailbox and the epoch; gives the core the hash key
// that all share.
enum err broker_join(struct core *core, struct carve *carve, struct broker_shared *shared);

// Takes over the ceilings that no pool depends on, for what comes from now on.
void broker_change_limits(struct broker *b, const struct broker_limits *limits);

// Who is connecting, as the server has established it.
struct broker_identity {
  struct bytes username;   // from the certificate or the packet
  struct bytes client_id;  // in place of the packet's; empty = the packet's
  struct bytes mount;      // mosquitto's mount_point: stands before each topic of the client and is
                           // taken off what it is sent; lives as long as the connection
  struct bytes id_prefix;  // of an assigned client id; empty = the broker's
  bool has_username;       // false: anonymous
  bool from_certificate;
  struct bytes auth_method, auth_data;  // for the CONNACK, when CONNECT had a method; borrowed
  u32 credential;  // the server's own: what the password was judged by; 0 = no password was
  u8 access_set;   // which rules hold for it, < BROKER_ACCESS_SETS
  u8 qos_max;      // the listener's highest QoS, 0..2
  bool relaxed;    // acknowledgements do not wait for the disk
};
// How the connection is told things; the server's functions. `user` is the connection.
struct broker_ops {
  // The session has bytes to pull now (called once until pulled dry).
  void (*wake)(void *user);
  // The broker ends this connection (takeover, protocol error in a later state, administrative):
  // the server sends DISCONNECT with the reason where the version has it, then closes. The session
  // is detached when this is called.
  void (*kick)(void *user, enum mqtt_reason reason);
  // With several cores: what broker_on_connect has begun is done, as if it returned now.
  void (*entered)(void *user, struct session *s, enum mqtt_reason reason, u16 keep_alive_s);
};
void broker_set_ops(struct broker *b, const struct broker_ops *ops);

// Who may do what: one set of rules for all, or one a listener. READ is asked for each delivery,
// WRITE for each PUBLISH and will, the others only with check_subscribe. Answers about READ are
// remembered until broker_access_changed.
#define BROKER_ACCESS_SETS 17u
#define BROKER_ACCESS_BRIDGES 16u  // never given rules: bridges may do everything, as in mosquitto
// rules NULL: everything allowed (the start). Copied; rules->ctx must live on.
void broker_set_access(struct broker *b, u32 set, const struct access_rules *rules,
                       bool check_subscribe);
void broker_access_changed(struct broker *b);

// What the session's present connection came in as.
struct access_who broker_who(const struct session *s, u32 *credential);

// CONNECT, decoded and authenticated. 0: *out is the session with `user` attached, and its CONNACK
// is the first thing to pull; *keep_alive_s is in force (server keep-alive applied, 0 = none).
// Otherwise the reason to refuse with: the server writes that CONNACK itself and closes.
enum mqtt_reason broker_on_connect(struct broker *b, void *user, const struct mqtt_connect *c,
                                   struct bytes packet, const struct broker_identity *id,
                                   u64 now_ns, struct session **out, u16 *keep_alive_s);
// With several cores *out is NULL then: another core may have the session. `entered` is called when
// all is decided, never from within; until then the connection reads nothing, and says
// broker_forget when it goes.
void broker_forget(struct broker *b, const void *user);
// The others return 0 or the reason to disconnect with. MQTT_SERVER_BUSY: nothing was done for want
// of memory, or because the client does not read its acknowledgements: hand the same packet over
// again later and read nothing behind it. `packet` is the whole packet that the struct's parts
// refer to. MQTT_MESSAGE_RATE_TOO_HIGH of PUBLISH: the same, from broker_publish_at on.
enum mqtt_reason broker_on_publish(struct session *s, const struct mqtt_publish *p,
                                   struct bytes packet, u64 now_ns);
u64 broker_publish_at(const struct session *s);
enum mqtt_reason broker_on_ack(struct session *s, enum mqtt_type type, const struct mqtt_ack *a,
                               u64 now_ns);
enum mqtt_reason broker_on_subscribe(struct session *s, const struct mqtt_subscribe *sub,
                                     struct bytes packet, u64 now_ns);
enum mqtt_reason broker_on_unsubscribe(struct session *s, const struct mqtt_subscribe *u,
                                       struct bytes packet, u64 now_ns);
// The client's DISCONNECT; the session is then detached and may be gone. A reason in v5 when it
// tries to raise a zero session expiry.
enum mqtt_reason broker_on_disconnect(struct session *s, const struct mqtt_disconnect *d,
                                      struct bytes packet, u64 now_ns);
// A whole control packet of the server's own making (AUTH), behind those that wait. False: no
// memory, or the client does not read.
bool broker_answer(struct session *s, enum mqtt_type type, struct bytes packet);
// PINGREQ: a PINGRESP is queued.
void broker_on_ping(struct session *s);
// The same in two steps, for a server that takes its time: the client's DISCONNECT counts, its
// session is still attached; broker_detach comes later.
enum mqtt_reason broker_goodbye(struct session *s, const struct mqtt_disconnect *d,
                                struct bytes packet);
// Before broker_detach, any number of times: takes a session that ends with its connection apart,
// BROKER_SHED subscriptions a call. True: there are more.
#define BROKER_SHED 32u
bool broker_shed(struct session *s);
// The connection is gone: the will is due, unless it said DISCONNECT.
void broker_detach(struct session *s, u64 now_ns);
// Ends a client's connection by decree. False: no such client is connected.
bool broker_kick(struct broker *b, struct bytes client_id, enum mqtt_reason reason, u64 now_ns);
// Ends, in the next turn, every connection of this user (has_username false: of anonymous clients).
// Returns how many.
u32 broker_kick_user(struct broker *b, bool has_username, struct bytes username,
                     enum mqtt_reason reason);

// Messages to a topic below $CONTROL/ are never routed; those to this one go to `take`. False: too
// many. `topic` must live on.
// `who` publishes; called from within his PUBLISH, so his session must not be ended here.
typedef void broker_control(void *ctx, const struct access_who *who, struct bytes payload,
                            u64 now_ns);
bool broker_set_control(struct broker *b, struct bytes topic, broker_control *take, void *ctx);

// --- The disk (durable.c, restore.c): what is kept across a power cut

// What a store holds is applied (store_ops.apply) between begin and end, before anybody connects;
// from the end on, everything that is to be kept is written to it. begin: false without memory.
// now_ns: of the core.
bool broker_restore_begin(struct broker *b, const struct store *store);
bool broker_restore(void *broker, u64 lsn, const struct record *r);
void broker_restore_end(struct broker *b, struct store *store);
// Everything up to this LSN is durable (store_ops.durable).
void broker_durable(void *broker, u64 lsn);
void broker_set_relaxed(struct broker *b, bool relaxed);

// Work in slices (retained replay): a stage of the loop. True when something was done.
bool broker_stage(struct core *core, void *broker);

// Fills `out` from its start with the next bytes of the session's outgoing stream; returns how
// many, 0 = dry.
u32 broker_pull(struct session *s, struct span out, u64 now_ns);
bool broker_has_output(const struct session *s);
// A packet is partly written: nothing else may be put into the stream.
bool broker_mid_packet(const struct session *s);
// A message from the system itself ($SYS, logs), seen by every subscriber of its topic (a valid
// name). False when it could not be stored.
bool broker_publish(struct broker *b, struct bytes topic, struct bytes payload, u8 qos, bool retain,
                    u64 now_ns);

struct broker_stats {  // names follow $SYS/broker/...
  u64 messages_received, messages_sent, publish_received, publish_sent, bytes_received, bytes_sent,
      publish_dropped;
  u32 clients_connected, clients_total, clients_maximum, clients_expired, subscriptions,
      shared_subscriptions, retained, messages_stored;
  u64 message_bytes_stored, retained_bytes;
  u32 queued, inflight;  // entries of all sessions (and shared groups), now
  u64 queued_bytes, inflight_bytes;
  u64 dropped[BROKER_DROPPED_COUNT];               // publish_dropped by reason
  u64 publish_bytes_received, publish_bytes_sent;  // payloads
  u64 packets_sent[16];                            // by enum mqtt_type
};
const struct broker_stats *broker_stats(const struct broker *b);
struct bytes session_client_id(const struct session *s);

// What can be told about one session.
struct broker_session_info {
  bool connected;
  u8 version;
  u32 subscriptions, queued, inflight, inbound_qos2;
  u64 queued_bytes, inflight_bytes;
  u32 expiry_s;
  u32 dropped[BROKER_DROPPED_COUNT];
};
// --- Looking at sessions (inspect.c). Pointers are good until the broker is called again.

// The session of this client id; NULL: there is none.
const struct session *broker_session(const struct broker *b, struct bytes client_id);
// Walks all sessions: *cursor begins at 0; NULL: the end. Each that lives through the walk is seen
// once.
const struct session *broker_next_session(const struct broker *b, u64 *cursor);
struct bytes session_username(const struct session *s, bool *has_username);
// The connection that `user` of broker_on_connect named; NULL: offline.
void *session_user(const struct session *s);
struct broker_subscription {
  struct bytes group;   // of a shared subscription; empty = not shared
  struct bytes filter;  // in `room`, without $share/GROUP/
  u8 qos;
  bool no_local, retain_as_published;
  u32 identifier;  // 0 = none
};
// Walks a session's subscriptions: *cursor begins at 0; false: the end. `room`: the filter is put
// there.
bool session_next_subscription(const struct session *s, u32 *cursor, struct span room,
                               struct broker_subscription *out);
// A message for one connected client, whatever it has subscribed to. False: it is not there, or
// there is no room.
bool broker_send(struct broker *b, struct bytes client_id, struct bytes topic, struct bytes payload,
                 u8 qos);
void broker_session_info(const struct session *s, struct broker_session_info *out);
const char *broker_drop_name(enum broker_drop why);
