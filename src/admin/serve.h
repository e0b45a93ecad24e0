// SPDX-License-Identifier: Apache-2.0
// From a configuration to service: contexts, listeners, addresses; and what the console says about
// it.
#pragma once
#include "admin/config.h"
#include "admin/limits.h"
#include "admin/security.h"
#include "loop/carve.h"
#include "loop/core.h"

// One formatted line for the console.
void say(const char *format, ...) PRINTF_LIKE(1, 2);
// The configuration that was found (source.h), parsed; every complaint is printed. NULL: there is
// none, or it has errors (said on the console).
const struct config *serve_config(struct carve *carve);
// The configuration in use; NULL: none.
const struct config *serve_current(void);

enum serve_found {
  SERVE_NOTHING,  // no configuration, or a damaged one
  SERVE_BAD,      // it has errors
  SERVE_SAME,     // the platform cannot read it again, or it is what is in use already
  SERVE_GOOD,
};
// Reads the sources again, into *out; what is wrong is printed. GOOD: it is to be dropped or taken
// before the next.
enum serve_found serve_candidate(const struct config **out);
// Room for a configuration that somebody hands over (source_room); and the first `len` bytes of it
// as the candidate: BAD or GOOD. There is a configuration in use.
struct span serve_room(void);
enum serve_found serve_given(struct bytes giver, u32 len, const struct config **out);
// The archive of the one in use.
struct bytes serve_tar(void);
// The candidate is in use from now on, and the one before it stays as it was: as a candidate, to be
// dropped or tried in its turn.
void serve_candidate_try(void);
struct bytes serve_candidate_tar(void);
void serve_candidate_drop(void);
void serve_candidate_take(void);  // it is the one in use from now on

// Where the one in use comes from.
const char *serve_source_name(void);

// The configured ceilings, put into the limits; NULL: none. The first call's are what counts
// where a later configuration says nothing.
void serve_limits(const struct config *c, struct limits *l);
// The cores that this configuration is served on, of those that the platform has.
u32 serve_cores(const struct config *c, u64 memory_len);
// Memory for rules and passwords (security_init); false: there is none.
bool serve_security_init(struct carve *carve, const struct config *c);
// The arena for argon2id (security_arena); after serve_security_init.
struct span serve_security_arena(void);
// Puts rules and passwords in force; every complaint is printed. False: it has errors, and what was
// in force stays.
bool serve_security(struct core *core, const struct config *c);
// The rules and passwords in force, also for another core.
void serve_security_also(struct core *core, const struct config *c);
// Makes the TLS contexts and checks them; `listen` false: only that (--check). False: said on the
// console.
bool serve_listeners(struct core *core, const struct config *c, bool listen);
bool serve_has_tls(const struct config_listener *l);
// A context of this listener's files; quiet: nothing is said of a good one. NULL: said on the
// console. OWNED.
OWNED struct tls_context *serve_context(const struct config_listener *l, bool quiet);
// The listener for the server, without its context.
struct listener_config serve_listener_config(const struct config *c, u32 index);
// Starts the bridges and names the name servers; `start` false: only checks (--check). A reload
// leaves bridges as they are. False: said on the console.
bool serve_bridges(struct core *core, struct carve *carve, const struct config *c, bool start);
// The ceilings that may change while serving.
void serve_relimit(struct core *core, const struct config *c);
// Addresses of every NIC: as configured, or by DHCP (also without a configuration). One that was
// refused for other errors still says the addresses.
void serve_addresses(struct core *core, const struct config *c);
// Says on the console when an address or the link comes or goes. A stage of the loop.
bool serve_watch(struct core *core, void *unused);
