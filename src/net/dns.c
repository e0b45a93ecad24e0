// SPDX-License-Identifier: Apache-2.0
// Questions under way. Each goes out from a port and with an id of its own, both random: together
// about 30 bits that somebody off the path would have to guess (RFC 5452 4).
//
// Q1  A question's port is bound while it is open, and no longer.
// Q2  Servers are asked in turn, 1 s, 2 s, 4 s and 4 s apart; the first good answer counts.
// Q3  IPv6 addresses are asked for first, twice at most, then IPv4's: a server that never answers
// the
//     first kind of question costs three seconds (RFC 8305 3 has both at once: for browsers).
#include "net/dns.h"

#include "net/stack.h"

#define PORT 53u
#define TRIES 4u
#define TRIES6 2u
#define SECOND 1000000000ull

static u32 servers(const struct net *net, struct ip_addr out[DNS_SERVERS_MAX + 2]) {
  u32 n = 0;
  for (u32 i = 0; i < net->dns.server_count; i++) {
    out[n++] = net->dns.server[i];
  }
  for (u32 i = 0; i < net->nic_count; i++) {
    const struct nic *nic = &net->nic[i];
    for (u32 k = 0; k < 2 && n < DNS_SERVERS_MAX; k++) {
      if (nic->dns[k] != 0 && nic->address != 0) {
        out[n++] = ip_of4(nic->dns[k]);
      }
    }
    for (u32 k = 0; k < IP6_DNS_MAX && n < DNS_SERVERS_MAX; k++) {
      if (!ip_is_none(nic->ip6.dns[k].address) && nic->ip6.dns[k].until_ns > net->core->now_ns) {
        out[n++] = nic->ip6.dns[k].address;
      }
    }
  }
  return n;
}

// Whether the Internet of that family can be reached from here.
static bool has_way6(struct net *net) {
  return ip_route(net, (struct ip_addr){0x2000ull << 48, 1}) != NULL;
}
static bool has_way4(const struct net *net) {
  for (u32 i = 0; i < net->nic_count; i++) {
    if (net->nic[i].address != 0) {
      return true;
    }
  }
  return false;
}

static void send(struct net *net, struct dns_query *q) {
  u8 bytes[DNS_QUERY_MAX];
  struct ip_addr list[DNS_SERVERS_MAX + 2];
  u32 count = servers(net, list);
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  q->next_ns = net->core->now_ns + (SECOND << MIN(q->tries, 2u));
  if (count > 0) {
    q->asked = list[q->tries % count];
    dns_query_write(&w, q->id, bytes_of(q->name, q->name_len), q->type);
    ASSERT(w.err == ERR_OK);
    struct udp_packet p = {.target = q->asked,
                           .source_port = q->port,
                           .target_port = PORT,
                           .payload = writer_bytes(&w)};
    (void)udp_send_to(net, &p);  // lost is lost: the next try is near
  }
  q->tries++;
}

static void end(struct net *net, struct dns_query *q, enum dns_result result,
                const struct dns_answer *answer) {
  dns_handler *handler = q->handler;
  void *user = q->user;
  udp_unbind(net, q->port);
  *q = (struct dns_query){.handler = NULL};
  handler(user, result, answer);
}

// One family's question has its answer, or none: the other family's, or the end.
static void next(struct net *net, struct dns_query *q, enum dns_result result) {
  if (q->type == DNS_AAAA && has_way4(net)) {
    u16 random = 0;
    (void)plat_random(span_of(&random, sizeof random));
    q->id = random;
    q->type = DNS_A;
    q->tries = 0;
    send(net, q);
    return;
  }
  struct dns_answer found = q->found;
  end(net, q, found.count > 0 ? DNS_FOUND : result, &found);
}

static void keep(struct dns_query *q, const struct dns_answer *a) {
  q->found.ttl_s = q->found.count == 0 ? a->ttl_s : MIN(q->found.ttl_s, a->ttl_s);
  // Of eight IPv6 addresses the last ones give way to IPv4's.
  u32 most = q->type == DNS_AAAA ? DNS_ADDRESSES_MAX / 2 : DNS_ADDRESSES_MAX;
  for (u32 i = 0; i < a->count && q->found.count < most; i++) {
    q->found.address[q->found.count++] = a->address[i];
  }
}

static void on_packet(struct net *net, void *user, const struct udp_packet *p) {
  struct dns_query *q = user;
  struct dns_answer answer;
  if (!ip_equal(p->source, q->asked) || p->source_port != PORT) {
    return;
  }
  enum dns_result result =
      dns_answer_read(p->payload, q->id, bytes_of(q->name, q->name_len), q->type, &answer);
  if (result == DNS_NOT_OURS) {
    return;
  }
  if (result == DNS_FAILED && q->tries < (q->type == DNS_AAAA ? TRIES6 : TRIES)) {
    send(net, q);  // the next server may know
    return;
  }
  if (result == DNS_FOUND) {
    keep(q, &answer);
  }
  if (result == DNS_NO_NAME) {  // of no family
    end(net, q, result, &answer);
  } else {
    next(net, q, result);
  }
}

enum err dns_ask(struct net *net, struct bytes name, dns_handler *handler, void *user) {
  struct ip_addr list[DNS_SERVERS_MAX + 2];
  struct dns_query *q = NULL;
  ASSERT(handler != NULL);
  if (!dns_name_valid(name)) {
    return ERR_INVALID;
  }
  if (servers(net, list) == 0) {
    return ERR_NOT_FOUND;
  }
  for (u32 i = 0; i < DNS_QUERIES_MAX && q == NULL; i++) {
    q = net->dns.query[i].handler == NULL ? &net->dns.query[i] : NULL;
  }
  u16 random[2];
  (void)plat_random(span_of(random, sizeof random));
  u16 port = (u16)(49152 + random[1] % 16384);
  if (q == NULL || udp_bind(net, port, on_packet, q) != ERR_OK) {
    return ERR_LIMIT;
  }
  *q = (struct dns_query){.handler = handler,
                          .user = user,
                          .id = random[0],
                          .port = port,
                          .type = has_way6(net) ? DNS_AAAA : DNS_A,
                          .name_len = (u8)name.len};
  memcpy(q->name, name.ptr, name.len);
  send(net, q);
  return ERR_OK;
}

void dns_cancel(struct net *net, const void *user) {
  for (u32 i = 0; i < DNS_QUERIES_MAX; i++) {
    struct dns_query *q = &net->dns.query[i];
    if (q->handler != NULL && q->user == user) {
      udp_unbind(net, q->port);
      *q = (struct dns_query){.handler = NULL};
    }
  }
}

void dns_set_servers(struct net *net, const struct ip_addr *address, u32 count) {
  ASSERT(count <= DNS_SERVERS_MAX);
  net->dns.server_count = count;
  if (count > 0) {
    memcpy(net->dns.server, address, count * sizeof *address);
  }
}

void dns_tick(struct net *net) {
  for (u32 i = 0; i < DNS_QUERIES_MAX; i++) {
    struct dns_query *q = &net->dns.query[i];
    if (q->handler == NULL || net->core->now_ns < q->next_ns) {
      continue;
    }
    if (q->tries < (q->type == DNS_AAAA ? TRIES6 : TRIES)) {
      send(net, q);
    } else {
      next(net, q, DNS_NO_ANSWER);
    }
  }
}
