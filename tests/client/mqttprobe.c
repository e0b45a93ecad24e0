// SPDX-License-Identifier: Apache-2.0
// An unrelated client: one PUBLISH at QoS 1 every PERIOD, its PUBACK awaited. Two times are taken
// of each: its own (send to receive), and the residence in the broker: from the frame's way into
// the TAP device to the answer's way out of it, by the kernel's stamps of a packet socket there. A
// line on standard input: prints both since the last line, as JSON, in microseconds. End of input
// ends it.
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 1000000u

static double own[SAMPLES_MAX], inside[SAMPLES_MAX];
static uint32_t own_count, inside_count;
static double into;  // when the PUBLISH went into the TAP; 0 = none is waiting

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

// Frames of the device with this TCP port, stamped. All protocols: what goes out is shown to nobody
// else.
static int open_tap(const char *name, uint16_t port) {
  struct sock_filter code[] = {{0x28, 0, 0, 34},   {0x15, 2, 0, port}, {0x28, 0, 0, 36},
                               {0x15, 0, 1, port}, {0x06, 0, 0, 96},   {0x06, 0, 0, 0}};
  struct sock_fprog program = {6, code};
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), one = 1;
  struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
  at.sll_ifindex = (int)if_nametoindex(name);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ||
      setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) < 0 ||
      bind(fd, (struct sockaddr *)&at, sizeof at) < 0) {
    die("packet socket");
  }
  return fd;
}

// Takes in every frame that is there: out of Linux with payload = into the broker.
static void read_tap(int fd) {
  uint8_t frame[96], control[256];
  struct sockaddr_ll from;
  struct iovec part = {frame, sizeof frame};
  struct msghdr m = {&from, sizeof from, &part, 1, control, sizeof control, 0};
  while (m.msg_namelen = sizeof from, m.msg_controllen = sizeof control,
         recvmsg(fd, &m, MSG_DONTWAIT) >= 54) {
    uint32_t total = (uint32_t)(frame[16] << 8 | frame[17]), head = 20 + (frame[46] >> 4) * 4u;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    struct timespec t;
    if (total <= head || c == NULL || c->cmsg_type != SCM_TIMESTAMPNS) {
      continue;
    }
    memcpy(&t, CMSG_DATA(c), sizeof t);
    double at = (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
    if (from.sll_pkttype == PACKET_OUTGOING) {
      into = into == 0 ? at : into;
    } else if (into != 0 && inside_count < SAMPLES_MAX) {
      inside[inside_count++] = at - into;
      into = 0;
    }
  }
}

static int open_broker(const char *host, uint16_t port) {
  static const uint8_t connect_[] = {0x10, 17, 0, 4, 'M', 'Q', 'T', 'T', 4,  2,
                                     0,    0,  0, 5, 'p', 'r', 'o', 'b', 'e'};
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  uint8_t answer[4];
  inet_pton(AF_INET, host, &to.sin_addr);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ||
      write(fd, connect_, sizeof connect_) < 0 || recv(fd, answer, 4, MSG_WAITALL) != 4 ||
      answer[3] != 0) {
    die("probe: connect");
  }
  return fd;
}

static void one_round(int broker, int tap) {
  static const uint8_t publish[] = {0x32, 9, 0, 5, 'p', 'r', 'o', 'b', 'e', 0, 1};
  uint8_t answer[4];
  double start = now_us();
  if (write(broker, publish, sizeof publish) < 0 || recv(broker, answer, 4, MSG_WAITALL) != 4 ||
      answer[0] != 0x40) {
    die("probe: publish");
  }
  if (own_count < SAMPLES_MAX) {
    own[own_count++] = now_us() - start;
  }
  read_tap(tap);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double part_of(double *v, uint32_t count, double share) {
  qsort(v, count, sizeof *v, by_size);
  return count == 0 ? -1 : v[(uint32_t)((count - 1) * share)];
}

static void report(void) {
  static double cpu_last, at_last;
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  double cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
               (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  printf(
      "{\"count\": %u, \"inside_p50\": %.0f, \"inside_p99\": %.0f, \"inside_max\": %.0f, "
      "\"own_p50\": %.0f, \"own_p99\": %.0f, \"probe_share\": %.3f}\n",
      inside_count, part_of(inside, inside_count, 0.5), part_of(inside, inside_count, 0.99),
      part_of(inside, inside_count, 1), part_of(own, own_count, 0.5), part_of(own, own_count, 0.99),
      (cpu - cpu_last) / (now_us() - at_last));
  fflush(stdout);
  own_count = inside_count = 0;
  cpu_last = cpu;
  at_last = now_us();
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: mqttprobe TAP HOST PORT PERIOD-US\n");
    return 2;
  }
  int tap = open_tap(argv[1], (uint16_t)atoi(argv[3]));
  int broker = open_broker(argv[2], (uint16_t)atoi(argv[3]));
  useconds_t period = (useconds_t)atoi(argv[4]);
  read_tap(tap);
  into = inside_count = 0;
  for (;;) {
    struct pollfd in = {.fd = 0, .events = POLLIN};
    if (poll(&in, 1, 0) > 0) {
      char line[64];
      if (!fgets(line, sizeof line, stdin)) {
        return 0;
      }
      report();
    }
    one_round(broker, tap);
    usleep(period);
  }
}
