// SPDX-License-Identifier: Apache-2.0
// The program's cores: each has its own network, broker and server, made at start by core 0 out of
// its share of the memory (limits.h), and run by its own loop. Core 0 has the console, $SYS, the
// configuration and the bridges; what these must do elsewhere goes by mail.
//
// I1  A core's parts are touched by core 0 before cores_loop, and by that core alone after it.
// I2  Cores end together: core 0 says so, each tells its clients, core 0 leaves last.
#pragma once
#include "admin/limits.h"
#include "loop/carve.h"
#include "loop/core.h"

struct config;

// Takes memory for every core's parts and puts them together. False: there is too little.
bool cores_init(struct carve *carve, const struct limits *l);
u32 cores_count(void);  // 1 at least, once there is a core
struct core *cores_at(u32 i);
// Rules, passwords, limits of the log and listeners on the cores other than 0, which has them.
// False: said on the console.
bool cores_serve(const struct config *c);
// Runs `run` on every core but 0, each on its own, and returns when all have: for what is rare
// (a reload, counters), and short. Before cores_loop and with one core: at once, here. Of core 0.
void cores_do(void (*run)(struct core *core, void *arg), void *arg);
// Lets the other cores run; returns when core 0 and all others are done.
void cores_loop(void);
// The end was asked for: also of the other cores. A stage of core 0's loop.
bool cores_stop_stage(struct core *core, void *unused);
