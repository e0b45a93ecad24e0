// SPDX-License-Identifier: Apache-2.0
// The simulated clients and the oracle: what they share. Everything lies in the world's memory and
// survives a restart of the broker.
//
// Every client publishes a few streams; a stream is a topic with one QoS whose messages are
// numbered. What arrives says which message it is, so the oracle knows what was to arrive.
//
// O1  Order: of a stream, a subscriber sees growing numbers; a number may repeat only at QoS 1,
//     marked DUP or sent again by its publisher.
// O2  Nothing is lost: what was published at QoS > 0 after a SUBACK arrives, before any later
//     message of its stream; what was acknowledged has arrived when all is calm.
// O3  QoS 2 arrives once, whatever connections were lost or taken over in between.
// O4  A persistent session that was acknowledged is there at the next CONNECT.
// O5  The broker ends a connection only with a reason: another with its id, silence beyond 1.5 x
//     keep-alive, or its own end.
// O6  Retained: a new subscriber gets the last acknowledged value. Wills: of a connection that was
//     cut its will arrives; of one that said DISCONNECT it never does.
// O7  A shared subscription hands every message to a member; of QoS 2 to exactly one.
// O8  When all clients are gone, every pool of the broker is back where it was.
#pragma once
#include "loop/carve.h"
#include "loop/loop.h"
#include "net/tcp.h"
#include "plat/sim/sim.h"
#include "tls/record.h"
#include "tls/tls.h"

#define BROKER_ADDRESS IP4(10, 0, 0, 1)
#define BROKER_PORT 1883u
#define BROKER_TLS_PORT 8883u
#define CLIENTS_MAX 20u
#define LINES_MAX 96u
#define CIPHER_SLOTS 64u
#define INFLIGHT_MAX 10u
#define FATES 8192u  // remembered numbers of a stream
#define WILLS 512u
#define IN_LEN (192u << 10)
#define OUT_LEN (256u << 10)
#define PAYLOAD_HEAD 16u
#define PAYLOAD_MAX 60000u
#define LAG_MAX 300u  // messages a subscriber may be behind before its publishers wait

enum kind { KIND_QOS0, KIND_QOS1, KIND_QOS2, KIND_RETAINED, KIND_WILL, KIND_SHARED, KINDS };
enum fate { FATE_NONE, FATE_SENT, FATE_ACKED, FATE_LOST, FATE_CANCELLED };

// Counters of the result's table.
enum own {
  OWN_CONNECTS,
  OWN_PUBLISHED,
  OWN_DELIVERED,
  OWN_TAKEOVERS,
  OWN_TAKEOVERS_QOS2,
  OWN_RESUMED,
  OWN_WILLS,
  OWN_RETAINED,
  OWN_SHARED,
  OWN_SLOW,
  OWN_SILENT,
  OWN_CUT,
  OWN_REPEATED,
  OWN_TLS,
  OWN_COUNT
};
extern const char *const own_name[OWN_COUNT];

struct stream {
  u32 next;   // number of the next message, from 1
  u32 acked;  // the last one that was acknowledged
  u8 qos;
  u8 fate[FATES];
  bool resent[FATES];
  u8 got[FATES];                          // KIND_SHARED: members that have it
  u32 will_owed[WILLS], will_got[WILLS];  // KIND_WILL: sets of clients, by number
};

struct want {  // a client's subscription to one kind of stream
  u8 qos;
  bool all;  // of every publisher, else of one
  u8 publisher;
  bool used;
  enum { WANT_NONE, WANT_ASKED, WANT_ON, WANT_LEAVING } state;
  bool was;  // of this session, at any time
  u16 packet_id;
};

struct seen {  // one client's view of one stream
  u32 from;    // owed from this number on; 0: nothing
  u32 last;
  u32 floor;  // KIND_RETAINED: acknowledged when it subscribed
};

enum flight_state { FLIGHT_FREE, FLIGHT_PUBACK, FLIGHT_PUBREC, FLIGHT_PUBCOMP };
struct flight {
  enum flight_state state;
  u8 kind;
  u16 packet_id;
  u32 number;
  u32 len;  // of the payload
};

enum client_stage { STAGE_IDLE, STAGE_TCP, STAGE_TLS, STAGE_CONNACK, STAGE_UP };
struct line {  // a TCP connection
  struct tcp_conn *conn;
  struct client *client;  // NULL: left behind by a takeover, or silent
  u64 until_ns;           // without a client: the broker has ended it by then (O5)
  u32 boot;               // in which it was left
  u64 left_ns;
  bool knocked;
  bool used;
};

struct client {
  u32 number, host;
  u8 version;       // 4 or 5
  bool member;      // of the shared subscription
  bool persistent;  // what the next CONNECT asks for
  bool clean;
  bool must_clean;  // a CONNECT with clean start was not answered yet
  u16 keep_alive_s;
  enum client_stage stage;
  struct line *line;
  u64 next_ns, pause_until_ns;
  u64 asked_ns;  // connecting since
  u64 sent_ns, sent_acked_ns, silence_ns, ping_ns;
  bool session;  // acknowledged as persistent
  u32 session_boot;
  bool leaving;     // DISCONNECT was said
  bool last;        // this connection leaves no session behind, and no other follows
  u32 will_number;  // of this connection; 0: none
  u16 next_id;
  struct flight flight[INFLIGHT_MAX];
  u32 flight_count;
  u8 taken[65536 / 8];  // QoS 2 packet identifiers between PUBLISH and PUBREL
  struct want want[KINDS];
  // TLS, when this seed has it
  struct span arena;
  struct tls_handshake *handshake;
  struct tls_record tls;
  bool sealed;  // `tls` is in use
  u32 record_len;
  u8 record[TLS_RECORD_MAX];
  u32 in_len, out_from, out_len;
  u8 in[IN_LEN];
  u8 out[OUT_LEN];
};

enum phase { PHASE_CHAOS, PHASE_CALM, PHASE_CHECK, PHASE_LEAVE, PHASE_GONE, PHASE_STOP };
struct game {
  struct core core[SIM_HOSTS_MAX];
  struct sim_rng rng;
  u32 hosts, clients;
  bool tls;  // by the real handshake; else none
  struct span cipher_memory;
  struct tls_cipher_cache *ciphers;
  enum phase phase;
  u64 phase_ns;     // since
  u64 chaos_ns;     // how long
  u64 progress_ns;  // of the calm phase: something arrived, last
  u64 crash_ns;     // U64_MAX: none
  u32 crashes_left;
  u32 rounds;
  struct stream stream[CLIENTS_MAX][KINDS];
  struct seen seen[CLIENTS_MAX][CLIENTS_MAX][KINDS];  // [subscriber][publisher][kind]
  struct line line[LINES_MAX];
  struct client client[CLIENTS_MAX];
};
extern struct game *game;

static inline u32 draw(u32 below) {
  return sim_below(&game->rng, below);
}
static inline bool chance(u32 percent) {
  return draw(100) < percent;
}

// --- connections (client.c)
void client_open(struct client *c);
// Its connection is nobody's from now on and says nothing any more.
void client_forget_line(struct client *c);
void client_cut(struct client *c);
void client_disconnect(struct client *c);
void client_publish(struct client *c, enum kind kind, u32 len);
void client_subscribe(struct client *c, enum kind kind);
void client_unsubscribe(struct client *c, enum kind kind);
void client_ping(struct client *c);
void client_flush(struct client *c);
void client_read(struct client *c);
void client_shake(struct client *c);  // goes on with the handshake
bool client_idle_flight(const struct client *c);
void lines_tick(u32 host);
// --- TLS (tls.c, pki.c)
struct pki {
  struct bytes ca, server_certificate, server_key, client_certificate, client_key;
};
extern const struct pki pki;
void tls_memory(void);  // at start
void tls_boot(void);
void tls_begin(struct client *c);
bool tls_shake(struct client *c);  // true: done
// Bytes of the next record's content; 0: none yet, U32_MAX: a record without content.
u32 tls_read(struct client *c, u8 *out);
// Seals `len` bytes that stand behind b's first TLS_RECORD_HEAD; the record's length.
u32 tls_write(struct client *c, struct txbuf *b, u32 len);
void tls_end(struct client *c);
// --- packets (packet.c): written into c->out, read from c->in
void put_connect(struct client *c, u32 will_number);
void put_publish(struct client *c, const struct flight *f, u8 qos, bool dup);
void put_ack(struct client *c, u8 type, u16 packet_id);
void put_subscribe(struct client *c, u16 packet_id, enum kind kind);
void put_unsubscribe(struct client *c, u16 packet_id, enum kind kind);
void put_ping(struct client *c);
void put_disconnect(struct client *c);
u32 topic_filter(const struct client *c, enum kind kind, char *out, u32 max);
struct incoming {
  u8 type, flags;
  u16 packet_id;
  u8 reason;
  bool session_present;
  u32 publisher, kind, number;
};
// One whole packet; what is malformed fails the run.
void packet_parse(struct client *c, const u8 *p, u32 len, struct incoming *out);
// The packet at the start of c->in: its length, 0 when it is not whole.
u32 packet_whole(const u8 *p, u32 have);
// --- the oracle (model.c)
void model_init(void);
u32 model_published(struct client *c, enum kind kind);  // a new message: its number
void model_resent(struct client *c, enum kind kind, u32 number);
void model_acked(struct client *c, enum kind kind, u32 number);
void model_lost(struct client *c, enum kind kind, u32 number);
void model_will_due(struct client *c);
void model_will_cancelled(struct client *c);
void model_subscribed(struct client *c, enum kind kind);
void model_subscribing(struct client *c, enum kind kind);
void model_unsubscribed(struct client *c, enum kind kind);
void model_session_gone(struct client *c);
void model_arrived(struct client *c, const struct incoming *m, bool again);
// The broker's power was cut. With a disk what it acknowledged is still promised, without one
// nothing.
void model_crashed(bool disk);
u32 model_lag(u32 publisher, enum kind kind);
// NULL: everything that was promised has happened.
const char *model_open(void);
// --- TCP, watched on the wire (wire.c)
void wire_init(void);
void wire_forget(void);
void wire_frame(bool from_broker, struct bytes frame);
// --- what happens (script.c)
struct game_options {
  u32 hosts;
  u32 minutes;  // of virtual time, the chaos
};
extern struct game_options game_options;
bool game_has_disk(u64 seed);
extern const struct sim_harness game_harness;
