// SPDX-License-Identifier: Apache-2.0
// The simulator's command: seeds, each in processes of its own, two at a time; a table of what
// happened. Exit codes: 0 all good, 1 a seed failed or a fault never happened, 2 wrong usage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/game.h"

#define SEEDS_MAX 10000u

struct game_options game_options = {.hosts = 3, .minutes = 2};
static struct {
  u64 first;
  u32 count, jobs;
  const char *pcap;
  bool console, each, all, hold, stop;
} asked = {.first = 1, .count = 1, .jobs = 2};

static NORETURN void usage(const char *why) {
  fprintf(
      stderr,
      "sim: %s\n"
      "usage: sim [--seed N] [--seeds COUNT] [--minutes M] [--jobs J] [--pcap FILE] [--console]\n"
      "           [--each] [--stop] [--all-faults] [--hold]\n"
      "  --seed N       the first seed (default 1)\n"
      "  --seeds COUNT  so many seeds, from that one on (default 1)\n"
      "  --minutes M    of virtual time in the bad part of a run (default 2)\n"
      "  --pcap FILE    what the broker's NIC sends and receives (one seed)\n"
      "  --console      show the broker's console (one seed)\n"
      "  --each         a line for each seed, with its trace hash\n"
      "  --hold         on a failure the process waits for a debugger (one seed)\n"
      "  --all-faults   fail when a kind of fault never happened\n",
      why);
  exit(2);
}

static u64 number(const char *name, const char *text, u64 least, u64 most) {
  char *end;
  unsigned long long v = text == NULL ? 0 : strtoull(text, &end, 10);
  if (text == NULL || *text == 0 || *end != 0 || v < least || v > most) {
    usage(name);
  }
  return v;
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i];
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(name, "--console") == 0) {
      asked.console = true;
    } else if (strcmp(name, "--each") == 0) {
      asked.each = true;
    } else if (strcmp(name, "--stop") == 0) {
      asked.stop = true;
    } else if (strcmp(name, "--hold") == 0) {
      asked.hold = true;
    } else if (strcmp(name, "--all-faults") == 0) {
      asked.all = true;
    } else if (strcmp(name, "--seed") == 0) {
      asked.first = number(name, value, 0, U32_MAX), i++;
    } else if (strcmp(name, "--seeds") == 0) {
      asked.count = (u32)number(name, value, 1, SEEDS_MAX), i++;
    } else if (strcmp(name, "--minutes") == 0) {
      game_options.minutes = (u32)number(name, value, 1, 10000), i++;
    } else if (strcmp(name, "--jobs") == 0) {
      asked.jobs = (u32)number(name, value, 1, 64), i++;
    } else if (strcmp(name, "--pcap") == 0 && value != NULL) {
      asked.pcap = value, i++;
    } else {
      usage(name);
    }
  }
  if (asked.count > 1 && (asked.pcap != NULL || asked.console || asked.hold)) {
    usage("--pcap, --console and --hold are for one seed");
  }
}

// The seed decides everything, also what the platform offers.
static struct sim_options options_of(u64 seed, const char *pcap) {
  u64 z = seed * 0x9e3779b97f4a7c15ull;
  return (struct sim_options){.seed = seed,
                              .hosts = game_options.hosts,
                              .cores = 1,
                              .tx_csum = (z >> 40 & 1) != 0,
                              .tso = (z >> 40 & 3) == 3,
                              .disk = game_has_disk(seed),
                              .pcap = pcap,
                              .console = asked.console,
                              .hold = asked.hold};
}

static void print_seed(u64 seed, const struct sim_result *r) {
  if (asked.each || asked.count == 1 || !r->good) {
    printf("seed %llu: %s, %llu events, %.1f s simulated, %u boots, hash %016llx\n",
           (unsigned long long)seed, r->good ? "good" : "FAILED", (unsigned long long)r->events,
           (double)r->virtual_ns / 1e9, r->boots, (unsigned long long)r->hash);
  }
  if (!r->good) {
    printf("  %s\n  after %llu events, at %.6f s\n", r->why, (unsigned long long)r->events,
           (double)r->virtual_ns / 1e9);
  }
  fflush(stdout);
}

// Again, with a capture: the run is the same.
static void capture_failed(u64 seed) {
  char name[64];
  snprintf(name, sizeof name, "sim-%llu.pcap", (unsigned long long)seed);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    struct sim_options o = options_of(seed, name);
    struct sim_result r;
    if (freopen("/dev/null", "w", stderr) == NULL) {
      _exit(1);
    }
    sim_run(&o, &game_harness, &r);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  printf("  replay: ./urmqtt sim --seed %llu --minutes %u    what the broker's NIC saw: %s\n",
         (unsigned long long)seed, game_options.minutes, name);
  fflush(stdout);
}

static void add(struct sim_result *sum, const struct sim_result *r) {
  sum->events += r->events;
  sum->turns += r->turns;
  sum->frames += r->frames;
  sum->virtual_ns += r->virtual_ns;
  sum->hash = sum->hash * 31 + r->hash;
  sum->boots += r->boots;
  for (u32 i = 0; i < SIM_FAULT_COUNT; i++) {
    sum->fault[i] += r->fault[i];
  }
  for (u32 i = 0; i < ARRAY_COUNT(sum->own); i++) {
    sum->own[i] += r->own[i];
  }
}

static bool row(const char *name, u64 n) {
  printf("  %-26s %12llu\n", name, (unsigned long long)n);
  return n > 0;
}

// False: a fault that must happen never did.
static bool print_table(const struct sim_result *sum) {
  bool all = true;
  printf("events %llu (turns %llu, frames %llu), %.0f s simulated, %u boots\n",
         (unsigned long long)sum->events, (unsigned long long)sum->turns,
         (unsigned long long)sum->frames, (double)sum->virtual_ns / 1e9, sum->boots);
  for (u32 i = 0; i < SIM_FAULT_COUNT; i++) {
    bool some = row(sim_fault_name(i), sum->fault[i]);
    all = all && (some || i == SIM_OVERFLOW);
  }
  for (u32 i = 0; i < OWN_COUNT; i++) {
    all = row(own_name[i], sum->own[i]) && all;
  }
  return all;
}

static struct sim_result *result;  // of each seed
static pid_t job[SEEDS_MAX];

static void start_seed(u32 i) {
  fflush(NULL);
  job[i] = fork();
  if (job[i] == 0) {
    struct sim_options o = options_of(asked.first + i, asked.pcap);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sim_run(&o, &game_harness, &result[i]);
    _exit(0);
  }
}

// Seeds two at a time, told in their order. Returns how many were told.
static u32 run_seeds(u32 *failed) {
  u32 running = 0;
  u32 started = 0;
  u32 told = 0;
  while (told < asked.count && !(asked.stop && *failed > 0)) {
    if (started < asked.count && running < asked.jobs) {
      start_seed(started++);
      running++;
      continue;
    }
    pid_t ended = wait(NULL);
    running--;
    for (u32 i = told; i < started; i++) {
      job[i] = job[i] == ended ? 0 : job[i];
    }
    for (; told < started && job[told] == 0 && !(asked.stop && *failed > 0); told++) {
      print_seed(asked.first + told, &result[told]);
      if (!result[told].good) {
        (*failed)++;
        capture_failed(asked.first + told);
      }
    }
  }
  return told;
}

int main(int argc, char **argv) {
  parse(argc, argv);
  result = mmap(NULL, asked.count * sizeof *result, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (result == MAP_FAILED) {
    perror("sim");
    return 1;
  }
  u32 failed = 0;
  u32 told = run_seeds(&failed);
  struct sim_result sum = {.good = true};
  for (u32 i = 0; i < told; i++) {
    add(&sum, &result[i]);
  }
  bool all = print_table(&sum);
  if (asked.all && !all) {
    printf("sim: a fault or an event of the table never happened\n");
    failed++;
  }
  printf("sim: hash %016llx\nsim: %u passed, %u failed\n", (unsigned long long)sum.hash,
         told - MIN(failed, told), failed);
  return failed == 0 ? 0 : 1;
}
