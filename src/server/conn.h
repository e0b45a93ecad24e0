// SPDX-License-Identifier: Apache-2.0
// One connection, shared by server/*.c only.
//
// Bytes in: tcp's receive queue -> (a TLS record opened in place, or in a record buffer when it
// lies across receive buffers) -> a packet decoded where it lies, or in an extent when it is not
// whole. Nothing is taken out of tcp before it was used, so what we cannot take yet stays in the
// peer's window.
// Bytes out: the broker's stream is pulled straight into transmit buffers, never beyond tcp_room.
//
// I1  A conn is in the input list when bytes may be processed, in the output list when its session
//     may have output, in the blocked list when a shortage keeps its next packet waiting; input
//     and blocked exclude each other (they share `work`).
// I2  Callbacks of tcp and broker only mark: a conn is freed by conn_free, called from the server's
//     own stages, its timer, or tcp's `ended`, never while its packets are processed.
// I3  An idle connection holds no buffer: record, packet, heavy and name are NULL.
// I4  conn->tcp is NULL once tcp has let go of it; conn->session is NULL once detached.
// I5  out_left and out_head follow the packets of the stream sent, so that a DISCONNECT is put
//     between packets only.
#pragma once
#include "base/list.h"
#include "loop/extent.h"
#include "loop/fiber.h"
#include "mqtt/encode.h"
#include "server/auth.h"
#include "server/front.h"
#include "server/login.h"
#include "server/server.h"
#include "tls/record.h"

#define CONNECT_BYTES_MAX 100000u  // the largest CONNECT, as mosquitto's
#define NAME_MAX_LEN 510u          // a whole subject is long
#define RECORD_BUFFERS 64u
#define CIPHER_SLOTS 1024u
#define SEC_NS 1000000000ull
#define MS_NS 1000000ull

enum conn_state {
  CONN_PROXY,      // the load balancer's PROXY header must come first
  CONN_HANDSHAKE,  // TLS: waiting for a ClientHello, an arena or the client's next flight
  CONN_CONNECT,    // the first packet must be CONNECT [MQTT-3.1.0-1]
  CONN_LOGIN,      // it is there, its password is being checked; nothing is read
  CONN_AUTH,       // it is there, and the client's AUTH must come next
  CONN_CLAIM,      // the broker asks other cores for its session; nothing is read
  CONN_TARPIT,     // it was wrong, and is told so at the deadline
  CONN_OPEN,
  CONN_ENDING,  // in the ending list: freed in an output stage
};

struct heavy {  // what a handshake needs while it is under way
  struct tls_handshake *handshake;
  u32 generation;  // server.generation when it began
  u8 arena[TLS_ARENA_BYTES] ALIGNED(16);
};
struct conn_name {     // what a handshake leaves for CONNECT: the certificate's common name
  struct txbuf *held;  // its last flight, to go out with the CONNACK; NULL = none
  u64 held_turn;       // held for the rest of this turn and the next one
  u16 len;
  u8 text[NAME_MAX_LEN];
};

struct bridge;
struct bridges;

struct server_listener {
  u8 mount[SERVER_MOUNT_MAX];
  struct server *server;
  struct bridge *bridge;  // NULL; else this is a bridge's, and its connections are ours
  struct listener_config config;
  u32 connections;
  u64 rate_ns;  // connection_rate: when those accepted will have been paid for
};

struct conn {
  struct link work;  // input, handshake or blocked list
  struct link out;   // output list
  const struct server_listener *from;
  struct server *server;
  struct tcp_conn *tcp;
  struct session *session;
  struct tls_record *tls;  // once the handshake is done; NULL on plain listeners
  union {
    struct heavy *heavy;  // in CONN_HANDSHAKE
    struct login *login;  // in CONN_LOGIN
    struct auth *auth;    // while `authing`; NULL in every other state
  };
  struct conn_name *name;
  struct front *front;  // what stands before MQTT in the stream; NULL = nothing
  u8 *record;           // a record buffer, while its plaintext is processed
  u8 *packet;           // an extent, while a packet is assembled
  u64 last_in_ns;       // when a control packet last arrived: keep-alive
  u64 deadline_ns;      // of the present stage; U64_MAX = none
  u64 armed_ns;         // when the timer will fire
  u32 timer;
  u32 packet_len, packet_have;
  u32 plain_off, plain_len;  // plaintext not yet used; offset into `record` or tcp's first piece
  u32 record_len;            // record opened in place: consumed from tcp when its plaintext is used
  u32 connect_len;           // of its CONNECT, until it is in
  u16 keep_alive_s;
  u8 head_len;  // fixed header bytes that arrived before the rest
  u8 head[MQTT_FIXED_MAX];
  u8 state;          // enum conn_state
  u8 version;        // enum mqtt_version, from CONNECT
  u8 reason;         // why CONN_ENDING
  u8 alert;          // TLS alert to end with
  u16 packet_max;    // the client's, for our DISCONNECT
  bool tls_due : 1;  // this connection speaks TLS
  bool fin : 1;      // the peer has sent FIN
  bool mid_packet : 1;
  bool paused : 1;     // its rate is used up: read again from broker_publish_at on
  bool traced : 1;     // trace.h
  bool rechecked : 1;  // it was there when server_recheck last ran
  bool bulk : 1;       // the last output was more than a small buffer
  bool authing : 1;
  bool by_method : 1;  // it came in by an authentication method
};
static_assert(sizeof(struct conn) <= 192, "an idle connection (DESIGN 3)");

struct log_rate {
  u64 since_ns;
  u32 left, suppressed;
};
struct server {
  struct core *core;
  struct server_limits limits;
  struct server_stats stats;
  struct pool conns, records, heavies, names, record_buffers, fronts;
  struct extent packets;
  struct tls_cipher_cache *ciphers;
  struct link input, output, blocked, handshakes, ending;
  u32 output_wakes;  // times a connection was put on `output`; wraps
  u64 ending_turn;   // the turn in which ending_work was done (ending.c)
  u32 ending_work;
  u64 heavy_turn;   // the turn in which heavy_bytes were taken
  u32 heavy_bytes;  // of long SUBSCRIBEs and UNSUBSCRIBEs
  struct server_listener listener[SERVER_LISTENERS_MAX];
  u32 listener_count;
  struct bridges *bridges;  // NULL = none
  u32 generation;           // counts server_recheck
  u32 tick_timer;
  bool tick_armed;
  bool draining;
  struct fiber fiber;  // handshakes compute on their own stack, one at a time
  struct span fiber_stack;
  struct login_source login_source[BROKER_ACCESS_SETS];
  struct logins logins;
  struct auths auths;
  struct server_log_config log;
  struct log_rate log_wrong, log_usual;
  struct trace trace;
};

// What is known of the time, for tls; nothing where the listener ignores dates.
struct tls_time server_time(const struct listener_config *l);
// Whether this connection may be there by its listener's configuration of now (server.c).
bool conn_allowed(const struct conn *c);
// Of an open connection: its user is still there, with the password entry that he came in by, or
// nobody's name is asked for (connect.c).
bool conn_name_allowed(const struct conn *c);
static inline bool listener_takes_version(const struct listener_config *l, u8 version) {
  return l->versions == 0 || (l->versions >> version & 1) != 0;
}

// --- conn.c: life
struct conn *conn_new(const struct server_listener *from, struct tcp_conn *tcp);
// Ends the connection in this turn's output stage: DISCONNECT with `reason` where the version has
// it and a packet boundary allows, close_notify, FIN. MQTT_SUCCESS: no DISCONNECT.
void conn_end(struct conn *c, enum mqtt_reason reason);
// What a refusing CONNACK or a DISCONNECT says beside its reason: the reason in words, and where
// else to go when the listener knows that.
#define CONN_FAREWELL_MAX 384u
void conn_farewell(const struct conn *c, enum mqtt_reason reason, struct mqtt_prop_out list[3]);
// At once, without a word (the peer is gone). Detaches the session: its will is due.
void conn_free(struct conn *c);
// ending.c: those that end, a turn's share of them; and one whose tcp is gone (c->tcp is NULL): it
// may be freed.
void ending_run(struct server *s);
void ending_lost(struct conn *c);
void conn_arm(struct conn *c);  // after deadline_ns or keep_alive_s changed
void conn_on_timer(struct core *core, u32 timer, void *owner);
void conn_want_input(struct conn *c);
void conn_want_output(struct conn *c);
void conn_block(struct conn *c);  // a shortage: tried again by the tick
void server_tick_soon(struct server *s);

// --- log.c
// One line for the console, limited to 10 a second; conn may be NULL.
void server_log(struct server *s, const struct conn *c, const char *text, struct bytes detail);
// A client comes or goes; only where connection messages are wanted.
void server_log_connection(const struct conn *c, const char *text);
void server_log_filter(const struct conn *c, bool subscribe, struct bytes filter);
bool server_logs_filters(const struct server *s, bool subscribe);

extern const struct tcp_listener_ops conn_tcp_ops;  // server.c: what an established one calls

// --- input.c
// Processes what has arrived, within a budget. True when more could be done at once.
bool conn_input(struct conn *c);
// The next bytes of the stream as the peer sent it, TLS opened, WebSocket frames not: writable,
// empty when none are there. raw_used gives bytes of its front back.
struct budget {  // of one call of conn_input
  u32 bytes;
  u32 packets;  // by their weight: dispatch()
  bool blocked;
};
struct span raw_slice(struct conn *c, struct budget *b);
void raw_used(struct conn *c, u32 len);
void input_blocked(struct conn *c, struct budget *b);  // a shortage

// What stands for the client's neighbourhood where clients share fairly: ip_network of its address,
// as a proxy told it where one did.
struct ip_addr conn_prefix(const struct conn *c);

// Whether what arrives is read now.
static inline bool conn_reads(const struct conn *c) {
  return c->state == CONN_CONNECT || c->state == CONN_AUTH || c->state == CONN_OPEN;
}

enum packet_use { PACKET_USED, PACKET_BLOCKED, PACKET_PAUSED };

// --- connect.c
// CONNECT: who the client is and whether he may come in. In CONN_LOGIN behind it: undecided.
enum packet_use conn_connect(struct conn *c, const struct mqtt_header *h, struct bytes packet);
// The verdict about a password: the CONNECT in c->packet goes on, or is refused later.
void conn_login_done(struct conn *c, bool good);
void conn_tarpit_over(struct conn *c);
// A wrong password: he is told so, and by what text the console is, after a while.
void conn_tarpit(struct conn *c, const char *text, struct bytes who);
// The way in for who is known, and the CONNACK that refuses, which ends the connection. `who` is
// logged unless it is NULL.
void conn_enter(struct conn *c, const struct mqtt_connect *m, struct bytes packet,
                struct broker_identity *id);
// In CONN_CLAIM behind conn_enter: the broker will call conn_entered.
void conn_entered(struct conn *c, struct session *session, enum mqtt_reason bad, u16 keep_alive_s);
void conn_refuse(struct conn *c, enum mqtt_version v, enum mqtt_reason reason, struct bytes who);
// What the listener says of whoever comes in there.
struct broker_identity conn_identity(const struct conn *c);
// Stands for an entry of the password file: another password or salt is another number, never 0.
u32 conn_credential(const struct server *s, const struct password_hash *h);

// --- auth.c
// A CONNECT with an authentication method. In CONN_AUTH behind it: the client's turn.
enum packet_use auth_connect(struct conn *c, const struct mqtt_connect *m, struct bytes packet);
// AUTH, in CONN_AUTH and CONN_OPEN.
enum packet_use auth_packet(struct conn *c, struct bytes packet);
void auth_late(struct conn *c);  // its deadline is over
void auth_drop(struct conn *c);  // the exchange ends without a verdict

// --- packet.c
// One whole control packet. BLOCKED: shortage, nothing was changed; offer it again later. PAUSED:
// the same for its rate.
enum packet_use conn_packet(struct conn *c, const struct mqtt_header *h, struct bytes packet);

// --- output.c
enum output_end {
  OUTPUT_DRY,      // nothing left, or no room: tcp or the broker will call
  OUTPUT_MORE,     // this turn's share is used up
  OUTPUT_STARVED,  // no transmit buffer
};
// Pulls from the session into transmit buffers, up to tcp's room and a share of the turn.
enum output_end conn_output(struct conn *c);
// Queues a few bytes of our own (a whole packet) as soon as possible; false when no buffer is left.
bool conn_send(struct conn *c, struct bytes packet);
// The same for bytes that are no MQTT: an HTTP answer, a WebSocket control frame.
bool conn_send_raw(struct conn *c, struct bytes bytes);
// TLS: an alert, close_notify included; ignored without a buffer.
void conn_send_alert(struct conn *c, u8 alert);
void conn_send_key_update(struct conn *c);

// --- handshake.c
// What the handshake's end holds back goes out now; before anything else is sent.
void conn_send_held(struct conn *c);
// Takes the handshake as far as the bytes there allow. False: no arena free, or no buffer; try
// again later.
bool conn_handshake(struct conn *c);
// A ClientHello (or the next flight) is there.
bool conn_handshake_ready(const struct conn *c);
