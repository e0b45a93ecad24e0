// SPDX-License-Identifier: Apache-2.0
// mosquitto's acl_file: compiled once into one piece of memory, never changed afterwards. A reload
// compiles another and swaps.
//
// I1  Verdict, in this order: a deny rule of the user that matches - no; a grant of the user - yes;
//     any pattern in the file and a '+' or '#' in user name or client id - no (CVE-2017-7650); a
//     deny pattern that matches - no; a grant pattern - yes; otherwise no. (mosquitto puts denies
//     in front of each of the two lists.)
// I2  Rules before the first `user` are of anonymous clients only; who has a user name never sees
//     them. `pattern` is for everybody; one with %u is not for anonymous clients.
// I3  A topic that begins with '$' is matched only by a rule that begins with '$', and the reverse.
// I4  %c and %u stand for client id and user name where they are a whole level, else for
//     themselves. A name with '/' in it spans levels.
//
// Source: mosquitto.conf(5) acl_file; behaviour of mosquitto 2.0.11 (tests/system/test_acl.py).
#pragma once
#include "base/hash.h"
#include "broker/access.h"

struct acl;

// What is wrong with a line. `fatal`: the file is not used; otherwise a warning.
struct acl_complaint {
  u32 line;
  bool fatal;
  char text[120];
};
typedef void acl_say(void *user, const struct acl_complaint *c);

// Bytes of memory that acl_parse needs for this text, whatever it holds.
u64 acl_bytes(struct bytes text);
// Compiles `text` into `memory` (>= acl_bytes, aligned to 16, the caller's; the result lies in it
// and does not borrow `text`). Calls `say` for each complaint. NULL when any was fatal.
struct acl *acl_parse(struct bytes text, struct span memory, const struct siphash_key *key,
                      acl_say *say, void *user);
// READ or WRITE of a topic name; SUBSCRIBE: is there a topic that the filter matches and that could
// be read? UNSUBSCRIBE: always. Nothing but the file's rules (no $SYS rule, which is the broker's).
bool acl_allows(const void *acl, const struct access_who *who, enum access_kind kind,
                struct bytes topic);

// A filter with %c and %u for `who` against a topic name; against another filter: does it match
// every topic that `other` matches? False where it has %u and `who` is anonymous.
bool acl_filter_matches(struct bytes filter, struct bytes topic, const struct access_who *who);
bool acl_filter_covers(struct bytes filter, struct bytes other, const struct access_who *who);

struct acl_stats {
  u32 users, rules, patterns;
};
struct acl_stats acl_stats(const struct acl *a);
