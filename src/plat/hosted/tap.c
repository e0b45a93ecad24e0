// SPDX-License-Identifier: Apache-2.0
// Frames over a TAP device with virtio's offload header (IFF_VNET_HDR): super-segments pass in both
// directions, checksums stay partial inside this host. One system call a frame is what TAP costs.
//
// With several cores each has a queue of its own where the device allows it (IFF_MULTI_QUEUE), else
// core 0 polls the only one. Linux spreads flows over queues in its own way, so frames may come on
// any: plat/steer.h brings them to their core. Every core sends on its own queue, or on the only
// one, which the kernel lets many threads write to.
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "plat/hosted/hosted.h"
#include "plat/steer.h"

#define RX_BUFS 16384u
#define RX_PARTS 17u  // 64 KiB and headers
#define HEADER_LEN sizeof(struct virtio_net_hdr_mrg_rxbuf)
#define DONE_MAX 1024u

struct queue {  // of one core
  int fd;       // of a core without a queue of its own: core 0's, to write to
  bool polled;  // it is this core's to read
  u8 *data;
  struct rxbuf *bufs;
  struct rxbuf *free_bufs;
  u32 free_count;
  u32 done_count;
  void *done[DONE_MAX];
};

static struct queue queues[PLAT_CORE_MAX];
static bool is_open;
static bool multi_queue;
static u8 mac[6];
static u16 mtu = 1500;

static void die(const char *what, const char *name) {
  fprintf(stderr, "urmqtt: %s %s: %s\n", what, name, strerror(errno));
  if (errno == EPERM || errno == EACCES) {
    fprintf(stderr,
            "        make one that you own:  ip tuntap add dev %s mode tap user $USER vnet_hdr\n",
            name);
  }
  exit(1);
}

static void map_bufs(struct queue *q) {
  usize len = (usize)RX_BUFS * (sizeof(struct rxbuf) + PLAT_RXBUF_SIZE);
  u8 *p =
      mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    perror("urmqtt: receive buffers");
    exit(1);
  }
  q->data = p;
  q->bufs = (struct rxbuf *)(void *)(p + (usize)RX_BUFS * PLAT_RXBUF_SIZE);
  for (u32 i = RX_BUFS; i-- > 0;) {
    q->bufs[i].id = i;
    q->bufs[i].next = q->free_bufs;
    q->free_bufs = &q->bufs[i];
  }
  q->free_count = RX_BUFS;
  q->polled = true;
}

// The interface's own MTU is ours too: both ends of one link.
static void read_mtu(const char *name) {
  int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq r = {0};
  snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
  if (s >= 0 && ioctl(s, SIOCGIFMTU, &r) == 0 && r.ifr_mtu >= 576 && r.ifr_mtu <= 65535) {
    mtu = (u16)r.ifr_mtu;
  }
  close(s);
}

// A descriptor of one queue; -1 with errno.
static int attach(const char *name, int flags) {
  int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    die("cannot open /dev/net/tun for", name);
  }
  struct ifreq r = {.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | flags)};
  snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
  if (ioctl(fd, TUNSETIFF, &r) < 0) {
    int why = errno;
    close(fd);
    errno = why;
    return -1;
  }
  int header_len = HEADER_LEN;
  if (ioctl(fd, TUNSETVNETHDRSZ, &header_len) < 0 ||
      ioctl(fd, TUNSETOFFLOAD, (unsigned long)(TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)) < 0) {
    die("the TAP device takes no offload header:", name);
  }
  return fd;
}

// A device made with or without several queues refuses the other kind with EINVAL.
static int attach_first(const char *name) {
  int fd = attach(name, hosted.cores > 1 ? IFF_MULTI_QUEUE : 0);
  multi_queue = hosted.cores > 1;
  if (fd < 0 && errno == EINVAL) {
    fd = attach(name, hosted.cores > 1 ? 0 : IFF_MULTI_QUEUE);
    multi_queue = false;
  }
  return fd;
}

void tap_open(const char *name) {
  if (strlen(name) >= IFNAMSIZ) {
    errno = ENAMETOOLONG;
    die("interface name", name);
  }
  steer_init(hosted.cores, RX_BUFS / hosted.cores);
  for (u32 i = 0; i < hosted.cores; i++) {
    struct queue *q = &queues[i];
    q->fd = i == 0 ? attach_first(name) : multi_queue ? attach(name, IFF_MULTI_QUEUE) : -1;
    if (q->fd < 0 && i == 0) {
      die("cannot attach to the TAP device", name);
    }
    if (q->fd >= 0) {
      map_bufs(q);
    } else {
      q->fd = queues[0].fd;
    }
  }
  is_open = true;
  read_mtu(name);
  struct bytes random = bytes_of(mac, sizeof mac);
  (void)plat_random(span_of(mac, random.len));
  mac[0] = (u8)((mac[0] & 0xfc) | 2);  // locally administered, unicast
}

int tap_fd(u32 core) {
  return is_open && queues[core].polled ? queues[core].fd : -1;
}

u32 plat_nic_count(void) {
  return is_open ? 1 : 0;
}

void plat_nic_info(u32 nic, struct plat_nic *out) {
  (void)nic;
  *out = (struct plat_nic){
      .mtu = mtu, .link_up = true, .tx_csum = true, .tx_tso4 = true, .tx_tso6 = true};
  memcpy(out->mac, mac, sizeof mac);
}

// Reads one frame into a chain; NULL when none waits.
static struct rxbuf *read_frame(struct queue *q) {
  struct virtio_net_hdr_mrg_rxbuf h;
  struct iovec iov[RX_PARTS + 1] = {{.iov_base = &h, .iov_len = HEADER_LEN}};
  struct rxbuf *part[RX_PARTS];
  u32 parts = 0;
  for (struct rxbuf *b = q->free_bufs; b != NULL && parts < RX_PARTS; b = b->next) {
    part[parts] = b;
    b->data = q->data + (usize)b->id * PLAT_RXBUF_SIZE;
    iov[++parts] = (struct iovec){.iov_base = b->data, .iov_len = PLAT_RXBUF_SIZE};
  }
  if (parts < RX_PARTS) {
    return NULL;  // the owner holds everything: the kernel's queue is the back-pressure
  }
  ssize_t n = readv(q->fd, iov, (int)parts + 1);
  if (n <= (ssize_t)HEADER_LEN) {
    return NULL;
  }
  u32 left = (u32)n - (u32)HEADER_LEN;
  u32 used = 0;
  part[0]->frame_len = left;
  for (; left > 0; used++) {
    ASSERT(used < parts);
    part[used]->len = MIN(left, PLAT_RXBUF_SIZE);
    left -= part[used]->len;
  }
  q->free_bufs = part[used - 1]->next;
  q->free_count -= used;
  part[used - 1]->next = NULL;
  bool partial = (h.hdr.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
  part[0]->frame_csum = partial ? RX_CSUM_GOOD : RX_CSUM_UNKNOWN;
  part[0]->frame_gso_size = h.hdr.gso_type == VIRTIO_NET_HDR_GSO_NONE ? 0 : h.hdr.gso_size;
  part[0]->nic = 0;
  return part[0];
}

static void put_back(struct queue *q, struct rxbuf *chain) {
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    chain->next = q->free_bufs;
    q->free_bufs = chain;
    q->free_count++;
    ASSERT(q->free_count <= RX_BUFS);
    chain = next;
  }
}

u32 plat_rx(u32 core, u32 nic, struct rxbuf *frames[], u32 max) {
  struct queue *q = &queues[core];
  u32 n = steer_take(core, nic, frames, max);
  put_back(q, steer_back(core));
  struct rxbuf *dropped = NULL;
  struct rxbuf *frame = NULL;
  for (u32 i = 0; q->polled && n < max && i < max && (frame = read_frame(q)) != NULL; i++) {
    if (steer_is_mine(core, frame, &dropped)) {
      frames[n++] = frame;
    } else if (dropped != NULL) {
      put_back(q, dropped);
      dropped = NULL;
    }
  }
  steer_send(core);
  return n;
}

void plat_rx_release(u32 core, struct rxbuf *chain) {
  put_back(&queues[core], steer_release(core, chain));
}

bool tap_sleep(u32 core) {
  return steer_sleep(core, queues[core].polled && queues[core].free_count < RX_PARTS);
}

static bool write_frame(int fd, const struct tx_frame *f) {
  struct virtio_net_hdr_mrg_rxbuf h = {0};
  struct iovec iov[PLAT_TX_PARTS + 1] = {{.iov_base = &h, .iov_len = HEADER_LEN}};
  for (u32 i = 0; i < f->part_count; i++) {
    iov[i + 1] =
        (struct iovec){.iov_base = (void *)(uptr)f->part[i].ptr, .iov_len = f->part[i].len};
  }
  if (f->csum_start != 0) {
    h.hdr.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    h.hdr.csum_start = f->csum_start;
    h.hdr.csum_offset = f->csum_offset;
  }
  if (f->gso != GSO_NONE) {
    h.hdr.gso_type = f->gso == GSO_TCP4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
    h.hdr.gso_size = f->gso_size;
    h.hdr.hdr_len = (u16)f->part[0].len;
  }
  return writev(fd, iov, f->part_count + 1) >= 0 || errno != EAGAIN;
}

u32 plat_tx(u32 core, u32 nic, const struct tx_frame *frames, u32 count) {
  (void)nic;
  struct queue *q = &queues[core];
  u32 n = 0;
  while (n < count && q->done_count < DONE_MAX && write_frame(q->fd, &frames[n])) {
    q->done[q->done_count++] = frames[n++].token;  // copied by the kernel: finished at once
  }
  return n;
}

u32 plat_tx_done(u32 core, u32 nic, void *tokens[], u32 max) {
  (void)nic;
  struct queue *q = &queues[core];
  u32 n = 0;
  while (n < max && q->done_count > 0) {
    tokens[n++] = q->done[--q->done_count];
  }
  return n;
}
