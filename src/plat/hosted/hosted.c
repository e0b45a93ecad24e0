// SPDX-License-Identifier: Apache-2.0
// urMQTT as a Linux process: the same network, TLS, broker and loop over a TAP device.
// Exit codes: 0 fine, 1 failed, 2 wrong usage.
#include "plat/hosted/hosted.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/shared.h"
#include "plat/steer.h"

struct hosted_options hosted = {.memory_mib = 512, .cores = 1};

// Written by signals and by any core, read by all.
static u32 stop;
static u32 hangup;  // SIGHUP came
static int wake_fd[PLAT_CORE_MAX];
static struct block *disk;
static bool disk_fresh;  // it was made just now
static u64 start_ns;
static u64 end_ns = U64_MAX;

static u64 clock_ns(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

u64 plat_now_ns(void) {
  u64 now = clock_ns(CLOCK_MONOTONIC) - start_ns;
  if (now >= end_ns) {
    shared_release_u32(&stop, 1);
  }
  return now;
}

struct plat_wall plat_wall(void) {
  u64 now = clock_ns(CLOCK_REALTIME);
  return (struct plat_wall){.unix_ns = now, .lower_unix_ns = now, .quality = CLOCK_HOST};
}

u32 plat_memory(struct span regions[PLAT_REGION_MAX]) {
  usize len = (usize)hosted.memory_mib << 20;
  void *p =
      mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    fprintf(stderr, "urmqtt: cannot map %llu MiB: %s\n", (unsigned long long)hosted.memory_mib,
            strerror(errno));
    exit(1);
  }
  regions[0] = span_of(p, len);
  return 1;
}

struct span plat_stack(u32 len) {
  usize size = ALIGN_UP((usize)len, (usize)PLAT_PAGE) + PLAT_PAGE;
  u8 *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p, PLAT_PAGE, PROT_NONE) < 0) {
    return span_of(NULL, 0);
  }
  return span_of(p + PLAT_PAGE, size - PLAT_PAGE);
}

// --- Cores: one thread each

u32 plat_core_count(void) {
  return hosted.cores;
}

static void *core_main(void *arg) {
  urmqtt_core((u32)(uptr)arg);
  for (;;) {
    pause();  // what is local to the core lasts as long as the program
  }
  return NULL;
}

void plat_cores_start(void) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are core 0's
  for (u32 i = 1; i < hosted.cores; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, core_main, (void *)(uptr)i) != 0) {
      plat_crash("E038", "The host gives no thread for a core.");
    }
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void plat_idle(u32 core, u64 deadline_ns) {
  struct pollfd p[2] = {{.fd = wake_fd[core], .events = POLLIN},
                        {.fd = tap_fd(core), .events = POLLIN}};
  u64 now = plat_now_ns();
  deadline_ns = MIN(deadline_ns, end_ns);
  u64 wait = deadline_ns <= now ? 0 : MIN(deadline_ns - now, 60000000000ull);
  wait = tap_sleep(core) ? wait : 0;
  struct timespec t = {.tv_sec = (time_t)(wait / 1000000000ull),
                       .tv_nsec = (long)(wait % 1000000000ull)};
  if (plat_stop_requested() && wait > 1000000) {
    t = (struct timespec){.tv_nsec = 1000000};
  }
  if (ppoll(p, p[1].fd >= 0 ? 2 : 1, &t, NULL) > 0 && p[0].revents != 0) {
    u64 count;
    (void)!read(wake_fd[core], &count, sizeof count);
  }
  steer_awake(core);
}

void plat_wake(u32 core) {
  u64 one = 1;
  (void)!write(wake_fd[core], &one, sizeof one);
}

static void fill_random(struct span out) {
  usize got = 0;
  while (got < out.len) {
    ssize_t n = getrandom(out.ptr + got, out.len - got, 0);
    if (n > 0) {
      got += (usize)n;
    } else if (errno != EINTR) {
      plat_crash("E007", "The host gives no random bytes.");
    }
  }
}

// Small requests are served from a page of the host's bytes, each used once and wiped as it is
// handed out: a handshake asks six times for 32 bytes. The process never forks.
enum plat_entropy plat_random(struct span out) {
  static CORE_LOCAL u8 ahead[1024];
  static CORE_LOCAL usize left;
  if (out.len > sizeof ahead / 4) {
    fill_random(out);
    return ENTROPY_GOOD;
  }
  if (left < out.len) {
    fill_random(span_of(ahead, sizeof ahead));
    left = sizeof ahead;
  }
  left -= out.len;
  memcpy(out.ptr, ahead + left, out.len);
  explicit_bzero(ahead + left, out.len);
  return ENTROPY_GOOD;
}

void plat_console(struct bytes text) {
  usize done = 0;
  while (done < text.len) {
    ssize_t n = write(STDOUT_FILENO, text.ptr + done, text.len - done);
    if (n <= 0) {
      return;  // a closed or full pipe loses text, it never stops the broker
    }
    done += (usize)n;
  }
}

// SIGHUP types `reload`.
u32 plat_console_read(struct span out) {
  static const char typed[] = "\nreload\n";
  if (out.len >= sizeof typed - 1 && shared_exchange_u32(&hangup, 0) != 0) {
    memcpy(out.ptr, typed, sizeof typed - 1);
    return sizeof typed - 1;
  }
  struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
  if (poll(&p, 1, 0) <= 0) {
    return 0;
  }
  ssize_t n = read(STDIN_FILENO, out.ptr, out.len);
  return n > 0 ? (u32)n : 0;
}

struct block *plat_disk(u32 nth) {
  return nth == 0 ? disk : NULL;
}

u32 plat_bundles(struct plat_bundle *out, u32 max) {
  if (hosted.config_dir == NULL || max == 0) {
    return 0;
  }
  static bool again;
  out[0] = (struct plat_bundle){.name = hosted.config_dir, .release = bundle_release};
  out[0].tar = again ? bundle_try(hosted.config_dir) : bundle_from_dir(hosted.config_dir);
  again = true;
  return out[0].tar.ptr != NULL ? 1 : 0;
}

const char *plat_command_line(void) {
  if (hosted.check || hosted.diagnose) {
    return hosted.check ? "check" : "diagnostics hosted off";
  }
  return disk_fresh ? "named-disk new-disk" : disk != NULL ? "named-disk" : "";
}

bool plat_stop_requested(void) {
  return shared_acquire_u32(&stop) != 0;
}

void plat_end(enum plat_end how) {
  exit(how == END_POWER_OFF ? 0 : 1);
}

void plat_crash(const char *code, const char *sentence) {
  fprintf(stderr, "urmqtt %s stopped (%s): %s\n", URMQTT_VERSION, code, sentence);
  abort();
}

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "urmqtt %s: assertion failed at %s: %s\n", URMQTT_VERSION, where, what);
  plat_crash("E001", "A condition that must always hold does not. This is a defect in urMQTT.");
}

static void on_signal(int number) {
  (void)number;
  shared_release_u32(&stop, 1);
  plat_wake(0);
}

static void on_hangup(int number) {
  (void)number;
  shared_release_u32(&hangup, 1);
  plat_wake(0);
}

static NORETURN void usage(const char *why) {
  if (why != NULL) {
    fprintf(stderr, "urmqtt: %s\n", why);
  }
  fprintf(stderr,
          "usage: urmqtt --tap NAME --config DIR [--disk FILE] [--memory MIB] [--seconds N]\n"
          "              [--cores N]\n"
          "       urmqtt --check --config DIR\n"
          "       urmqtt --diagnose\n"
          "  --tap NAME     TAP device to serve on (ip tuntap add dev NAME mode tap user YOU "
          "vnet_hdr)\n"
          "  --config DIR   folder with urmqtt.conf and the files it names\n"
          "  --disk FILE    what shall survive is kept there: a disk of urMQTT's, or a file that\n"
          "                 is not there yet or empty (it gets 1 GiB, sparse)\n"
          "  --memory MIB   memory divided among all pools (default 512, at least 64)\n"
          "  --seconds N    end after N seconds\n"
          "  --cores N      threads, each a core (default 1; more are experimental)\n"
          "  --check        read the configuration, print every problem, end\n"
          "  --diagnose     what this machine is and what it can do, as text and JSON\n");
  exit(2);
}

static u64 number(const char *name, const char *text, u64 least, u64 most) {
  u64 v = 0;
  if (bytes_to_u64(bytes_str(text), most, &v) != ERR_OK || v < least) {
    char why[120];
    snprintf(why, sizeof why, "%s wants a number from %llu to %llu, not \"%s\"", name,
             (unsigned long long)least, (unsigned long long)most, text);
    usage(why);
  }
  return v;
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i];
    if (strcmp(name, "--diagnose") == 0) {
      hosted.diagnose = true;
      continue;
    }
    if (strcmp(name, "--check") == 0) {
      hosted.check = true;
      continue;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
      usage(NULL);
    }
    if (i + 1 >= argc) {
      usage(name[0] == '-' ? "an option lacks its value, or is unknown" : "unexpected argument");
    }
    const char *value = argv[++i];
    if (strcmp(name, "--tap") == 0) {
      hosted.tap = value;
    } else if (strcmp(name, "--config") == 0) {
      hosted.config_dir = value;
    } else if (strcmp(name, "--disk") == 0) {
      hosted.disk = value;
    } else if (strcmp(name, "--memory") == 0) {
      hosted.memory_mib = number(name, value, 64, 1u << 20);
    } else if (strcmp(name, "--seconds") == 0) {
      hosted.seconds = number(name, value, 1, 1u << 30);
    } else if (strcmp(name, "--cores") == 0) {
      hosted.cores = (u32)number(name, value, 1, PLAT_CORE_MAX);
    } else {
      usage("unknown option");
    }
  }
  if (hosted.tap == NULL && !hosted.check && !hosted.diagnose) {
    usage("--tap is missing");
  }
}

int main(int argc, char **argv) {
  parse(argc, argv);
  struct sigaction on = {.sa_handler = on_signal};
  sigaction(SIGINT, &on, NULL);
  sigaction(SIGTERM, &on, NULL);
  on.sa_handler = on_hangup;
  sigaction(SIGHUP, &on, NULL);
  signal(SIGPIPE, SIG_IGN);
  for (u32 i = 0; i < hosted.cores; i++) {
    wake_fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  }
  start_ns = clock_ns(CLOCK_MONOTONIC) - 1;
  if (hosted.tap != NULL) {
    tap_open(hosted.tap);
  }
  if (hosted.disk != NULL && !hosted.check) {
    const char *why = NULL;
    disk = hosted_disk_make(hosted.disk, &disk_fresh, &why);
    if (disk == NULL) {
      fprintf(stderr, "urmqtt: --disk %s: %s\n", hosted.disk, why);
      exit(1);
    }
  }
  end_ns = hosted.seconds != 0 ? hosted.seconds * 1000000000ull : U64_MAX;
  urmqtt_main();
  return 0;
}
