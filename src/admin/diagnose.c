// SPDX-License-Identifier: Apache-2.0
#include "admin/diagnose.h"

#include "admin/command_line.h"
#include "admin/conf.h"
#include "base/fmt.h"
#include "loop/carve.h"
#include "loop/fiber.h"
#include "loop/loop.h"
#include "net/net.h"
#include "tls/digest.h"
#include "tls/tls.h"

#define NS_PER_S 1000000000ull
#define DOCUMENT_MAX (128u << 10)
#define TEXT_MAX (192u << 10)
#define STACK (TLS_HANDSHAKE_STACK_BYTES + 65536u)
#define LINE_PARTS 4096u
#define NODES_MAX 4096u
#define LARGE_MAX (128u << 20)

static struct diagnose state;

bool diagnose_read_line(char *out, u32 cap, u32 seconds) {
  u64 end = plat_now_ns() + seconds * NS_PER_S;
  u32 n = 0;
  while (plat_now_ns() < end && !plat_stop_requested()) {
    u8 c;
    if (plat_console_read(span_of(&c, 1)) == 0) {
      plat_idle(0, plat_now_ns() + NS_PER_S / 50);
      continue;
    }
    if (c == '\r' || c == '\n') {
      out[n] = 0;
      plat_console(BYTES_LIT("\n"));
      return true;
    }
    if (c >= ' ' && c < 127 && n + 1 < cap) {
      out[n++] = (char)c;
      plat_console(bytes_of(&c, 1));
    }
  }
  return false;
}

static void put_nics(struct diagnose *d) {
  struct json_out *o = &d->out;
  json_key(o, "network");
  json_open(o, '[');
  d->nics = plat_nic_count();
  for (u32 i = 0; i < d->nics; i++) {
    struct plat_nic n;
    char mac[24];
    plat_nic_info(i, &n);
    d->nics_up += n.link_up ? 1 : 0;
    u32 len = fmt_z(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", n.mac[0], n.mac[1], n.mac[2],
                    n.mac[3], n.mac[4], n.mac[5]);
    json_open(o, '{');
    json_field_string(o, "mac", bytes_of(mac, len));
    json_field_int(o, "mtu", n.mtu);
    json_field_bool(o, "link_up", n.link_up);
    json_field_bool(o, "checksum_offload", n.tx_csum);
    json_field_bool(o, "segmentation_offload", n.tx_tso4);
    json_close(o, '}');
  }
  json_close(o, ']');
}

static void put_time(struct diagnose *d) {
  static const char *const names[] = {[CLOCK_UNSET] = "not to be trusted",
                                      [CLOCK_RTC] = "battery clock",
                                      [CLOCK_HOST] = "host",
                                      [CLOCK_SNTP] = "SNTP"};
  struct plat_wall wall = plat_wall();
  u8 probe[32];
  struct json_out *o = &d->out;
  d->clock_good = wall.quality != CLOCK_UNSET;
  d->entropy_good = plat_random(span_of(probe, sizeof probe)) == ENTROPY_GOOD;
  json_key(o, "time");
  json_open(o, '{');
  json_field_int(o, "unix_s", (i64)(wall.unix_ns / NS_PER_S));
  json_field_int(o, "certainly_after_unix_s", (i64)(wall.lower_unix_ns / NS_PER_S));
  json_field_string(o, "quality", bytes_str(names[wall.quality]));
  json_close(o, '}');
  json_key(o, "entropy");
  json_open(o, '{');
  json_field_string(o, "quality", bytes_str(d->entropy_good ? "good" : "weak"));
  json_close(o, '}');
}

static void everything(struct fiber *self, void *arg) {
  struct diagnose *d = arg;
  struct json_out *o = &d->out;
  (void)self;
  json_open(o, '{');
  json_field_string(o, "format", BYTES_LIT("urmqtt-diagnostics-1"));
  json_field_string(o, "version", BYTES_LIT(URMQTT_VERSION));
  json_field_int(o, "cores", plat_core_count());
  plat_facts(o);
  put_time(d);
  put_nics(d);
  plat_console(BYTES_LIT("Measuring memory ...\n"));
  diagnose_memory(d);
  plat_console(BYTES_LIT("Measuring cryptography ...\n"));
  diagnose_crypto(d);
  diagnose_disks(d);
  diagnose_verdict(d);
  json_close(o, '}');
}

static void random_for_tls(struct span out) {
  (void)plat_random(out);
}

static void print_document(struct bytes doc) {
  u8 digest[TLS_SHA256_BYTES];
  char end[160];
  tls_sha256(doc, digest);
  plat_console(BYTES_LIT("-----BEGIN URMQTT DIAGNOSTICS-----\n"));
  for (usize at = 0; at < doc.len; at += LINE_PARTS) {  // no more than a slow port takes at once
    plat_console(bytes_sub(doc, at, MIN(doc.len - at, (usize)LINE_PARTS)));
    for (u32 i = 0; i < 4 && !state.hosted; i++) {
      plat_idle(0, plat_now_ns() + NS_PER_S / 10);
    }
  }
  u32 n = fmt_z(end, sizeof end, "\n-----END URMQTT DIAGNOSTICS sha256=");
  for (u32 i = 0; i < sizeof digest; i++) {
    n += fmt_z(end + n, (u32)sizeof end - n, "%02x", digest[i]);
  }
  n += fmt_z(end + n, (u32)sizeof end - n, "-----\n");
  plat_console(bytes_of(end, n));
}

// --- echo: this machine's network, seen from another

static u64 echoes;
static void on_echo(struct net *net, void *user, const struct udp_packet *p) {
  struct udp_packet back = {.source = p->target,
                            .target = p->source,
                            .source_port = p->target_port,
                            .target_port = p->source_port,
                            .payload = p->payload,
                            .nic = p->nic};
  (void)user;
  echoes += udp_send(net, p->nic, &back) == ERR_OK ? 1 : 0;
}

static void serve_echo(struct carve *carve) {
  static struct core core;
  static struct timer timers[64];
  static const struct net_limits limits = {.tcp_conns = 16,
                                           .tcp_time_wait = 16,
                                           .txbuf_small = 256,
                                           .txbuf_small_reserve = 16,
                                           .txbuf_large = 64,
                                           .tx_slots = 256};
  core_init(&core, 0, timers, ARRAY_COUNT(timers));
  if (net_init(&core, carve, &limits) != ERR_OK || udp_bind(core.net, 7, on_echo, NULL) != ERR_OK) {
    plat_console(BYTES_LIT("echo: no memory for the network\n"));
    return;
  }
  loop_stage(&core, "net flush", net_flush, core.net);
  for (u32 i = 0; i < plat_nic_count(); i++) {
    (void)net_configure(core.net, i, &(struct net_if_config){.dhcp = true});
  }
  plat_console(BYTES_LIT("echo: for 60 s this machine answers pings, and UDP port 7, at:\n"));
  u64 end = plat_now_ns() + 60 * NS_PER_S;
  bool told[PLAT_NIC_MAX] = {false};
  while (plat_now_ns() < end && !plat_stop_requested()) {
    if (!loop_turn(&core)) {
      plat_idle(0, plat_now_ns() + NS_PER_S / 100);
    }
    for (u32 i = 0; i < plat_nic_count() && i < PLAT_NIC_MAX; i++) {
      struct net_if_state s;
      net_if_state(core.net, i, &s);
      if (s.up && !told[i]) {
        char line[80];
        told[i] = true;
        u32 n = fmt_z(line, sizeof line, "  %u.%u.%u.%u\n", s.address >> 24, s.address >> 16 & 255,
                      s.address >> 8 & 255, s.address & 255);
        plat_console(bytes_of(line, n));
      }
    }
  }
}

void diagnose_main(void) {
  static struct fiber fiber;
  struct carve carve;
  carve_init(&carve);
  struct span heap = carve_take(&carve, 2u << 20, 64);
  state.work = carve_take(&carve, DIAGNOSE_MEMORY, 1u << 20);
  u64 large = ALIGN_DOWN(MIN(carve_left(&carve) / 2, (u64)LARGE_MAX), 1ull << 20);
  state.large = carve_take(&carve, large, 1u << 20);
  struct span document = carve_take(&carve, DOCUMENT_MAX, 64);
  struct span text = carve_take(&carve, TEXT_MAX, 64);
  struct span nodes = carve_take(&carve, NODES_MAX * sizeof(struct json_node), 64);
  state.large = state.large.ptr != NULL ? state.large : state.work;
  state.hosted = command_line_has("hosted");
  struct span stack = plat_stack(STACK);
  if (heap.ptr == NULL || state.work.ptr == NULL || stack.ptr == NULL || nodes.ptr == NULL) {
    plat_crash("E010", "This machine has too little memory for urMQTT: give it 64 MiB or more.");
  }
  plat_console(BYTES_LIT("\nDiagnostics: nothing is written to any disk unless you say so.\n"));
  tls_init(heap, random_for_tls);
  if (command_line_has("echo")) {
    serve_echo(&carve);
  }
  state.rounds = command_line_has("quick") ? 3 : 30;
  state.out = json_out_init(document);
  fiber_start(&fiber, stack, everything, &state);
  while (fiber_resume(&fiber) != FIBER_DONE) {
  }
  ASSERT(state.out.w.err == ERR_OK);
  struct bytes doc = writer_bytes(&state.out.w);
  print_document(doc);
  struct writer w = writer_init(text);
  diagnose_text(doc, (struct json_node *)nodes.ptr, NODES_MAX, &w);
  plat_console(writer_bytes(&w));
  plat_console(BYTES_LIT("Diagnostics end here.\n"));
  plat_end(command_line_has("off") ? END_POWER_OFF : END_STOP);
}
