// SPDX-License-Identifier: Apache-2.0
// Frames: the machines' NICs, the switch between them, and the cables of the hosts, where things go
// wrong.
//
// F1  The device is late on purpose: it reads a frame's parts only when it sends, and gives the
//     token back then; a buffer reused too early shows as a wrong checksum or wrong bytes.
// F2  What a machine sends is checked before a cable may damage it: lengths, checksums.
// F3  A frame that arrives takes a buffer at its arrival; without one it is lost.
// F4  Damage is one bit behind the Ethernet header of an IPv4 packet: its checksums find every
//     single bit. ARP has no checksum, and a cable's own (FCS) is not simulated.
#include "plat/sim/world.h"

#define ETH_LEN 14u
#define ETH_IP4 0x0800u
#define PROTOCOL_TCP 6u
#define PROTOCOL_UDP 17u

// --- receive buffers

void machine_init(u32 m) {
  struct machine *k = &world->machine[m];
  const u8 mac[6] = {2, 0, 0, 0, 0, (u8)(m + 1)};
  memcpy(k->mac, mac, 6);
  k->held_count = 0;
  k->free_count = 0;
  for (u32 i = RX_BUFFERS; i > 0; i--) {
    k->free[k->free_count++] = i - 1;
    MEM_POISON(k->blocks + (usize)(i - 1) * PLAT_RXBUF_SIZE, PLAT_RXBUF_SIZE);
  }
  for (u32 c = 0; c < SIM_CORES_MAX; c++) {
    k->ring_head[c] = k->ring_tail[c] = k->done_count[c] = 0;
  }
}

u32 sim_rx_held(void) {
  return RX_BUFFERS - world->machine[0].free_count;
}

static struct machine *machine_of(u32 core) {
  u32 m = core < SIM_HOST_CORE ? 0 : 1 + core - SIM_HOST_CORE;
  ASSERT(m < MACHINES_MAX);
  return &world->machine[m];
}
static u32 queue_of(u32 core) {
  return core < SIM_HOST_CORE ? core : 0;
}

bool frames_wait(u32 machine, u32 core) {
  const struct machine *k = &world->machine[machine];
  return k->ring_head[core] != k->ring_tail[core];
}

u32 plat_nic_count(void) {
  return 1;
}

void plat_nic_info(u32 nic, struct plat_nic *out) {
  u32 m = world->running < SIM_CORES_MAX ? 0 : 1 + host_of_core(world->running);
  ASSERT(nic == 0);
  *out = (struct plat_nic){.mtu = 1500,
                           .link_up = true,
                           .tx_csum = world->options.tx_csum,
                           .tx_tso4 = world->options.tso};
  memcpy(out->mac, world->machine[m].mac, 6);
}

void plat_rx_release(u32 core, struct rxbuf *chain) {
  struct machine *k = machine_of(core);
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    u32 id = (u32)(chain - k->rxbuf);
    ASSERT(id < RX_BUFFERS && chain->id == id);
    ASSERT(k->free_count < RX_BUFFERS);
    chain->id = U32_MAX;  // a second release is seen
    MEM_POISON(k->blocks + (usize)id * PLAT_RXBUF_SIZE, PLAT_RXBUF_SIZE);
    k->free[k->free_count++] = id;
    chain = next;
  }
}

// The core that a frame belongs to: by the hash of its flow, as a device with several queues does.
static u32 steer(u32 machine, struct bytes f) {
  if (machine != 0 || world->options.cores == 1 || f.len < 38 || load_be16(f.ptr + 12) != ETH_IP4) {
    return 0;
  }
  u64 key = load_be64(f.ptr + 26) * 0x9e3779b97f4a7c15ull ^ load_be32(f.ptr + 34);
  return (u32)((key * 0xbf58476d1ce4e5b9ull) >> 40) % world->options.cores;
}

static void arrive(const struct packet *p) {
  struct machine *k = &world->machine[p->to];
  if (!k->up) {
    world->result.fault[SIM_LINK_DOWN]++;
    return;
  }
  if (k->free_count == 0) {
    world->result.fault[SIM_OVERFLOW]++;
    return;
  }
  u32 id = k->free[--k->free_count];
  u32 core = steer(p->to, bytes_of(p->data, p->len));
  u8 *block = k->blocks + (usize)id * PLAT_RXBUF_SIZE;
  MEM_UNPOISON(block, PLAT_RXBUF_SIZE);
  memcpy(block, p->data, p->len);
  k->rxbuf[id] = (struct rxbuf){.data = block, .len = p->len, .frame_len = p->len, .id = id};
  k->ring[core][k->ring_tail[core]] = id;
  k->ring_tail[core] = (k->ring_tail[core] + 1) % RX_BUFFERS;
  if (p->to == 0) {
    capture(bytes_of(p->data, p->len));
  }
  if (p->to == 0 && !p->damaged && harness->frame != NULL) {
    harness->frame(false, bytes_of(p->data, p->len));
  }
  cores_frame_for(p->to, core);
}

static u32 take(u32 core, struct rxbuf *frames[], u32 max) {
  struct machine *k = machine_of(core);
  u32 q = queue_of(core);
  u32 n = 0;
  for (; n < max && k->ring_head[q] != k->ring_tail[q]; n++) {
    frames[n] = &k->rxbuf[k->ring[q][k->ring_head[q]]];
    k->ring_head[q] = (k->ring_head[q] + 1) % RX_BUFFERS;
  }
  return n;
}

u32 plat_rx(u32 core, u32 nic, struct rxbuf *frames[], u32 max) {
  ASSERT(nic == 0);
  cores_turn_begins();
  return take(core, frames, max);
}

// --- the wires: a heap of packets by time

static bool before(u32 a, u32 b) {
  const struct packet *x = &world->packet[a];
  const struct packet *y = &world->packet[b];
  return x->at_ns != y->at_ns ? x->at_ns < y->at_ns : x->order < y->order;
}

static void heap_push(u32 id) {
  u32 *heap = world->heap;
  u32 i = world->heap_count++;
  for (; i > 0 && before(id, heap[(i - 1) / 2]); i = (i - 1) / 2) {
    heap[i] = heap[(i - 1) / 2];
  }
  heap[i] = id;
}

static u32 heap_pop(void) {
  u32 *heap = world->heap;
  u32 top = heap[0];
  u32 last = heap[--world->heap_count];
  u32 i = 0;
  for (u32 child = 1; child < world->heap_count; child = 2 * i + 1) {
    child += child + 1 < world->heap_count && before(heap[child + 1], heap[child]) ? 1 : 0;
    if (!before(heap[child], last)) {
      break;
    }
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return top;
}

static void put_on_wire(u32 to, struct bytes frame, u64 at_ns, bool damage) {
  if (world->packet_free_count == 0) {
    world->result.fault[SIM_TAIL_DROP]++;
    return;
  }
  u32 id = world->packet_free[--world->packet_free_count];
  struct packet *p = &world->packet[id];
  p->at_ns = at_ns;
  p->order = world->order++;
  p->to = to;
  p->len = (u32)frame.len;
  p->damaged = damage;
  memcpy(p->data, frame.ptr, frame.len);
  if (damage) {
    u32 at = ETH_LEN + sim_below(&world->links, p->len - ETH_LEN);
    p->data[at] ^= (u8)(1u << sim_below(&world->links, 8));
  }
  heap_push(id);
}

static void over_link(struct sim_link *l, u32 to, struct bytes frame) {
  struct sim_rng *r = &world->links;
  u64 *fault = world->result.fault;
  u64 start = MAX(world->now_ns, l->free_ns);
  if (l->down || sim_chance(r, l->loss)) {
    fault[l->down ? SIM_LINK_DOWN : SIM_LOSS]++;
    return;
  }
  if (start - world->now_ns > l->queue_ns) {
    fault[SIM_TAIL_DROP]++;
    return;
  }
  l->free_ns = start + (frame.len + 24) * 8 * SIM_S / l->bits_per_s;
  u64 at = l->free_ns + l->delay_ns;
  if (sim_chance(r, l->reorder)) {
    fault[SIM_REORDER]++;
    at += sim_draw(r) % (l->reorder_ns + 1);
  }
  bool damage = load_be16(frame.ptr + 12) == ETH_IP4 && sim_chance(r, l->corrupt);
  fault[SIM_CORRUPT] += damage ? 1 : 0;
  put_on_wire(to, frame, at, damage);
  if (sim_chance(r, l->duplicate)) {
    fault[SIM_DUPLICATE]++;
    put_on_wire(to, frame, at + sim_draw(r) % (l->reorder_ns + 1), false);
  }
}

// The switch: to the machine whose address it is, or to all.
static void wire(u32 from, struct bytes f) {
  world->result.frames++;
  hash_add(world->now_ns << 3 | from);
  hash_bytes(f);
  if (from == 0) {
    capture(f);
  }
  if (from == 0 && harness->frame != NULL) {
    harness->frame(true, f);
  }
  for (u32 m = 0; m <= world->options.hosts; m++) {
    bool to = (f.ptr[0] & 1) != 0 || memcmp(f.ptr, world->machine[m].mac, 6) == 0;
    if (m == from || !to || (m != 0 && from != 0)) {
      continue;  // hosts have nothing to say to each other
    }
    u32 host = (m != 0 ? m : from) - 1;
    over_link(&world->link[host][m != 0 ? SIM_TO_HOST : SIM_TO_BROKER], m, f);
  }
}

void frames_deliver(void) {
  while (world->heap_count > 0 && world->packet[world->heap[0]].at_ns <= world->now_ns) {
    u32 id = heap_pop();
    world->result.events++;
    arrive(&world->packet[id]);
    world->packet_free[world->packet_free_count++] = id;
  }
}

// --- the sending device

static u32 sum16(u32 sum, const u8 *p, u32 len) {
  for (u32 i = 0; i + 1 < len; i += 2) {
    sum += (u32)p[i] << 8 | p[i + 1];
  }
  sum += (len & 1) != 0 ? (u32)p[len - 1] << 8 : 0;
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}
static u32 pseudo(const u8 *ip, u32 len) {
  return sum16(ip[9] + len, ip + 12, 8);
}

// One frame as it leaves (F2).
static void send_one(u32 from, u8 *f, u32 len) {
  ASSERT(len >= ETH_LEN && len <= SIM_FRAME_MAX);
  ASSERT(memcmp(f + 6, world->machine[from].mac, 6) == 0);
  if (load_be16(f + 12) == ETH_IP4) {
    u8 *ip = f + ETH_LEN;
    ASSERT(sum16(0, ip, 20) == 0xffff);
    ASSERT(load_be16(ip + 2) == len - ETH_LEN);
    bool known = ip[9] == PROTOCOL_TCP || ip[9] == PROTOCOL_UDP;
    ASSERT(sum16(known ? pseudo(ip, len - 34) : 0, ip + 20, len - 34) == 0xffff);
  }
  wire(from, bytes_of(f, len));
}

static void complete_checksum(u8 *f, u32 len) {
  u8 *ip = f + ETH_LEN;
  u8 *tcp = ip + 20;
  store_be16(tcp + 16, 0);
  store_be16(tcp + 16, (u16)~sum16(pseudo(ip, len - 34), tcp, len - 34));
}

static void segment(u32 from, u8 *f, u32 len, const struct tx_frame *t) {
  u32 header = (u32)t->part[0].len;
  u32 seq = load_be32(f + 38);
  u8 flags = f[47];
  ASSERT(world->options.tso && t->gso == GSO_TCP4 && t->gso_size > 0);
  for (u32 at = header; at < len; at += t->gso_size) {
    u32 n = MIN((u32)t->gso_size, len - at);
    u8 out[SIM_FRAME_MAX];
    ASSERT(header + n <= SIM_FRAME_MAX);
    memcpy(out, f, header);
    memcpy(out + header, f + at, n);
    store_be16(out + 16, (u16)(header - ETH_LEN + n));
    store_be16(out + 24, 0);
    store_be16(out + 24, (u16)~sum16(0, out + ETH_LEN, 20));
    store_be32(out + 38, seq + (at - header));
    out[47] = at + n < len ? (u8)(flags & ~9u) : flags;  // FIN and PSH: the last one's
    complete_checksum(out, header + n);
    send_one(from, out, header + n);
  }
}

static void transmit(u32 from, const struct tx_frame *t) {
  static u8 f[66000];
  u32 len = 0;
  for (u32 i = 0; i < t->part_count; i++) {
    ASSERT(t->part[i].len > 0 && len + t->part[i].len <= sizeof f);
    memcpy(f + len, t->part[i].ptr, t->part[i].len);
    len += (u32)t->part[i].len;
  }
  if (t->gso != GSO_NONE) {
    segment(from, f, len, t);
    return;
  }
  if (t->csum_start != 0) {
    ASSERT(world->options.tx_csum);
    ASSERT(load_be16(f + t->csum_start + t->csum_offset) == pseudo(f + ETH_LEN, len - 34));
    complete_checksum(f, len);
  }
  send_one(from, f, len);
}

void frames_transmit(void) {
  for (u32 m = 0; m <= world->options.hosts; m++) {
    struct machine *k = &world->machine[m];
    u32 sent = 0;
    while (sent < k->held_count && k->held_until[sent] <= world->now_ns) {
      u32 q = k->held_core[sent];
      transmit(m, &k->held[sent]);
      ASSERT(k->done_count[q] < TX_HELD_MAX);
      k->done[q][k->done_count[q]++] = k->held[sent].token;
      world->result.events++;
      sent++;
    }
    if (sent > 0) {
      k->held_count -= sent;
      memmove(k->held, k->held + sent, k->held_count * sizeof k->held[0]);
      memmove(k->held_until, k->held_until + sent, k->held_count * sizeof k->held_until[0]);
      memmove(k->held_core, k->held_core + sent, k->held_count * sizeof k->held_core[0]);
    }
  }
}

u32 plat_tx(u32 core, u32 nic, const struct tx_frame *frames, u32 count) {
  struct machine *k = machine_of(core);
  u32 n = 0;
  ASSERT(nic == 0);
  for (; n < count && k->held_count + k->done_count[queue_of(core)] < TX_HELD_MAX; n++) {
    u64 last = k->held_count > 0 ? k->held_until[k->held_count - 1] : 0;
    k->held_until[k->held_count] =
        MAX(last, world->now_ns + sim_below(&world->devices, 20 * SIM_US));
    k->held_core[k->held_count] = queue_of(core);
    k->held[k->held_count++] = frames[n];
  }
  return n;
}

u32 plat_tx_done(u32 core, u32 nic, void *tokens[], u32 max) {
  struct machine *k = machine_of(core);
  u32 q = queue_of(core);
  u32 n = MIN(max, k->done_count[q]);
  ASSERT(nic == 0);
  memcpy(tokens, k->done[q], n * sizeof tokens[0]);
  k->done_count[q] -= n;
  memmove(k->done[q], k->done[q] + n, k->done_count[q] * sizeof tokens[0]);
  return n;
}

u64 frames_next_ns(void) {
  u64 next = world->heap_count > 0 ? world->packet[world->heap[0]].at_ns : U64_MAX;
  for (u32 m = 0; m <= world->options.hosts; m++) {
    const struct machine *k = &world->machine[m];
    next = k->held_count > 0 ? MIN(next, k->held_until[0]) : next;
  }
  return next;
}
