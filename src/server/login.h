// SPDX-License-Identifier: Apache-2.0
// Verification of passwords, off the path of everybody else: a CONNECT whose password must be
// checked waits here, its connection is not read meanwhile, and the hashing is done in slices
// within a budget of the core.
//
// I1  At most LOGIN_BUDGET_NS of each LOGIN_WINDOW_NS are spent on hashing, and at most
//     LOGIN_SLICE_NS in one turn. One login is hashed at a time.
// I2  Prefixes (IPv4 /24, by hash) take turns, so a storm from one does not keep out another; a
//     prefix holds at most a quarter of the places. Who finds no place is refused at once (0x89).
// I3  A failure is told after LOGIN_TARPIT_NS; a success at once.
// I4  A user who is not there costs what one who is there costs (password.h I1), and nothing that a
//     client sees differs.
// I5  conn->login is non-NULL exactly in CONN_LOGIN; the login holds a copy of the hash, so that a
//     reload may drop the tables.
// I6  argon2id is hashed in the one arena of server_limits.argon_arena, by one core at a time: who
//     finds it in use looks again a window later. A hash that wants more is
//     refused at once; admin/security.c puts none such in force that it can see.
#pragma once
#include "argon/argon.h"
#include "broker/password.h"
#include "loop/carve.h"
#include "loop/fiber.h"
#include "server/server.h"
#include "tls/kdf.h"

#define LOGIN_WINDOW_NS 10000000ull
#define LOGIN_BUDGET_NS 900000ull
#define LOGIN_DEBT_MAX_NS (10 * LOGIN_BUDGET_NS)  // a stopped machine is no debt for ever
#define LOGIN_SLICE_NS 200000ull
#define LOGIN_TARPIT_NS 1000000000ull
#define LOGIN_WAIT_NS 10000000000ull  // for its turn; then the client is sent away
#define LOGIN_HASH_NS \
  30000000000ull  // from its turn on: a slow machine's argon2id within the budget
#define LOGIN_FLOWS 256u
#define LOGIN_STEP 48u  // iterations between two looks at the clock, about 40 us

struct conn;

// How many can wait at once.
u32 login_places(const struct server_limits *limits);
// The flow of the client's prefix, keyed so that nobody can choose a neighbour.
u32 login_flow_of(const struct conn *c);

struct login {
  struct link link;  // of its flow
  struct conn *conn;
  u32 flow;
  bool known;
  struct password_hash hash;
};
struct login_argon {         // login_argon.c
  struct span arena, stack;  // empty: no such hash can be checked
  u32 *lease;                // 0: free; shared with other cores (exchange, pairs with itself)
  bool leased;               // by this core
  struct fiber fiber;
  struct argon_job job;
  u64 stop_ns;  // of this slice
  u32 blocks;
  u8 sum[PASSWORD_HASH_LEN];
};
struct login_flow {  // the waiting logins of prefixes with one hash
  struct link active;
  struct link waiting;
  u32 count;
};
struct logins {
  struct pool pool;
  struct login_flow flow[LOGIN_FLOWS];
  struct link active;     // flows with somebody waiting, the next one first
  struct login *current;  // being hashed; in no list
  struct kdf kdf;
  struct login_argon argon;
  u64 window_ns, spent_ns;
  u32 timer;
  bool timer_armed;
  bool arena_away;  // the next login wants the arena, and another core uses it
};

u64 login_bytes(const struct server_limits *limits);
// False: no memory.
bool login_init(struct server *s, struct carve *carve);
// The connection's CONNECT (whole in c->packet) waits for its password. False: no place.
bool login_begin(struct conn *c, const struct password_hash *hash, bool known);
// The connection ends before its verdict.
void login_cancel(struct conn *c);
// Takes the arena (aligned to 64) for ever, and a stack. False: no memory.
bool login_argon_init(struct login_argon *a, struct span arena, u32 *lease);
// The arena is this core's until login_argon_fini. False: another core uses it.
bool login_argon_take(struct login_argon *a);
// Gives up what is under way. `h` and `password` stay until the first step.
void login_argon_begin(struct login_argon *a, const struct password_hash *h, struct bytes password);
// Hashes until about `stop_ns`. True: a->sum is the result.
bool login_argon_step(struct login_argon *a, u64 stop_ns);
void login_argon_fini(struct login_argon *a);
// A stage of the loop, ctx is the server.
bool login_stage(struct core *core, void *ctx);
