// SPDX-License-Identifier: Apache-2.0
// What belongs to one core. State is touched by its own core only; `struct core *` is the first
// parameter of what touches it. Cross-core work goes through mailboxes (mailbox.h).
#pragma once
#include "base/hash.h"
#include "base/list.h"
#include "loop/pool.h"
#include "loop/wheel.h"
#include "plat/plat.h"

struct net;      // net/net.h
struct server;   // server/server.h
struct broker;   // broker/broker.h
struct mailbox;  // loop/mailbox.h
struct epoch;    // loop/epoch.h

// What a timer's kind means; the loop hands the expired timer to this owner.
enum timer_kind {
  TIMER_TCP,
  TIMER_HALF,
  TIMER_NET,
  TIMER_CONN,
  TIMER_LOGIN,
  TIMER_SESSION,
  TIMER_BROKER,
  TIMER_ADMIN,
  TIMER_BRIDGE,
  TIMER_KIND_COUNT
};

struct core;

// One stage of a turn. Returns true when it did something (the core then does not sleep).
struct stage {
  const char *name;
  bool (*run)(struct core *core, void *ctx);
  void *ctx;
};
#define STAGE_MAX 16u

struct core {
  u32 id;
  u64 now_ns;  // the turn's time: read once a turn
  struct wheel wheel;
  void (*on_timer[TIMER_KIND_COUNT])(struct core *core, u32 timer, void *owner);
  struct siphash_key hash_key;  // random per boot
  struct stage stages[STAGE_MAX];
  u32 stage_count;
  bool stop;
  u64 turns;
  u64 idle_turns;
  struct net *net;
  struct server *server;
  struct broker *broker;
  struct mailbox *mail;  // NULL: there is one core
  struct epoch *epoch;   // shared by all; NULL: there is one core
};
