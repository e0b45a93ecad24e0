// SPDX-License-Identifier: Apache-2.0
// The stub resolver of one core: names to addresses, asked of the name servers that the
// configuration, DHCP or routers name. IPv6 addresses come first, and are asked for only where
// there is a way to them. Few and rare: bridges, time, logs.
#pragma once
#include "net/dns_message.h"
#include "net/net.h"

#define DNS_QUERIES_MAX 8u
#define DNS_SERVERS_MAX 4u

// Called once, from the network's timer or poll stage.
typedef void dns_handler(void *user, enum dns_result result, const struct dns_answer *answer);

// Asks for `name` (copied). ERR_INVALID: not a name. ERR_LIMIT: too many questions are open.
// ERR_NOT_FOUND: no name server is known. The handler is not called from inside this call.
enum err dns_ask(struct net *net, struct bytes name, dns_handler *handler, void *user);
// Forgets the question of this user.
void dns_cancel(struct net *net, const void *user);
// Servers of the configuration; they come before those of DHCP. count <= DNS_SERVERS_MAX.
void dns_set_servers(struct net *net, const struct ip_addr *address, u32 count);
