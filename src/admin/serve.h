// SPDX-License-Identifier: Apache-2.0
// From a configuration to service: contexts, listeners, addresses; and what the console says about
// it.
#pragma once
#include "admin/config.h"
#include "admin/limits.h"
#include "loop/carve.h"
#include "loop/core.h"

// One formatted line for the console.
void say(const char *format, ...) PRINTF_LIKE(1, 2);
// The configuration that was found (source.h), parsed; every complaint is printed. NULL: there is
// none, or it has errors (said on the console).
const struct config *serve_config(struct carve *carve);
// The configured ceilings, put into the limits.
void serve_limits(const struct config *c, struct limits *l);
// Makes the TLS contexts and checks them; `listen` false: only that (--check). False: said on the
// console.
bool serve_listeners(struct core *core, const struct config *c, bool listen);
// Addresses of every NIC: as configured, or by DHCP (also without a configuration).
void serve_addresses(struct core *core, const struct config *c);
// Says on the console when an address or the link comes or goes. A stage of the loop.
bool serve_watch(struct core *core, void *unused);
