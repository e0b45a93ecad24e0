// SPDX-License-Identifier: Apache-2.0
// The rest of the platform contract, and a seed's processes.
#include "plat/sim/sim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plat/sim/world.h"

#define WORLD_AT 0x200000000000ull
#define BROKER_AT 0x210000000000ull
#define STACKS_AT 0x220000000000ull
#define DISK_AT 0x230000000000ull
#define STACKS_LEN (64ull << 20)
#define BOOT_UNIX_NS 1798761600000000000ull  // 2027-01-01
#define SEED_SECONDS 1800                    // of real time, a boot: more is a loop without an end
#define EXIT_OVER 0
#define EXIT_CRASH 40

struct world *world;
const struct sim_harness *harness;
static usize stacks_used;
static bool memory_given;

static void *map_at(u64 at, usize len, int flags) {
  void *p = mmap((void *)at, len, PROT_READ | PROT_WRITE,
                 flags | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) {
    perror("sim: no memory at a fixed place");
    exit(1);
  }
  return p;
}

// --- the contract

u64 plat_now_ns(void) {
  world->now_ns += WORK_NS;
  return world->running < SIM_CORES_MAX ? world->now_ns - world->boot_ns : world->now_ns;
}

struct plat_wall plat_wall(void) {
  u64 now = BOOT_UNIX_NS + world->now_ns;
  return (struct plat_wall){.unix_ns = now, .lower_unix_ns = now, .quality = CLOCK_HOST};
}

static usize broker_memory(void) {
  return world->options.disk ? BROKER_MEMORY_DISK : BROKER_MEMORY;
}

u32 plat_memory(struct span regions[PLAT_REGION_MAX]) {
  ASSERT(!memory_given);
  memory_given = true;
  regions[0] = span_of((void *)BROKER_AT, broker_memory());
  return 1;
}

bool sim_is_broker_memory(const void *p) {
  return (uptr)p - BROKER_AT < broker_memory();
}

struct span plat_stack(u32 len) {
  usize size = ALIGN_UP((usize)len, (usize)PLAT_PAGE) + PLAT_PAGE;
  u8 *p = (u8 *)STACKS_AT + stacks_used;
  if (size > STACKS_LEN - stacks_used || mprotect(p, PLAT_PAGE, PROT_NONE) != 0) {
    return span_of(NULL, 0);
  }
  stacks_used += size;
  return span_of(p + PLAT_PAGE, size - PLAT_PAGE);
}

struct block *plat_disk(u32 nth) {
  return nth == 0 && world->options.disk ? &world->disk.block : NULL;
}

enum plat_entropy plat_random(struct span out) {
  struct sim_rng *r =
      world->running < SIM_CORES_MAX ? &world->broker : &world->hosts[host_of_core(world->running)];
  for (usize i = 0; i < out.len; i++) {
    out.ptr[i] = (u8)(sim_draw(r) >> 56);
  }
  return ENTROPY_GOOD;
}

void plat_console(struct bytes text) {
  for (usize i = 0; i < text.len; i++) {
    world->console[world->console_len++ % CONSOLE_KEPT] = (char)text.ptr[i];
  }
  if (world->options.console) {
    (void)!write(STDERR_FILENO, text.ptr, text.len);
  }
}

u32 plat_console_read(struct span out) {
  (void)out;
  return 0;
}

u32 plat_bundles(struct plat_bundle *out, u32 max) {
  ASSERT(max > 0);
  out[0] = (struct plat_bundle){.name = "simulation", .tar = harness->bundle()};
  return 1;
}

const char *plat_command_line(void) {
  return world->options.disk ? "disk new-disk" : "";
}

void plat_facts(struct json_out *out) {
  json_field_string(out, "platform", BYTES_LIT("sim"));
}

bool plat_stop_requested(void) {
  return world->stop_asked;
}

void plat_end(enum plat_end how) {
  sim_fail("the broker's machine ended by itself (%d)", (int)how);
}

void plat_crash(const char *code, const char *sentence) {
  sim_fail("crash %s: %s", code, sentence);
}

void assert_fail(const char *where, const char *what) {
  sim_fail("assertion at %s: %s", where, what);
}

// --- for the harness

struct span sim_shared(usize len) {
  usize room = ALIGN_UP(len, (usize)PLAT_PAGE);
  ASSERT(room <= world->heap_left);
  struct span s = span_of(world->heap_at, len);
  world->heap_at += room;
  world->heap_left -= room;
  return s;
}
u64 sim_now_ns(void) {
  return world->now_ns;
}
void sim_as_host(u32 host) {
  world->running = SIM_CORES_MAX + host;
}
u64 sim_seed(void) {
  return world->options.seed;
}
struct sim_link *sim_link_of(u32 host, enum sim_direction d) {
  ASSERT(host < world->options.hosts);
  return &world->link[host][d];
}
void sim_set_stall(u32 ppm, u64 most_ns) {
  world->options.stall = ppm;
  world->options.stall_ns = most_ns;
}
void sim_count(u32 own, u64 n) {
  ASSERT(own < ARRAY_COUNT(world->result.own));
  world->result.own[own] += n;
}
void sim_event(u64 what) {
  world->result.events++;
  hash_add(what);
}
u32 sim_boots(void) {
  return world->result.boots;
}
void sim_stop_broker(void) {
  world->stop_asked = true;
  plat_wake(0);
}
bool sim_broker_ended(void) {
  return world->broker_ended;
}

const char *sim_fault_name(enum sim_fault f) {
  static const char *const names[SIM_FAULT_COUNT] = {
      "frame lost",           "frame reordered", "frame duplicated",
      "frame corrupted",      "queue full",      "no receive buffer",
      "link or machine down", "core stall",      "crash"};
  return names[f];
}

void sim_crash(u64 off_ns) {
  world->result.fault[SIM_CRASH]++;
  world->machine[0].up = false;
  world->off_until_ns = world->now_ns + off_ns;
  if (world->options.disk) {
    block_memory_cut(&world->disk);
  }
  _exit(EXIT_CRASH);
}

void sim_pass(void) {
  world->result.good = true;
  _exit(EXIT_OVER);
}

void sim_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  usize n = strlen(world->result.why);
  if (n == 0) {
    vsnprintf(world->result.why, sizeof world->result.why, format, args);
  }
  va_end(args);
  world->result.good = false;
  if (world->options.hold) {
    fprintf(stderr, "sim: %s\nsim: process %d waits for a debugger\n", world->result.why, getpid());
    alarm(0);
    pause();
  }
  _exit(EXIT_OVER);
}

// --- a seed's processes

// Only what is written takes memory.
static void disk_init(void) {
  usize blocks = DISK_LEN / DISK_BLOCK;
  u8 *at = map_at(DISK_AT, 2 * DISK_LEN + blocks * sizeof(u32), MAP_SHARED);
  block_memory_init(&world->disk, span_of(at, DISK_LEN), span_of(at + DISK_LEN, DISK_LEN),
                    (u32 *)(void *)(at + 2 * DISK_LEN), DISK_BLOCK,
                    sim_stream(SIM_STREAM_DISKS, 0).state);
  world->disk.facts.discard_max = world->disk.facts.zero_max = 0;
}

static void world_init(const struct sim_options *o) {
  usize len = sizeof(struct world) + HOST_HEAP +
              (usize)MACHINES_MAX * RX_BUFFERS * PLAT_RXBUF_SIZE + 16 * PLAT_PAGE;
  world = map_at(WORLD_AT, len, MAP_SHARED);
  world->len = len;
  world->options = *o;
  world->now_ns = SIM_S;
  world->links = sim_stream(SIM_STREAM_LINKS, 0);
  world->cores = sim_stream(SIM_STREAM_CORES, 0);
  world->devices = sim_stream(SIM_STREAM_DEVICES, 0);
  if (o->disk) {
    disk_init();
  }
  u8 *at = (u8 *)world + ALIGN_UP(sizeof(struct world), (usize)PLAT_PAGE);
  for (u32 m = 0; m < MACHINES_MAX; m++) {
    world->machine[m].blocks = at;
    at += (usize)RX_BUFFERS * PLAT_RXBUF_SIZE;
  }
  world->heap_at = at;
  world->heap_left = HOST_HEAP;
  for (u32 i = PACKETS_MAX; i > 0; i--) {
    world->packet_free[world->packet_free_count++] = i - 1;
  }
  for (u32 h = 0; h < o->hosts; h++) {
    world->hosts[h] = sim_stream(SIM_STREAM_HOSTS, h);
    world->core[SIM_CORES_MAX + h] = (struct sim_core){.exists = true, .run_ns = world->now_ns};
    for (u32 d = 0; d < 2; d++) {
      world->link[h][d] = (struct sim_link){
          .delay_ns = SIM_MS, .bits_per_s = 1000000000ull, .queue_ns = 100 * SIM_MS};
    }
    machine_init(1 + h);
    world->machine[1 + h].up = true;
  }
}

static NORETURN void boot(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)map_at(BROKER_AT, broker_memory(), MAP_PRIVATE);
  (void)map_at(STACKS_AT, STACKS_LEN, MAP_PRIVATE);
  alarm(SEED_SECONDS);
  if (world->result.boots++ > 0) {
    // The process that this one comes from knows nothing of what was taken since.
    MEM_UNPOISON(world, world->len);
  }
  world->broker = sim_stream(SIM_STREAM_BROKER, world->result.boots);
  world->stop_asked = world->broker_ended = false;
  machine_init(0);
  harness->boot(world->result.boots);
  cores_boot();
  world->core[0].run_ns = MAX(world->now_ns, world->off_until_ns);
  cores_run();
  _exit(EXIT_OVER);
}

static NORETURN void seed_process(void) {
  int status = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  harness->start();
  for (;;) {
    pid_t child = fork();
    if (child == 0) {
      boot();
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
      _exit(1);
    }
    if (WIFSIGNALED(status)) {
      snprintf(world->result.why, sizeof world->result.why, "ended by signal %d (%s)",
               WTERMSIG(status), strsignal(WTERMSIG(status)));
      _exit(0);
    }
    if (WEXITSTATUS(status) != EXIT_CRASH) {
      if (WEXITSTATUS(status) != EXIT_OVER && world->result.why[0] == 0) {
        snprintf(world->result.why, sizeof world->result.why, "ended with code %d (sanitizer?)",
                 WEXITSTATUS(status));
      }
      _exit(0);
    }
  }
}

void sim_run(const struct sim_options *options, const struct sim_harness *h,
             struct sim_result *out) {
  int status = 0;
  harness = h;
  world_init(options);
  capture_open(options->pcap);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    seed_process();
  }
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    snprintf(world->result.why, sizeof world->result.why, "the seed's process failed");
  }
  world->result.virtual_ns = world->now_ns;
  *out = world->result;
  if (!out->good) {
    u64 from = world->console_len > 3000 ? world->console_len - 3000 : 0;
    fprintf(stderr, "--- the console's end\n");
    for (u64 i = from; i < world->console_len; i++) {
      fputc(world->console[i % CONSOLE_KEPT], stderr);
    }
    fprintf(stderr, "---\n");
  }
}
