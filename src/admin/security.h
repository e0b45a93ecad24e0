// SPDX-License-Identifier: Apache-2.0
// The rules and passwords of a configuration: compiled, checked, put in force, exchanged.
//
// I1  Two halves of memory: the next generation is compiled into the one that is not in force, and
//     only then takes its place, all sets at once. What is wrong leaves everything as it was.
// I2  Set 0 is of every listener; with per_listener_settings listener i has set i.
#pragma once
#include "admin/config.h"
#include "broker/password.h"
#include "loop/carve.h"
#include "loop/core.h"

struct security;
#define SECURITY_REST_BYTES (24ull << 20)  // what must be left beside an arena
struct acl;
struct security_rules {  // of each set; NULL = none
  struct acl *acl[CONFIG_LISTENERS_MAX];
  struct passwords *passwords[CONFIG_LISTENERS_MAX];
};

// How many sets there are, and what one was made from.
u32 security_sets(const struct config *c);
const struct config_security *security_of(const struct config *c, u32 set);
// Bytes that the files of this configuration need, compiled.
u64 security_bytes(const struct config *c);
// The largest arena that an argon2id hash of this configuration wants, in KiB, and where it stands;
// 0: none wants any.
u32 security_argon_kib(const struct config *c, struct bytes *file, u32 *line);
// Bytes that security_check needs.
u64 security_check_bytes(const struct config *c);
// Compiles everything into `memory` (>= security_check_bytes, aligned to 64, zeroed), the file of
// dynamic security too, and adds what is wrong to the report, with file and line: for --check on
// any machine. ERR_INVALID when there are errors.
enum err security_check(const struct config *c, struct span memory, struct config_report *report);
// The same, kept: *out lies in `memory`.
enum err security_compile(const struct config *c, struct span memory, const struct siphash_key *key,
                          struct config_report *report, struct security_rules *out);
// Takes the memory of both halves: each what this configuration (NULL: none) needs twice over, and
// never less than 1/512 of the machine's; and the arena for argon2id
// when a hash in it wants one and the machine has SECURITY_REST_BYTES beside it. NULL: said on the
// console.
struct security *security_init(struct carve *carve, const struct config *c);
// The arena for argon2id that security_init took, empty when it took none.
struct span security_arena(const struct security *s);
// Puts a configuration's rules and passwords in force. ERR_INVALID, ERR_NO_MEMORY (more than a
// half): the report says why, and what was in force stays.
enum err security_load(struct security *s, struct core *core, const struct config *c,
                       struct config_report *report);
// What is in force, put in force on another core too. Not with dynamic security.
void security_also(const struct security *s, struct core *core, const struct config *c);
// The set of a listener.
u8 security_set(const struct config *c, u32 listener);
