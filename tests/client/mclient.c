// SPDX-License-Identifier: Apache-2.0
#include "mclient.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct mc_world mc = {.host = "127.0.0.1", .port = 1883, .source_count = 1};
static int ep;

double mc_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double mc_cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void mc_init(void) {
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  ep = epoll_create1(0);
}

static int new_session(SSL *ssl, SSL_SESSION *s) {
  (void)ssl;
  if (mc.session) {
    SSL_SESSION_free(mc.session);
  }
  mc.session = s;
  return 1;
}

void mc_tls(const char *cert, const char *key, const char *ca) {
  mc.tls = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(mc.tls, TLS1_3_VERSION);
  SSL_CTX_set_verify(mc.tls, ca ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
  SSL_CTX_set1_groups_list(mc.tls, "X25519:P-256");
  SSL_CTX_set_ciphersuites(mc.tls, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_mode(mc.tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
  if (mc.resume) {
    SSL_CTX_set_session_cache_mode(mc.tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(mc.tls, new_session);
  }
  if ((ca && SSL_CTX_load_verify_locations(mc.tls, ca, NULL) != 1) ||
      SSL_CTX_use_certificate_chain_file(mc.tls, cert) != 1 ||
      SSL_CTX_use_PrivateKey_file(mc.tls, key, SSL_FILETYPE_PEM) != 1) {
    fprintf(stderr, "cannot load %s, %s or %s\n", cert, key, ca ? ca : "(no CA)");
    exit(1);
  }
}

void mc_fresh_certificates(const char *ca_key, uint32_t count) {
  FILE *f = fopen(ca_key, "r");
  EVP_PKEY *key = f ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : NULL;
  if (!key) {
    fprintf(stderr, "cannot read the CA's key %s\n", ca_key);
    exit(1);
  }
  fclose(f);
  mc.fresh = calloc(count, sizeof *mc.fresh);
  for (uint32_t i = 0; i < count; i++) {
    mc.fresh[i] = X509_dup(SSL_CTX_get0_certificate(mc.tls));
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(mc.fresh[i]),
                            (uint64_t)time(NULL) << 24 ^ (uint64_t)getpid() << 40 ^ i);
    if (X509_sign(mc.fresh[i], key, EVP_sha256()) <= 0) {
      fprintf(stderr, "cannot sign with %s\n", ca_key);
      exit(1);
    }
  }
  EVP_PKEY_free(key);
}

void mc_put(struct mclient *c, const void *data, size_t len) {
  if (c->out_len + len > c->out_cap) {
    c->out_cap = (c->out_len + len) * 2 + 4096;
    c->out = realloc(c->out, c->out_cap);
  }
  memcpy(c->out + c->out_len, data, len);
  c->out_len += len;
}

void mc_put_packet(struct mclient *c, uint8_t first, const uint8_t *body, size_t len) {
  uint8_t head[5] = {first};
  size_t n = 1, v = len;
  do {
    head[n] = (uint8_t)(v & 127);
    v >>= 7;
    head[n++] |= v ? 128 : 0;
  } while (v);
  mc_put(c, head, n);
  mc_put(c, body, len);
}

size_t mc_string(uint8_t *p, const char *s) {
  size_t n = strlen(s);
  p[0] = (uint8_t)(n >> 8);
  p[1] = (uint8_t)n;
  memcpy(p + 2, s, n);
  return n + 2;
}

uint16_t mc_next_pid(struct mclient *c) {
  c->pid = c->pid == 65535 ? 1 : (uint16_t)(c->pid + 1);
  return c->pid;
}

static void watch(struct mclient *c, bool write) {
  if (c->want_write != write) {
    c->want_write = write;
    struct epoll_event e = {.events = EPOLLIN | (write ? EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
  }
}

void mc_fail(struct mclient *c, const char *why) {
  if (mc.failures++ < 5 && !mc.tolerant) {
    fprintf(stderr, "client %u: %s\n", c->number, why);
    ERR_print_errors_fp(stderr);
  }
  ERR_clear_error();
  c->stage = MC_DONE;
  epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
}

// Bytes moved, 0 = would block, -1 = dead.
static ssize_t write_some(struct mclient *c, const uint8_t *p, size_t len) {
  if (c->ssl) {
    int n = SSL_write(c->ssl, p, (int)(len > 16384 ? 16384 : len));
    int e = n <= 0 ? SSL_get_error(c->ssl, n) : 0;
    return n > 0 ? n : e == SSL_ERROR_WANT_WRITE || e == SSL_ERROR_WANT_READ ? 0 : -1;
  }
  ssize_t n = send(c->fd, p, len, MSG_NOSIGNAL);
  return n >= 0 ? n : errno == EAGAIN ? 0 : -1;
}

static ssize_t read_some(struct mclient *c, uint8_t *p, size_t len) {
  if (c->ssl) {
    int n = SSL_read(c->ssl, p, (int)len);
    int e = n <= 0 ? SSL_get_error(c->ssl, n) : 0;
    return n > 0 ? n : e == SSL_ERROR_WANT_WRITE || e == SSL_ERROR_WANT_READ ? 0 : -1;
  }
  ssize_t n = recv(c->fd, p, len, 0);
  return n > 0 ? n : n < 0 && errno == EAGAIN ? 0 : -1;
}

void mc_flush(struct mclient *c) {
  while (c->out_pos < c->out_len && c->stage != MC_DONE) {
    ssize_t n = write_some(c, c->out + c->out_pos, c->out_len - c->out_pos);
    if (n == 0) {
      watch(c, true);
      return;
    }
    if (n < 0) {
      mc_fail(c, "write failed");
      return;
    }
    c->out_pos += (size_t)n;
  }
  c->out_pos = c->out_len = 0;
  watch(c, false);
}

static void parse(struct mclient *c) {
  size_t pos = 0;
  while (c->stage != MC_DONE) {
    size_t left = c->in_len - pos, i = 1;
    uint32_t rem = 0, shift = 0;
    bool whole = false;
    while (i < left && i < 5 && !whole) {
      rem |= (uint32_t)(c->in[pos + i] & 127) << shift;
      shift += 7;
      whole = !(c->in[pos + i++] & 128);
    }
    if (!whole || left < i + rem) {
      break;
    }
    mc.on_packet(c, c->in + pos, i, rem);
    pos += i + rem;
  }
  memmove(c->in, c->in + pos, c->in_len - pos);
  c->in_len -= pos;
}

static void ended(struct mclient *c) {
  if (mc.on_end) {
    c->stage = MC_DONE;
    epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
    mc.on_end(c);
  } else {
    mc_fail(c, "closed by the broker");
  }
}

static void readable(struct mclient *c) {
  for (int turn = 0; turn < 8 && c->stage != MC_DONE; turn++) {
    if (c->in_cap - c->in_len < 16384) {
      c->in_cap = c->in_cap * 2 + 65536;
      c->in = realloc(c->in, c->in_cap);
    }
    size_t room = c->in_cap - c->in_len;
    ssize_t n = read_some(c, c->in + c->in_len, room);
    if (n < 0) {
      ended(c);
      return;
    }
    if (n == 0) {
      break;
    }
    c->in_len += (size_t)n;
    parse(c);
    if (!c->ssl && (size_t)n < room) {
      break;
    }
  }
  if (c->in_len == 0 && c->in_cap > 0) {  // an idle client costs this program nothing
    free(c->in);
    c->in = NULL;
    c->in_cap = 0;
  }
}

static void drive_tls(struct mclient *c) {
  int r = SSL_connect(c->ssl);
  int e = r == 1 ? 0 : SSL_get_error(c->ssl, r);
  if (r == 1) {
    mc.tls_done++;
    mc.tls_resumed += SSL_session_reused(c->ssl) ? 1 : 0;
    watch(c, false);
    c->stage = MC_CONNACK;
    mc.on_open(c);
  } else if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
    watch(c, e == SSL_ERROR_WANT_WRITE);
  } else {
    mc_fail(c, "TLS handshake failed");
  }
}

static void on_connected(struct mclient *c) {
  int err = 0;
  socklen_t len = sizeof err;
  getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
  if (err) {
    mc_fail(c, strerror(err));
  } else if (c->mute) {
    watch(c, false);
    c->stage = MC_READY;
  } else if (mc.tls) {
    c->ssl = SSL_new(mc.tls);
    SSL_set_fd(c->ssl, c->fd);
    if (mc.fresh) {
      SSL_use_certificate(c->ssl, mc.fresh[c->number]);
    }
    if (mc.resume && mc.session) {
      SSL_set_session(c->ssl, mc.session);
    }
    c->stage = MC_TLS;
    drive_tls(c);
  } else {
    watch(c, false);
    c->stage = MC_CONNACK;
    mc.on_open(c);
  }
}

static void on_event(struct mclient *c, uint32_t events) {
  if (c->stage == MC_CONNECTING) {
    on_connected(c);
  } else if (c->stage == MC_TLS) {
    drive_tls(c);
  } else {
    if (events & EPOLLOUT) {
      mc_flush(c);
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
      readable(c);
    }
  }
}

void mc_poll(int timeout_ms) {
  struct epoll_event events[256];
  int n = epoll_wait(ep, events, 256, timeout_ms);
  for (int i = 0; i < n; i++) {
    struct mclient *c = events[i].data.ptr;
    if (c->stage != MC_DONE) {
      on_event(c, events[i].events);
    }
    if (mc.eager && c->stage >= MC_CONNACK && c->stage != MC_DONE && c->out_len > c->out_pos) {
      mc_flush(c);
    }
  }
}

static void bind_source(struct mclient *c) {  // many source addresses: more connections than ports
  int one = 1;
  struct sockaddr_in from = {.sin_family = AF_INET};
  inet_pton(AF_INET, mc.source, &from.sin_addr);
  from.sin_addr.s_addr = htonl(ntohl(from.sin_addr.s_addr) + c->number % (uint32_t)mc.source_count);
  setsockopt(c->fd, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &one, sizeof one);
  if (bind(c->fd, (struct sockaddr *)&from, sizeof from) != 0) {
    perror("bind");
    exit(1);
  }
}

void mc_open(struct mclient *c, uint32_t number, int role, int version) {
  *c = (struct mclient){.role = role, .number = number, .version = version, .want_write = true};
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int one = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (mc.source) {
    bind_source(c);
  }
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)mc.port)};
  inet_pton(AF_INET, mc.host, &to.sin_addr);
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
  if (connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
    mc_fail(c, strerror(errno));
  }
}

void mc_close(struct mclient *c, bool abrupt) {
  if (abrupt) {
    struct linger l = {1, 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
  }
  if (c->ssl) {  // as if both had said good-bye: otherwise OpenSSL takes the session for a bad one
    SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(c->ssl);
  }
  close(c->fd);
  free(c->in);
  free(c->out);
  c->in = c->out = NULL;
  c->stage = MC_DONE;
}

bool mc_options(const struct mc_option *table, size_t count, int argc, char **argv, int from) {
  for (int i = from; i < argc; i++) {
    size_t k = 0;
    while (k < count && strcmp(table[k].name, argv[i]) != 0) {
      k++;
    }
    if (k == count || (!table[k].flag && i + 1 >= argc)) {
      return false;
    }
    if (table[k].flag) {
      *table[k].flag = true;
    } else if (table[k].number) {
      *table[k].number = atoi(argv[++i]);
    } else {
      *table[k].text = argv[++i];
    }
  }
  return true;
}
