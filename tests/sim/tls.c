// SPDX-License-Identifier: Apache-2.0
// The clients' side of TLS, by our own library as a client: handshake, records. What the library
// allocates for good lies in the broker's process (one library, one heap), so a power cut ends the
// clients' connections first, and each boot makes context and caches anew.
#include "tests/sim/game.h"

static struct tls_context *context;

void tls_boot(void) {
  struct span memory = game->cipher_memory;
  context = NULL;
  memset(memory.ptr, 0, memory.len);
  game->ciphers = tls_cipher_cache_init(memory, CIPHER_SLOTS);
}

void tls_memory(void) {
  if (game->tls) {
    game->cipher_memory = sim_shared(tls_cipher_cache_bytes(CIPHER_SLOTS));
  }
  for (u32 n = 0; game->tls && n < game->clients; n++) {
    game->client[n].arena = sim_shared(TLS_ARENA_BYTES);
  }
}

static struct tls_time now(void) {
  u64 s = plat_wall().unix_ns / SIM_S;
  return (struct tls_time){.unix_s = s, .lower_unix_s = s, .trusted = true};
}

void tls_begin(struct client *c) {
  struct tls_time t = now();
  struct tls_problem problem;
  struct tls_config config = {.client = true,
                              .ca = pki.ca,
                              .certificate = pki.client_certificate,
                              .key = pki.client_key,
                              .alpn = BYTES_LIT("mqtt")};
  if (context == NULL) {  // the broker's process has made the library's heap by now
    context = tls_context_new(&config, &t, &problem);
  }
  if (context == NULL) {
    sim_fail("harness: TLS context: %s", problem.reason);
  }
  c->handshake =
      tls_handshake_begin_client(context, c->arena, &t, BYTES_LIT("broker.simulation"), false);
  ASSERT(c->handshake != NULL);
  c->record_len = 0;
}

void tls_end(struct client *c) {
  if (c->handshake != NULL) {
    tls_handshake_abort(c->handshake);
    c->handshake = NULL;
  }
  if (c->sealed) {
    tls_record_fini(&c->tls, game->ciphers);
    c->sealed = false;
  }
}

// One step; true: it is done, MQTT begins.
static bool step(struct client *c, bool *more) {
  struct tcp_conn *conn = c->line->conn;
  struct net *net = game->core[c->host].net;
  struct txbuf *b = tcp_room(conn) == 0 ? NULL : txbuf_take(net, TXBUF_LARGE, TXBUF_DATA);
  u32 consumed = 0;
  u32 produced = 0;
  *more = false;
  if (b == NULL) {
    return false;
  }
  struct span in = tcp_peek(conn);
  enum tls_step result = tls_handshake_step(c->handshake, span_bytes(in), &consumed,
                                            span_of(b->data, b->cap), &produced);
  if (consumed > 0) {
    tcp_consume(conn, consumed);
  }
  b->len = (u16)produced;
  if (produced > 0) {
    tcp_send(conn, b);
  } else {
    txbuf_unref(net, b);
  }
  if (result == TLS_STEP_FAILED) {
    sim_fail("client %u: TLS handshake: %s", c->number, tls_handshake_failure(c->handshake).text);
  }
  *more = result == TLS_STEP_WANT_OUTPUT || (result == TLS_STEP_WANT_INPUT && consumed > 0);
  return result == TLS_STEP_DONE;
}

bool tls_shake(struct client *c) {
  bool done = false;
  for (bool more = true; more && !done;) {
    done = step(c, &more);
  }
  if (done) {
    tls_handshake_finish(c->handshake, &c->tls, NULL);
    c->handshake = NULL;
    c->sealed = true;
    sim_count(OWN_TLS, 1);
  }
  return done;
}

// Bytes of the record that has begun: its head's until that is there.
static u32 record_wants(const struct client *c) {
  u32 want = c->record_len < TLS_RECORD_HEAD ? TLS_RECORD_HEAD : tls_record_length(c->record);
  if (want == 0) {
    sim_fail("client %u: no TLS record", c->number);
  }
  return want;
}

u32 tls_read(struct client *c, u8 *out) {
  struct tcp_conn *conn = c->line->conn;
  u32 want = record_wants(c);
  struct span content;
  while (c->record_len < want) {
    u32 n = tcp_peek_copy(conn, 0, span_of(c->record + c->record_len, want - c->record_len));
    if (n == 0) {
      return 0;
    }
    tcp_consume(conn, n);
    c->record_len += n;
    want = record_wants(c);
  }
  c->record_len = 0;
  enum tls_open result = tls_open(&c->tls, game->ciphers, span_of(c->record, want), &content);
  if (result == TLS_OPEN_FAILED || result == TLS_OPEN_PEER_ALERT) {
    sim_fail("client %u: TLS record: alert %u", c->number, c->tls.alert);
  }
  if (result != TLS_OPEN_DATA) {
    return result == TLS_OPEN_CLOSED ? 0 : U32_MAX;
  }
  memcpy(out, content.ptr, content.len);
  return (u32)content.len;
}

u32 tls_write(struct client *c, struct txbuf *b, u32 len) {
  return tls_seal(&c->tls, game->ciphers, span_of(b->data, b->cap), len, TLS_CONTENT_DATA);
}
