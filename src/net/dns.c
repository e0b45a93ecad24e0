// SPDX-License-Identifier: Apache-2.0
// Questions under way. Each goes out from a port and with an id of its own, both random: together
// about 30 bits that somebody off the path would have to guess (RFC 5452 4).
//
// Q1  A question's port is bound while it is open, and no longer.
// Q2  Servers are asked in turn, 1 s, 2 s, 4 s and 4 s apart; the first good answer counts.
#include "net/dns.h"

#include "net/stack.h"

#define PORT 53u
#define TRIES 4u
#define SECOND 1000000000ull

static u32 servers(const struct net *net, struct ip_addr out[DNS_SERVERS_MAX + 2]) {
  u32 n = 0;
  for (u32 i = 0; i < net->dns.server_count; i++) {
    out[n++] = net->dns.server[i];
  }
  for (u32 i = 0; i < net->nic_count && n < DNS_SERVERS_MAX; i++) {
    for (u32 k = 0; k < 2; k++) {
      if (net->nic[i].dns[k] != 0 && net->nic[i].address != 0) {
        out[n++] = ip_of4(net->nic[i].dns[k]);
      }
    }
  }
  return n;
}

static void send(struct net *net, struct dns_query *q) {
  u8 bytes[DNS_QUERY_MAX];
  struct ip_addr list[DNS_SERVERS_MAX + 2];
  u32 count = servers(net, list);
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  q->next_ns = net->core->now_ns + (SECOND << MIN(q->tries, 2u));
  if (count > 0) {
    q->asked = list[q->tries % count];
    dns_query_write(&w, q->id, bytes_of(q->name, q->name_len));
    ASSERT(w.err == ERR_OK);
    struct nic *nic = ip_route(net, q->asked);
    struct udp_packet p = {.target = q->asked,
                           .source_port = q->port,
                           .target_port = PORT,
                           .payload = writer_bytes(&w)};
    if (nic != NULL) {
      (void)udp_send(net, nic->index, &p);  // lost is lost: the next try is near
    }
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

static void on_packet(struct net *net, void *user, const struct udp_packet *p) {
  struct dns_query *q = user;
  struct dns_answer answer;
  if (!ip_equal(p->source, q->asked) || p->source_port != PORT) {
    return;
  }
  enum dns_result result =
      dns_answer_read(p->payload, q->id, bytes_of(q->name, q->name_len), &answer);
  if (result == DNS_NOT_OURS) {
    return;
  }
  if (result == DNS_FAILED && q->tries < TRIES) {
    send(net, q);  // the next server may know
    return;
  }
  end(net, q, result, &answer);
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
  *q = (struct dns_query){
      .handler = handler, .user = user, .id = random[0], .port = port, .name_len = (u8)name.len};
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
  static const struct dns_answer none;
  for (u32 i = 0; i < DNS_QUERIES_MAX; i++) {
    struct dns_query *q = &net->dns.query[i];
    if (q->handler == NULL || net->core->now_ns < q->next_ns) {
      continue;
    }
    if (q->tries < TRIES) {
      send(net, q);
    } else {
      end(net, q, DNS_NO_ANSWER, &none);
    }
  }
}
