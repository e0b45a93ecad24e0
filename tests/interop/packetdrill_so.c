// SPDX-License-Identifier: Apache-2.0
// Our TCP (src/net) behind the interface that packetdrill drives a foreign stack by
// (--so_filename; its packetdrill.h lies where the suite does). Virtual time: it passes when the
// script sleeps or waits for a packet. IPv4; a file descriptor is a connection or a listener.
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packetdrill.h"

#include "loop/loop.h"
#include "net/tcp_flight.h"

#define FD_FIRST 3
#define FDS 32
#define FRAMES 4096
#define FRAME_MAX 70000u
#define WAIT_NS (600ull * 1000000000ull)  // for a packet that does not come
#define QUEUE_MAX (1u << 20)

extern u64 unit_now_ns;

struct frame_copy {
  u32 len;
  u64 at_ns;
  u8 *data;
};
static struct frame_copy to_stack[FRAMES], from_stack[FRAMES];
static u32 to_head, to_tail, from_head, from_tail;
static void *tokens[FRAMES];
static u32 token_count;

struct sock {
  bool used, listening, bound, nonblock, connected, shut_read, shut_write, got_fin, reset, closing;
  int error;
  u16 port;
  struct tcp_conn *conn;
  int backlog[FDS];
  u32 backlog_count;
  u8 *queue;  // written, not yet taken by TCP
  u32 queued;
};
static struct sock socks[FDS];
static struct core core;
static struct timer timers[256];
static struct net *net;
static u32 our_address;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const u8 our_mac[6] = {2, 0, 0, 0, 0, 1}, their_mac[6] = {2, 0, 0, 0, 0, 9};

// --- The device

void plat_nic_info(u32 nic, struct plat_nic *out) {
  (void)nic;
  *out = (struct plat_nic){.mtu = 1500, .link_up = true, .tx_csum = true, .tx_tso4 = true};
  memcpy(out->mac, our_mac, 6);
}

void plat_rx_release(u32 core_, struct rxbuf *chain) {
  (void)core_;
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    free((void *)ALIGN_DOWN((uptr)chain->data, (uptr)PLAT_RXBUF_SIZE));
    free(chain);
    chain = next;
  }
}

u32 plat_rx(u32 core_, u32 nic, struct rxbuf *frames[], u32 max) {
  (void)core_, (void)nic;
  u32 n = 0;
  while (n < max && to_head != to_tail) {
    struct frame_copy *f = &to_stack[to_head++ % FRAMES];
    struct rxbuf *first = NULL, **at = &first;
    for (u32 off = 0; off < f->len; off += PLAT_RXBUF_SIZE) {
      struct rxbuf *b = calloc(1, sizeof *b);
      b->data = aligned_alloc(PLAT_RXBUF_SIZE, PLAT_RXBUF_SIZE);
      b->len = MIN(f->len - off, PLAT_RXBUF_SIZE);
      memcpy(b->data, f->data + off, b->len);
      b->frame_len = off == 0 ? f->len : 0;
      b->frame_csum = RX_CSUM_GOOD;
      *at = b;
      at = &b->next;
    }
    free(f->data);
    frames[n++] = first;
  }
  return n;
}

static void put(struct frame_copy *ring, u32 *tail, const u8 *data, u32 len) {
  struct frame_copy *f = &ring[(*tail)++ % FRAMES];
  *f = (struct frame_copy){len, unit_now_ns, malloc(len)};
  memcpy(f->data, data, len);
}

static void answer_arp(const u8 *f) {
  u8 a[42];
  memcpy(a, f + 6, 6);
  memcpy(a + 6, their_mac, 6);
  memcpy(a + 12, f + 12, 10);
  a[21] = 2;
  memcpy(a + 22, their_mac, 6);
  memcpy(a + 28, f + 38, 4);
  memcpy(a + 32, f + 22, 10);
  put(to_stack, &to_tail, a, sizeof a);
}

static u16 sum_of(u32 sum, const u8 *p, u32 len) {
  for (u32 i = 0; i < len; i++) {
    sum += i % 2 == 0 ? (u32)p[i] << 8 : p[i];
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return (u16)sum;
}

u32 plat_tx(u32 core_, u32 nic, const struct tx_frame *frames, u32 count) {
  (void)core_, (void)nic;
  static u8 f[FRAME_MAX];
  for (u32 i = 0; i < count; i++) {
    u32 len = 0;
    for (u32 k = 0; k < frames[i].part_count; k++) {
      memcpy(f + len, frames[i].part[k].ptr, frames[i].part[k].len);
      len += (u32)frames[i].part[k].len;
    }
    tokens[token_count++] = frames[i].token;
    if (load_be16(f + 12) == ETH_ARP && load_be16(f + 20) == 1 &&
        load_be32(f + 38) != our_address) {
      answer_arp(f);
    } else if (load_be16(f + 12) == ETH_IP4) {
      if (frames[i].csum_start != 0) {  // a super-segment stays one
        u8 *at = f + frames[i].csum_start + frames[i].csum_offset;
        store_be16(at, (u16)~sum_of(0, f + frames[i].csum_start, len - frames[i].csum_start));
      }
      put(from_stack, &from_tail, f + ETH_LEN, len - ETH_LEN);
    }
  }
  return count;
}

u32 plat_tx_done(u32 core_, u32 nic, void *out[], u32 max) {
  (void)core_, (void)nic;
  u32 n = 0;
  while (n < max && token_count > 0) {
    out[n++] = tokens[--token_count];
  }
  return n;
}

// --- What TCP calls

static int new_sock(void) {
  for (int i = 0; i < FDS; i++) {
    if (!socks[i].used) {
      socks[i] = (struct sock){.used = true, .queue = malloc(QUEUE_MAX)};
      return i;
    }
  }
  return -1;
}

static void feed(struct sock *s) {
  while (s->queued > 0 && s->conn != NULL && !s->reset) {
    u32 room = tcp_room(s->conn);
    struct txbuf *b = room == 0 ? NULL : txbuf_take(net, TXBUF_LARGE, TXBUF_DATA);
    if (b == NULL) {
      return;
    }
    u32 n = MIN(MIN(room, s->queued), (u32)b->cap);
    memcpy(b->data, s->queue, n);
    b->len = (u16)n;
    memmove(s->queue, s->queue + n, s->queued - n);
    s->queued -= n;
    tcp_send(s->conn, b);
  }
  if (s->queued == 0 && (s->shut_write || s->closing) && s->conn != NULL && !s->reset) {
    struct tcp_conn *c = s->conn;
    s->conn = s->closing ? NULL : s->conn;
    if (s->closing) {
      tcp_close(c);
    }
  }
}

static bool on_accept(void *listener_user, struct tcp_conn *conn, void **user) {
  struct sock *l = listener_user;
  int fd = new_sock();
  if (fd < 0) {
    return false;
  }
  socks[fd].conn = conn;
  socks[fd].connected = true;
  l->backlog[l->backlog_count++] = fd;
  *user = &socks[fd];
  return true;
}
static void on_readable(void *user, struct tcp_conn *conn) {
  (void)user, (void)conn;
}
static void on_writable(void *user, struct tcp_conn *conn) {
  (void)conn;
  feed(user);
}
static void on_ended(void *user, struct tcp_conn *conn, enum tcp_end why) {
  struct sock *s = user;
  (void)conn;
  if (why == TCP_END_FIN) {
    s->got_fin = true;
    return;
  }
  s->error = !s->connected && why == TCP_END_RESET ? ECONNREFUSED
             : why == TCP_END_TIMEOUT              ? ETIMEDOUT
                                                   : ECONNRESET;
  s->reset = true;
  s->conn = NULL;
}
static void on_opened(void *user, struct tcp_conn *conn) {
  (void)conn;
  ((struct sock *)user)->connected = true;
}
static const struct tcp_listener_ops ops = {.eager = true,
                                            .accept = on_accept,
                                            .readable = on_readable,
                                            .writable = on_writable,
                                            .ended = on_ended,
                                            .opened = on_opened};

// --- Time

static void work(void) {
  for (u32 i = 0; i < 50 && loop_turn(&core); i++) {
  }
  for (u32 i = 0; i < FDS; i++) {
    if (socks[i].used) {
      feed(&socks[i]);
    }
  }
  for (u32 i = 0; i < 50 && loop_turn(&core); i++) {
  }
  pthread_cond_broadcast(&changed);
}

// Until `end` or, when `packet`, until one has left.
static void pass(u64 end, bool packet) {
  work();
  while (unit_now_ns < end && !(packet && from_head != from_tail)) {
    u64 next = wheel_next_ns(&core.wheel);
    unit_now_ns = MIN(end, MAX(next, unit_now_ns + 100000));
    work();
  }
}

static bool wait_more(struct sock *s) {  // false: this call does not wait
  if (s->nonblock) {
    return false;
  }
  pthread_cond_wait(&changed, &lock);
  return true;
}

// --- Calls

static struct sock *sock_of(int fd) {
  return fd >= FD_FIRST && fd - FD_FIRST < FDS && socks[fd - FD_FIRST].used ? &socks[fd - FD_FIRST]
                                                                            : NULL;
}
#define ENTER(fd)                \
  pthread_mutex_lock(&lock);     \
  struct sock *s = sock_of(fd);  \
  if (s == NULL) {               \
    pthread_mutex_unlock(&lock); \
    errno = EBADF;               \
    return -1;                   \
  }
static long leave(long result, int error) {
  pthread_mutex_unlock(&lock);
  errno = error;
  return error != 0 ? -1 : result;
}

static int pd_socket(void *u, int domain, int type, int protocol) {
  (void)u;
  if (domain != AF_INET || (type & 15) != SOCK_STREAM ||
      (protocol != 0 && protocol != IPPROTO_TCP)) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  pthread_mutex_lock(&lock);
  int i = new_sock();
  socks[i].nonblock = (type & SOCK_NONBLOCK) != 0;
  return (int)leave(i + FD_FIRST, 0);
}
static int pd_bind(void *u, int fd, const struct sockaddr *a, socklen_t len) {
  (void)u, (void)len;
  ENTER(fd);
  s->port = ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port);
  s->bound = true;
  return (int)leave(0, 0);
}
static int pd_listen(void *u, int fd, int backlog) {
  (void)u, (void)backlog;
  ENTER(fd);
  s->listening = true;
  return (int)leave(0, tcp_listen(net, s->port, &ops, s) == ERR_OK ? 0 : EADDRINUSE);
}
static int pd_accept(void *u, int fd, struct sockaddr *a, socklen_t *len) {
  (void)u;
  ENTER(fd);
  while (s->backlog_count == 0) {
    if (!wait_more(s)) {
      return (int)leave(0, EAGAIN);
    }
  }
  int got = s->backlog[0];
  memmove(s->backlog, s->backlog + 1, --s->backlog_count * sizeof *s->backlog);
  if (a != NULL && socks[got].conn != NULL) {
    struct tcp_peer p;
    tcp_peer(socks[got].conn, &p);
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_port = htons(p.port),
                               .sin_addr.s_addr = htonl(ip_to4(p.address))};
    memcpy(a, &from, MIN(*len, (socklen_t)sizeof from));
    *len = sizeof from;
  }
  return (int)leave(got + FD_FIRST, 0);
}
static int pd_connect(void *u, int fd, const struct sockaddr *a, socklen_t len) {
  (void)u, (void)len;
  ENTER(fd);
  const struct sockaddr_in *to = (const void *)a;
  if (s->conn != NULL || s->reset) {
    return (int)leave(0, s->reset ? s->error : s->connected ? EISCONN : EALREADY);
  }
  if (tcp_connect(net, ip_of4(ntohl(to->sin_addr.s_addr)), ntohs(to->sin_port), &ops, s,
                  &s->conn) != ERR_OK) {
    return (int)leave(0, ENETUNREACH);
  }
  work();
  while (!s->connected && !s->reset) {
    if (!wait_more(s)) {
      return (int)leave(0, EINPROGRESS);
    }
  }
  return (int)leave(0, s->reset ? s->error : 0);
}
static ssize_t pd_read(void *u, int fd, void *buf, size_t count) {
  (void)u;
  ENTER(fd);
  for (;;) {
    u32 there = s->conn != NULL ? tcp_readable(s->conn) : 0;
    if (there > 0 && !s->shut_read) {
      u32 n = tcp_peek_copy(s->conn, 0, span_of(buf, count));
      tcp_consume(s->conn, n);
      work();
      return leave(n, 0);
    }
    if (s->reset || s->got_fin || s->shut_read || s->conn == NULL) {
      int e = s->error;
      s->error = 0;
      return leave(0, e != 0 ? e : s->conn == NULL && !s->reset && !s->shut_read ? ENOTCONN : 0);
    }
    if (!wait_more(s)) {
      return leave(0, EAGAIN);
    }
  }
}
static ssize_t pd_write(void *u, int fd, const void *buf, size_t count) {
  (void)u;
  ENTER(fd);
  if (s->reset || s->shut_write || s->conn == NULL) {
    int e = s->reset && s->error != 0                        ? s->error
            : s->conn == NULL && !s->reset && !s->shut_write ? ENOTCONN
                                                             : EPIPE;
    s->error = 0;
    return leave(0, e);
  }
  if (!s->connected || s->queued + count > QUEUE_MAX) {
    return leave(0, EAGAIN);
  }
  memcpy(s->queue + s->queued, buf, count);
  s->queued += (u32)count;
  feed(s);
  work();
  return leave((long)count, 0);
}
static ssize_t pd_readv(void *u, int fd, const struct iovec *iov, int n) {
  return pd_read(u, fd, n > 0 ? iov[0].iov_base : NULL, n > 0 ? iov[0].iov_len : 0);
}
static ssize_t pd_recv(void *u, int fd, void *buf, size_t len, int flags) {
  (void)flags;
  return pd_read(u, fd, buf, len);
}
static ssize_t pd_recvfrom(void *u, int fd, void *buf, size_t len, int flags, struct sockaddr *a,
                           socklen_t *alen) {
  (void)flags, (void)a, (void)alen;
  return pd_read(u, fd, buf, len);
}
static ssize_t pd_recvmsg(void *u, int fd, struct msghdr *m, int flags) {
  (void)flags;
  return pd_readv(u, fd, m->msg_iov, (int)m->msg_iovlen);
}
static ssize_t pd_writev(void *u, int fd, const struct iovec *iov, int n) {
  static u8 all[QUEUE_MAX];
  size_t len = 0;
  for (int i = 0; i < n && len + iov[i].iov_len <= sizeof all; i++) {
    memcpy(all + len, iov[i].iov_base, iov[i].iov_len);
    len += iov[i].iov_len;
  }
  return pd_write(u, fd, all, len);
}
static ssize_t pd_send(void *u, int fd, const void *buf, size_t len, int flags) {
  (void)flags;
  return pd_write(u, fd, buf, len);
}
static ssize_t pd_sendto(void *u, int fd, const void *buf, size_t len, int flags,
                         const struct sockaddr *a, socklen_t alen) {
  (void)flags, (void)a, (void)alen;
  return pd_write(u, fd, buf, len);
}
static ssize_t pd_sendmsg(void *u, int fd, const struct msghdr *m, int flags) {
  (void)flags;
  return pd_writev(u, fd, m->msg_iov, (int)m->msg_iovlen);
}
static int pd_fcntl(void *u, int fd, int cmd, ...) {
  (void)u;
  va_list args;
  va_start(args, cmd);
  int value = va_arg(args, int);
  va_end(args);
  ENTER(fd);
  if (cmd == F_SETFL) {
    s->nonblock = (value & O_NONBLOCK) != 0;
  }
  return (int)leave(cmd == F_GETFL ? O_RDWR | (s->nonblock ? O_NONBLOCK : 0) : 0, 0);
}
static int pd_ioctl(void *u, int fd, unsigned long request, ...) {
  (void)u, (void)fd, (void)request;
  errno = EOPNOTSUPP;
  return -1;
}
static int pd_close(void *u, int fd) {
  (void)u;
  ENTER(fd);
  if (s->conn != NULL && !s->connected) {
    tcp_abort(s->conn);
    s->conn = NULL;
  } else if (s->conn != NULL && tcp_readable(s->conn) > 0) {  // RFC 2525 2.17: data is lost
    tcp_abort(s->conn);
    s->conn = NULL;
  }
  s->closing = true;
  feed(s);
  work();
  s->used = s->conn != NULL;
  return (int)leave(0, 0);
}
static int pd_shutdown(void *u, int fd, int how) {
  (void)u;
  ENTER(fd);
  if (!s->connected || s->conn == NULL) {
    return (int)leave(0, ENOTCONN);
  }
  s->shut_read |= how != SHUT_WR;
  s->shut_write |= how != SHUT_RD;
  if (how != SHUT_RD) {  // ours has no half: the connection is the stack's from here on
    s->closing = true;
    feed(s);
    work();
  }
  return (int)leave(0, 0);
}

// What scripts look at; ca_state as Linux numbers it: 0 open, 3 recovery, 4 loss.
static void fill_info(const struct tcp_conn *c, struct tcp_info *t) {
  memset(t, 0, sizeof *t);
  t->tcpi_state = 1;
  t->tcpi_snd_mss = c->mss;
  t->tcpi_snd_cwnd = c->cwnd / MAX(c->mss, 1);
  t->tcpi_snd_ssthresh = c->ssthresh == U32_MAX ? 0x7fffffff : c->ssthresh / MAX(c->mss, 1);
  t->tcpi_unacked = (c->snd_nxt - c->snd_una + c->mss - 1) / MAX(c->mss, 1);
  t->tcpi_rtt = c->srtt_us;
  t->tcpi_rto = c->rto_ms * 1000u;
  t->tcpi_backoff = c->retries;
  t->tcpi_snd_wscale = c->snd_shift & 15;
  t->tcpi_rcv_wscale = c->rcv_shift & 15;
}
static int pd_getsockopt(void *u, int fd, int level, int name, void *value, socklen_t *len) {
  (void)u;
  ENTER(fd);
  int number = 0;
  if (level == IPPROTO_TCP && name == TCP_INFO && s->conn != NULL) {
    struct tcp_info t;
    fill_info(s->conn, &t);
    *len = MIN(*len, (socklen_t)sizeof t);
    memcpy(value, &t, *len);
    return (int)leave(0, 0);
  }
  if (level == SOL_SOCKET && name == SO_ERROR) {
    number = s->error;
    s->error = 0;
  } else if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
    number = s->conn != NULL ? (int)s->conn->mss : 536;
  } else {
    return (int)leave(0, ENOPROTOOPT);
  }
  *len = MIN(*len, (socklen_t)sizeof number);
  memcpy(value, &number, *len);
  return (int)leave(0, 0);
}
static int pd_setsockopt(void *u, int fd, int level, int name, const void *value, socklen_t len) {
  (void)u, (void)value, (void)len, (void)level, (void)name;
  ENTER(fd);
  return (int)leave(0, 0);
}
static int pd_poll(void *u, struct pollfd *fds, nfds_t n, int timeout) {
  (void)u, (void)timeout;
  pthread_mutex_lock(&lock);
  int ready = 0;
  for (nfds_t i = 0; i < n; i++) {
    struct sock *s = sock_of(fds[i].fd);
    short is = s == NULL ? POLLNVAL : 0;
    if (s != NULL) {
      bool readable = s->backlog_count > 0 || s->got_fin || s->reset ||
                      (s->conn != NULL && tcp_readable(s->conn) > 0);
      is |= readable ? POLLIN : 0;
      is |= s->connected && !s->reset ? POLLOUT : 0;
      is |= s->reset ? POLLERR | POLLHUP : 0;
    }
    fds[i].revents = (short)(is & (fds[i].events | POLLERR | POLLHUP | POLLNVAL));
    ready += fds[i].revents != 0;
  }
  return (int)leave(ready, 0);
}

// --- Packets and time

static void configure(u32 address) {
  our_address = address;
  (void)net_configure(
      net, 0,
      &(struct net_if_config){.address = address, .prefix_len = 16, .gateway = address ^ 0xfe});
  work();
  arp_learn(&net->nic[0], address ^ 0xfe, their_mac, true);
  work();
  from_head = from_tail;
}
static int pd_netdev_send(void *u, const void *buf, size_t count) {
  (void)u;
  static u8 f[FRAME_MAX];
  pthread_mutex_lock(&lock);
  const u8 *ip = buf;
  if (our_address != load_be32(ip + 16)) {
    configure(load_be32(ip + 16));
  }
  memcpy(f, our_mac, 6);
  memcpy(f + 6, their_mac, 6);
  store_be16(f + 12, ETH_IP4);
  memcpy(f + ETH_LEN, buf, count);
  put(to_stack, &to_tail, f, (u32)count + ETH_LEN);
  work();
  return (int)leave(0, 0);
}
static int pd_netdev_receive(void *u, void *buf, size_t *count, long long *time_usecs) {
  (void)u;
  pthread_mutex_lock(&lock);
  pass(unit_now_ns + WAIT_NS, true);
  if (from_head == from_tail) {
    *count = 0;
    fprintf(stderr, "our stack sends nothing\n");
    exit(1);  // packetdrill would ask for ever
  }
  struct frame_copy *f = &from_stack[from_head++ % FRAMES];
  *count = MIN(*count, (size_t)f->len);
  memcpy(buf, f->data, *count);
  *time_usecs = (long long)(f->at_ns / 1000);
  free(f->data);
  return (int)leave(0, 0);
}
static int pd_usleep(void *u, useconds_t usec) {
  (void)u;
  pthread_mutex_lock(&lock);
  pass(unit_now_ns + usec * 1000ull, false);
  return (int)leave(0, 0);
}
static int pd_gettimeofday(void *u, struct timeval *tv, struct timezone *tz) {
  (void)u, (void)tz;
  pthread_mutex_lock(&lock);  // it asks again and again until its moment has come
  unit_now_ns += 1000;
  if (wheel_next_ns(&core.wheel) <= unit_now_ns) {
    work();
  }
  pthread_mutex_unlock(&lock);
  tv->tv_sec = (time_t)(unit_now_ns / 1000000000u);
  tv->tv_usec = (suseconds_t)(unit_now_ns / 1000 % 1000000u);
  return 0;
}
static int pd_epoll_create(void *u, int size) {
  (void)u, (void)size;
  errno = ENOSYS;
  return -1;
}
static int pd_epoll_ctl(void *u, int epfd, int op, int fd, struct epoll_event *e) {
  (void)u, (void)epfd, (void)op, (void)fd, (void)e;
  errno = ENOSYS;
  return -1;
}
static int pd_epoll_wait(void *u, int epfd, struct epoll_event *e, int max, int timeout) {
  (void)u, (void)epfd, (void)e, (void)max, (void)timeout;
  errno = ENOSYS;
  return -1;
}
static int pd_pipe(void *u, int fds[2]) {
  (void)u, (void)fds;
  errno = ENOSYS;
  return -1;
}
static int pd_splice(void *u, int in, loff_t *off_in, int out, loff_t *off_out, size_t len,
                     unsigned int flags) {
  (void)u, (void)in, (void)off_in, (void)out, (void)off_out, (void)len, (void)flags;
  errno = ENOSYS;
  return -1;
}
static void pd_free(void *u) {
  (void)u;
}

__attribute__((visibility("default"))) void packetdrill_interface_init(
    const char *flags, struct packetdrill_interface *ifc) {
  static struct carve carve;
  u32 address = IP4(192, 168, 0, 1);
  static const struct net_limits limits = {.tcp_conns = 64,
                                           .tcp_time_wait = 16,
                                           .tcp_flights = 32,
                                           .txbuf_small = 256,
                                           .txbuf_small_reserve = 16,
                                           .txbuf_large = 512,
                                           .tx_slots = 1024};
  unit_now_ns = 1000000000ull;
  carve_init(&carve);
  core_init(&core, 0, timers, ARRAY_COUNT(timers));
  core.now_ns = unit_now_ns;
  if (net_init(&core, &carve, &limits) != ERR_OK) {
    fprintf(stderr, "our stack does not start\n");
    exit(1);
  }
  net = core.net;
  loop_stage(&core, "net flush", net_flush, net);
  (void)(flags != NULL && flags[0] != 0 && !ip_parse4(bytes_str(flags), &address));
  configure(address);
  *ifc = (struct packetdrill_interface){.free = pd_free,
                                        .socket = pd_socket,
                                        .bind = pd_bind,
                                        .listen = pd_listen,
                                        .accept = pd_accept,
                                        .connect = pd_connect,
                                        .read = pd_read,
                                        .readv = pd_readv,
                                        .recv = pd_recv,
                                        .recvfrom = pd_recvfrom,
                                        .recvmsg = pd_recvmsg,
                                        .write = pd_write,
                                        .writev = pd_writev,
                                        .send = pd_send,
                                        .sendto = pd_sendto,
                                        .sendmsg = pd_sendmsg,
                                        .fcntl = pd_fcntl,
                                        .ioctl = pd_ioctl,
                                        .close = pd_close,
                                        .shutdown = pd_shutdown,
                                        .getsockopt = pd_getsockopt,
                                        .setsockopt = pd_setsockopt,
                                        .poll = pd_poll,
                                        .netdev_send = pd_netdev_send,
                                        .netdev_receive = pd_netdev_receive,
                                        .usleep = pd_usleep,
                                        .gettimeofday = pd_gettimeofday,
                                        .epoll_create = pd_epoll_create,
                                        .epoll_ctl = pd_epoll_ctl,
                                        .epoll_wait = pd_epoll_wait,
                                        .pipe = pd_pipe,
                                        .splice = pd_splice};
}
