// SPDX-License-Identifier: Apache-2.0
// Load generator: many MQTT clients in one thread over epoll, plain or TLS 1.3 with client
// certificates (OpenSSL). Host program, for benchmarks and load tests only. Three commands:
//   handshakes  N full (or resumed) TLS handshakes + CONNECT + DISCONNECT, `parallel` at a time
//   flow        P publishers and S subscribers for T seconds, a window of undelivered messages
//   idle        opens N connections, one message each way on each, then waits for a line on stdin
// Prints one JSON object. Exit codes: 0 fine, 1 failed, 2 wrong usage.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum role { ROLE_SUB, ROLE_PUB, ROLE_HANDSHAKE, ROLE_IDLE };
enum stage { STAGE_CONNECTING, STAGE_TLS, STAGE_CONNACK, STAGE_SUBACK, STAGE_READY, STAGE_DONE };

struct client {
  int fd;
  SSL *ssl;
  enum role role;
  enum stage stage;
  uint32_t number;
  uint8_t *in;
  size_t in_len, in_cap;
  uint8_t *out;
  size_t out_pos, out_len, out_cap;
  bool want_write;
  uint32_t inflight;
  uint16_t pid;
  bool got_message;
};

static struct {
  const char *host, *cert, *key, *client_ip;
  int port, publishers, subscribers, qos, seconds, size, window, count, parallel, version, inflight, sources;
  bool resume, distinct;
} opt = {.host = "127.0.0.1", .port = 1883, .publishers = 1, .subscribers = 1, .seconds = 3, .size = 64,
         .window = 500, .count = 1000, .parallel = 1, .version = 4, .inflight = 20, .sources = 1};

static int ep;
static SSL_CTX *ctx;
static SSL_SESSION *session;
static uint64_t published, delivered, failures, tls_resumed, tls_done;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void put(struct client *c, const void *data, size_t len) {
  if (c->out_len + len > c->out_cap) {
    c->out_cap = (c->out_len + len) * 2 + 4096;
    c->out = realloc(c->out, c->out_cap);
  }
  memcpy(c->out + c->out_len, data, len);
  c->out_len += len;
}

static void watch(struct client *c, bool write) {
  if (c->want_write != write) {
    c->want_write = write;
    struct epoll_event e = {.events = EPOLLIN | (write ? EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
  }
}

static void fail_client(struct client *c, const char *why) {
  if (failures++ < 5) {
    fprintf(stderr, "client %u: %s\n", c->number, why);
    ERR_print_errors_fp(stderr);
  }
  ERR_clear_error();
  c->stage = STAGE_DONE;
  epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
}

// Bytes written, 0 = would block, -1 = dead.
static ssize_t write_some(struct client *c, const uint8_t *p, size_t len) {
  if (c->ssl) {
    int n = SSL_write(c->ssl, p, (int)(len > 16384 ? 16384 : len));
    int e = n <= 0 ? SSL_get_error(c->ssl, n) : 0;
    return n > 0 ? n : e == SSL_ERROR_WANT_WRITE || e == SSL_ERROR_WANT_READ ? 0 : -1;
  }
  ssize_t n = send(c->fd, p, len, MSG_NOSIGNAL);
  return n >= 0 ? n : errno == EAGAIN ? 0 : -1;
}

static ssize_t read_some(struct client *c, uint8_t *p, size_t len) {
  if (c->ssl) {
    int n = SSL_read(c->ssl, p, (int)len);
    int e = n <= 0 ? SSL_get_error(c->ssl, n) : 0;
    return n > 0 ? n : e == SSL_ERROR_WANT_WRITE || e == SSL_ERROR_WANT_READ ? 0 : -1;
  }
  ssize_t n = recv(c->fd, p, len, 0);
  return n > 0 ? n : n < 0 && errno == EAGAIN ? 0 : -1;
}

static void flush(struct client *c) {
  while (c->out_pos < c->out_len && c->stage != STAGE_DONE) {
    ssize_t n = write_some(c, c->out + c->out_pos, c->out_len - c->out_pos);
    if (n == 0) {
      watch(c, true);
      return;
    }
    if (n < 0) {
      fail_client(c, "write failed");
      return;
    }
    c->out_pos += (size_t)n;
  }
  c->out_pos = c->out_len = 0;
  watch(c, false);
}

static void put_packet(struct client *c, uint8_t first, const uint8_t *body, size_t len) {
  uint8_t head[5] = {first};
  size_t n = 1, v = len;
  do {
    head[n] = (uint8_t)(v & 127);
    v >>= 7;
    head[n++] |= v ? 128 : 0;
  } while (v);
  put(c, head, n);
  put(c, body, len);
}

static size_t put_string(uint8_t *p, const char *s) {
  size_t n = strlen(s);
  p[0] = (uint8_t)(n >> 8);
  p[1] = (uint8_t)n;
  memcpy(p + 2, s, n);
  return n + 2;
}

static void send_connect(struct client *c) {
  uint8_t b[128];
  char id[32];
  size_t n = put_string(b, "MQTT");
  b[n++] = (uint8_t)opt.version;
  b[n++] = 2; // clean start
  b[n++] = 0;
  b[n++] = 0; // no keep-alive
  if (opt.version == 5) {
    b[n++] = 0;
  }
  snprintf(id, sizeof id, "load-%d-%u", (int)getpid(), c->number);
  n += put_string(b + n, id);
  put_packet(c, 0x10, b, n);
  c->stage = STAGE_CONNACK;
  flush(c);
}

static void topic_of(const struct client *c, char *out, size_t cap) {
  if (c->role == ROLE_IDLE) {
    snprintf(out, cap, "idle/%u", c->number);
  } else {
    snprintf(out, cap, "load/t%u", opt.distinct ? c->number % 1000000 : 0);
  }
}

static void send_subscribe(struct client *c) {
  uint8_t b[128] = {0, 1};
  char topic[32];
  size_t n = 2;
  if (opt.version == 5) {
    b[n++] = 0;
  }
  topic_of(c, topic, sizeof topic);
  n += put_string(b + n, topic);
  b[n++] = (uint8_t)opt.qos;
  put_packet(c, 0x82, b, n);
  c->stage = STAGE_SUBACK;
  flush(c);
}

static void queue_publish(struct client *c) {
  static uint8_t b[300000];
  char topic[32];
  topic_of(c, topic, sizeof topic);
  size_t n = put_string(b, topic);
  if (opt.qos > 0) {
    c->pid = c->pid == 65535 ? 1 : (uint16_t)(c->pid + 1);
    b[n++] = (uint8_t)(c->pid >> 8);
    b[n++] = (uint8_t)c->pid;
    c->inflight++;
  }
  if (opt.version == 5) {
    b[n++] = 0;
  }
  memset(b + n, 'x', (size_t)opt.size);
  put_packet(c, (uint8_t)(0x30 | opt.qos << 1), b, n + (size_t)opt.size);
  published++;
}

static void on_connack(struct client *c, uint8_t code) {
  if (code != 0) {
    fail_client(c, "CONNACK refused");
  } else if (c->role == ROLE_SUB || c->role == ROLE_IDLE) {
    send_subscribe(c);
  } else if (c->role == ROLE_HANDSHAKE) {
    uint8_t bye[2] = {0xe0, 0};
    put(c, bye, 2);
    flush(c);
    c->stage = STAGE_DONE;
  } else {
    c->stage = STAGE_READY;
  }
}

static void on_packet(struct client *c, const uint8_t *p, size_t head) {
  const uint8_t *b = p + head;
  switch (p[0] >> 4) {
  case 2: on_connack(c, b[1]); break;
  case 9:
    c->stage = STAGE_READY;
    if (c->role == ROLE_IDLE) {
      queue_publish(c);
      flush(c);
    }
    break;
  case 3:
    delivered++;
    c->got_message = true;
    if ((p[0] >> 1 & 3) == 1) {
      size_t t = (size_t)(b[0] << 8 | b[1]) + 2;
      uint8_t ack[4] = {0x40, 2, b[t], b[t + 1]};
      put(c, ack, 4);
    }
    break;
  case 4: c->inflight--; break;
  default: break;
  }
}

static void parse(struct client *c) {
  size_t pos = 0;
  while (c->stage != STAGE_DONE) {
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
    on_packet(c, c->in + pos, i);
    pos += i + rem;
  }
  memmove(c->in, c->in + pos, c->in_len - pos);
  c->in_len -= pos;
}

static void readable(struct client *c) {
  for (int turn = 0; turn < 8 && c->stage != STAGE_DONE; turn++) {
    if (c->in_cap - c->in_len < 16384) {
      c->in_cap = c->in_cap * 2 + 65536;
      c->in = realloc(c->in, c->in_cap);
    }
    size_t room = c->in_cap - c->in_len;
    ssize_t n = read_some(c, c->in + c->in_len, room);
    if (n < 0) {
      fail_client(c, "closed by the broker");
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
  if (c->role == ROLE_IDLE && c->got_message && c->in_len == 0) { // keep the client's memory small
    free(c->in);
    c->in = NULL;
    c->in_cap = 0;
  }
}

static int new_session(SSL *ssl, SSL_SESSION *s) {
  (void)ssl;
  if (session) {
    SSL_SESSION_free(session);
  }
  session = s;
  return 1;
}

static void drive_tls(struct client *c) {
  int r = SSL_connect(c->ssl);
  int e = r == 1 ? 0 : SSL_get_error(c->ssl, r);
  if (r == 1) {
    tls_done++;
    tls_resumed += SSL_session_reused(c->ssl) ? 1 : 0;
    watch(c, false);
    send_connect(c);
  } else if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
    watch(c, e == SSL_ERROR_WANT_WRITE);
  } else {
    fail_client(c, "TLS handshake failed");
  }
}

static void on_connected(struct client *c) {
  int err = 0;
  socklen_t len = sizeof err;
  getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
  if (err) {
    fail_client(c, strerror(err));
  } else if (ctx) {
    c->ssl = SSL_new(ctx);
    SSL_set_fd(c->ssl, c->fd);
    if (opt.resume && session) {
      SSL_set_session(c->ssl, session);
    }
    c->stage = STAGE_TLS;
    drive_tls(c);
  } else {
    watch(c, false);
    send_connect(c);
  }
}

static void on_event(struct client *c, uint32_t events) {
  if (c->stage == STAGE_CONNECTING) {
    on_connected(c);
    return;
  }
  if (c->stage == STAGE_TLS) {
    drive_tls(c);
    return;
  }
  if (events & EPOLLOUT) {
    flush(c);
  }
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
    readable(c);
  }
}

static void bind_source(struct client *c) { // many source addresses: more connections than ports
  int one = 1;
  struct sockaddr_in from = {.sin_family = AF_INET};
  inet_pton(AF_INET, opt.client_ip, &from.sin_addr);
  from.sin_addr.s_addr = htonl(ntohl(from.sin_addr.s_addr) + c->number % (uint32_t)opt.sources);
  setsockopt(c->fd, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &one, sizeof one);
  if (bind(c->fd, (struct sockaddr *)&from, sizeof from) != 0) {
    perror("mqttload: bind");
    exit(1);
  }
}

static void open_client(struct client *c, enum role role, uint32_t number) {
  *c = (struct client){.role = role, .number = number, .want_write = true};
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int one = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (opt.client_ip) {
    bind_source(c);
  }
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
  inet_pton(AF_INET, opt.host, &to.sin_addr);
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
  if (connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
    fail_client(c, strerror(errno));
  }
}

static void close_client(struct client *c) {
  if (c->ssl) {
    SSL_free(c->ssl);
  }
  close(c->fd);
  free(c->in);
  free(c->out);
}

static void poll_events(int timeout_ms) {
  struct epoll_event events[256];
  int n = epoll_wait(ep, events, 256, timeout_ms);
  for (int i = 0; i < n; i++) {
    on_event(events[i].data.ptr, events[i].events);
  }
}

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void wait_for_go(void) { // the harness reads the broker's CPU time, then lets us go
  printf("ready\n");
  fflush(stdout);
  char go[8];
  if (!fgets(go, sizeof go, stdin)) {
    exit(1);
  }
}

static int run_handshakes(void) {
  struct client *c = calloc((size_t)opt.parallel, sizeof *c);
  bool *busy = calloc((size_t)opt.parallel, sizeof *busy);
  uint32_t started = 0, finished = 0, total = (uint32_t)opt.count;
  wait_for_go();
  double begin = now();
  while (finished < total && now() - begin < 120) {
    for (int i = 0; i < opt.parallel; i++) {
      if (!busy[i] && started < total) {
        open_client(&c[i], ROLE_HANDSHAKE, started++);
        busy[i] = true;
      }
    }
    poll_events(100);
    for (int i = 0; i < opt.parallel; i++) {
      if (busy[i] && c[i].stage == STAGE_DONE) {
        close_client(&c[i]);
        busy[i] = false;
        finished++;
      }
    }
  }
  double wall = now() - begin;
  printf("{\"done\": %u, \"failed\": %llu, \"tls\": %llu, \"resumed\": %llu, \"wall_s\": %.4f, "
         "\"per_s\": %.1f, \"client_cpu_s\": %.3f}\n",
         finished, (unsigned long long)failures, (unsigned long long)tls_done,
         (unsigned long long)tls_resumed, wall, finished / wall, cpu_seconds());
  return failures || finished < total;
}

static void wait_ready(struct client *c, int n) {
  double begin = now();
  bool ready = false;
  while (!ready && now() - begin < 20) {
    poll_events(100);
    ready = true;
    for (int i = 0; i < n; i++) {
      ready = ready && (c[i].stage == STAGE_READY || c[i].stage == STAGE_DONE);
    }
  }
}

static void publish_window(struct client *pubs, uint64_t fan) {
  for (int i = 0; i < opt.publishers; i++) {
    struct client *c = &pubs[i];
    uint32_t burst = 0;
    while (c->stage == STAGE_READY && c->out_len - c->out_pos < 65536 && burst++ < 64 &&
           published * fan < delivered + (uint64_t)opt.window * fan &&
           (opt.qos == 0 || c->inflight < (uint32_t)opt.inflight)) {
      queue_publish(c);
    }
    flush(c);
  }
}

static void flush_all(struct client *c, int n) {
  for (int i = 0; i < n; i++) {
    if (c[i].out_len != c[i].out_pos) {
      flush(&c[i]);
    }
  }
}

static int run_flow(void) {
  struct client *subs = calloc((size_t)opt.subscribers, sizeof *subs);
  struct client *pubs = calloc((size_t)opt.publishers, sizeof *pubs);
  for (int i = 0; i < opt.subscribers; i++) {
    open_client(&subs[i], ROLE_SUB, (uint32_t)i);
  }
  wait_ready(subs, opt.subscribers);
  for (int i = 0; i < opt.publishers; i++) {
    open_client(&pubs[i], ROLE_PUB, (uint32_t)i + 1000000);
  }
  wait_ready(pubs, opt.publishers);
  wait_for_go();
  uint64_t fan = (uint64_t)(opt.distinct ? 1 : opt.subscribers);
  double cpu0 = cpu_seconds(), begin = now();
  while (now() - begin < opt.seconds) {
    publish_window(pubs, fan);
    poll_events(1);
    flush_all(subs, opt.subscribers);
  }
  double wall = now() - begin, cpu = cpu_seconds() - cpu0, drain = now();
  uint64_t counted = delivered;
  while (delivered < published * fan && now() - drain < 10) {
    poll_events(10);
    flush_all(subs, opt.subscribers);
  }
  printf("{\"published\": %llu, \"delivered\": %llu, \"lost\": %lld, \"failed\": %llu, "
         "\"wall_s\": %.4f, \"per_s\": %.0f, \"client_share\": %.2f}\n",
         (unsigned long long)published, (unsigned long long)delivered,
         (long long)(published * fan - delivered), (unsigned long long)failures, wall,
         (double)counted / wall, cpu / wall);
  return failures != 0 || delivered != published * fan;
}

static int run_idle(void) {
  struct client *c = calloc((size_t)opt.count, sizeof *c);
  int opened = 0, ready = 0;
  double begin = now();
  while (ready < opt.count && now() - begin < 240 && failures == 0) {
    while (opened < opt.count && opened - ready < opt.parallel) {
      open_client(&c[opened], ROLE_IDLE, (uint32_t)opened);
      opened++;
    }
    poll_events(100);
    while (ready < opened && c[ready].got_message) {
      ready++;
    }
  }
  wait_for_go();
  printf("{\"connected\": %d, \"failed\": %llu, \"wall_s\": %.2f}\n", ready, (unsigned long long)failures,
         now() - begin);
  return failures || ready < opt.count;
}

static void usage(void) {
  fprintf(stderr,
          "usage: mqttload handshakes|flow|idle [--host IP] [--port N] [--cert F --key F] [--count N]\n"
          "  [--parallel N] [--resume] [--publishers N] [--subscribers N] [--distinct] [--qos 0|1]\n"
          "  [--seconds N] [--size BYTES] [--window N] [--inflight N] [--version 4|5]\n"
          "  [--from IP --sources N]\n"
          "prints `ready`, waits for a line on standard input, then measures\n");
  exit(2);
}

static void set_up_tls(void) {
  ctx = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL); // the client's work is not what is measured
  SSL_CTX_set1_groups_list(ctx, "X25519:P-256");
  SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  if (opt.resume) {
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, new_session);
  }
  if (SSL_CTX_use_certificate_chain_file(ctx, opt.cert) != 1 ||
      SSL_CTX_use_PrivateKey_file(ctx, opt.key, SSL_FILETYPE_PEM) != 1) {
    fprintf(stderr, "mqttload: cannot load %s / %s\n", opt.cert, opt.key);
    exit(1);
  }
}

static void parse_options(int argc, char **argv) {
  static const struct {
    const char *name;
    int *number;
    const char **text;
    bool *flag;
  } table[] = {{"--host", 0, &opt.host, 0},
               {"--port", &opt.port, 0, 0},
               {"--cert", 0, &opt.cert, 0},
               {"--key", 0, &opt.key, 0},
               {"--count", &opt.count, 0, 0},
               {"--parallel", &opt.parallel, 0, 0},
               {"--resume", 0, 0, &opt.resume},
               {"--publishers", &opt.publishers, 0, 0},
               {"--subscribers", &opt.subscribers, 0, 0},
               {"--distinct", 0, 0, &opt.distinct},
               {"--qos", &opt.qos, 0, 0},
               {"--seconds", &opt.seconds, 0, 0},
               {"--size", &opt.size, 0, 0},
               {"--window", &opt.window, 0, 0},
               {"--inflight", &opt.inflight, 0, 0},
               {"--version", &opt.version, 0, 0},
               {"--from", 0, &opt.client_ip, 0},
               {"--sources", &opt.sources, 0, 0}};
  for (int i = 2; i < argc; i++) {
    size_t k = 0, count = sizeof table / sizeof *table;
    while (k < count && strcmp(table[k].name, argv[i]) != 0) {
      k++;
    }
    if (k == count || (!table[k].flag && i + 1 >= argc)) {
      usage();
    }
    if (table[k].flag) {
      *table[k].flag = true;
    } else if (table[k].number) {
      *table[k].number = atoi(argv[++i]);
    } else {
      *table[k].text = argv[++i];
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    usage();
  }
  parse_options(argc, argv);
  struct rlimit files = {1048576, 1048576};
  setrlimit(RLIMIT_NOFILE, &files);
  ep = epoll_create1(0);
  if (opt.cert) {
    set_up_tls();
  }
  if (strcmp(argv[1], "handshakes") == 0) {
    return run_handshakes();
  }
  if (strcmp(argv[1], "flow") == 0) {
    return run_flow();
  }
  if (strcmp(argv[1], "idle") == 0) {
    return run_idle();
  }
  usage();
}
