// SPDX-License-Identifier: Apache-2.0
// mosquitto's password_file: `user:hash` lines, compiled once into one piece of memory, never
// changed afterwards. Nothing here hashes: what a check needs is handed out, and the server works
// it off in slices (server/login.h).
//
// I1  Every name gets an answer of the same shape and cost: one that is not in the file is given
//     the parameters of some entry that is, always the same for the same name, and marked.
// I2  Lines of 2.1's rules: '#' in the first column and lines without ':' are skipped (the latter
//     with a warning); an empty or repeated user and a hash that cannot be decoded are fatal.
// I3  An entry is for passwords or for SCRAM, and password_find and password_find_scram see only
//     their own: a user of the other kind is one who is not there.
//
// Formats: $6$SALT$HASH (SHA-512 of password and salt), $7$ITERATIONS$SALT$HASH
// (PBKDF2-HMAC-SHA512, 64 bytes), $argon2id$v=19$m=KIB,t=PASSES,p=LANES$SALT$HASH; base64. Ours
// alone: $scram-sha-256$ITERATIONS$SALT$STOREDKEY$SERVERKEY (RFC 5802 3).
// Source: mosquitto_passwd(1); libcommon/password_common.c of mosquitto 2.1 by behaviour.
#pragma once
#include "base/hash.h"

#define PASSWORD_SALT_MAX 64u
#define PASSWORD_HASH_LEN 64u
#define PASSWORD_ITERATIONS_MAX 1000000u
#define PASSWORD_SCRAM_ITERATIONS_MIN 4096u  // RFC 7677 4
#define PASSWORD_SCRAM_KEY_LEN (PASSWORD_HASH_LEN / 2)
#define PASSWORD_ARGON_KIB_MAX 47104u  // mosquitto 2.1's 46 MiB: what the one arena holds
#define PASSWORD_ARGON_WORK_MAX \
  524288u  // KiB times passes: done within LOGIN_WAIT_NS by its budget

enum password_kind { PASSWORD_SHA512, PASSWORD_PBKDF2, PASSWORD_ARGON2ID, PASSWORD_SCRAM_SHA256 };
struct password_hash {
  u8 kind;         // enum password_kind
  u8 salt_len;     // 1..PASSWORD_SALT_MAX
  u8 hash_len;     // PASSWORD_HASH_LEN; argon2id 16..64
  u8 lanes;        // argon2id
  u32 iterations;  // PBKDF2: 1..; argon2id: passes; SCRAM: PASSWORD_SCRAM_ITERATIONS_MIN..
  u32 memory_kib;  // argon2id
  u8 salt[PASSWORD_SALT_MAX];
  u8 hash[PASSWORD_HASH_LEN];  // SCRAM: StoredKey, then ServerKey
};

// Reads one encoded hash. NULL: good; otherwise what is wrong with it (static).
const char *password_decode(struct bytes text, struct password_hash *out);
// The encoded form, for a new hash. ERR_SPACE by the writer's own error.
void password_encode(const struct password_hash *h, struct writer *w);

struct passwords;
struct password_complaint {
  u32 line;
  bool fatal;
  char text[120];
};
typedef void password_say(void *user, const struct password_complaint *c);

// The most memory that an argon2id hash in this text wants, in KiB, and the line it stands in; 0:
// there is none. Of a password_file or of a file that holds such hashes in quotes.
u32 password_argon_kib(struct bytes text, u32 *line);
// Bytes of memory that password_parse needs for this text.
u64 password_bytes(struct bytes text);
// Compiles `text` into `memory` (>= password_bytes, aligned to 16, the caller's), calls `say` for
// each complaint. NULL when any was fatal. Does not borrow `text`.
struct passwords *password_parse(struct bytes text, struct span memory,
                                 const struct siphash_key *key, password_say *say, void *user);
// What a check of this user costs and must give. False: there is no such user, *out is a stand-in
// (I1). A file without passwords: false and PBKDF2 of 101 iterations.
bool password_find(const void *passwords, struct bytes username, struct password_hash *out);
// The SCRAM keys of this user. False: he has none, and *out is a stand-in: the iterations of some
// entry, a salt that stays the same as long as the file does, also over restarts, and keys that
// nobody knows. The file must have such an entry (password_stats).
bool password_find_scram(const void *passwords, struct bytes username, struct password_hash *out);

struct password_stats {
  u32 users, argon2;   // argon2: how many need the arena
  u32 scram;           // users with SCRAM keys
  u32 iterations_max;  // of PBKDF2
  u32 argon_kib_max;
};
struct password_stats password_stats(const struct passwords *p);
