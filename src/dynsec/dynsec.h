// SPDX-License-Identifier: Apache-2.0
// Dynamic security as mosquitto's plugin has it: clients, groups and roles that an administrator
// changes while the broker runs, by JSON commands to $CONTROL/dynamic-security/v1. Starts from the
// plugin's own file.
//
// I1  Everything lies in the memory given to dynsec_init; a command that finds no room is answered
//     by an error and leaves what was there as it was, up to the command's own object.
// I2  Verdict about READ, WRITE, SUBSCRIBE, UNSUBSCRIBE: the client's roles by priority, then the
//     roles of its groups by the groups' priority; in a role its rules of the kind by priority;
//     the first rule that matches decides; none: the default of the kind, which never opens
//     $CONTROL. A role without allowwildcardsubs (there unless taken away) denies a filter with
//     wildcards before its rules are asked. Who is no client of ours has nothing; anonymous clients
//     have the anonymous group.
// I3  Whoever a change concerns is disconnected (0x98), as by the plugin.
// I4  Changes live in RAM until there is a disk.
//
// Source: the plugin's documentation and mosquitto_ctrl-dynsec(1); behaviour of 2.0.11.
#pragma once
#include "base/json.h"
#include "broker/broker.h"
#include "broker/password.h"

struct dynsec;

#define DYNSEC_TOPIC "$CONTROL/dynamic-security/v1"

struct dynsec_fault {
  u32 line;  // of the file; 0 = the whole
  char text[120];
};

// Divides `memory` (at least 512 KiB, aligned to 64, zeroed). `random` fills salts.
struct dynsec *dynsec_init(struct broker *b, struct span memory, const struct siphash_key *key,
                           void (*random)(struct span out));
// Writes where a session's connection comes from, without its port; false: it is offline.
typedef bool dynsec_address(const struct session *s, struct writer *out);
// For the connections of getClient. NULL: none are shown.
void dynsec_set_address(struct dynsec *d, dynsec_address *address);
// Takes over the plugin's file in place of what is there. ERR_INVALID with *fault: a text that is
// no JSON changes nothing; with another mistake there are no clients then: load beside what is in
// force. The broker is told by whoever puts it in force (broker_set_access).
enum err dynsec_load(struct dynsec *d, struct bytes file, struct dynsec_fault *fault);
// Counts its changes on from what it takes the place of.
void dynsec_follow(struct dynsec *d, const struct dynsec *before);
// Access rules and passwords, as the broker and the server ask (struct access_rules,
// struct login_source).
bool dynsec_allows(const void *dynsec, const struct access_who *who, enum access_kind kind,
                   struct bytes topic);
bool dynsec_find(const void *dynsec, const struct access_who *who, struct password_hash *out);
// One message to DYNSEC_TOPIC: works its commands off and publishes the answer to
// DYNSEC_TOPIC/response. A handler for broker_set_control.
void dynsec_control(void *dynsec, const struct access_who *who, struct bytes payload, u64 now_ns);

struct dynsec_stats {
  u32 clients, groups, roles;
  u64 changes;
};
struct dynsec_stats dynsec_stats(const struct dynsec *d);
