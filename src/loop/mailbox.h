// SPDX-License-Identifier: Apache-2.0
// Mail between cores: one ring of bytes for each ordered pair, one core puts, the other takes.
// Entries are self-contained bytes, taken in the order they were put. An entry comes back: when the
// receiver is done with it the sender gets it once more (`done`), in the same order, with what the
// receiver wrote into it. So an entry may name memory of the sender's that nobody changes
// meanwhile (a message's bytes), and nothing need be sent to say "done with it".
//
// Two classes share a ring. Data is refused while it would leave less than the reserve free: its
// sender keeps what it has and stops reading the one who wants to send more. Control entries
// (takeover, acknowledgement, epoch) may use all of it; what bounds them is their protocols' own.
//
// I1  reaped <= head <= got <= tail <= put <= reaped + size, all counted since the start.
// I2  Between head and tail entries are the receiver's; between reaped and head, and from tail to
//     put, the sender's.
// I3  A core takes its mail whatever the state of the rings it puts into: nobody waits for itself.
// I4  A core sleeps only while no entry for it is between got and tail, and none of its own that it
//     wants back is between reaped and head. Proven: tests/models/mailbox.pml.
// I5  With one core there is no mailbox: core->mail is NULL and each call says so at once.
#pragma once
#include "loop/carve.h"
#include "loop/core.h"

#define MAIL_RING_MIN 8192u
#define MAIL_RING_MAX 262144u
#define MAIL_A_TURN 256u  // entries taken in one turn, from all rings together

enum mail_class { MAIL_DATA, MAIL_CONTROL };

// What an entry is; each kind has one owner.
enum mail_kind {
  MAIL_NONE,          // rest of the ring's end
  MAIL_ADMIN,         // admin/cores.c: log lines, reload, counters
  MAIL_NET,           // net/follow.c: addresses and neighbours
  MAIL_BROKER_FIRST,  // broker/cross.h has them
  MAIL_BROKER_LAST = MAIL_BROKER_FIRST + 31,
  MAIL_TEST,
  MAIL_KIND_COUNT
};

struct mailroom;  // all rings, shared by all cores

// Of `core`, from core `from`: the body may be written to, for the sender to see. Must not wait.
typedef void mail_take(struct core *core, u32 from, struct span body);
// The entry that `core` sent to core `to` comes back.
typedef void mail_done(struct core *core, u32 to, struct span body);

// Bytes of memory for the rings of `cores` cores (2 to PLAT_CORE_MAX), `ring_len` each: a power of
// two, MAIL_RING_MIN to MAIL_RING_MAX.
u64 mailroom_bytes(u32 cores, u32 ring_len);
// NULL: no memory. OWNED by all cores for the program's life.
struct mailroom *mailroom_open(struct carve *carve, u32 cores, u32 ring_len);
// Gives the core its mailbox. Before any core runs.
void mailbox_open(struct core *core, struct mailroom *room);
// done may be NULL.
void mailbox_on(struct core *core, enum mail_kind kind, mail_take *take, mail_done *done);

// Cores that have a mailbox; 1 without.
u32 mailbox_cores(const struct core *core);
// Room for one more entry of this class with `len` bytes.
bool mailbox_room(struct core *core, u32 to, enum mail_class class, u32 len);
// An entry of `len` bytes (at most a quarter of a ring), aligned to 8, to be filled in before the
// turn ends; sent then. ptr NULL: no room. `wake_back`: when it comes back this core is woken for
// it, otherwise it sees it when it wakes for another reason.
struct span mailbox_put(struct core *core, u32 to, enum mail_class class, enum mail_kind kind,
                        u32 len, bool wake_back);
// Hands a body to this core's own taker of this kind, at once.
void mailbox_hand(struct core *core, enum mail_kind kind, struct span body);
// Entries put for `to` that have not come back.
bool mailbox_idle(const struct core *core, u32 to);

// --- Stages of a turn (loop.c)

// First: what came back, then what came in, MAIL_A_TURN at most. True when there was something.
bool mailbox_receive(struct core *core);
// Last: sends what was put, one wake for each core that sleeps.
void mailbox_send(struct core *core);
// Before the core sleeps; false: there is mail, it must not. mailbox_awake follows in both cases.
bool mailbox_sleep(struct core *core);
void mailbox_awake(struct core *core);
// I1 and the entries' chain, of the rings this core sends into. For tests.
void mailbox_check(const struct core *core);
