// SPDX-License-Identifier: Apache-2.0
// A small TLS server over plain sockets, for tests of src/tls with real clients: one connection
// after the other, a line on standard output for each event.
//   tls_server --cert F --key F [--ca F] [--crl F] [--open] [--alpn] [--no-tickets]
// Prints "listening PORT" (127.0.0.1, the first free port from 20000 + process number). SIGHUP
// loads all files again. A connection's lines are echoed; "update" sends a KeyUpdate that asks for
// the client's, "close" ends it with close_notify.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "tls/record.h"
#include "tls/tls.h"

static const char *path_cert, *path_key, *path_ca, *path_crl;
static bool is_open, alpn, no_tickets;
static struct tls_context *context;
static struct tls_cipher_cache *cache;
static volatile sig_atomic_t reload;

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "assertion failed at %s: %s\n", where, what);
  abort();
}
static void random_bytes(struct span out) {
  for (usize pos = 0; pos < out.len;) {
    ssize_t n = getrandom(out.ptr + pos, out.len - pos, 0);
    pos += n > 0 ? (usize)n : 0;
  }
}
static void on_hup(int signal_number) {
  (void)signal_number;
  reload = 1;
}
static struct tls_time now(void) {
  u64 s = (u64)time(NULL);
  return (struct tls_time){s, s, true};
}

static struct bytes load(const char *path) {
  if (path == NULL) {
    return bytes_of("", 0);
  }
  FILE *f = fopen(path, "rb");
  if (f == NULL) {
    return bytes_of("", 0);  // a CRL may come later
  }
  u8 *data = malloc(1u << 20);
  usize len = fread(data, 1, 1u << 20, f);
  fclose(f);
  return bytes_of(data, len);
}

static void load_context(void) {
  struct tls_config config = {.certificate = load(path_cert),
                              .key = load(path_key),
                              .ca = load(path_ca),
                              .crl = load(path_crl),
                              .require_certificate = !is_open,
                              .alpn_mqtt = alpn,
                              .tickets = !no_tickets};
  memset(config.ticket_key, 3, sizeof config.ticket_key);
  struct tls_problem problem;
  struct tls_time t = now();
  struct tls_context *fresh = tls_context_new(&config, &t, &problem);
  if (fresh == NULL) {
    printf("problem input=%d line=%u %s\n", (int)problem.input, problem.line, problem.reason);
    exit(1);
  }
  tls_context_unref(context);
  context = fresh;
  printf("loaded\n");
}

static bool send_all(int fd, const u8 *data, u32 len) {
  while (len > 0) {
    ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
    if (n <= 0) {
      return false;
    }
    data += n;
    len -= (u32)n;
  }
  return true;
}

// --- One connection

struct connection {
  int fd;
  u32 len;  // bytes in buf
  struct tls_record record;
  u8 buf[TLS_RECORD_MAX];
};

static void print_identity(const struct tls_identity *id) {
  printf("ok resumed=%d cert=%d suite=%04x group=%u alpn=%d cn=%.*s subject=%.*s\n", id->resumed,
         id->has_certificate, id->cipher_suite, id->group, id->alpn_mqtt, (int)id->cn.len,
         id->text + id->cn.off, (int)id->subject.len, id->text + id->subject.off);
}

static void consume(struct connection *c, u32 n) {
  memmove(c->buf, c->buf + n, c->len - n);
  c->len -= n;
}

static bool shake(struct connection *c) {
  static u8 arena[TLS_ARENA_BYTES] ALIGNED(64);
  static u8 out[4096];
  struct tls_time t = now();
  struct tls_handshake *hs = tls_handshake_begin(context, span_of(arena, sizeof arena), &t);
  for (;;) {
    u32 consumed = 0;
    u32 produced = 0;
    enum tls_step step = tls_handshake_step(hs, bytes_of(c->buf, c->len), &consumed,
                                            span_of(out, sizeof out), &produced);
    consume(c, consumed);
    bool sent = send_all(c->fd, out, produced);
    if (step == TLS_STEP_FAILED) {
      struct tls_failure f = tls_handshake_failure(hs);
      printf("refused reason=%d alert=%u %s\n", (int)f.reason, f.alert, f.text);
      break;
    }
    if (step == TLS_STEP_DONE) {
      struct tls_identity id;
      tls_handshake_finish(hs, &c->record, &id);
      print_identity(&id);
      return sent;
    }
    if (step == TLS_STEP_WANT_INPUT) {
      ssize_t n = recv(c->fd, c->buf + c->len, sizeof c->buf - c->len, 0);
      if (n <= 0) {
        printf("gone during the handshake\n");
        break;
      }
      c->len += (u32)n;
    }
  }
  tls_handshake_abort(hs);
  return false;
}

static bool reply(struct connection *c, const u8 *data, u32 len) {
  static u8 out[TLS_RECORD_MAX];
  memcpy(out + TLS_RECORD_HEAD, data, len);
  u32 n = tls_seal(&c->record, cache, span_of(out, sizeof out), len, TLS_CONTENT_DATA);
  return send_all(c->fd, out, n);
}

static bool end_with(struct connection *c, u8 alert) {
  u8 out[TLS_ALERT_RECORD_BYTES];
  u32 n = tls_seal_alert(&c->record, cache, span_of(out, sizeof out), alert);
  send_all(c->fd, out, n);
  return false;
}

static bool update(struct connection *c, bool request) {
  u8 out[TLS_KEY_UPDATE_RECORD_BYTES];
  u32 n = tls_seal_key_update(&c->record, cache, span_of(out, sizeof out), request);
  return send_all(c->fd, out, n);
}

// Handles one record; false ends the connection.
static bool handle(struct connection *c, u32 record_len) {
  struct span content = {NULL, 0};
  u32 epoch = c->record.read.epoch;
  enum tls_open got = tls_open(&c->record, cache, span_of(c->buf, record_len), &content);
  if (c->record.read.epoch != epoch) {
    printf("client changed its key to epoch %u\n", c->record.read.epoch);
  }
  switch (got) {
  case TLS_OPEN_DATA: break;
  case TLS_OPEN_NOTHING: return true;
  case TLS_OPEN_KEY_UPDATE_REPLY: return update(c, false);
  case TLS_OPEN_CLOSED: printf("close_notify\n"); return end_with(c, 0);
  case TLS_OPEN_PEER_ALERT: printf("peer alert=%u\n", c->record.alert); return false;
  default: printf("bad record alert=%u\n", c->record.alert); return end_with(c, c->record.alert);
  }
  struct bytes text = span_bytes(content);
  printf("data %.*s\n", (int)MIN(text.len, strcspn((const char *)text.ptr, "\r\n")), text.ptr);
  if (bytes_starts_with(text, BYTES_LIT("update"))) {
    return update(c, true) && reply(c, (const u8 *)"updated\n", 8);
  }
  if (bytes_starts_with(text, BYTES_LIT("close"))) {
    return end_with(c, 0);
  }
  return reply(c, text.ptr, (u32)text.len);
}

static void serve(int fd) {
  static struct connection c;
  memset(&c, 0, sizeof c);
  c.fd = fd;
  if (!shake(&c)) {
    return;
  }
  bool more = true;
  while (more) {
    u32 record_len = c.len >= TLS_RECORD_HEAD ? tls_record_length(c.buf) : 0;
    if (c.len >= TLS_RECORD_HEAD && record_len == 0) {
      printf("bad header alert=%u\n", tls_record_fault(c.buf));
      end_with(&c, tls_record_fault(c.buf));
      break;
    }
    if (record_len != 0 && c.len >= record_len) {
      more = handle(&c, record_len);
      consume(&c, record_len);
      continue;
    }
    ssize_t n = recv(fd, c.buf + c.len, sizeof c.buf - c.len, 0);
    if (n <= 0) {
      printf("gone\n");
      break;
    }
    c.len += (u32)n;
  }
  tls_record_fini(&c.record, cache);
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    const char **path = strcmp(argv[i], "--cert") == 0  ? &path_cert
                        : strcmp(argv[i], "--key") == 0 ? &path_key
                        : strcmp(argv[i], "--ca") == 0  ? &path_ca
                        : strcmp(argv[i], "--crl") == 0 ? &path_crl
                                                        : NULL;
    if (path != NULL && value != NULL) {
      *path = value;
      i++;
    } else if (strcmp(argv[i], "--open") == 0) {
      is_open = true;
    } else if (strcmp(argv[i], "--alpn") == 0) {
      alpn = true;
    } else if (strcmp(argv[i], "--no-tickets") == 0) {
      no_tickets = true;
    } else {
      fprintf(stderr, "usage: tls_server --cert F --key F [--ca F] [--crl F] [--open] [--alpn]\n");
      exit(2);
    }
  }
}

int main(int argc, char **argv) {
  parse(argc, argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct sigaction action = {.sa_handler = on_hup};
  sigaction(SIGHUP, &action, NULL);
  tls_init(span_of(aligned_alloc(64, TLS_HEAP_BYTES), TLS_HEAP_BYTES), random_bytes);
  usize cache_len = tls_cipher_cache_bytes(8);
  cache = tls_cipher_cache_init(
      span_of(aligned_alloc(64, ALIGN_UP(cache_len, (usize)64)), cache_len), 8);
  load_context();
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  u16 port = (u16)(20000 + getpid() % 10000);
  do {
    address.sin_port = htons(port++);
  } while (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 && port < 32000);
  if (listen(listener, 8) != 0) {
    perror("tls_server");
    return 1;
  }
  printf("listening %u\n", ntohs(address.sin_port));
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (reload) {
      reload = 0;
      load_context();
    }
    if (fd < 0) {
      continue;
    }
    struct timeval wait = {10, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    serve(fd);
    close(fd);
    printf("end\n");
  }
}
